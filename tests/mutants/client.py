"""Bugs in the client, which the simulation does not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Final

from taskqueue.client.connection.session import ClientSession
from taskqueue.client.fetcher.fetch_buffer import Consumer, FetchBuffer
from taskqueue.client.fetcher.leases import InHand, KeptLeases, Leases
from taskqueue.client.tasks.put_offs import PutOffs, SlotOf
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.interruptible import Interruptible
from taskqueue.client.worker.lease_watch import Limits
from taskqueue.client.worker.reporting import Reporting
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.codec import decode_outgoing
from taskqueue.protocol.fetchers import HelloWanted
from taskqueue.protocol.tasks import DoneReply
from tests.mutants.mutant import Mutant, Replace

DRAINING: Final = "unit/client/fetcher/test_draining.py"
LOST: Final = "unit/client/fetcher/test_lost_leases.py"
WATCH: Final = "unit/client/worker/test_lease_watch.py"
KEPT: Final = "unit/client/fetcher/test_kept_leases.py"
PUT_OFFS: Final = "unit/client/tasks/test_put_offs.py"
PARTS: Final = "unit/client/worker/test_parts.py"


def _drained_and_keeps_what_waits(replace: Replace) -> None:
    replace(FetchBuffer, "drain", FetchBuffer._wake)


def _drained_and_takes_what_comes(replace: Replace) -> None:
    def wanted(self: FetchBuffer, task: Task) -> Consumer | None:
        return next((consumer for consumer in self._consumers if consumer.wants(task)), None)

    replace(FetchBuffer, "_wanted", wanted)


def _drained_while_a_handler_runs(replace: Replace) -> None:
    replace(ClientSession, "is_idle", property(lambda self: not self.held))


def _dropped_calls_wait_for_silence(replace: Replace) -> None:
    replace(ClientSession, "_repeat_dropped", lambda self, now: None)


def _unknown_epoch_is_taken_for_the_same(replace: Replace) -> None:
    def receive(self: ClientSession, frame: bytes, now: float) -> Any:
        said = decode_outgoing(frame)
        if isinstance(said, HelloWanted) and not self._sent_to:
            self._sent_to = said.epoch
        return original(self, frame, now)

    original = replace(ClientSession, "receive", receive)


SESSION: Final = "unit/client/connection/test_session.py"


def _starts_what_nobody_waits_for(replace: Replace) -> None:
    replace(FetchBuffer, "lose", lambda self, tokens: None)


def _ends_a_run_with_its_lease(replace: Replace) -> None:
    replace(Limits, "overtime_of", lambda self, task: 0.0)


def _forgets_an_extension(replace: Replace) -> None:
    async def extend(self: Leases, task: Task, seconds: float | None, patience: float | None = None) -> bool:
        ends_at = task.lease_ends_at
        is_counted = await original(self, task, seconds, patience)
        task.lease_ends_at = ends_at
        return is_counted

    original = Leases.extend
    replace(Leases, "extend", extend)


def _keeps_a_task_for_ever(replace: Replace) -> None:
    def keep(self: KeptLeases, task: Task, most: float, owner: object = None) -> InHand:
        return original(self, task, inf, owner)

    original = KeptLeases.keep
    replace(KeptLeases, "keep", keep)


def _extends_after_the_report(replace: Replace) -> None:
    replace(KeptLeases, "finish", lambda self, tokens: None)


def _extends_what_a_loop_has_left(replace: Replace) -> None:
    replace(KeptLeases, "leave", lambda self, owner: None)


def _does_not_tell_what_is_lost(replace: Replace) -> None:
    replace(KeptLeases, "lose", KeptLeases.finish)


def _begins_what_is_put_off(replace: Replace) -> None:
    replace(PutOffs, "note", lambda self, token, slot, *, is_put_off: None)


def _forgets_what_comes_before_the_answer(replace: Replace) -> None:
    def answer(self: PutOffs, tokens: Iterable[int]) -> set[SlotOf]:
        original(self, tokens)
        return set()

    original = PutOffs.answer
    replace(PutOffs, "answer", answer)


def _gives_back_before_the_report(replace: Replace) -> None:
    def leaving(self: FetchBuffer, tokens: Sequence[int]) -> None:
        self._give_back_of(self._put_offs.leave(tokens))

    replace(FetchBuffer, "leaving", leaving)


def _a_part_lets_go_of_its_token(replace: Replace) -> None:
    def taken(self: ClientSession, reply: AnyReply, now: float) -> Any:
        if isinstance(reply, DoneReply):
            reply.outcomes = ["done" if outcome == "kept" else outcome for outcome in reply.outcomes]
        return original(self, reply, now)

    original = replace(ClientSession, "_answered", taken)


def _goes_on_after_a_stale_part(replace: Replace) -> None:
    async def keep(self: Reporting, *arguments: Any) -> bool:
        await original(self, *arguments)
        return True

    original = Reporting.keep
    replace(Reporting, "keep", keep)


def _a_refused_report_is_done(replace: Replace) -> None:
    replace(Reporting, "_fail", lambda self, ran, refusal: self._count(ran))


def _waits_for_an_answer_whatever_ends_the_run(replace: Replace) -> None:
    replace(Interruptible, "wait_for", lambda self, call: call.result())


MUTANTS: Final = (
    Mutant(
        "a kept task is kept for ever",
        _keeps_a_task_for_ever,
        (f"{KEPT}::test_a_kept_task_is_lost_after_so_many_leases_however_long_its_code_hangs",),
    ),
    Mutant(
        "a task is extended after its report",
        _extends_after_the_report,
        (f"{KEPT}::test_a_kept_task_is_extended_until_it_is_reported",),
    ),
    Mutant(
        "the tasks of a loop that was broken off are extended",
        _extends_what_a_loop_has_left,
        (f"{KEPT}::test_the_tasks_of_a_loop_that_was_broken_off_are_not_extended_any_more",),
    ),
    Mutant(
        "a task does not tell that the daemon has ended its lease",
        _does_not_tell_what_is_lost,
        (f"{KEPT}::test_a_task_is_lost_when_the_daemon_says_so_and_is_extended_no_more",),
    ),
    Mutant(
        "what waits of a slot is begun although another task has put it off",
        _begins_what_is_put_off,
        (
            "integration/test_put_off_hosts.py::test_after_a_refusal_a_host_hears_nothing_more_of_the_client_that_has_heard_it",
            f"{PUT_OFFS}::test_what_waits_of_a_slot_goes_back_right_after_the_report_that_puts_it_off",
        ),
    ),
    Mutant(
        "what comes of a slot before the report that puts it off is answered is begun",
        _forgets_what_comes_before_the_answer,
        (f"{PUT_OFFS}::test_nothing_of_the_slot_is_begun_before_the_report_is_answered_and_what_comes_then_is",),
    ),
    Mutant(
        "what waits of a slot goes back before the report that puts it off",
        _gives_back_before_the_report,
        (f"{PUT_OFFS}::test_what_waits_of_a_slot_goes_back_right_after_the_report_that_puts_it_off",),
    ),
    Mutant(
        "a client lets go of a task of which a part was kept",
        _a_part_lets_go_of_its_token,
        (f"{SESSION}::test_a_task_is_held_after_a_part_of_its_report_unless_that_is_stale",),
    ),
    Mutant(
        "a generator goes on after a stale part",
        _goes_on_after_a_stale_part,
        (f"{PARTS}::test_a_stale_part_ends_the_handler_and_nothing_more_is_said",),
    ),
    Mutant(
        "a refused report is counted as done",
        _a_refused_report_is_done,
        (f"{PARTS}::test_a_report_that_the_daemon_refuses_ends_its_lease_as_a_failure_and_is_not_counted_as_done",),
    ),
    Mutant(
        "a thread waits for the answer to a part although its run is to end",
        _waits_for_an_answer_whatever_ends_the_run,
        (f"{PARTS}::test_a_lease_that_is_lost_while_a_part_is_unanswered_ends_the_handler",),
    ),
    Mutant(
        "what the daemon has dropped is repeated after silence only",
        _dropped_calls_wait_for_silence,
        (
            f"{SESSION}::test_a_hello_wanted_of_another_epoch_has_all_that_is_unanswered_repeated_at_once_and_no_other_one_does",
            f"{SESSION}::test_a_welcome_of_another_epoch_has_all_repeated_too_because_a_hello_wanted_may_be_lost",
        ),
    ),
    Mutant(
        "a client that knows no epoch repeats nothing",
        _unknown_epoch_is_taken_for_the_same,
        (f"{SESSION}::test_a_session_that_knows_no_epoch_repeats_on_any_hello_wanted_and_learns_the_epoch_by_it",),
    ),
    Mutant(
        "a client starts a task whose lease has ended",
        _starts_what_nobody_waits_for,
        (f"{LOST}::test_a_task_whose_lease_the_daemon_has_ended_is_not_started_any_more",),
    ),
    Mutant(
        "a worker ends a run as soon as its lease is over",
        _ends_a_run_with_its_lease,
        (f"{WATCH}::test_a_handler_that_looks_ends_within_its_overtime_and_its_success_is_reported",),
    ),
    Mutant(
        "a worker does not know that a lease was extended",
        _forgets_an_extension,
        (f"{WATCH}::test_a_handler_that_extends_its_own_lease_has_that_time",),
    ),
    Mutant(
        "a drained client keeps what waits",
        _drained_and_keeps_what_waits,
        (f"{DRAINING}::test_a_loop_that_waits_ends_when_it_is_drained_and_what_it_has_not_yielded_goes_back",),
    ),
    Mutant(
        "a drained client takes what comes",
        _drained_and_takes_what_comes,
        (f"{DRAINING}::test_a_task_that_comes_after_it_was_told_goes_back",),
    ),
    Mutant(
        "a drained worker ends while a handler runs",
        _drained_while_a_handler_runs,
        (f"{DRAINING}::test_a_drained_worker_waits_for_a_handler_whose_lease_has_ended",),
    ),
)
