"""Results of attempts to connect, address by address, and the message made of them."""

from __future__ import annotations

import pytest

from taskqueue.client.connection.addresses import MUTE, REFUSED, SILENT, STRANGER, ConnectAttempts

FOUR, SIX = "127.0.0.1:7400", "[::1]:7400"


def attempts(*ends: str, name: str = "db") -> ConnectAttempts:
    """Make attempts at two addresses, or at as many as there are ends, with these ends."""
    it = ConnectAttempts(name)
    it.found([SIX, FOUR][: max(1, len(ends))])
    for address, how in zip((SIX, FOUR), ends, strict=False):
        if how:
            it.ended(address, how)
    return it


@pytest.mark.parametrize("how", [REFUSED, STRANGER])
def test_an_address_that_can_not_be_the_daemon_s_is_an_obstacle(how: str) -> None:
    it = attempts(how, name="")

    assert (it.obstacle, it.why) == (how, how)


@pytest.mark.parametrize("how", [MUTE, SILENT])
def test_an_address_that_says_nothing_may_be_slow_which_is_no_obstacle(how: str) -> None:
    it = attempts(how, name="")

    assert (it.obstacle, it.why) == ("", how)


def test_it_is_no_obstacle_while_an_address_is_left() -> None:
    it = attempts(REFUSED, "")

    assert (it.obstacle, it.why) == ("", f"{REFUSED} ({SIX})")


def test_addresses_of_a_name_that_fare_alike_are_told_together() -> None:
    assert attempts(REFUSED, REFUSED).obstacle == f"{REFUSED} ({SIX}, {FOUR})"


def test_addresses_of_a_name_that_fare_differently_are_told_one_by_one() -> None:
    assert attempts(REFUSED, STRANGER).obstacle == f"{SIX}: {REFUSED}; {FOUR}: {STRANGER}"


def test_a_name_that_can_not_be_looked_up_is_an_obstacle_until_it_can() -> None:
    it = ConnectAttempts("db")
    assert (it.obstacle, it.why) == ("", "its host db is being looked up")

    it.unknown(OSError(-2, "Name or service not known"))
    assert it.obstacle == it.why == "its host is unknown (Name or service not known)"

    it.found([SIX])
    assert it.obstacle == ""


def test_what_was_tried_before_is_known_until_it_has_been_tried_again() -> None:
    it = attempts(REFUSED, REFUSED)

    it.found([FOUR])

    assert it.obstacle == f"{REFUSED} ({FOUR})"


def test_a_connection_makes_all_of_it_void() -> None:
    it = attempts(REFUSED, REFUSED)

    it.connected()

    assert (it.obstacle, it.why) == ("", "")
