"""A socket that listens everywhere takes peers of IPv6 and of IPv4, and knows each by its own address."""

from __future__ import annotations

from contextlib import closing

import pytest
import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.network.kernel import unmapped
from taskqueue.server.network.router import Router
from tests.ipv6 import NEEDS_IPV6
from tests.unit.server.network.test_router import drained


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("[::1]", marks=NEEDS_IPV6)])
@pytest.mark.parametrize("bind", ["tcp://*:*", "tcp://[::]:*"])
def test_everywhere_is_both_families_each_by_its_own_address(bind: str, host: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with closing(Router(bind, 1 << 20, Meters())) as router, context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.IPV6, 1)
        peer.connect(f"tcp://{host}:{router.endpoint.rpartition(':')[2]}")
        peer.send(b"hello")

        [frame] = drained(router)

    assert frame.address == host.strip("[]")


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "fe80::1%eth0", "2001:db8::ffff:1", ""])
def test_other_addresses_stay_as_they_are(address: str) -> None:
    assert unmapped(address) == address


def test_a_mapped_address_is_that_of_ipv4() -> None:
    assert unmapped("::ffff:10.0.0.1") == "10.0.0.1"
