"""Bugs in recrawls, which the simulation's fetchers don't report on."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace as changed

from taskqueue.core.model import recrawl_interval
from taskqueue.core.model.project import Project
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import Task
from taskqueue.core.moves import dispatch, lease_end, push
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.values import Fetched, PageFacts, Recrawl, Schedule
from taskqueue.store.records import layout
from tests.mutants.mutant import Mutant, Replace

RECRAWL: Final = "unit/core/rules/test_recrawl.py"


def _seq_kept(replace: Replace) -> None:
    def stay(turn: TurnState, project: Project, task: Task) -> None:
        project.queue.withdraw(turn.changes, task)

    replace(lease_end, "give_seq", stay)


def _no_jitter(replace: Replace) -> None:
    replace(lease_end, "jitter", lambda *of: 1.0)


def _jitter_kept(replace: Replace) -> None:
    def after(known: PageFacts, bounds: Recrawl, said: Fetched) -> PageFacts:
        page: PageFacts = original(known, bounds, said)
        return changed(page, interval=page.interval * 1.05)

    original = replace(lease_end, "after_success", after)


def _bounds_forgotten(replace: Replace) -> None:
    replace(recrawl_interval, "_within", lambda bounds, seconds: seconds)


def _nothing_compared_is_unchanged(replace: Replace) -> None:
    def has_changed(known: PageFacts, said: Fetched) -> bool:
        return bool(original(known, said))

    original = replace(recrawl_interval, "has_changed", has_changed)


def _facts_compared_before_what_is_said(replace: Replace) -> None:
    def has_changed(known: PageFacts, said: Fetched) -> bool | None:
        compared: bool | None = original(known, changed(said, changed=None))
        return said.changed if compared is None else compared

    original = replace(recrawl_interval, "has_changed", has_changed)


def _etag_of_the_former_page_kept(replace: Replace) -> None:
    def after(known: PageFacts, bounds: Recrawl, said: Fetched) -> PageFacts:
        page: PageFacts = original(known, bounds, said)
        return changed(page, etag=page.etag or known.etag)

    original = replace(lease_end, "after_success", after)


def _conditional_though_forced(replace: Replace) -> None:
    replace(push, "as_replaced", lambda schedule, known: None if schedule.recrawl is None else known)


def _page_not_looked_up(replace: Replace) -> None:
    replace(push, "_need_page", lambda turn, project, item, wanted: None)


def _facts_not_sent(replace: Replace) -> None:
    def as_assignment(project: Project, task: Task, spec: Any, timeout: float) -> Any:
        return original(project, task, spec.with_page(None), timeout)

    original = replace(dispatch, "as_assignment", as_assignment)


def _repeat_not_counted(replace: Replace) -> None:
    replace(Spec, "counted_down", lambda spec, repeat: spec)


def _last_run_counted(replace: Replace) -> None:
    def recurs_after(schedule: Schedule, page: PageFacts | None = None) -> float | None:
        interval: float | None = original(schedule, page)
        return None if schedule.repeat == 1 else interval

    original = replace(lease_end, "recurs_after", recurs_after)


def _page_not_stored(replace: Replace) -> None:
    def encode_spec(taskid: str, spec: Any) -> Any:
        return original(taskid, spec.with_page(None))

    original = replace(layout, "encode_spec", encode_spec)


MUTANTS: Final = (
    Mutant(
        "a page that is crawled again is as old as it was",
        _seq_kept,
        (
            f"{RECRAWL}::test_when_more_is_due_than_can_be_done_each_has_its_turn",
            f"{RECRAWL}::test_what_was_crawled_longest_ago_is_first_among_equals_and_new_tasks_are_not_held_up",
        ),
    ),
    Mutant(
        "pages that were pushed together come back together",
        _no_jitter,
        (f"{RECRAWL}::test_tasks_of_one_moment_do_not_come_back_at_one_moment",),
    ),
    Mutant(
        "an interval keeps its jitter",
        _jitter_kept,
        (f"{RECRAWL}::test_what_tells_nothing_of_the_page_leaves_the_interval",),
    ),
    Mutant(
        "an interval leaves its bounds",
        _bounds_forgotten,
        (
            f"{RECRAWL}::test_the_interval_stays_within_its_bounds",
            f"{RECRAWL}::test_force_update_brings_the_interval_within_new_bounds",
        ),
    ),
    Mutant(
        "a page of which nothing is known has not changed",
        _nothing_compared_is_unchanged,
        (f"{RECRAWL}::test_what_tells_nothing_of_the_page_leaves_the_interval",),
    ),
    Mutant(
        "what is compared wins over what is said",
        _facts_compared_before_what_is_said,
        (f"{RECRAWL}::test_what_the_report_says_of_changes_wins_over_its_facts",),
    ),
    Mutant(
        "the etag of a former page is kept",
        _etag_of_the_former_page_kept,
        (f"{RECRAWL}::test_what_is_not_said_of_a_page_that_is_another_is_forgotten",),
    ),
    Mutant(
        "a forced run asks whether the page has changed",
        _conditional_though_forced,
        (f"{RECRAWL}::test_force_update_keeps_the_interval_and_wants_the_whole_page",),
    ),
    Mutant(
        "the interval of a task that is not in memory is lost when it is forced",
        _page_not_looked_up,
        (f"{RECRAWL}::test_force_update_keeps_the_interval_and_wants_the_whole_page",),
    ),
    Mutant(
        "a task recurs for ever, whatever its repeat",
        _repeat_not_counted,
        (f"{RECRAWL}::test_with_repeat_a_task_recurs_that_many_times_and_ends",),
    ),
    Mutant(
        "a task recurs once less than its repeat says",
        _last_run_counted,
        (f"{RECRAWL}::test_with_repeat_a_task_recurs_that_many_times_and_ends",),
    ),
    Mutant(
        "what is known of a page is not sent",
        _facts_not_sent,
        (f"{RECRAWL}::test_what_was_reported_of_the_page_comes_with_the_next_hand_out",),
    ),
    Mutant(
        "what is known of a page is not stored",
        _page_not_stored,
        (f"{RECRAWL}::test_the_interval_and_the_facts_outlive_the_daemon",),
    ),
)
