"""Connections that are closed when a new one finds no room; the clock is a number."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from taskqueue.web.access.crowd import Crowd
from taskqueue.web.options import Patience

A, B, C, PROXY = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.9.0.1"


class Peer:
    """Connection, identified by its order of arrival."""

    def __init__(self, gone: list[Peer]) -> None:
        self._gone = gone

    def give_way(self) -> None:
        self._gone.append(self)


class Room:
    """Crowd of up to 6 connections, 4 of an address, and what happens to them.

    Attributes:
        gone: closed connections, in order.
    """

    def __init__(self, idle_of_one_address: int = 4) -> None:
        self.gone: list[Peer] = []
        patience = Patience(6, 4, fresh_seconds=1.0, idle_of_one_address=idle_of_one_address)
        self.crowd = Crowd(patience, [ip_network("10.9.0.0/24")])

    def come(self, host: str, now: float = 0.0) -> Peer | None:
        """Let a connection arrive; return None if it was refused."""
        peer = Peer(self.gone)
        return peer if self.crowd.enter(peer, host, now) else None

    def fill(self, *hosts: str) -> list[Peer]:
        """Let idle connections arrive, a hundredth of a second apart."""
        found = [self.come(host, number / 100) for number, host in enumerate(hosts)]
        assert None not in found
        return [peer for peer in found if peer is not None]


@pytest.mark.parametrize(
    ("there", "newcomer", "gives_way"),
    [
        ([A, A, A, A], A, 0),
        ([A, A, A, A, B, B], A, 0),
        ([B, B, A, A, A, A], A, 2),
        ([B, A, A, B, B, A], C, 0),
        ([B, A, A, A, B, C], C, 1),
        ([C, A, B, A, B, A], C, 1),
        ([PROXY] * 6, PROXY, 0),
        ([PROXY] * 6, A, 0),
        ([A, B, PROXY, PROXY, PROXY, PROXY], PROXY, 0),
        ([PROXY, PROXY, PROXY, PROXY, A, A], C, 4),
        ([PROXY, "10.9.0.2", PROXY, "10.9.0.3", PROXY, A], "10.9.0.4", 0),
    ],
    ids=range(11),
)
def test_the_oldest_gives_way_of_the_address_that_has_most_and_of_proxies_the_oldest(
    there: list[str], newcomer: str, gives_way: int
) -> None:
    it = Room()
    peers = it.fill(*there)

    assert it.come(newcomer, 2.0)
    assert it.gone == [peers[gives_way]]


def test_a_newcomer_is_refused_while_all_are_fresh_and_let_in_when_one_no_longer_is() -> None:
    it = Room()
    peers = it.fill(A, A, A, A)

    assert it.come(A, 0.99) is None
    assert it.gone == []
    assert it.come(A, 1.0)
    assert it.come(A, 1.005) is None
    assert it.come(A, 1.01)
    assert it.gone == peers[:2]


def test_where_those_of_the_largest_address_are_fresh_one_of_another_gives_way() -> None:
    it = Room()
    old = it.fill(B)
    for _ in range(4):
        it.come(A, 1.5)
    it.come(C, 1.5)

    assert it.come(C, 2.0)
    assert it.gone == old


def test_an_address_with_very_many_idle_ones_keeps_nobody_out_however_fresh_they_are() -> None:
    it = Room(idle_of_one_address=3)
    peers = it.fill(B, A, A, A, A, B)

    assert it.come(C, 0.1)
    assert it.gone == [peers[1]]
    assert it.come(C, 0.1) is None


def test_however_many_a_proxy_has_none_of_them_gives_way_while_it_is_fresh() -> None:
    it = Room(idle_of_one_address=3)
    it.fill(*[PROXY] * 6)

    assert it.come(PROXY, 0.5) is None
    assert it.come(C, 0.5) is None


def test_whoever_is_being_served_never_gives_way() -> None:
    it = Room()
    peers = it.fill(A, A, A, A)
    for peer in peers:
        it.crowd.serve(peer)

    assert it.come(A, 100.0) is None
    assert it.come(B, 100.0)
    assert it.gone == []


def test_whoever_was_served_is_as_old_as_the_end_of_its_response() -> None:
    it = Room()
    peers = it.fill(A, A, A, A)
    it.crowd.serve(peers[0])
    it.crowd.rest(peers[0], 5.0)

    for _ in range(3):
        assert it.come(A, 5.5)
    assert it.come(A, 5.6) is None
    assert it.gone == peers[1:]
    assert it.come(A, 6.0)
    assert it.gone[-1] is peers[0]


def test_a_strangers_answered_request_makes_its_connection_no_younger() -> None:
    it = Room()
    peers = it.fill(A, A, A, A)
    it.crowd.rest(peers[0], 5.0)

    assert it.come(A, 5.1)
    assert it.gone == peers[:1]


def test_whoever_leaves_makes_room_once() -> None:
    it = Room()
    peers = it.fill(A, A, A, A)
    for _ in range(2):
        it.crowd.leave(peers[0])
        it.crowd.serve(peers[0])
        it.crowd.rest(peers[0], 0.5)

    assert it.come(A, 0.5)
    assert it.come(A, 0.5) is None
    assert len(it.crowd) == 4


def test_hosts_of_one_ipv6_network_are_one_address() -> None:
    it = Room()
    it.fill(*(f"2001:db8::{host}" for host in range(4)))

    assert it.come("2001:db8::5", 0.5) is None
    assert it.come("2001:db8:0:1::5", 0.5)


def test_nothing_is_left_of_those_who_have_gone() -> None:
    it = Room()
    for peer in it.fill(A, A, B, PROXY):
        it.crowd.leave(peer)

    assert len(it.crowd) == 0
    assert not it.crowd._idle
    assert not it.crowd._count
