"""Bugs in the core that the simulation misses: bounds that it does not reach, and effects that it can't see."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace as changed

from taskqueue.core import lookups, timers
from taskqueue.core import turn as turn_module
from taskqueue.core.model import cron_times, session
from taskqueue.core.model.changes import Changes
from taskqueue.core.model.edges import FoundEdge, PropagationKind
from taskqueue.core.model.fair_queue import FairQueue
from taskqueue.core.model.hashes import Derived, derive
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import ListRef
from taskqueue.core.model.now import Now
from taskqueue.core.model.pending_work import PendingWork
from taskqueue.core.model.project import GrandTotals, Project
from taskqueue.core.model.records import OperationRecord
from taskqueue.core.model.retry import Retry
from taskqueue.core.model.session import Session, Wishes
from taskqueue.core.model.task import FAILED, PROCESSING, Task
from taskqueue.core.model.task_queue import TaskQueue
from taskqueue.core.model.undo_rows import UndoCursor, UndoPage, UndoRow
from taskqueue.core.model.watch_log import WatchLog
from taskqueue.core.model.windows import Counters
from taskqueue.core.moves import disk_full, edges, flows, lease_end, push, statistics, undo_rows
from taskqueue.core.moves.dispatch import Dispatch
from taskqueue.core.requests import fetchers, imports, insight, invariants
from taskqueue.core.state import State
from taskqueue.core.steps import bulk, cron, propagation, retry_count, undo
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol import codec
from taskqueue.protocol.exports import ExportedProject, ExportedTask
from taskqueue.protocol.fields import Token, Wall
from taskqueue.protocol.tasks import ReportOutcome
from taskqueue.protocol.values import NewTask, TaskReport
from taskqueue.store.records import layout
from tests.mutants.mutant import Mutant, Replace

EDGES: Final = "unit/core/rules/details/test_propagation.py::test_nothing_is_left_of_the_edges"
WATCH: Final = "unit/core/rules/test_watch.py"
RETRIES: Final = "unit/core/rules/test_retry_count.py"
GRAPHS: Final = "unit/core/rules/test_cron_graphs.py"
UNDO: Final = "unit/core/rules/test_undo.py"
CANCELS: Final = "unit/core/rules/test_cancel.py"
IMPORT: Final = "unit/core/rules/test_project_import.py"
BEST: Final = "unit/core/rules/test_fetcher_priority.py"
BESIDE_MODEL: Final = (
    "properties/test_scheduler.py::test_slow_tasks_and_bursts_of_errors_are_events_when_the_model_says_so"
)


def _imported_again_from_the_first(replace: Replace) -> None:
    def note_brought(self: Project, brought: int) -> None:
        original(self, brought)
        if self.importing is not None:
            self.importing.brought = 0

    original = replace(Project, "note_brought", note_brought)


def _running_before_it_is_whole(replace: Replace) -> None:
    def note_brought(self: Project, brought: int) -> None:
        original(self, brought)
        self.state = "running"

    original = replace(Project, "note_brought", note_brought)


def _imported_newest_last(replace: Replace) -> None:
    replace(imports, "seq_for", lambda unfinished, index, task: unfinished.first_seq + index)


def _imported_totals_as_events(replace: Replace) -> None:
    replace(GrandTotals, "bring_back", lambda self, totals: None)


def _imported_over_what_was_pushed(replace: Replace) -> None:
    def bring(turn: TurnState, project: Project, said: ExportedTask, seq: int) -> bool:
        if (there := turn.find(project, said.taskid)) is not None:
            push.cancel(turn, project, there)
        return bool(original(turn, project, said, seq))

    original = replace(imports, "_bring", bring)


def _imported_without_attempts(replace: Replace) -> None:
    replace(imports, "kept_attempts", lambda task, state, attempts: [])


def _imported_points_count_again(replace: Replace) -> None:
    replace(imports, "_check_points", lambda unfinished, request, points: None)


def _imported_beside_a_flow(replace: Replace) -> None:
    def await_task(turn: TurnState, project: Project, taskid: str, field: str = "depends_on") -> None:
        if field == "depends_on":
            original(turn, project, taskid, field)

    original = replace(flows, "await_task", await_task)


def _imports_use_up_numbers(replace: Replace) -> None:
    def check_records(turn: TurnState, said: ExportedProject) -> None:
        turn.state._n = Token(turn.state._n + 2 * said.parts)

    replace(imports, "_check_records", check_records)


def _unlisted_although_it_has_a_job(replace: Replace) -> None:
    def lease(self: TaskQueue, changes: Changes, task: Task, token: Token, lease: Lease) -> float:
        wait = float(original(self, changes, task, token, lease))
        task.unlisted = not task.kept_state and task.links is None
        return wait

    original = replace(TaskQueue, "lease", lease)


def _never_parted(replace: Replace) -> None:
    replace(FairQueue, "part", lambda self, project: None)


def _slow_for_ever(replace: Replace) -> None:
    def count_slow(self: Project, by: int) -> None:
        original(self, max(by, 0))

    original = replace(Project, "count_slow", count_slow)


def _event_for_each_slow_task(replace: Replace) -> None:
    replace(Project, "note_slow", lambda self, now: True)


def _bursts_one_failure_late(replace: Replace) -> None:
    def failing(self: Counters, now_wall: Wall) -> int:
        return int(original(self, now_wall)) - 1

    original = replace(Counters, "failing", failing)


def _burst_for_each_failure(replace: Replace) -> None:
    def look(turn: TurnState, project: Project, failed: int) -> None:
        project.bursting = False
        original(turn, project, failed)

    original = replace(statistics, "_look_for_burst", look)


def _cleared_tasks_of_a_job_counted(replace: Replace) -> None:
    replace(insight, "LIVE", frozenset())


def _ticks_of_a_changed_entry_wait(replace: Replace) -> None:
    replace(cron_times, "_stop_waiting", lambda record: None)


def _after_a_failure_all_runs(replace: Replace) -> None:
    replace(cron, "_failed", lambda *args: None)


def _each_skipped_tick_is_an_event(replace: Replace) -> None:
    replace(cron, "NO_DIGITS", {})


def _set_apart_and_still_counted(replace: Replace) -> None:
    def set_apart(self: TaskQueue, task: Task) -> None:
        counted = self.held_back
        original(self, task)
        self.held_back = counted

    original = replace(TaskQueue, "set_apart", set_apart)


def _dropped_not_stored(replace: Replace) -> None:
    replace(layout, "_policy", lambda links: links.on_failure)


def _failures_of_failures(replace: Replace) -> None:
    def push_for_failed(turn: TurnState, project: Project, task: Task, *args: Any) -> None:
        taskid, task.taskid = task.taskid, "t"
        original(turn, project, task, *args)
        task.taskid = taskid

    original = replace(lease_end, "push_for_failed", push_for_failed)


def _cleared_and_still_waiting(replace: Replace) -> None:
    def clear(self: TaskQueue) -> None:
        counted = self.held_back
        original(self)
        self.held_back = counted

    original = replace(TaskQueue, "clear", clear)


def _counted_after_the_turn_has_changed_them(replace: Replace) -> None:
    def step(turn: TurnState, ref: ListRef) -> None:
        turn.due.uncounted = None

    def settle(turn: TurnState) -> None:
        for ref in turn.found.lists:
            original(turn, ref)
        settled(turn)

    original = replace(retry_count, "step", step)
    settled = replace(turn_module, "_settle", settle)


def _sessions_of_the_owner_with_fewest_forgotten(replace: Replace) -> None:
    replace(timers, "heappop", lambda counts: counts.pop(counts.index(max(counts))))


def _leases_in_force_not_counted(replace: Replace) -> None:
    def init(self: Dispatch, turn: TurnState) -> None:
        original(self, turn)
        config = turn.state.config
        self._left = min(config.turn_tasks, config.max_leases)

    original = replace(Dispatch, "__init__", init)


def _late_success_keeps_its_token(replace: Replace) -> None:
    def finish(turn: TurnState, session: Session, item: TaskReport) -> ReportOutcome:
        project = turn.state.projects.by_name.get(item.project)
        task = turn.find(project, item.taskid) if project else None
        was_late = task is not None and task.state != PROCESSING
        outcome: ReportOutcome = original(turn, session, item)
        if was_late and outcome == "done" and task is not None:
            task.token = Token(item.token)
        return outcome

    original = replace(lease_end, "finish", finish)


def _put_off_at_once_for_ever(replace: Replace) -> None:
    replace(lease_end, "after_put_off", lambda seconds, times: Retry(seconds, False))


def _put_offs_counted_for_ever(replace: Replace) -> None:
    def retry(turn: TurnState, project: Project, task: Task, *args: Any) -> None:
        put_off = task.put_off
        original(turn, project, task, *args)
        if task.state != FAILED:
            task.put_off = put_off

    original = replace(lease_end, "_retry", retry)


def _rows_of_a_deleted_project_kept(replace: Replace) -> None:
    replace(undo_rows, "forget_project", lambda turn, number: None)


def _rows_kept_of_all_operations(replace: Replace) -> None:
    replace(undo_rows, "OPERATIONS_MOST", 1_000_000)


def _updates_lost_by_undos(replace: Replace) -> None:
    replace(undo, "apply_kept", lambda turn, project, task, item: None)


def _parents_of_updates_lost_by_cancels(replace: Replace) -> None:
    def cancel(turn: TurnState, project: Project, task: Task) -> None:
        if task.lease is not None:
            task.lease.defer_edges(None)
        original(turn, project, task)

    original = replace(bulk, "cancel", cancel)


def _cancelled_task_is_half_its_update(replace: Replace) -> None:
    def describe(turn: TurnState, project: Project, task: Task, item: NewTask, depth: int) -> float:
        if task.state != PROCESSING:
            return float(original(turn, project, task, item, depth))
        project.queue.withdraw(turn.changes, task)
        return 0.0

    original = replace(push, "_describe", describe)


def _specs_of_cancelled_tasks_not_read(replace: Replace) -> None:
    replace(push, "need_update", lambda turn, project, taskid: None)


def _updates_pass_what_comes_back(replace: Replace) -> None:
    def wait_again(turn: TurnState, found: FoundEdge, since: float = 0.0, *, is_back: bool = False) -> None:
        if not is_back:
            original(turn, found, since)

    original = replace(propagation, "wait_again", wait_again)


def _rows_with_tokens_in_sequence(replace: Replace) -> None:
    replace(undo_rows, "_BELOW_EPOCH", 0)


def _children_of_others_named(replace: Replace) -> None:
    def count(turn: TurnState, record: OperationRecord, *about: Any) -> bool:
        named = record.progress.projects
        record.progress.projects = [project.name for project in turn.state.projects.by_number.values()]
        is_whole: bool = original(turn, record, *about)
        record.progress.projects = named
        return is_whole

    original = replace(undo, "_meet_children", count)


def _parents_of_what_is_back_not_looked_at(replace: Replace) -> None:
    def look(turn: TurnState, cursor: UndoCursor, project: Project | None, page: UndoPage, most: int) -> bool:
        cursor.rows.index = len(page.rows)
        return True

    replace(undo, "_look_at_parents", look)


def _cancelled_undo_leaves_children_waiting(replace: Replace) -> None:
    def cancel(turn: TurnState, record: OperationRecord) -> bool:
        undo.cursor_of(record).rows.parents = 0
        return bool(original(turn, record))

    original = replace(undo, "cancel", cancel)


def _retried_since_fails_with_what_is_back(replace: Replace) -> None:
    replace(undo, "_blocked_token", lambda page, row: row.token)


def _dropped_with_what_is_blocked_again(replace: Replace) -> None:
    def propagate(self: Changes, kind: PropagationKind, project: int, taskid: str = "") -> None:
        if kind != "restored":
            original(self, kind, project, taskid)

    original = replace(Changes, "propagate", propagate)


def _put_offs_not_in_rows(replace: Replace) -> None:
    def row_of(task: Task, *, keeps_token: bool) -> UndoRow:
        row: UndoRow = original(task, keeps_token=keeps_token)
        row.put_off = 0
        return row

    original = replace(undo_rows, "row_of", row_of)


def _body_not_copied(replace: Replace) -> None:
    def spec(item: Any, depth: int) -> Any:
        made = original(item, depth)
        made.body = item.body
        return made

    original = replace(push, "_spec", spec)


def _deferred_body_not_copied(replace: Replace) -> None:
    def kept(item: Any, now: Now) -> Any:
        return changed(original(item, now), body=item.body)

    original = replace(push, "_kept_until_later", kept)


def _ended_lease_sent_again(replace: Replace) -> None:
    def send(turn: TurnState, session: Session, seen: int) -> None:
        now = turn.now
        # An expired lease only has to be sent: its remaining time is less than 0 when it is computed.
        for task in session.leases.values():
            if task.lease is not None and task.lease.deadline <= now.boot:
                task.lease.deadline = now.boot + 1e-9
        original(turn, session, seen)

    original = replace(fetchers, "_send_unseen", send)


def _numbers_may_jump(replace: Replace) -> None:
    replace(session, "JUMP_MOST", 1 << 62)


def _names_without_end(replace: Replace) -> None:
    replace(session, "NAMES_MOST", 1 << 40)


def _wishes_never_forgotten(replace: Replace) -> None:
    replace(Wishes, "release", lambda self, wished: None)
    replace(invariants, "_check_wishes", lambda state: [])


def _all_outcomes_kept_on_a_full_disk(replace: Replace) -> None:
    replace(disk_full, "is_kept", lambda reply: True)


def _each_malformed_item_explained(replace: Replace) -> None:
    replace(codec, "FULL_REASONS", 1 << 40)


def _welcomed_before_heads_are_read(replace: Replace) -> None:
    def welcome(turn: TurnState) -> None:
        held, turn.state.held_welcomes = turn.state.held_welcomes, {}
        for each in held.values():
            turn.send(each.session, each.welcome, after_sync=False)

    replace(fetchers, "welcome", welcome)


def _heard_but_taken_for_silent(replace: Replace) -> None:
    def go_on(turn: TurnState) -> None:
        silent, turn.state.silent = turn.state.silent, {}
        for one in silent.values():
            if one.crashed is not None:
                fetchers.fall_silent(turn, one)

    replace(fetchers, "go_on_silent", go_on)


def _longer_pause_kept(replace: Replace) -> None:
    replace(Project, "cap_wait", lambda self, now: False)


def _tokens_in_sequence(replace: Replace) -> None:
    replace(session, "derive", lambda secret, session: Derived(derive(secret, session).pseudonym, 0))


def _leases_come_back_by_token(replace: Replace) -> None:
    replace(State, "lease_number", lambda self, task: task.token)


def _gone_stays_gone(replace: Replace) -> None:
    replace(WatchLog, "_remember", lambda self, name: None)


def _watchers_hear_of_the_first_page(replace: Replace) -> None:
    def after(self: WatchLog, version: int, most: int) -> Any:
        changes, _ = original(self, version, most)
        return changes, False

    original = replace(WatchLog, "after", after)


def _replaced_edges_not_walked(replace: Replace) -> None:
    def defer(turn: TurnState, project: Project, task: Task, lease: Lease, item: NewTask) -> None:
        lease.defer_edges(None)
        original(turn, project, task, lease, item)

    original = replace(edges, "defer", defer)


def _dropped_edges_not_walked(replace: Replace) -> None:
    def unlease(self: TurnState, task: Task) -> Session:
        if task.lease is not None:
            task.lease.defer_edges(None)
        return original(self, task)  # type: ignore[no-any-return]

    original = replace(TurnState, "unlease", unlease)


def _due_tasks_of_one_project_take_the_turn(replace: Replace) -> None:
    def promote(self: PendingWork, project: Project) -> None:
        self.overdue = {project.number: project, **self.overdue}

    def take_overdue(self: PendingWork, most: int) -> list[Project]:
        return original(self, 1)  # type: ignore[no-any-return]

    replace(PendingWork, "promote", promote)
    original = replace(PendingWork, "take_overdue", take_overdue)


def _what_is_read_is_due_a_turn_late(replace: Replace) -> None:
    def absorb(turn: TurnState) -> None:
        note, lookups.note_due = lookups.note_due, lambda state, project: None
        original(turn)
        lookups.note_due = note

    original = replace(lookups, "absorb", absorb)


def _losses_not_told(replace: Replace) -> None:
    replace(TurnState, "_recall", lambda self, session: None)


def _each_loss_told(replace: Replace) -> None:
    replace(Session, "recall", lambda self: True)


def _timeouts_told(replace: Replace) -> None:
    def revoke(self: TurnState, task: Task, *, timed_out: bool = False) -> Session:
        revoked: Session = original(self, task)
        return revoked

    original = replace(TurnState, "revoke", revoke)


MUTANTS: Final = (
    Mutant(
        "tasks of a job are counted after a clear has dropped them",
        _cleared_tasks_of_a_job_counted,
        ("unit/core/rules/test_jobs.py::test_what_clear_has_dropped_is_not_counted_while_it_is_swept_up",),
    ),
    Mutant(
        "a fetcher that loses a lease hears of it at its next heartbeat",
        _losses_not_told,
        (
            "unit/core/rules/details/test_recalling.py::"
            "test_a_fetcher_that_loses_leases_without_its_own_word_is_asked_for_a_hello_once_until_it_says_one",
        ),
    ),
    Mutant(
        "a fetcher is asked for a hello at each lease that it loses",
        _each_loss_told,
        ("unit/core/rules/details/test_recalling.py::test_it_is_asked_again_for_what_it_loses_after_its_hello",),
    ),
    Mutant(
        "a fetcher is asked for a hello when a lease runs out",
        _timeouts_told,
        ("unit/core/rules/details/test_recalling.py::test_a_fetcher_whose_lease_runs_out_knows_it_and_is_not_asked",),
    ),
    Mutant(
        "a hand-out ignores the leases in force",
        _leases_in_force_not_counted,
        (
            "unit/core/model/test_memory_usage.py::test_leases_that_were_handed_out_in_earlier_turns_count_against_max_leases",
        ),
    ),
    Mutant(
        "the edges of a deferred update that is replaced are not walked",
        _replaced_edges_not_walked,
        (f"{EDGES}_of_a_deferred_update_that_a_later_one_has_replaced",),
    ),
    Mutant(
        "the edges of a deferred update that is dropped are not walked",
        _dropped_edges_not_walked,
        (f"{EDGES}_of_a_deferred_update_that_is_cleared_with_its_task",),
    ),
    Mutant(
        "a task is put off at once without end",
        _put_off_at_once_for_ever,
        (
            "unit/core/rules/test_put_off.py::"
            "test_from_the_third_time_in_a_row_a_task_that_is_put_off_by_less_than_a_second_waits_for_one",
        ),
    ),
    Mutant(
        "a failure does not end a row of put-offs",
        _put_offs_counted_for_ever,
        ("unit/core/rules/test_put_off.py::test_another_end_of_an_attempt_begins_the_count_anew",),
    ),
    Mutant(
        "one project's due tasks take the whole of a turn",
        _due_tasks_of_one_project_take_the_turn,
        ("unit/core/rules/test_order.py::test_projects_with_more_due_tasks_than_a_turn_promotes_take_turns",),
    ),
    Mutant(
        "what a turn reads is due in the next one only",
        _what_is_read_is_due_a_turn_late,
        ("unit/core/rules/test_order.py::test_what_a_turn_reads_becomes_ready_in_it_if_it_is_due",),
    ),
    Mutant(
        "a late success does not use up its token",
        _late_success_keeps_its_token,
        ("unit/core/rules/details/test_lease_end.py::test_a_late_success_uses_up_its_token",),
    ),
    Mutant(
        "a body is not copied out of its frame",
        _body_not_copied,
        (
            "unit/core/test_frame_memory.py::test_a_task_that_waits_does_not_keep_the_frame_that_brought_it",
            "unit/core/test_frame_memory.py::test_a_task_that_was_replaced_does_not_keep_the_frame_that_brought_it",
            "unit/core/test_frame_memory.py::test_follow_ups_do_not_keep_the_frame_that_brought_them",
            "unit/core/test_frame_memory.py::test_good_tasks_beside_a_malformed_one_do_not_keep_the_frame_that_brought_them",
        ),
    ),
    Mutant(
        "a deferred body is not copied out of its frame",
        _deferred_body_not_copied,
        (
            "unit/core/test_frame_memory.py::"
            "test_an_update_that_waits_for_the_end_of_a_lease_does_not_keep_the_frame_that_brought_it",
        ),
    ),
    Mutant(
        "a lease past its deadline is sent again",
        _ended_lease_sent_again,
        ("unit/core/test_bounds.py::test_leases_that_have_run_out_but_could_not_be_ended_yet_are_not_sent_again",),
    ),
    Mutant(
        "the number of a hello may jump",
        _numbers_may_jump,
        (
            "unit/core/rules/test_session_ids.py::test_a_number_that_jumps_too_far_is_refused_and_leaves_the_session_as_it_was",
        ),
    ),
    Mutant(
        "fetchers may name any number of projects",
        _names_without_end,
        (
            "unit/core/model/test_wishes.py::test_beyond_the_names_that_all_fetchers_may_name_a_hello_is_refused_and_says_what_helps",
        ),
    ),
    Mutant(
        "wishes outlive the fetchers that had them",
        _wishes_never_forgotten,
        ("unit/core/model/test_wishes.py::test_names_are_forgotten_with_the_last_fetcher_that_wants_them",),
    ),
    Mutant(
        "all outcomes are kept on a full disk",
        _all_outcomes_kept_on_a_full_disk,
        (
            "unit/core/rules/details/test_disk_full.py::test_a_repeat_is_answered_if_it_ended_a_lease_and_else_done_again",
        ),
    ),
    Mutant(
        "it is said of each malformed item what is wrong",
        _each_malformed_item_explained,
        (
            "unit/protocol/test_codec.py::test_only_the_first_flaws_of_a_message_say_what_is_wrong_and_what_is_good_counts",
        ),
    ),
    Mutant(
        "a hello is answered after the hand-out of its turn, whatever is to be read first",
        _welcomed_before_heads_are_read,
        (
            "unit/core/rules/test_after_hand_out.py::test_the_body_of_a_single_large_task_is_read_from_the_store_first",
            "unit/core/rules/test_after_hand_out.py::test_the_last_project_is_read_first_also_if_nothing_comes_before",
        ),
    ),
    Mutant(
        "a fetcher that was heard is still taken for silent",
        _heard_but_taken_for_silent,
        (
            "unit/core/rules/details/test_fetchers.py::test_what_a_silent_fetcher_has_extended_before_it_could_be_taken_is_its_own",
        ),
    ),
    Mutant(
        "sessions beyond the limit are those of the owner with fewest",
        _sessions_of_the_owner_with_fewest_forgotten,
        (
            "unit/core/rules/test_owners.py::test_many_sessions_of_a_key_make_the_daemon_forget_no_outcome_of_another_key",
            "unit/core/rules/test_owners.py::test_a_key_may_have_as_many_sessions_as_each_other_and_loses_those_silent_for_longest",
        ),
    ),
    Mutant(
        "a pause goes on though pause_time is shorter",
        _longer_pause_kept,
        ("unit/core/rules/test_pause.py::test_a_shorter_pause_time_holds_for_the_pause_that_is_under_way",),
    ),
    Mutant(
        "tokens are numbers in sequence",
        _tokens_in_sequence,
        (
            "unit/core/rules/test_tokens.py::test_guesses_around_a_token_of_ones_own_end_no_lease_of_others",
            "unit/core/rules/test_tokens.py::test_guesses_from_numbers_that_anybody_may_know_end_no_lease",
        ),
    ),
    Mutant(
        "leases come back in the order of their tokens",
        _leases_come_back_by_token,
        ("unit/core/rules/test_tokens.py::test_leases_come_back_in_the_order_in_which_they_were_given",),
    ),
    Mutant(
        "a project that is made again is told as deleted",
        _gone_stays_gone,
        (f"{WATCH}::test_one_that_is_deleted_and_made_again_is_a_project_and_not_gone",),
    ),
    Mutant(
        "who watches is told of the first 512 projects",
        _watchers_hear_of_the_first_page,
        (f"{WATCH}::test_a_page_has_a_bounded_number_of_projects_and_the_next_one_comes_at_once",),
    ),
    Mutant(
        "why a task was cancelled is lost with the daemon",
        _dropped_not_stored,
        (
            "unit/core/rules/test_dependencies.py::test_what_depends_on_a_dropped_task_is_dropped_with_it_and_released_with_it",
            "unit/store/tools/test_edge_tools.py::test_tasks_that_run_only_after_a_failure_go_on_after_an_import",
        ),
    ),
    Mutant(
        "a task that was made for a failure fails for ever",
        _failures_of_failures,
        ("unit/core/rules/test_on_failure.py::test_a_task_made_for_a_failure_that_fails_itself_leads_to_no_other",),
    ),
    Mutant(
        "an import begins again with the first part",
        _imported_again_from_the_first,
        (f"{IMPORT}::test_an_interrupted_import_goes_on_after_a_kill_where_it_was",),
    ),
    Mutant(
        "a project runs before all of its import is there",
        _running_before_it_is_whole,
        (f"{IMPORT}::test_until_it_is_whole_an_imported_project_dispatches_nothing_and_says_so",),
    ),
    Mutant(
        "ready tasks that go by newest are imported in the order of arrival",
        _imported_newest_last,
        (f"{IMPORT}::test_an_imported_project_that_goes_by_newest_keeps_its_order",),
    ),
    Mutant(
        "totals of an imported project are events of this minute",
        _imported_totals_as_events,
        (f"{IMPORT}::test_the_totals_of_an_imported_project_are_no_events_of_this_minute",),
    ),
    Mutant(
        "an import brings back no attempts",
        _imported_without_attempts,
        (f"{IMPORT}::test_the_last_ten_attempts_of_a_task_come_back_and_further_ones_follow_them",),
    ),
    Mutant(
        "points of the history count as often as an import brings them",
        _imported_points_count_again,
        (f"{IMPORT}::test_points_of_the_history_come_in_the_order_of_their_times_so_that_none_counts_twice",),
    ),
    Mutant(
        "an imported task waits for what a flow is still to make",
        _imported_beside_a_flow,
        (
            f"{IMPORT}::test_no_task_is_imported_that_waits_for_one_that_a_flow_which_waits_itself_is_to_make",
            f"{IMPORT}::test_a_flow_is_refused_if_a_task_is_imported_during_its_check_that_waits_for_it",
        ),
    ),
    Mutant(
        "imports use up numbers of the daemon",
        _imports_use_up_numbers,
        (f"{IMPORT}::test_an_import_uses_up_no_numbers_of_the_daemon_however_many_parts_it_has",),
    ),
    Mutant(
        "a task of a job that is dispatched in the turn that makes it is not counted",
        _unlisted_although_it_has_a_job,
        ("unit/core/rules/test_jobs.py::test_a_task_of_a_job_that_is_dispatched_in_the_turn_that_makes_it_is_counted",),
    ),
    Mutant(
        "a project that can dispatch again is not offered to all fetchers anew",
        _never_parted,
        (
            f"{BEST}::test_a_project_that_has_tokens_again_is_no_worse_fetchers_before_a_better_one_is_asked",
            f"{BEST}::test_a_task_whose_body_was_read_while_its_project_had_no_tokens_goes_to_the_best",
            f"{BEST}::test_a_fetcher_that_came_while_a_project_was_closed_gets_its_tasks_before_worse_ones",
        ),
    ),
    Mutant(
        "slow tasks of a project count after their end",
        _slow_for_ever,
        ("unit/core/rules/test_timeout.py::test_watchers_see_how_many_tasks_of_a_project_are_slow",),
    ),
    Mutant(
        "each slow task is an event",
        _event_for_each_slow_task,
        (
            "unit/core/rules/test_timeout.py::test_an_event_reports_a_slow_task_once_in_five_minutes",
            BESIDE_MODEL,
        ),
    ),
    Mutant(
        "a burst of errors is an event one failure late",
        _bursts_one_failure_late,
        (
            "unit/core/moves/test_statistics.py::test_timeouts_and_attempts_that_are_put_off_count_as_failed",
            BESIDE_MODEL,
        ),
    ),
    Mutant(
        "each failure of a burst of errors is an event",
        _burst_for_each_failure,
        ("unit/core/moves/test_statistics.py::test_a_burst_is_told_once",),
    ),
    Mutant(
        "an import changes tasks that were pushed meanwhile",
        _imported_over_what_was_pushed,
        (f"{IMPORT}::test_a_task_that_was_pushed_meanwhile_stays_as_it_is",),
    ),
    Mutant(
        "what is set apart still waits for a retry",
        _set_apart_and_still_counted,
        (f"{RETRIES}::test_a_late_success_of_a_recurring_task_ends_its_wait",),
    ),
    Mutant(
        "what was cleared still waits for a retry",
        _cleared_and_still_waiting,
        (f"{RETRIES}::test_who_is_taken_out_of_the_wait_is_counted_no_more",),
    ),
    Mutant(
        "retries of an older store are counted after the turn has changed them",
        _counted_after_the_turn_has_changed_them,
        (f"{RETRIES}::test_what_changes_while_they_are_counted_is_counted_once",),
    ),
    Mutant(
        "rows for an undo outlive their project",
        _rows_of_a_deleted_project_kept,
        (f"{UNDO}::test_rows_go_with_their_project",),
    ),
    Mutant(
        "rows for an undo are kept of all operations",
        _rows_kept_of_all_operations,
        (f"{UNDO}::test_rows_of_the_last_ten_operations_are_kept",),
    ),
    Mutant(
        "an undo forgets deferred updates",
        _updates_lost_by_undos,
        (f"{UNDO}::test_an_update_that_was_deferred_comes_back_applied_to_its_task",),
    ),
    Mutant(
        "a bulk cancel loses the parents of deferred updates",
        _parents_of_updates_lost_by_cancels,
        (f"{UNDO}::test_the_parents_of_a_deferred_update_come_back_with_it",),
    ),
    Mutant(
        "a task that is cancelled gets the parents of its update and keeps its body",
        _cancelled_task_is_half_its_update,
        (f"{CANCELS}::test_a_task_that_is_retried_after_a_cancel_is_what_its_deferred_update_made_of_it",),
    ),
    Mutant(
        "a task whose spec is not in memory loses its depth when it is cancelled",
        _specs_of_cancelled_tasks_not_read,
        (f"{CANCELS}::test_a_task_that_is_retried_after_a_cancel_is_what_its_deferred_update_made_of_it",),
    ),
    Mutant(
        "an update that comes back does not wait for what it has passed",
        _updates_pass_what_comes_back,
        (f"{UNDO}::test_an_update_waits_again_for_parents_that_it_passed_between_the_steps_of_a_cancel",),
    ),
    Mutant(
        "tokens of operations are numbers in sequence",
        _rows_with_tokens_in_sequence,
        (f"{UNDO}::test_a_token_of_an_operation_is_no_lease_and_no_number_that_is_shown",),
    ),
    Mutant(
        "what an undo brings back misses failures of its parents",
        _parents_of_what_is_back_not_looked_at,
        (f"{UNDO}::test_children_whose_parent_was_cancelled_again_fail_with_it",),
    ),
    Mutant(
        "an undo that is cancelled leaves tasks blocked",
        _cancelled_undo_leaves_children_waiting,
        (f"{UNDO}::test_a_cancelled_undo_leaves_no_child_waiting_for_a_parent_that_it_has_not_brought_back",),
    ),
    Mutant(
        "what was retried since an operation fails with what its undo brings back",
        _retried_since_fails_with_what_is_back,
        (f"{UNDO}::test_a_child_that_was_retried_since_goes_on_waiting_for_its_cancelled_parent",),
    ),
    Mutant(
        "what was dropped with a task stays so when that is blocked again",
        _dropped_with_what_is_blocked_again,
        (f"{UNDO}::test_what_was_dropped_with_a_dropped_task_is_blocked_again_however_deep",),
    ),
    Mutant(
        "rows for an undo have no put-offs",
        _put_offs_not_in_rows,
        (f"{UNDO}::test_a_task_that_comes_back_was_put_off_as_often_as_before",),
    ),
    Mutant(
        "an undo names children in other projects",
        _children_of_others_named,
        (f"{UNDO}::test_children_in_projects_that_the_operation_does_not_name_are_left_out",),
    ),
    Mutant(
        "ticks of an entry that has changed go on waiting",
        _ticks_of_a_changed_entry_wait,
        (f"{GRAPHS}::test_a_changed_or_removed_entry_lets_no_tick_wait",),
    ),
    Mutant(
        "a flow that failed never keeps a tick from running",
        _after_a_failure_all_runs,
        (f"{GRAPHS}::test_after_a_flow_that_failed_ticks_are_skipped_until_it_is_a_success_if_the_entry_says_so",),
    ),
    Mutant(
        "each skipped tick whose reason names it is an event",
        _each_skipped_tick_is_an_event,
        (f"{GRAPHS}::test_reasons_that_differ_in_the_tick_are_one_reason",),
    ),
)
