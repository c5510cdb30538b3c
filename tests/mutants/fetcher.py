"""Bugs in when a fetcher begins its tasks, and in what it says of their fetch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from taskqueue.client.fetcher import fetch_buffer
from taskqueue.client.fetcher.buffered_task import BufferedTask, Consumer
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.prefetch import Prefetch
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.middleware import Around
from tests.mutants.mutant import Mutant, Replace

TIMES: Final = "unit/client/fetcher/test_times_to_start.py"
LATE: Final = "unit/client/worker/test_late_starts.py"
NOTES: Final = "unit/client/worker/test_fetch_notes.py"


def _early_begun_at_once(replace: Replace) -> None:
    def begins_now(task: Task, now: float, consumer: Consumer) -> BufferedTask:
        it: BufferedTask = original(task, now, consumer)
        return it._replace(starts_at=now)

    original = replace(fetch_buffer, "buffered", begins_now)


def _early_leases_count_from_arrival(replace: Replace) -> None:
    def ends_sooner(task: Task, now: float, consumer: Consumer) -> BufferedTask:
        it: BufferedTask = original(task, now, consumer)
        return it._replace(until=it.until - task.not_before, ends_at=it.ends_at - task.not_before)

    original = replace(fetch_buffer, "buffered", ends_sooner)


def _late_begun(replace: Replace) -> None:
    replace(Around, "_check_time", lambda self: None)


def _late_go_back_while_as_much_is_wanted(replace: Replace) -> None:
    def give_back(self: FetchBuffer, late: Sequence[Task], consumer: Consumer) -> None:
        consumer.returned += len(late)
        self._release(late)

    replace(FetchBuffer, "give_back", give_back)


def _early_hold_up_their_worker(replace: Replace) -> None:
    replace(Prefetch, "ran", lambda self, seconds, now: False)


def _seconds_of_what_came_before(replace: Replace) -> None:
    def enter(self: Around) -> Around:
        began_at = time.monotonic()
        original(self)
        self.began_at = began_at
        return self

    original = replace(Around, "__enter__", enter)


MUTANTS: Final = (
    Mutant(
        "an early task is begun at once",
        _early_begun_at_once,
        (
            f"{TIMES}::test_a_task_waits_for_its_time_and_holds_up_no_other",
            f"{LATE}::test_a_task_is_not_started_before_its_time_and_holds_up_no_slot",
        ),
    ),
    Mutant(
        "the lease of an early task counts from its arrival",
        _early_leases_count_from_arrival,
        (f"{TIMES}::test_the_lease_of_a_task_counts_from_the_time_at_which_it_may_start",),
    ),
    Mutant(
        "a task is begun too late",
        _late_begun,
        (f"{LATE}::test_a_task_whose_time_has_passed_when_its_handler_would_be_called_goes_back",),
    ),
    Mutant(
        "late tasks go back while as much is wanted as before",
        _late_go_back_while_as_much_is_wanted,
        (
            f"{TIMES}::test_after_one_went_back_less_is_wanted_before_it_goes_and_until_a_run_was_short",
            f"{TIMES}::test_an_iteration_that_runs_one_at_a_time_does_not_have_others_handed_out_in_vain_for_ever",
        ),
    ),
    Mutant(
        "early tasks take the room of others",
        _early_hold_up_their_worker,
        (f"{TIMES}::test_while_tasks_are_early_a_worker_whose_runs_are_short_wants_as_many_others",),
    ),
    Mutant(
        "the seconds of a fetch count what was called before it",
        _seconds_of_what_came_before,
        (f"{NOTES}::test_they_are_those_of_the_handler_not_of_what_is_called_before_it",),
    ),
)
