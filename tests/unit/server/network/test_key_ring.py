"""Whose key a message comes with, if descriptors and routing ids are used again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import zmq

from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, make_key
from taskqueue.protocol.callers import ROLES
from taskqueue.protocol.daemon import KEYS_MOST, KeyUse
from taskqueue.protocol.fields import Peer
from taskqueue.server.meters import Meters
from taskqueue.server.network.connections import Connections
from taskqueue.server.network.frame_queue import FrameQueue
from taskqueue.server.network.key_ring import COUNTED_USERS_MOST, KeyRing
from taskqueue.server.network.router import Frame


class Message:
    """Properties of a message as libzmq knows them."""

    def __init__(self, fd: int, key: KeyFile) -> None:
        self._properties: dict[int | str, int | str] = {
            zmq.SRCFD: fd,
            "User-Id": key.public,
            "Peer-Address": "127.0.0.1",
        }

    def __len__(self) -> int:
        return 1

    def get(self, name: int | str) -> int | str:
        return self._properties[name]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.json"


def known(path: Path, name: str) -> KeyFile:
    made = make_key(name)
    access_file.authorise(path, name, made.public, "fetcher")
    return made


@pytest.fixture
def fd() -> Iterator[int]:
    """Descriptor of a connection by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            yield accepted.fileno()


def key_of(connections: Connections, peer: bytes, fd: int, key: KeyFile) -> str:
    """The name that a message of this peer comes with."""
    connection = connections.received_from(peer, cast(zmq.Frame, Message(fd, key)))
    return connection.key if connection is not None else ""


def test_a_routing_id_that_clients_choose_brings_no_key_of_its_former_owner(path: Path, fd: int) -> None:
    first, second = known(path, "first"), known(path, "second")
    connections = Connections(Meters(), KeyRing(path))

    with closing(connections.cut_peers):
        assert key_of(connections, b"chosen", fd, first) == "first"
        assert key_of(connections, b"chosen", fd, second) == "second"


def test_late_messages_of_a_closed_connection_keep_their_key_and_the_next_one_has_its_own(path: Path, fd: int) -> None:
    first, second = known(path, "first"), known(path, "second")
    connections = Connections(Meters(), KeyRing(path))
    before, after = b"\0\0\0\0\1", b"\0\0\0\0\2"

    with closing(connections.cut_peers):
        assert key_of(connections, before, fd, first) == "first"
        connections.opened(fd)
        names = [key_of(connections, *each) for each in 3 * [(after, fd, second), (before, fd, first)]]
        assert names == 3 * ["second", "first"]


def test_a_peer_that_is_not_on_the_ring_is_not_heard_and_is_told_of(path: Path, fd: int) -> None:
    connections = Connections(Meters(), KeyRing(path))

    with closing(connections.cut_peers):
        assert connections.received_from(b"\0\0\0\0\1", cast(zmq.Frame, Message(fd, make_key("ben")))) is None
        assert connections.cut_peers.take() == [b"\0\0\0\0\1\0"]


def test_a_ring_counts_what_each_name_of_the_file_does_and_forgets_those_that_are_gone(path: Path) -> None:
    web1, late = known(path, "web1"), make_key("late")
    access_file.authorise(path, "late", late.public, "viewer", expires_at=1.0)
    ring = KeyRing(path)

    ring.note_begin("web1", "10.0.0.7")
    ring.note_forbidden("web1")
    ring.note_forbidden("stranger")
    assert ring.admit(late.public) is None
    assert ring.admit(web1.public) is not None
    uses, after = ring.page("", ["web1", "web1", "local"])

    assert after == ""
    assert [use.name for use in uses] == ["late", "local", "web", "web1"]
    assert [use.connections for use in uses] == [0, 1, 0, 2]
    assert (uses[0].refused, uses[0].seen_at) == (1, 0.0)
    assert (uses[3].address, uses[3].forbidden, uses[3].refused) == ("10.0.0.7", 1, 0)
    (use,) = [use for use in ring.page("web", [])[0] if use.name == "web1"]
    assert 0.0 < use.seen_at <= uses[3].seen_at
    access_file.revoke(path, "web1")
    ring.read_again()
    access_file.authorise(path, "web1", web1.public, "viewer")
    ring.read_again()
    assert ring.page("web", [])[0] == [KeyUse("web1")]


