"""Bugs in what the simulation does not come near: bounds that it does not reach, and what it can't see from outside."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace as changed

from taskqueue.core import endings, fetchers, intake
from taskqueue.core.handout import HandOut
from taskqueue.core.messages import Finished, Now, Token
from taskqueue.core.project import Project
from taskqueue.core.replies import DoneOutcome
from taskqueue.core.sessions import Session
from taskqueue.core.state import State
from taskqueue.core.task import PROCESSING, Task
from tests.mutants.mutant import Mutant, Replace


def _leases_in_force_not_counted(replace: Replace) -> None:
    def init(self: HandOut, state: State, now: Now) -> None:
        original(self, state, now)
        self._left = min(state.config.turn_tasks, state.config.max_leases)

    original = replace(HandOut, "__init__", init)


def _late_success_keeps_its_token(replace: Replace) -> None:
    def finish(state: State, now: Now, session: Session, item: Finished) -> DoneOutcome:
        project = state.projects.get(item.project)
        task = project.queue.find(project.number, item.taskid) if project else None
        was_late = task is not None and task.state != PROCESSING
        outcome: DoneOutcome = original(state, now, session, item)
        if was_late and outcome == "done" and task is not None:
            task.token = Token(item.token)
        return outcome

    original = replace(endings, "finish", finish)


def _body_not_copied(replace: Replace) -> None:
    def describe(project: Project, task: Task, item: Any, depth: int) -> None:
        original(project, task, item, depth)
        if task.spec is not None:
            task.spec = changed(task.spec, body=item.body)

    original = replace(intake, "_describe", describe)


def _deferred_body_not_copied(replace: Replace) -> None:
    def kept(item: Any, now: Now) -> Any:
        return changed(original(item, now), body=item.body)

    original = replace(intake, "_kept_until_later", kept)


def _ended_lease_sent_again(replace: Replace) -> None:
    def send(state: State, now: Now, session: Session, seen: int) -> None:
        # Of what has run out it is enough that it is not left out: what is left of its time comes to less than 0.
        for task in session.leases.values():
            if task.lease is not None and task.lease.deadline <= now.boot:
                task.lease.deadline = now.boot + 1e-9
        original(state, now, session, seen)

    original = replace(fetchers, "_send_unseen", send)


MUTANTS: Final = (
    Mutant(
        "a hand-out ignores the leases in force",
        _leases_in_force_not_counted,
        ("unit/core/test_memory.py::test_leases_that_were_handed_out_in_earlier_turns_count_against_max_leases",),
    ),
    Mutant(
        "a late success does not use up its token",
        _late_success_keeps_its_token,
        ("unit/core/test_endings.py::test_a_late_success_uses_up_its_token",),
    ),
    Mutant(
        "a body is not copied out of its frame",
        _body_not_copied,
        (
            "unit/core/test_frames.py::test_a_task_that_waits_does_not_keep_the_frame_that_brought_it",
            "unit/core/test_frames.py::test_a_task_that_was_replaced_does_not_keep_the_frame_that_brought_it",
            "unit/core/test_frames.py::test_follow_ups_do_not_keep_the_frame_that_brought_them",
            "unit/core/test_frames.py::test_good_tasks_beside_a_malformed_one_do_not_keep_the_frame_that_brought_them",
        ),
    ),
    Mutant(
        "a deferred body is not copied out of its frame",
        _deferred_body_not_copied,
        (
            "unit/core/test_frames.py::"
            "test_an_update_that_waits_for_the_end_of_a_lease_does_not_keep_the_frame_that_brought_it",
        ),
    ),
    Mutant(
        "a lease past its deadline is sent again",
        _ended_lease_sent_again,
        ("unit/core/test_bounds.py::test_leases_that_have_run_out_but_could_not_be_ended_yet_are_not_sent_again",),
    ),
)
