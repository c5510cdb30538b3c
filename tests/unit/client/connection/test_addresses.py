"""Addresses that a daemon's url stands for: of both families, looked up outside of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from taskqueue import ClientError
from taskqueue.client.connection.addresses import Address, Found, Target


def found(url: str) -> Found:
    """Return the addresses that a url stands for now."""

    async def main() -> Found:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        Target(url).look_up(loop, answer.set_result)
        return await answer

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("tcp://127.0.0.1:7400", Address("tcp://127.0.0.1:7400", "127.0.0.1:7400")),
        ("tcp://[::1]:7400", Address("tcp://[::1]:7400", "[::1]:7400", is_ipv6=True)),
        ("tcp://[fe80::1%eth0]:7400", Address("tcp://[fe80::1%eth0]:7400", "[fe80::1%eth0]:7400", is_ipv6=True)),
        ("tcp://10.0.0.1:0;10.0.0.2:7400", Address("tcp://10.0.0.1:0;10.0.0.2:7400", "10.0.0.2:7400")),
        ("ipc:///run/tq.sock", Address("ipc:///run/tq.sock", "ipc:///run/tq.sock")),
    ],
)
def test_an_address_is_taken_as_it_is_written(url: str, address: Address) -> None:
    assert Target(url).name == ""
    assert found(url) == [address]


def test_a_name_is_looked_up() -> None:
    addresses = found("tcp://localhost:7400")

    assert isinstance(addresses, list)
    assert {"127.0.0.1:7400"} <= {address.shown for address in addresses} <= {"127.0.0.1:7400", "[::1]:7400"}


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..b", "x" * 70])
def test_a_name_that_nobody_has_is_told(name: str) -> None:
    assert isinstance(found(f"tcp://{name}:7400"), Exception)


@pytest.mark.parametrize(
    "url",
    ["tcp://", "tcp://localhost", "tcp://localhost:", "tcp://localhost:x", "tcp://:7400", "tcp://*:7400",
     "tcp://localhost:0", "tcp://localhost:65536", "tcp://localhost:7400/", "tcp://[localhost]:7400", "tcp://[::1]"],
)  # fmt: skip
def test_a_url_that_is_none_is_told_with_one_that_is(url: str) -> None:
    with pytest.raises(ClientError, match=r"a URL looks like tcp://127\.0\.0\.1:7400 or tcp://\[::1\]:7400"):
        Target(url)