def test_a_ring_counts_users_by_ipc_beside_the_names_of_the_file_up_to_a_bound(path: Path) -> None:
    known(path, "web1")
    ring = KeyRing(path)

    ring.note_begin("user:anna", "ipc")
    ring.note_forbidden("user:anna")
    ring.read_again()
    anna = ring.page("", ["user:anna"])[0][1]
    for number in range(COUNTED_USERS_MOST):
        ring.note_begin(f"user:{number}", "ipc")
    first, after = ring.page("", [])
    shown = [use.name for use in (*first, *ring.page(after, [])[0])]

    assert (anna.name, anna.connections, anna.address, anna.forbidden) == ("user:anna", 1, "ipc", 1)
    assert shown == sorted(shown)
    assert len([name for name in shown if name.startswith("user:")]) == COUNTED_USERS_MOST


def test_owners_who_may_not_take_tasks_are_told_from_others(path: Path) -> None:
    for role in ROLES:
        access_file.authorise(path, role if role != "web" else "page", make_key(role).public, role)
    access_file.authorise(path, "late", make_key("late").public, "fetcher", expires_at=1.0)
    owners = {entry.name: f"{entry.name} {entry.created_at!r}" for entry in access_file.read_entries(path) or ()}
    others = ["fetcher 1.0", "user:anna 0.0", "local 0.0"]

    found = KeyRing(path).without_work([*owners.values(), *others])

    assert found == [*(owners[name] for name in ("viewer", "producer", "operator", "page", "late")), "fetcher 1.0"]


def test_names_come_in_pages(path: Path) -> None:
    names = [f"web{number:04}" for number in range(KEYS_MOST)]
    entries = tuple(access_file.Entry(name, "viewer", (f"{n:064x}",), 1.0) for n, name in enumerate(names))
    path.touch(0o600)
    path.write_bytes(msgspec.json.encode(access_file.Entries(entries)))
    ring = KeyRing(path)

    first, after = ring.page("", [])
    rest, end = ring.page(after, [])

    assert (len(first), end) == (KEYS_MOST, "")
    assert [use.name for use in (*first, *rest)] == ["local", "web", *names]


def test_what_a_peer_has_sent_that_is_cut_is_dropped_and_others_keep_their_turn() -> None:
    queue, cut, other = FrameQueue(), Peer(b"cut"), Peer(b"other")
    for peer in (cut, other, cut):
        assert queue.put(Frame(peer, zmq.Frame(b"x"), 1))

    queue.drop(cut)

    taken = queue.take(0.0)
    assert taken is not None
    assert taken.peer == other
    queue.charge(other, 1.0)
    assert queue.take(0.0) is None
    assert queue.put(Frame(cut, zmq.Frame(b"again"), 1))
    taken = queue.take(0.0)
    assert taken is not None
    assert taken.payload == b"again"


@pytest.mark.parametrize(
    ("changed", "is_less"),
    [
        ({}, False),
        ({"projects": ["news-*", "blog", "shop"]}, False),
        ({"projects": ["*"]}, False),
        ({"projects": ["news-*"]}, True),
        ({"role": "admin"}, False),
        ({"role": "producer"}, True),
        ({"role": "operator"}, True),
        ({"expires_at": 1e10}, False),
    ],
)
def test_a_name_that_loses_a_right_or_a_project_has_less_than_before(
    changed: dict[str, Any], is_less: bool, path: Path
) -> None:
    access_file.authorise(path, "web1", make_key("web1").public, "fetcher", projects=["news-*", "blog"])
    (before,) = access_file.read_entries(path) or ()

    after = access_file.change(path, "web1", **changed)

    assert before.has_more_than(after) == is_less
    assert access_file.read_entries(path) == (after,)
