"""Pace of a slot: which of several settings wins, and the results of delays, rates and bursts."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.core.model.slot_pace import UNPACED, SlotPace, fitting_choice, pace_of
from taskqueue.settings.settings import merge
from taskqueue.settings.slots import PLAIN_CHOICE, SlotChoice


def pace(name: str = "a.org", chosen: SlotChoice = PLAIN_CHOICE, auto_delay: float = 0.0, **said: Any) -> SlotPace:
    """Return the pace of a slot of a project with these settings."""
    return pace_of(merge({}, {"slot": {"by": "host"}}, said), name, chosen, auto_delay)


def test_a_slot_goes_once_a_second_with_one_task_at_once_if_nobody_says_anything() -> None:
    assert pace() == SlotPace(interval=1.0, tolerance=0.0, most=1.0)


def test_what_is_in_no_slot_has_no_pace() -> None:
    assert pace("", slot={"delay": 5, "patterns": {"*": {"delay": 7}}}) == UNPACED == SlotPace(0.0, 0.0, inf)


def test_a_delay_has_no_tolerance() -> None:
    assert pace(slot={"delay": 0.25, "burst": 9}) == SlotPace(0.25, 0.0, 1.0)
    assert pace(slot={"delay": 0}) == SlotPace(0.0, 0.0, 1.0)


def test_a_rate_with_a_burst_may_run_ahead_by_all_of_the_burst_but_one() -> None:
    assert pace(slot={"rate": 4}) == SlotPace(0.25, 0.0, 1.0)
    assert pace(slot={"rate": 4, "burst": 3}) == SlotPace(0.25, 0.5, 1.0)


def test_a_person_wins_over_a_pattern_and_that_over_the_project() -> None:
    patterns = {"*.org": {"delay": 2}}

    assert pace("b.net", slot={"delay": 1, "patterns": patterns}).interval == 1.0
    assert pace("b.org", slot={"delay": 1, "patterns": patterns}).interval == 2.0
    assert pace("b.org", SlotChoice(delay=3.0), slot={"delay": 1, "patterns": patterns}).interval == 3.0


def test_each_number_is_of_the_first_who_says_it() -> None:
    found = pace("b.org", SlotChoice(max_processing=4.0), slot={"burst": 3, "patterns": {"*.org": {"rate": 2}}})

    assert found == SlotPace(0.5, 1.0, 4.0)


def test_a_rate_takes_the_place_of_a_delay_and_a_delay_that_of_a_rate() -> None:
    assert pace(chosen=SlotChoice(delay=3.0), slot={"rate": 4, "burst": 3}) == SlotPace(3.0, 0.0, 1.0)
    assert pace(chosen=SlotChoice(rate=4.0), slot={"delay": "auto"}) == SlotPace(0.25, 0.0, 1.0)
    assert pace(slot={"rate": 4, "patterns": {"*": {"delay": "auto"}}}).is_auto


def test_a_slot_with_an_unlimited_rate_has_no_delay() -> None:
    assert pace(chosen=SlotChoice(rate=inf), slot={"delay": 5}) == SlotPace(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("auto_delay", "interval"), [(0.0, 2.0), (1.9, 2.0), (3.5, 3.5), (30.0, 30.0), (31.0, 30.0), (inf, 30.0)]
)
def test_an_automatic_delay_stays_within_its_bounds_and_begins_at_the_lower_one(
    auto_delay: float, interval: float
) -> None:
    found = pace(auto_delay=auto_delay, slot={"delay": "auto", "min_delay": 2, "max_delay": 30})

    assert found == SlotPace(interval, 0.0, 1.0, is_auto=True)


def test_of_bounds_that_exclude_each_other_the_lower_one_counts() -> None:
    assert pace(auto_delay=7.0, slot={"delay": "auto", "min_delay": 20, "max_delay": 10}).interval == 20.0


def test_what_an_automatic_delay_came_to_has_no_effect_where_the_delay_is_said() -> None:
    assert pace(auto_delay=7.0, slot={"delay": 1}) == SlotPace(1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "fitting"),
    [
        ("example.org", "*"),
        ("www.example.org", "*.example.org"),
        ("www.shop.example.org", "*.shop.example.org"),
        ("a.shop.example.org", "a.shop.example.org"),
        ("?", "?"),
        ("x", "?"),
        ("*.net", "*.net"),
        ("[::1]", "[::1]"),
        ("Example.net", "*.net"),
        ("example.NET", "*"),
    ],
)
def test_the_most_specific_pattern_that_matches_fits(name: str, fitting: str) -> None:
    patterns = ["*", "*.example.org", "*.shop.example.org", "a.shop.example.org", "?", "*.net", "[::1]"]
    choices = {pattern: SlotChoice(delay=float(number)) for number, pattern in enumerate(patterns)}

    for each in (choices, dict(reversed(choices.items()))):
        assert fitting_choice(each, name) == choices[fitting]


@pytest.mark.parametrize(
    "pattern",
    [
        "xn--bcher-kva.example", "xn--*", "bücher.example", "BÜCHER.Example", "bu\u0308cher.example", "bücher。example",
        "*bücher.example", "b?cher.*",
    ],
)  # fmt: skip
def test_a_pattern_may_have_a_host_in_unicode_or_as_the_dns_has_it(pattern: str) -> None:
    assert pace("xn--bcher-kva.example", slot={"patterns": {pattern: {"delay": 7}, "*": {"delay": 8}}}).interval == 7.0
    assert pace("other.example", slot={"patterns": {pattern: {"delay": 7}, "*": {"delay": 8}}}).interval == 8.0


@pytest.mark.parametrize("pattern", ["[::1]:8080", "[0:0::0001]:8080", "[::A]:8080"])
def test_an_address_in_a_pattern_may_be_spelled_otherwise(pattern: str) -> None:
    assert (
        pace("[::a]:8080" if "A" in pattern else "[::1]:8080", slot={"patterns": {pattern: {"delay": 7}}}).interval
        == 7.0
    )


def test_the_name_itself_wins_over_patterns_in_whichever_spelling_it_stands() -> None:
    patterns = {"bücher.example": {"delay": 7}, "xn--bcher-kva.exampl?": {"delay": 8}, "[x": {"delay": 9}}

    assert pace("xn--bcher-kva.example", slot={"patterns": patterns}).interval == 7.0
    assert (
        pace("www.xn--bcher-kva.example", slot={"patterns": patterns | {"*.bücher.example": {"delay": 6}}}).interval
        == 6.0
    )
    assert pace("xn--\u00fc.example", slot={"patterns": patterns}).interval == 1.0


def test_a_name_that_no_pattern_matches_is_paced_as_the_project_says() -> None:
    assert fitting_choice({"*.org": SlotChoice(delay=1.0)}, "example.net") == PLAIN_CHOICE
    assert fitting_choice({}, "example.net") == PLAIN_CHOICE


@given(st.floats(0.0001, 1e6), st.floats(1, 1e6), st.integers(2, 50))
def test_a_burst_goes_at_once_and_then_every_interval(rate: float, burst: float, count: int) -> None:
    found = pace(slot={"rate": rate, "burst": burst})
    at, tat = [0.0], found.interval

    for _ in range(count):
        at.append(max(at[-1], tat - found.tolerance))
        tat = max(at[-1], tat) + found.interval

    assert all(number <= burst + rate * moment + 1e-6 * number for number, moment in enumerate(at, 1))
    assert sum(moment <= 1e-9 * found.interval for moment in at) == min(count + 1, int(burst + 1e-9))
