"""When messages may leave, and in which order."""

from __future__ import annotations

from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import Outgoing
from taskqueue.server.loop import MAX_WAITING_BYTES, Outbox

A, B = Peer(b"a"), Peer(b"b")


class Wire:
    """Record of the messages that leave."""

    def __init__(self) -> None:
        self.sent: list[tuple[Peer, bytes]] = []
        self.is_open = True
        self.outbox = Outbox(self._send)

    def _send(self, peer: Peer, payload: bytes) -> bool:
        if self.is_open:
            self.sent.append((peer, payload))
        return self.is_open


def test_what_is_kept_waits_for_its_write() -> None:
    wire = Wire()
    wire.outbox.put(A, b"1", 1)
    wire.outbox.put(A, b"2", 2)

    wire.outbox.release(1)

    assert wire.sent == [(A, b"1")]


def test_what_is_covered_already_leaves_at_once() -> None:
    wire = Wire()
    wire.outbox.release(3)

    wire.outbox.put(A, b"a repeat", 3)

    assert wire.sent == [(A, b"a repeat")]


def test_what_is_not_kept_leaves_at_once() -> None:
    wire = Wire()
    wire.outbox.put(A, b"kept", 1)

    wire.outbox.put(B, b"select", None)

    assert wire.sent == [(B, b"select")]


def test_what_need_not_wait_overtakes_what_waits_and_replies_keep_their_order() -> None:
    wire = Wire()
    wire.outbox.put(A, b"1 kept", 1)
    wire.outbox.put(A, b"2", None)
    wire.outbox.put(A, b"3 kept", 2)

    wire.outbox.release(1)
    first = list(wire.sent)
    wire.outbox.release(2)

    assert first == [(A, b"2"), (A, b"1 kept")]
    assert wire.sent == [(A, b"2"), (A, b"1 kept"), (A, b"3 kept")]


def test_it_is_full_while_too_many_bytes_wait() -> None:
    wire = Wire()
    before = wire.outbox.full
    wire.outbox.put(A, bytes(MAX_WAITING_BYTES), 1)
    waiting = wire.outbox.full

    wire.outbox.release(1)

    assert (before, waiting, wire.outbox.full) == (False, True, False)


def test_what_is_cleared_never_leaves() -> None:
    wire = Wire()
    wire.outbox.put(A, b"1", 1)

    wire.outbox.clear()
    wire.outbox.release(1)
    wire.outbox.put(A, b"3", None)

    assert wire.sent == [(A, b"3")]


def test_after_it_was_cleared_the_syncs_of_before_cover_nothing() -> None:
    wire = Wire()
    wire.outbox.release(5)

    wire.outbox.clear()
    wire.outbox.put(A, b"1", 1)
    before = list(wire.sent)
    wire.outbox.release(1)

    assert (before, wire.sent) == ([], [(A, b"1")])


def test_what_was_cleared_takes_no_room() -> None:
    wire = Wire()
    wire.outbox.put(A, bytes(MAX_WAITING_BYTES), 1)

    wire.outbox.clear()

    assert not wire.outbox.full


def test_replies_of_one_write_leave_in_the_order_in_which_they_were_said() -> None:
    wire = Wire()
    wire.outbox.put(A, b"1", 1)
    wire.outbox.put(A, b"2", 1)

    wire.outbox.release(1)

    assert wire.sent == [(A, b"1"), (A, b"2")]


def test_what_was_to_leave_at_once_and_could_not_is_told() -> None:
    wire = Wire()
    assert wire.outbox.put(A, b"sent", None)

    wire.is_open = False
    assert not wire.outbox.put(A, b"lost", None)
    assert wire.outbox.put(A, b"waits", 1)


def test_tasks_that_waited_and_could_not_leave_are_told() -> None:
    wire = Wire()
    selects = [Outgoing(A, Select(number=number, tasks=[])) for number in (1, 2, 3)]
    wire.outbox.put(A, b"a reply", 1)
    wire.outbox.put(A, b"select 1", 1, selects[0])
    wire.outbox.put(A, b"select 2", 2, selects[1])
    wire.outbox.put(A, b"select 3", 3, selects[2])
    assert wire.outbox.release(1) == []

    wire.is_open = False

    assert wire.outbox.release(2) == [selects[1]]
    wire.outbox.clear()
    assert wire.outbox.release(3) == []
