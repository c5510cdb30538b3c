"""Order and bounds of queued requests: with numbers for time and cost, and no socket."""

from __future__ import annotations

from collections import Counter

import zmq

from taskqueue.protocol.fields import Peer
from taskqueue.server.network.frame_queue import BYTES_MOST, CREDIT_MS, FRAMES_MOST, PEERS_MOST, FrameQueue
from taskqueue.server.network.router import Frame

BUSY, POLITE = Peer(b"busy"), Peer(b"polite")


def frame(peer: Peer, payload: bytes = b"") -> Frame:
    return Frame(peer, zmq.Frame(payload), 1)


def take(turns: FrameQueue, cost: float, now: float = 0.0) -> Peer | None:
    """Take a frame and charge its cost; return its peer."""
    taken = turns.take(now)
    if taken is None:
        return None
    turns.charge(taken.peer, cost)
    return taken.peer


def test_the_frames_of_a_peer_keep_their_order() -> None:
    turns = FrameQueue()
    sent = [b"%d" % n for n in range(FRAMES_MOST)]
    for payload in sent:
        turns.put(frame(BUSY, payload))
        turns.put(frame(POLITE))

    taken: list[Frame] = []
    while (one := turns.take(0.0)) is not None:
        turns.charge(one.peer, 0.5 + len(taken) % 7)
        taken.append(one)

    assert [one.payload for one in taken if one.peer == BUSY] == sent


def test_peers_that_always_ask_get_equal_parts_of_the_time_whatever_their_requests_cost() -> None:
    turns, cost = FrameQueue(), {BUSY: 8.0, POLITE: 0.5}
    spent: Counter[Peer] = Counter()

    for _ in range(2000):
        for peer in cost:
            turns.put(frame(peer))
        taken = turns.take(0.0)
        assert taken is not None
        turns.charge(taken.peer, cost[taken.peer])
        spent[taken.peer] += int(10 * cost[taken.peer])

    assert abs(spent[BUSY] - spent[POLITE]) <= 80


def test_who_asks_little_is_next_beside_a_hundred_that_ask_all_the_time() -> None:
    turns = FrameQueue()
    hostile = [Peer(b"%d" % n) for n in range(100)]
    turns.put(frame(POLITE))
    take(turns, 0.1)

    nexts = []
    for _ in range(100):
        for peer in hostile:
            turns.put(frame(peer))
        for _ in range(30):
            take(turns, 10.0)
        turns.put(frame(POLITE))
        taken = turns.take(0.0)
        assert taken is not None
        turns.charge(taken.peer, 0.1)
        nexts.append(taken.peer)

    assert nexts == [POLITE] * 100


def test_who_is_there_is_not_kept_waiting_by_ever_new_peers() -> None:
    turns = FrameQueue()
    turns.put(frame(POLITE))
    take(turns, 0.1)

    for n in range(5):
        turns.put(frame(Peer(b"early%d" % n)))
    for n in range(100):
        turns.put(frame(Peer(b"new%d" % n)))
        turns.put(frame(POLITE))
        assert take(turns, 0.1) == POLITE
        take(turns, 10.0)


def test_whose_frames_have_cost_more_lately_than_a_turn_has_left_is_passed_over() -> None:
    turns = FrameQueue()
    for _ in range(3):
        turns.put(frame(BUSY))
        take(turns, 1.0)
        turns.settle(100.0)
    turns.put(frame(BUSY))
    turns.put(frame(POLITE))

    taken = turns.take(0.0, 20.0)
    assert taken is not None
    turns.charge(taken.peer, 0.1)

    assert taken.peer == POLITE
    assert turns.take(0.0, 20.0) is None
    assert turns.has_ready
    assert take(turns, 1.0) == BUSY
    assert not turns.has_ready


def test_a_pause_earns_a_little_and_not_more() -> None:
    turns = FrameQueue()
    turns.put(frame(POLITE))
    take(turns, 1.0)
    for _ in range(1000):
        turns.put(frame(BUSY))
        take(turns, 1.0)

    for _ in range(FRAMES_MOST):
        turns.put(frame(BUSY))
        turns.put(frame(POLITE))
    ahead = 0
    while take(turns, 1.0) == POLITE:
        ahead += 1

    assert CREDIT_MS <= ahead <= CREDIT_MS + 2


def test_what_a_frame_has_cost_in_truth_counts() -> None:
    turns = FrameQueue()
    for _ in range(10):
        turns.put(frame(BUSY))
        turns.put(frame(POLITE))
    assert take(turns, 1.0) == BUSY

    assert turns.settle(5.0) == 1.0

    assert [take(turns, 1.0) for _ in range(6)] == [POLITE] * 5 + [BUSY]


def test_who_is_alone_gets_everything_and_is_told_when_to_stop_before_it_is_refused() -> None:
    turns = FrameQueue()

    for _ in range(FRAMES_MOST):
        assert turns.has_room
        turns.put(frame(BUSY))

    assert not turns.has_room
    assert [turns.put(frame(BUSY)) for _ in range(FRAMES_MOST + 1)] == [True] * FRAMES_MOST + [False]
    assert [take(turns, 10.0) for _ in range(2 * FRAMES_MOST)] == [BUSY] * (2 * FRAMES_MOST)
    assert turns.has_room
    assert turns.take(0.0) is None


def test_beside_others_a_peer_has_so_many_frames_waiting_and_no_more() -> None:
    turns = FrameQueue()
    turns.put(frame(POLITE))

    taken = [turns.put(frame(BUSY)) for _ in range(FRAMES_MOST + 2)]

    assert taken == [True] * FRAMES_MOST + [False] * 2
    assert turns.put(frame(POLITE))
    assert turns.has_room


def test_when_much_waits_each_peer_has_an_equal_part_of_the_bytes() -> None:
    turns, large = FrameQueue(), bytes(BYTES_MOST // 8)
    turns.put(frame(POLITE))

    taken = [turns.put(frame(BUSY, large)) for _ in range(10)]

    assert taken == [True] * 8 + [False] * 2
    assert turns.put(frame(POLITE, large))
    assert turns.put(frame(Peer(b"third"), large))


def test_a_frame_that_was_put_back_is_its_peers_first_when_its_time_has_come() -> None:
    turns = FrameQueue()
    turns.put(frame(BUSY, b"long"))
    turns.put(frame(BUSY, b"next"))
    turns.put(frame(POLITE))
    taken = turns.take(1.0)
    assert taken is not None

    turns.put_back(taken, 5.0)

    assert turns.next_delayed_at == 5.0
    assert take(turns, 1.0, now=4.0) == POLITE
    assert turns.take(4.9) is None
    again = turns.take(5.0)
    assert again is not None
    assert again.payload == b"long"


def test_all_that_waits_can_be_taken_at_once() -> None:
    turns = FrameQueue()
    turns.put(frame(BUSY))
    turns.put(frame(POLITE))

    cleared = [one.peer for one in turns.clear()]

    assert cleared == [BUSY, POLITE]
    assert turns.take(0.0) is None
    turns.put(frame(BUSY))
    assert take(turns, 1.0) == BUSY


def test_peers_that_owe_nothing_are_forgotten_and_debts_are_not() -> None:
    turns = FrameQueue()
    turns.put(frame(BUSY))
    take(turns, 1e6)
    for n in range(2 * PEERS_MOST):
        turns.put(frame(Peer(b"%d" % n)))
        take(turns, 0.001)

    turns.put(frame(BUSY))
    turns.put(frame(POLITE))

    assert [take(turns, 1.0) for _ in range(2)] == [POLITE, BUSY]
    assert len(turns.peers) <= PEERS_MOST + 2
