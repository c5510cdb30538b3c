"""Sockets by ipc: what their peers may leave unread, who they are, and one daemon a file."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zmq

from taskqueue.errors import ConfigError, SettingError
from taskqueue.protocol.fields import Peer
from taskqueue.server.meters import Meters
from taskqueue.server.network.connections import SENT_MOST
from taskqueue.server.network.local_users import LocalUsers, user_name
from taskqueue.server.network.router import Frame, Router
from taskqueue.server.network.socket_file import group_number
from tests.unit.server.network.conftest import MAX_MESSAGE, WAIT_MS
from tests.zmtp import connected

BURST = 63
"""About as many answers as a session may wait for; 64 are a multiple of what libzmq notes at once."""
MEGABYTE = bytes(1 << 20)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    with closing(Router(["tcp://127.0.0.1:*", f"ipc://{tmp_path}/socket"], MAX_MESSAGE, Meters())) as router:
        yield router


def dealer(url: str, *, unread_most: int = 0) -> zmq.Socket[bytes]:
    made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    made.setsockopt(zmq.LINGER, 0)
    made.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    made.setsockopt(zmq.RCVHWM, unread_most)
    made.connect(url)
    made.send(b"hello")
    return made


def heard(router: Router) -> Frame:
    """The next message."""
    while True:
        assert router.socket.poll(WAIT_MS)
        if frames := list(router.drain()):
            return frames[0]


def sent_unread(router: Router, peer: Peer, payload: bytes) -> int:
    """Messages that may be sent to a peer that does not read."""
    count = 0
    while count < 100 * SENT_MOST and router.send(peer, payload):
        count += 1
    return count


@pytest.mark.parametrize("payload", [MEGABYTE, bytes(100_000)], ids=["long", "short"])
def test_a_peer_by_ipc_that_does_not_read_is_sent_no_more_than_its_mark(router: Router, payload: bytes) -> None:
    assert [url.partition(":")[0] for url in router.endpoints] == ["tcp", "ipc"]
    with dealer(router.endpoints[1], unread_most=1):
        peer = heard(router).peer

        # What libzmq has passed on to the kernel, it notes in steps of half the mark.
        assert SENT_MOST <= sent_unread(router, peer, payload) <= 2 * SENT_MOST
        assert router.reaches(peer)


def test_a_peer_by_ipc_that_does_not_read_is_cut_when_the_memory_gets_full(tmp_path: Path) -> None:
    url, meters = f"ipc://{tmp_path}/socket", Meters()
    router = Router(url, MAX_MESSAGE, meters, memory=1 << 20)  # this process has more
    with closing(router), dealer(url, unread_most=1):
        silent = heard(router).peer
        assert sent_unread(router, silent, MEGABYTE) > 0

        with dealer(url) as other:
            until = time.monotonic() + WAIT_MS / 1000
            while not meters.closed_memory:  # the guard looks when something arrives
                assert time.monotonic() < until
                heard(router)
                other.send(b"again")
        assert not router.reaches(silent)


def test_the_mark_of_ipc_does_not_hold_for_tcp(router: Router) -> None:
    with connected(router.endpoints[0]) as silent:
        silent.sendall(b"\0\1x")
        peer = heard(router).peer

        assert sent_unread(router, peer, bytes(10_000)) > 2 * SENT_MOST


def test_bursts_of_about_as_many_answers_as_a_session_may_wait_for_reach_a_peer_by_ipc_that_reads(
    router: Router,
) -> None:
    with dealer(router.endpoints[1]) as client:
        for _ in range(50):
            peer = heard(router).peer
            assert [router.send(peer, b"answer") for _ in range(BURST)] == BURST * [True]
            for _ in range(BURST):
                client.recv()
            client.send(b"again")


def test_a_user_by_ipc_has_a_name_that_no_key_can_have_and_the_role_of_the_setting() -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    unknown = next(uid for uid in range(2**31, 2**32) if not _is_known(uid))

    assert user_name(os.geteuid()) == f"user:{own}"
    assert user_name(unknown) == f"user:{unknown}"
    caller = LocalUsers("viewer").caller_of("user:anna")
    assert (caller.name, caller.role, caller.scope) == ("user:anna", "viewer", None)
    assert caller.owner == LocalUsers("viewer").caller_of("user:anna").owner


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def test_messages_come_with_the_name_of_their_user_if_users_differ_from_others(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/socket"
    for role, name in (("admin", ""), ("viewer", user_name(os.geteuid()))):
        router = Router(url, 1 << 20, Meters(), ipc_role="viewer" if role == "viewer" else "admin")
        with closing(router), dealer(url):
            frame = heard(router)

            assert (frame.key, frame.address, router.caller_of(frame.key).role) == (name, "ipc", role)
            assert router.send(frame.peer, b"answer")


def test_a_second_socket_at_the_same_file_is_refused_and_a_file_that_is_none_stays(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/socket"
    with closing(Router(url, 1 << 20, Meters())) as router:
        with pytest.raises(ConfigError, match="another daemon listens"):
            Router(url, 1 << 20, Meters())

        with dealer(url):
            assert heard(router).payload == b"hello"
    (tmp_path / "mine").write_text("text")
    with pytest.raises(ConfigError, match="is not a socket"):
        Router(f"ipc://{tmp_path}/mine", 1 << 20, Meters())
    assert (tmp_path / "mine").read_text() == "text"


def test_a_group_is_a_name_or_a_number_that_exists() -> None:
    assert (group_number(""), group_number("7")) == (-1, 7)
    assert group_number("root") == 0
    with pytest.raises(SettingError, match='no group "nowhere-to-be-found"'):
        group_number("nowhere-to-be-found")
