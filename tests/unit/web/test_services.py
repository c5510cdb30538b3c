"""Speeds of counters while a browser shows them."""

from __future__ import annotations

from taskqueue.web.services import FORGOTTEN_SECONDS, Meters


def test_a_speed_is_that_of_the_last_ten_seconds() -> None:
    meters = Meters()
    for second in range(31):
        speeds = meters.look(second, {"a": 5.0 * second if second < 20 else 100.0})

    assert speeds == {"a": 0.0}
    assert Meters().look(0, {"a": 7}) == {}


def test_what_nobody_looked_at_and_what_begins_anew_has_no_speed() -> None:
    meters = Meters()
    meters.look(0, {"a": 10, "b": 10})

    assert meters.look(2, {"a": 30, "b": 4}) == {"a": 10.0}
    assert meters.look(2 + FORGOTTEN_SECONDS + 1, {"a": 31}) == {}
