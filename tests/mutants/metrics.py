"""Bugs in the counters for Prometheus."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from taskqueue.core.model.histogram import Histogram
from taskqueue.core.model.project import Project
from taskqueue.web import metric_series
from taskqueue.web.metric_series import Activity, ProjectRow
from tests.mutants.mutant import Mutant, Replace

DAEMON: Final = "unit/core/requests/test_daemon.py"
ACTIVITY: Final = "unit/web/test_metric_series.py"


def _rolled_back_counted_again(replace: Replace) -> None:
    def gained(self: Activity, row: ProjectRow, epoch: int) -> object:
        return original(self, row, self._epoch)

    original = replace(Activity, "_gained", gained)


def _reset_falls(replace: Replace) -> None:
    def gained(self: Activity, row: ProjectRow, epoch: int) -> list[int]:
        before = self._totals.get(row.name, self._nothing) if self._epoch else row.totals
        return [now - then for now, then in zip(row.totals, before, strict=True)]

    replace(Activity, "_gained", gained)


def _former_series_forgotten(replace: Replace) -> None:
    def let_go(self: Activity) -> None:
        original(self)
        self._former.clear()

    original = replace(Activity, "_let_go", let_go)


def _last_gain_not_shown(replace: Replace) -> None:
    def choose(self: Activity) -> None:
        original(self)
        self._let_go()
        self._leaving = []

    original = replace(Activity, "_choose", choose)


def _no_advantage(replace: Replace) -> None:
    replace(metric_series, "ADVANTAGE", 1.0)


def _bounds_excluded(replace: Replace) -> None:
    def note(self: Histogram, value: float) -> None:
        self.counts[bisect_right(self.bounds, value)] += 1
        self.sum += value

    replace(Histogram, "note", note)


def _ready_not_noted(replace: Replace) -> None:
    replace(Project, "note_ready", lambda self, now: None)


def _dispatch_not_noted(replace: Replace) -> None:
    replace(Project, "note_dispatch", lambda self, now: None)


MUTANTS: Final = (
    Mutant(
        "a project without tasks has been idle all along when some become ready",
        _ready_not_noted,
        (f"{DAEMON}::test_a_project_is_idle_from_when_it_has_ready_tasks",),
    ),
    Mutant(
        "a dispatch does not end that a project was idle",
        _dispatch_not_noted,
        (f"{DAEMON}::test_a_project_is_idle_from_its_last_dispatch",),
    ),
    Mutant(
        "what a power cut has taken away is counted again",
        _rolled_back_counted_again,
        (f"{ACTIVITY}::test_what_a_power_cut_has_taken_away_is_not_counted_again",),
    ),
    Mutant(
        "a counter falls when its project is reset",
        _reset_falls,
        (f"{ACTIVITY}::test_what_was_reset_is_counted_from_its_beginning",),
    ),
    Mutant(
        "a series that comes back begins anew",
        _former_series_forgotten,
        (f"{ACTIVITY}::test_whoever_comes_back_goes_on_where_it_was",),
    ),
    Mutant(
        "what a project gained before it lost its series is not shown",
        _last_gain_not_shown,
        (f"{ACTIVITY}::test_no_counter_ever_falls_and_nothing_is_counted_twice",),
    ),
    Mutant(
        "two busy projects take turns", _no_advantage, (f"{ACTIVITY}::test_two_of_the_same_size_do_not_take_turns",)
    ),
    Mutant(
        "a value that equals a bound is beyond it",
        _bounds_excluded,
        ("unit/core/model/test_histogram.py::test_each_value_is_in_the_first_class_whose_bound_it_does_not_exceed",),
    ),
)
