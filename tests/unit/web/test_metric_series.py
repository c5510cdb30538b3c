"""Counters of a bounded number of series: none falls, and each gain is counted once, whatever series a project has."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.protocol.daemon import ProjectStand
from taskqueue.protocol.fields import ProjectName
from taskqueue.web import metric_series
from taskqueue.web.metric_series import EVENTS, OTHERS, STATES, Activity, ProjectRow


def row(name: str, selected: int, ready: int = 0) -> ProjectRow:
    totals = [selected if event == "selected" else 0 for event in EVENTS]
    return ProjectRow(name, "running", [ready if state == "ready" else 0 for state in STATES], totals)


def rows(selected: Mapping[str, int]) -> list[ProjectRow]:
    return [row(name, count) for name, count in selected.items()]


def selected(activity: Activity) -> dict[str, int]:
    place = EVENTS.index("selected")
    return {name: totals[place] for name, totals in activity.counters().items()}


def test_counters_begin_at_nothing_and_count_what_comes() -> None:
    counted = Activity(2)
    counted.take(rows({"a": 100, "b": 50}), 1, 0.0)
    assert selected(counted) == {"a": 0, "b": 0, OTHERS: 0}

    counted.take(rows({"a": 103, "b": 50}), 1, 1.0)

    assert selected(counted) == {"a": 3, "b": 0, OTHERS: 0}


def test_a_gain_goes_to_the_series_that_the_project_had() -> None:
    counted = Activity(1)
    counted.take(rows({"a": 0, "b": 0}), 1, 0.0)
    counted.take(rows({"a": 10, "b": 0}), 1, 1.0)

    counted.take(rows({"a": 10, "b": 500}), 1, 2.0)
    assert selected(counted) == {"a": 10, "b": 0, OTHERS: 500}
    counted.take(rows({"a": 11, "b": 505}), 1, 3.0)

    assert selected(counted) == {"b": 5, OTHERS: 501}


def test_whoever_comes_back_goes_on_where_it_was() -> None:
    counted = Activity(1)
    for second, (a, b) in enumerate([(0, 0), (10, 0), (10, 500), (20_000, 500), (20_007, 500)]):
        counted.take(rows({"a": a, "b": b}), 1, second)

    assert selected(counted)["a"] == 17


def test_two_of_the_same_size_do_not_take_turns() -> None:
    counted = Activity(1)
    counted.take(rows({"a": 0, "b": 0}), 1, 0.0)
    counted.take(rows({"a": 10, "b": 0}), 1, 1.0)

    counted.take(rows({"a": 10, "b": 15}), 1, 2.0)
    counted.take(rows({"a": 10, "b": 15}), 1, 3.0)

    assert set(selected(counted)) == {"a", OTHERS}


def test_whoever_was_busy_long_ago_makes_room() -> None:
    counted = Activity(1)
    counted.take(rows({"a": 0, "b": 0}), 1, 0.0)
    counted.take(rows({"a": 1000, "b": 0}), 1, 1.0)

    later = 1.0 + 8 * metric_series.HALF_LIFE_SECONDS
    counted.take(rows({"a": 1000, "b": 100}), 1, later)
    counted.take(rows({"a": 1000, "b": 100}), 1, later + 1)

    assert set(selected(counted)) == {"b", OTHERS}


def test_a_project_that_is_made_again_is_counted_from_its_beginning() -> None:
    counted = Activity(1)
    counted.take(rows({"a": 10}), 1, 0.0)
    counted.take(rows({"a": 15}), 1, 1.0)
    counted.take(rows({}), 1, 2.0)

    counted.take(rows({"a": 4}), 1, 3.0)
    counted.take(rows({"a": 6}), 1, 4.0)

    assert selected(counted) == {"a": 7, OTHERS: 4}


def test_what_was_reset_is_counted_from_its_beginning() -> None:
    counted = Activity(1)
    counted.take(rows({"a": 10}), 1, 0.0)

    counted.take(rows({"a": 4}), 1, 1.0)

    assert selected(counted)["a"] == 4


def test_what_a_power_cut_has_taken_away_is_not_counted_again() -> None:
    counted = Activity(1)
    counted.take(rows({"a": 1000}), 1, 0.0)

    counted.take(rows({"a": 998}), 2, 1.0)
    counted.take(rows({"a": 999}), 2, 2.0)

    assert selected(counted)["a"] == 1


def test_tasks_by_state_are_those_of_the_project_or_of_all_others() -> None:
    counted = Activity(1)
    found = [row("a", 9, ready=3), row("b", 0, ready=4), row("c", 0, ready=5)]
    counted.take(found, 1, 0.0)

    gauges = counted.gauges(found)

    ready = STATES.index("ready")
    assert {name: counts[ready] for name, counts in gauges.items()} == {"a": 3, OTHERS: 9}


def test_no_series_of_its_own_is_possible() -> None:
    counted = Activity(0)
    counted.take(rows({"a": 1}), 1, 0.0)
    counted.take(rows({"a": 3}), 1, 1.0)

    assert selected(counted) == {OTHERS: 2}


def test_former_series_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_series, "REMEMBERED", 2)
    counted = Activity(1)
    counted.take([], 1, 0.0)
    for number in range(5):
        counted.take(rows({f"p{number}": 1}), 1, 2.0 * number + 1)
        counted.take(rows({f"p{number}": 4}), 1, 2.0 * number + 2)
    counted.take(rows({"p0": 1}), 1, 20.0)
    assert selected(counted)["p0"] == 0
    counted.take(rows({"p3": 1}), 1, 21.0)

    assert selected(counted)["p3"] == 3


def test_no_project_can_be_named_as_the_others_are() -> None:
    pattern = next(each.pattern for each in ProjectName.__metadata__)  # type: ignore[attr-defined]

    assert re.fullmatch(pattern, OTHERS) is None


@given(
    st.lists(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 50), max_size=5), max_size=12),
    st.integers(0, 3),
)
def test_no_counter_ever_falls_and_nothing_is_counted_twice(scrapes: list[dict[str, int]], most: int) -> None:
    """Each dictionary has the gains of the present projects; a missing one is deleted, and created again later."""
    counted = Activity(most)
    counted.take([], 1, 0.0)
    totals: dict[str, int] = {}
    seen: dict[str, int] = {}
    in_all = 0
    for second, gains in enumerate(scrapes, 1):
        totals = {name: totals.get(name, 0) + gained for name, gained in gains.items()}
        in_all += sum(gains.values())
        before = selected(counted)
        counted.take(rows(totals), 1, second)

        after = selected(counted)
        assert len(after) <= 2 * most + 1
        for name, count in after.items():
            assert count >= seen.get(name, 0)
        grown = {name: after[name] - before[name] for name in after.keys() & before.keys()}
        assert min(grown.values(), default=0) >= 0
        seen |= after
    assert sum(seen.values()) == in_all


def test_of_few_projects_those_with_series_are_told_before_those_with_ready_tasks() -> None:
    counted = Activity(1)
    projects = [row("idle", 0), row("ready", 0, ready=3), row("busy", 9)]
    counted.take(projects, 1, 0.0)

    assert counted.most_telling(projects, 2) == ["busy", "ready"]
    assert counted.most_telling(projects, 9) == ["busy", "ready", "idle"]


def test_of_projects_without_series_the_longest_idle_is_shown_and_the_sum_of_back_offs() -> None:
    counted = Activity(1)
    counted.take([row("busy", 9), row("a", 0), row("b", 0)], 1, 0.0)

    shown = counted.stands([ProjectStand("a", 3.0, 1), ProjectStand("busy", 2.0, 5), ProjectStand("b", 4.0, 2)])

    assert shown == {"busy": (2.0, 5), OTHERS: (4.0, 3)}
    assert counted.stands([]) == {OTHERS: (0.0, 0)}
