"""Bugs planted in the real code, each of which a law must notice.

    .venv/bin/python -m tests.simulation.mutants            all bugs; exit status 1 if one survives
    .venv/bin/python -m tests.simulation.mutants zombie     bugs with that word in their name

A bug is planted by replacing a function of the running program for as long as some seeds are played. A new law comes
with a mutant; a new fault of the weather comes with a mutant that only it reveals.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from taskqueue.core import answers, lookups, scheduler, startup, step_rules, timers
from taskqueue.core.model import cron_times, flow, push_outcome
from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.changes import Changes
from taskqueue.core.model.cron_times import DueTick
from taskqueue.core.model.edges import (
    ONLY,
    OVERLOOKED,
    RUN,
    FoundEdge,
    FoundEdges,
    FoundPropagation,
    Links,
    Mark,
    Propagation,
    TaskRef,
)
from taskqueue.core.model.fair_queue import FairQueue, Ring, WaitingLine
from taskqueue.core.model.flow import FlowTable
from taskqueue.core.model.heads import Head, Processing
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import FoundOrder
from taskqueue.core.model.now import Now
from taskqueue.core.model.operation import Operation
from taskqueue.core.model.pause import Pause
from taskqueue.core.model.pending_work import StepKind
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import FlowRecord, OperationRecord, ProjectRecord
from taskqueue.core.model.rerun_set import HELD, RerunSet
from taskqueue.core.model.session import Session
from taskqueue.core.model.slot import Slot
from taskqueue.core.model.slot_pace import SlotPace
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import CANCELLED, DELAYED, LIVE, NO_FLOOR, NO_TOKEN, PROCESSING, SEQ_BITS, Task
from taskqueue.core.model.task_queue import TaskQueue
from taskqueue.core.model.timer_heap import TimerHeap
from taskqueue.core.model.undo_rows import UndoCursor, UndoPage, UndoRow
from taskqueue.core.moves import cycles, flows, lease_end, push, slots, undo_rows
from taskqueue.core.moves.dispatch import Dispatch
from taskqueue.core.moves.push import revive, take_batch
from taskqueue.core.requests import fetchers, imports
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.state import State
from taskqueue.core.steps import completion, cron, operations, propagation, rerun, sorting, undo
from taskqueue.core.turn_result import TurnResult
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Fenced, StoreError
from taskqueue.protocol.exports import ExportedTask
from taskqueue.protocol.fetchers import Fetcher, Hello
from taskqueue.protocol.fields import Boot, Token
from taskqueue.protocol.tasks import Done, ReportOutcome
from taskqueue.protocol.values import Again, Attempt, CronRecord, NewTask, TaskReport
from taskqueue.store import batch
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from tests import memory_store
from tests.simulation import host
from tests.simulation.host import Host
from tests.simulation.play import Play
from tests.simulation.world import Violation, Weather

SEEDS: Final = 60
"""Seeds that a surviving mutant survives."""

Replace = Callable[[Any, str, Any], Any]
"""Function that replaces an attribute of an object until the mutant is removed, and returns the original."""


class Mutant(NamedTuple):
    """Planted bug and the laws that must catch it, in worlds with the crew, weavers, visitors or the importer.

    Attributes:
        fine: it is looked for in fine weather, where turns are short: with long ones, hardly any has nothing to do.
    """

    name: str
    laws: str
    plant: Callable[[Replace], None]
    crewed: bool = False
    graphs: bool = False
    slotted: bool = False
    restored: bool = False
    fine: bool = False


class Catch(NamedTuple):
    """Law that caught a mutant, and the number of seeds that it took."""

    law: str
    seeds: int


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant the bug for the duration of the block."""
    originals: list[tuple[Any, str, Any]] = []

    def replace_(owner: Any, name: str, value: Any) -> Any:
        original = getattr(owner, name)
        originals.append((owner, name, original))
        setattr(owner, name, value)
        return original

    try:
        mutant.plant(replace_)
        yield
    finally:
        for owner, name, original in reversed(originals):
            setattr(owner, name, original)


def hunt(mutant: Mutant, seeds: int = SEEDS) -> Catch | None:
    """Play seeds until one of the mutant's laws is broken; None if none of them breaks one."""
    with planted(mutant):
        for seed in range(seeds):
            try:
                one = Play(
                    seed,
                    weather=Weather() if mutant.fine else None,
                    crewed=mutant.crewed,
                    graphs=mutant.graphs,
                    slotted=mutant.slotted,
                    restored=mutant.restored,
                )
                one.run()
            except Violation as violation:
                if violation.law in mutant.laws.split():
                    return Catch(violation.law, seed + 1)
    return None


# ---------------------------------------------------------------------------------------- answers and leases


def _late_answer_ends_the_newer_lease(replace_: Replace) -> None:
    def finish(turn: TurnState, session: Session, item: TaskReport) -> ReportOutcome:
        project = turn.state.projects.by_name.get(item.project)
        task = turn.find(project, item.taskid) if project else None
        if task is not None and task.state == PROCESSING:
            item = replace(item, token=task.token)
        return original(turn, session, item)  # type: ignore[no-any-return]

    original = replace_(lease_end, "finish", finish)


def _an_answer_counts_twice(replace_: Replace) -> None:
    def finish(turn: TurnState, session: Session, item: TaskReport) -> ReportOutcome:
        outcome: ReportOutcome = original(turn, session, item)
        project = turn.state.projects.by_name.get(item.project)
        task = turn.find(project, item.taskid) if project else None
        if outcome == "done" and task is not None:
            task.token = Token(item.token)
        return outcome

    original = replace_(lease_end, "finish", finish)


def _a_part_ends_the_lease(replace_: Replace) -> None:
    def keep(turn: TurnState, item: TaskReport) -> ReportOutcome:
        outcome: ReportOutcome = original(turn, item)
        project = turn.state.projects.by_name.get(item.project)
        task = turn.find(project, item.taskid) if project else None
        if outcome == "kept" and project is not None and task is not None and task.state == PROCESSING:
            lease_end.give_back(turn, project, task)
        return outcome

    original = replace_(lease_end, "keep_part", keep)


def _a_part_uses_up_its_token(replace_: Replace) -> None:
    def keep(turn: TurnState, item: TaskReport) -> ReportOutcome:
        outcome: ReportOutcome = original(turn, item)
        project = turn.state.projects.by_name.get(item.project)
        task = turn.find(project, item.taskid) if project else None
        if outcome == "kept" and task is not None:
            task.token = NO_TOKEN
        return outcome

    original = replace_(lease_end, "keep_part", keep)


def _a_part_of_any_token_is_kept(replace_: Replace) -> None:
    replace_(lease_end, "keep_part", lambda turn, item: "kept")


def _late_failure_brings_its_new_tasks(replace_: Replace) -> None:
    def finish(turn: TurnState, session: Session, item: TaskReport) -> ReportOutcome:
        outcome: ReportOutcome = original(turn, session, item)
        if outcome == "stale" and not item.ok and item.new:
            take_batch(turn, item.project, item.new, {}, (0,))
        return outcome

    original = replace_(lease_end, "finish", finish)


def _new_tasks_of_failures_forgotten(replace_: Replace) -> None:
    def finish_batch(turn: TurnState, session: Session, request: Done, flaws: Any) -> Any:
        for index, item in enumerate(request.tasks):
            if item is not None and not item.ok:
                request.tasks[index] = replace(item, new=[])
        return original(turn, session, request, flaws)

    original = replace_(lease_end, "finish_batch", finish_batch)


def _body_of_a_retry_not_kept(replace_: Replace) -> None:
    def differ(turn: TurnState, project: Project, task: Task, again: Again) -> None:
        original(turn, project, task, again)
        task.spec_changed = False

    original = replace_(lease_end, "_differ", differ)


def _a_retry_wins_over_a_deferred_update(replace_: Replace) -> None:
    differed: list[Task] = []

    def differ(turn: TurnState, project: Project, task: Task, again: Again) -> None:
        original(turn, project, task, again)
        differed[:] = [task]

    def apply_deferred(turn: TurnState, project: Project, task: Task, lease: Lease) -> None:
        if task not in differed:
            apply(turn, project, task, lease)

    original = replace_(lease_end, "_differ", differ)
    apply = replace_(lease_end, "apply_deferred", apply_deferred)


def _a_retry_loses_its_place(replace_: Replace) -> None:
    def differ(turn: TurnState, project: Project, task: Task, again: Again) -> None:
        original(turn, project, task, again)
        task.write_anew(turn.spec_of(task))
        task.renumber(turn.state.next_number())

    original = replace_(lease_end, "_differ", differ)


def _a_retry_after_never_counts(replace_: Replace) -> None:
    def fail(turn: TurnState, project: Project, task: Task, item: TaskReport, *args: Any) -> None:
        if item.again is not None and item.retry_after is not None:
            item = replace(item, again=replace(item.again, counts=None))
        original(turn, project, task, item, *args)

    original = replace_(lease_end, "_fail", fail)


def _leases_never_expire(replace_: Replace) -> None:
    replace_(Processing, "next_at", lambda self: inf)


def _leases_end_early(replace_: Replace) -> None:
    def lease(self: TaskQueue, changes: Changes, task: Task, token: Any, lease: Lease) -> None:
        lease.deadline -= 0.3 * (lease.deadline - lease.selected_at)
        original(self, changes, task, token, lease)

    original = replace_(TaskQueue, "lease", lease)


def _extensions_leave_the_warning(replace_: Replace) -> None:
    def renew(self: Lease, now: Boot, deadline: Boot) -> None:
        self.deadline = deadline
        self.slow_at = min(self.slow_at, deadline)

    replace_(Lease, "renew", renew)


def _slow_again_and_again(replace_: Replace) -> None:
    replace_(Lease, "note_slow", lambda self: self.put_off(0.0))


def _slow_task_stays_unlisted(replace_: Replace) -> None:
    def note_slow(self: TaskQueue, changes: Changes, task: Task) -> None:
        unlisted = task.unlisted
        original(self, changes, task)
        task.unlisted = unlisted

    original = replace_(TaskQueue, "note_slow", note_slow)


def _additive_credit(replace_: Replace) -> None:
    def state(self: Session, hello: Hello, now: Boot) -> None:
        before = self.usable
        original(self, hello, now)
        self.capacity += before
        self.usable += before

    original = replace_(Session, "take_hello", state)


# ---------------------------------------------------------------------------------------- restarts


def _bucket_full_after_a_restart(replace_: Replace) -> None:
    def init(self: Project, *args: Any) -> None:
        original(self, *args)
        self.bucket.level = self.bucket.burst

    original = replace_(Project, "__init__", init)
    replace_(host, "COMPARE_SHARE", 0.0)  # otherwise S8 finds it before S6 can


def _numbers_restart_at_0(replace_: Replace) -> None:
    def init(self: State, *args: Any) -> None:
        original(self, *args)
        self._n = Token(0)

    original = replace_(State, "__init__", init)


def _forget_who_holds_what(replace_: Replace) -> None:
    def load(*args: Any) -> TurnState:
        turn: TurnState = original(*args)
        for project in turn.state.projects.by_name.values():
            for task in list(project.queue.processing.leased.values()):
                lease_end.give_back(turn, project, task)
        return turn

    original = replace_(startup, "load", load)
    replace_(scheduler, "load", load)


def _due_tasks_keep_their_places(replace_: Replace) -> None:
    def queue_up(turn: TurnState, project: Project, task: Task) -> None:
        project.queue.put_ready(turn.changes, task)

    replace_(timers, "queue_up", queue_up)


def _due_tasks_lose_their_places_by_arrival(replace_: Replace) -> None:
    def promote(turn: TurnState, project: Project, most: int) -> int:
        task = project.queue.first_due(turn.now.wall)
        if task is not None and task.spec is not None:
            push.queue_up(turn, project, task)
            return 1
        promoted: int = original(turn, project, most)
        return promoted

    original = replace_(timers, "_promote", promote)


def _newest_only_sometimes(replace_: Replace) -> None:
    def put_ready(self: TaskQueue, changes: Changes, task: Task) -> None:
        newest, self.newest = self.newest, self.newest and task.seq % 3 > 0
        original(self, changes, task)
        self.newest = newest

    original = replace_(TaskQueue, "put_ready", put_ready)


def _sorted_to_the_first_page_only(replace_: Replace) -> None:
    def step(turn: TurnState) -> None:
        for page in turn.found.orders:
            page.following = NO_FLOOR if page.ref.to_sort else page.following
        original(turn)

    original = sorting.step
    rule = step_rules.STEPS["sorting"]
    replace_(step_rules, "STEPS", {**step_rules.STEPS, "sorting": rule._replace(step=step)})


def _order_not_kept(replace_: Replace) -> None:
    def record(self: Project) -> ProjectRecord:
        kept: ProjectRecord = original(self)
        kept.newest = False
        return kept

    original = replace_(Project, "record", record)


def _retry_not_kept(replace_: Replace) -> None:
    def retry(turn: TurnState, project: Project, task: Task, *args: Any) -> None:
        original(turn, project, task, *args)
        turn.changes._touched.remove(task)
        task.touched = False

    original = replace_(lease_end, "_retry", retry)


# ---------------------------------------------------------------------------------------- the turn


def _reply_before_commit(replace_: Replace) -> None:
    def keep(self: Host, now: Now, understood: Any, result: TurnResult, undelivered: Any) -> None:
        self._say(result.outgoing)
        result.outgoing = []
        original(self, now, understood, result, undelivered)

    original = replace_(Host, "_keep", keep)


def _reply_before_sync(replace_: Replace) -> None:
    def answer(turn: TurnState, session: Session, reply: Any, *, after_sync: bool) -> None:
        if reply is not None:
            turn.send(session, reply, after_sync=False)

    replace_(answers, "_answer", answer)


def _select_before_sync(replace_: Replace) -> None:
    def send(self: Dispatch, session: Session) -> None:
        _said_at_once(self._turn, original, self, session)

    original = replace_(Dispatch, "_send", send)


def _sent_again_before_sync(replace_: Replace) -> None:
    def send_unseen(turn: TurnState, *args: Any) -> None:
        _said_at_once(turn, original, turn, *args)

    original = replace_(fetchers, "_send_unseen", send_unseen)


def _said_at_once(turn: TurnState, say: Callable[..., None], *args: Any) -> None:
    before = len(turn.outgoing)
    say(*args)
    for each in turn.outgoing[before:]:
        each.after_sync = False


def _carry_on_after_a_failed_commit(replace_: Replace) -> None:
    def keep(self: Ledger, kept: Any) -> None:
        try:
            original(self, kept)
        except Fenced:
            raise
        except StoreError:
            pass

    original = replace_(Ledger, "commit", keep)


def _look_up_older_than_decision(replace_: Replace) -> None:
    replace_(Changes, "left", lambda self, task: None)


def _zombie_scheduler(replace_: Replace) -> None:
    replace_(memory_store, "refuse_older", lambda *args: None)


# ---------------------------------------------------------------------------------------- order and time


def _a_retry_for_ever(replace_: Replace) -> None:
    def leave(self: TaskQueue, changes: Changes, task: Task) -> None:
        counted = self.held_back
        original(self, changes, task)
        self.held_back = counted

    original = replace_(TaskQueue, "_leave", leave)


def _priority_merged_without_re_sorting(replace_: Replace) -> None:
    def reprioritise(self: TaskQueue, changes: Changes, task: Task, priority: int) -> None:
        task.priority = priority
        changes.touch(task)

    replace_(TaskQueue, "reprioritise", reprioritise)


def _floor_ignored(replace_: Replace) -> None:
    def add(self: Head, task: Task) -> bool:
        floor, self.floor = self.floor, 1 << 200
        try:
            return bool(original(self, task))
        finally:
            self.floor = floor

    original = replace_(Head, "add", add)


def _floor_left_where_it_was(replace_: Replace) -> None:
    def trim(self: Head, max_tasks: int, max_bytes: int) -> list[Task]:
        floor = self.floor
        dropped: list[Task] = original(self, max_tasks, max_bytes)
        self.floor = floor
        return dropped

    original = replace_(Head, "trim", trim)


def _floor_raised_too_far(replace_: Replace) -> None:
    def refill(self: Head, tasks: list[Task], *, end: bool) -> None:
        original(self, tasks, end=end)
        if not end:
            self.floor += 1 << SEQ_BITS

    original = replace_(Head, "refill", refill)


def _head_filled_a_turn_late(replace_: Replace) -> None:
    late: WeakKeyDictionary[State, list[FoundOrder]] = WeakKeyDictionary()

    def absorb(turn: TurnState) -> None:
        state, found = turn.state, turn.found
        orders, late[state] = late.get(state, []), found.orders
        found.orders = [order for order in orders if order.ref.project in state.projects.by_number]
        original(turn)

    original = replace_(lookups, "absorb", absorb)


def _dry_head_not_filled(replace_: Replace) -> None:
    replace_(Head, "is_low", lambda self, max_tasks, max_bytes: False)


def _timer_forgotten(replace_: Replace) -> None:
    def note(self: TimerHeap[Any], key: Any, at: float) -> None:
        if not isinstance(key, tuple) or key[0] != "due":
            original(self, key, at)

    original = replace_(TimerHeap, "note", note)


def _delayed_tasks_run_early(replace_: Replace) -> None:
    def first_due(self: TaskQueue, now: float) -> Task | None:
        return original(self, now + 1)  # type: ignore[no-any-return]

    original = replace_(TaskQueue, "first_due", first_due)


def _new_tasks_come_by_no_job(replace_: Replace) -> None:
    replace_(push, "_of_job", lambda item, job: item)


def _a_restarted_task_keeps_its_job(replace_: Replace) -> None:
    def describe(self: Task, spec: Spec, *, apart: bool) -> None:
        job = self.job
        original(self, spec, apart=apart)
        self.job = self.job or job

    original = replace_(Task, "describe", describe)


def _jobs_not_kept(replace_: Replace) -> None:
    replace_(layout, "encode_names", lambda task: task.itag.encode())


def _put_offs_not_kept(replace_: Replace) -> None:
    replace_(batch, "join_put_off", lambda record, size, times: record)


def _handed_out_while_others_are_due(replace_: Replace) -> None:
    replace_(TaskQueue, "is_behind", lambda self, now: False)


def _due_in_the_store_only_overlooked(replace_: Replace) -> None:
    replace_(TaskQueue, "is_behind", lambda self, now: self.first_due(now) is not None)


def _never_asleep(replace_: Replace) -> None:
    replace_(Scheduler, "next_event_at", lambda self, now: now.boot)


# ---------------------------------------------------------------------------------------- whole projects


def _finished_while_held(replace_: Replace) -> None:
    def note(turn: TurnState, project: Project) -> None:
        holds, project.holds = project.holds, {}
        original(turn, project)
        project.holds = holds

    original = replace_(completion, "note", note)
    replace_(Project, "is_held", lambda self, now: False)


def _end_not_told(replace_: Replace) -> None:
    def finish(turn: TurnState, project: Project) -> None:
        original(turn, project)
        turn.events = [event for event in turn.events if event.kind != "finished"]

    original = replace_(completion, "_finish", finish)


def _end_forgotten(replace_: Replace) -> None:
    def finish(turn: TurnState) -> None:
        for project in turn.state.pending.finishing.values():
            project.armed = False
        original(turn)

    original = replace_(completion, "finish", finish)


def _checks_without_limit(replace_: Replace) -> None:
    replace_(Pause, "room", property(lambda self: 1 << 30))


def _one_more_than_max_processing(replace_: Replace) -> None:
    def room(self: Project, *args: Any) -> float:
        left: float = original(self, *args)
        return left + (self.state == "running" and self.settings.max_processing != inf)

    original = replace_(Project, "room", room)


def _paused_projects_hand_out(replace_: Replace) -> None:
    def room(self: Project, *args: Any) -> float:
        return inf if self.paused_itself else original(self, *args)

    original = replace_(Project, "room", room)


def _pause_without_its_end(replace_: Replace) -> None:
    never = timers._of_project(lambda project: inf, timers._resume)
    replace_(timers, "TIMERS", {**timers.TIMERS, "resume": never})


def _ticks_replayed(replace_: Replace) -> None:
    def run(turn: TurnState, project: Project, each: DueTick) -> None:
        original(turn, project, each)
        if not each.has_waited:
            project.ticks[each.name] = original_next_tick(each.entry, turn.state.environment, each.at)

    original_next_tick = cron_times.next_tick
    original = replace_(cron, "_run", run)


def _flows_of_a_cron_entry_overlap(replace_: Replace) -> None:
    replace_(FlowTable, "running_of_cron", lambda self, project, cron: 0)


def _graphs_without_edges(replace_: Replace) -> None:
    def graph_of(*args: Any) -> tuple[NewTask, ...]:
        return tuple(replace(item, depends_on=()) for item in original(*args))

    original = replace_(cron, "graph_of", graph_of)


def _last_waiting_tick_first(replace_: Replace) -> None:
    def begin(turn: TurnState, project: Project, record: CronRecord, each: DueTick) -> None:
        original(turn, project, record, each)
        record.waiting = sorted(record.waiting, reverse=True)

    original = replace_(cron, "_begin", begin)


def _shared_bucket_not_kept(replace_: Replace) -> None:
    replace_(startup, "_load_shared", lambda *args: None)


def _shared_tokens_not_taken(replace_: Replace) -> None:
    replace_(SharedBucket, "take", lambda self, count, virtual, weight, now: virtual)


# ---------------------------------------------------------------------------------------- many tasks at once


def _replace_step(replace_: Replace, kind: StepKind, step: Callable[[TurnState], None]) -> Callable[[TurnState], None]:
    """Replace the step of a kind; return the original."""
    rule = step_rules.STEPS[kind]
    replace_(step_rules, "STEPS", {**step_rules.STEPS, kind: rule._replace(step=step)})
    return rule.step


def _operation_not_kept_with_its_step(replace_: Replace) -> None:
    def step(turn: TurnState) -> None:
        original(turn)
        turn.changes.writes.operations.clear()

    original = _replace_step(replace_, "operations", step)


def _operation_meets_what_came_later(replace_: Replace) -> None:
    def add(turn: TurnState, operation: Operation) -> None:
        original(turn, operation)
        turn.changes.writes.operations[-1] = replace(operation.record)
        operation.record.bound = 1 << 62

    original = replace_(operations, "_add", add)


def _undo_of_what_has_run_since(replace_: Replace) -> None:
    def is_unchanged(cursor: UndoCursor, task: Task, *about: Any) -> bool:
        return task.state in LIVE if cursor.action in ("retry", "reprioritise") else task.state == CANCELLED

    replace_(undo, "_is_unchanged", is_unchanged)


def _undo_forgets_due_times(replace_: Replace) -> None:
    def bring_back(turn: TurnState, project: Project, task: Task, row: UndoRow) -> None:
        original(turn, project, task, replace(row, exetime=0.0) if row.state == DELAYED else row)

    original = replace_(undo, "_bring_back", bring_back)


def _rows_not_kept_with_their_step(replace_: Replace) -> None:
    def keep(turn: TurnState, operation: Operation, page: UndoPage) -> None:
        page.rows = [row for row in page.rows if row.state != DELAYED]
        original(turn, operation, page)

    original = replace_(undo_rows, "keep", keep)


def _children_pass_what_comes_back(replace_: Replace) -> None:
    replace_(propagation, "wait_again", lambda turn, found, since=0.0, is_back=False: None)


def _timeout_no_failure(replace_: Replace) -> None:
    def record(turn: TurnState, task: Task, attempt: Attempt) -> None:
        if attempt.outcome == "timeout":
            turn.note_attempt(task, attempt)
        else:
            original(turn, task, attempt)

    original = replace_(lease_end, "_record_failure", record)


def _cleared_task_known_by_its_old_id(replace_: Replace) -> None:
    replace_(Changes, "outdate", lambda self, *args: None)


# ---------------------------------------------------------------------------------------- who drains


def _drained_names_forgotten(replace_: Replace) -> None:
    replace_(Ledger, "_drained", lambda self: [])


def _drains_until_its_next_hello(replace_: Replace) -> None:
    def enrol(turn: TurnState, session: Session, names: Sequence[str] | None) -> None:
        session.draining = False
        original(turn, session, names)

    original = replace_(fetchers, "_enrol", enrol)


def _one_of_the_name_drains(replace_: Replace) -> None:
    def sessions(state: State, name: str) -> list[Session]:
        named: list[Session] = original(state, name)
        return named[:1]

    original = replace_(fetchers, "_sessions", sessions)


def _drains_and_has_room(replace_: Replace) -> None:
    def free(self: Session) -> int:
        said, self.draining = self.draining, False
        room: int = original.fget(self)
        self.draining = said
        return room

    original = replace_(Session, "free", property(free))


# ---------------------------------------------------------------------------------------- places of fetchers


def _hung_places_told_as_free(replace_: Replace) -> None:
    def view(self: Session, now: Boot) -> Fetcher:
        shown: Fetcher = original(self, now)
        hung = shown.hung.places if shown.hung is not None else 0
        return replace(shown, hung=None, free=shown.free + hung)

    original = replace_(Session, "view", view)


def _hung_places_told_as_running(replace_: Replace) -> None:
    def view(self: Session, now: Boot) -> Fetcher:
        shown: Fetcher = original(self, now)
        return replace(shown, holds=shown.holds + len(self.ended), hung=None)

    original = replace_(Session, "view", view)


def _free_places_told_with_the_hung_ones(replace_: Replace) -> None:
    def view(self: Session, now: Boot) -> Fetcher:
        shown: Fetcher = original(self, now)
        return replace(shown, free=max(0, self.capacity - len(self.leases)))

    original = replace_(Session, "view", view)


def _first_capacity_told(replace_: Replace) -> None:
    def view(self: Session, now: Boot) -> Fetcher:
        shown: Fetcher = original(self, now)
        return replace(shown, capacity=first.setdefault(self.id, self.capacity))

    first: dict[str, int] = {}
    original = replace_(Session, "view", view)


def _hung_places_forgotten_with_a_hello(replace_: Replace) -> None:
    def state(self: Session, hello: Hello, now: Boot) -> None:
        original(self, hello, now)
        self.ended = {}

    original = replace_(Session, "_state_ended", state)


def _hung_places_have_room(replace_: Replace) -> None:
    def free(self: Session) -> int:
        room: int = original.fget(self)
        return room if self.rest_until or self.draining else room + len(self.ended)

    original = replace_(Session, "free", property(free))


def _places_without_a_token_have_room(replace_: Replace) -> None:
    replace_(Session, "_state_hung", lambda self, hung, running, now: None)


# ---------------------------------------------------------------------------------------- who is served first


def _first_come_first_served(replace_: Replace) -> None:
    replace_(FairQueue, "prioritise", lambda self, session, priority: None)


def _keeps_its_first_priority(replace_: Replace) -> None:
    def prioritise(self: FairQueue, session: Session, priority: int) -> None:
        if not session.last_hello or not session.priority:
            original(self, session, priority)

    original = replace_(FairQueue, "prioritise", prioritise)


def _rings_only_rotate(replace_: Replace) -> None:
    def look(self: FairQueue, ring: Ring) -> None:
        waiting, priority = ring.waiting, ring.waiting.priority
        waiting.priority = 0
        original(self, ring)
        waiting.priority = priority

    original = replace_(FairQueue, "look", look)


def _next_in_line_is_the_worst(replace_: Replace) -> None:
    def advance(self: WaitingLine[Any, Any]) -> None:
        self._heap.sort(reverse=True)
        original(self)

    original = replace_(WaitingLine, "_advance", advance)


def _newcomers_wait_behind(replace_: Replace) -> None:
    def enter(self: WaitingLine[Any, Any], key: Any, who: Any, priority: int) -> None:
        if not self.front or priority <= self.priority:
            original(self, key, who, priority)
        else:
            self._line_behind(priority).setdefault(key, who)

    original = replace_(WaitingLine, "enter", enter)


def _rests_for_a_minute(replace_: Replace) -> None:
    def hand_back(self: Session, count: int, now: Boot) -> float:
        until: float = original(self, count, now)
        self.rest_until = now + 60 if until else until
        return self.rest_until

    original = replace_(Session, "hand_back", hand_back)


# ---------------------------------------------------------------------------------------- who waits for whom


def _second_parent_of_a_turn_forgotten(replace_: Replace) -> None:
    def satisfy(turn: TurnState, found: FoundEdge, number: int, state: int) -> None:
        child, _, mark = propagation._unsatisfied(turn, found, number)
        told = turn.changes.writes.edges
        if child is not None and any(edge.child == found.edge.child for edge in told if edge != found.edge):
            told[found.edge] = Mark(state, mark.number)
        else:
            original(turn, found, number, state)

    original = replace_(propagation, "_satisfy", satisfy)


def _told_again_after_a_crash(replace_: Replace) -> None:
    def step(turn: TurnState) -> None:
        original(turn)
        over = [number for number, rest in turn.changes.writes.propagations.items() if rest is None]
        for number in over:
            del turn.changes.writes.propagations[number]

    def unsatisfied(turn: TurnState, found: FoundEdge, number: int) -> Any:
        mark = turn.changes.mark_of(found)
        child = turn.task_at(found.edge.child)
        links = propagation._links_of(child, mark) if child is not None and mark is not None else None
        if mark is None or links is None or mark.number > number:
            return None, None, found.mark
        links.missing = max(links.missing, 1)
        return child, links, mark

    original = _replace_step(replace_, "propagation", step)
    replace_(propagation, "_unsatisfied", unsatisfied)


def _children_of_failed_parents_run(replace_: Replace) -> None:
    def fail(turn: TurnState, found: FoundEdge, number: int) -> None:
        _, links, _ = propagation._unsatisfied(turn, found, number)
        if links is not None:
            links.on_failure = RUN
        original(turn, found, number)

    original = replace_(propagation, "_fail", fail)


def _retries_release_dead_letters(replace_: Replace) -> None:
    def retry(turn: TurnState, project: Project, task: Task, how: Any, *args: Any) -> None:
        original(turn, project, task, how, *args)
        if how is not None:
            turn.changes.note_end(task, "failed")

    def tell(turn: TurnState, found: FoundPropagation) -> Propagation | None:
        number = found.propagation.number
        parent = turn.task_at(TaskRef(found.propagation.project, found.propagation.taskid))
        if parent is None or parent.state not in LIVE:
            return tell_failure(turn, found)
        for each in found.edges.edges:
            _, links, _ = propagation._unsatisfied(turn, each, number)
            if links is not None and links.on_failure == ONLY:
                links.needed = True
                propagation._satisfy(turn, each, number, OVERLOOKED)
        return propagation._rest(turn, found)

    original = replace_(lease_end, "_retry", retry)
    tell_failure = propagation._BY_KIND["failed"]
    replace_(propagation, "_BY_KIND", {**propagation._BY_KIND, "failed": tell})


def _dead_letters_for_successes(replace_: Replace) -> None:
    replace_(Links, "is_unneeded", property(lambda links: False))


def _dropped_before_all_have_ended(replace_: Replace) -> None:
    replace_(Links, "is_unneeded", property(lambda links: links.on_failure == ONLY and not links.needed))


def _dropped_tasks_make_flows_cancelled(replace_: Replace) -> None:
    for module in (flow, flows):
        replace_(module, "counted_as", lambda state, links: state)


def _timeouts_lead_to_no_task(replace_: Replace) -> None:
    def push_for_failed(turn: TurnState, project: Project, task: Task, template: Any, error: str) -> None:
        if error != "timeout":
            original(turn, project, task, template, error)

    original = replace_(lease_end, "push_for_failed", push_for_failed)


def _a_failure_leads_to_two_tasks(replace_: Replace) -> None:
    def retry(turn: TurnState, project: Project, task: Task, how: Any, error: str, *args: Any) -> None:
        original(turn, project, task, how, error, *args)
        template = project.settings.on_failure
        if template is not None and how is None:
            push.push_for_failed(turn, project, task, template, error)

    original = replace_(lease_end, "_retry", retry)


def _cycles_across_batches(replace_: Replace) -> None:
    replace_(cycles, "decide_cycles", lambda turn, incoming: cycles.UNSEARCHED)
    replace_(cycles, "check", lambda turn, project, item, verdict: None)


def _stale_success_releases(replace_: Replace) -> None:
    def finish(turn: TurnState, session: Session, item: TaskReport) -> ReportOutcome:
        outcome: ReportOutcome = original(turn, session, item)
        project = turn.state.projects.by_name.get(item.project)
        task = turn.find(project, item.taskid) if project else None
        if outcome == "stale" and item.ok and task is not None:
            turn.changes.note_end(task, "succeeded")
        return outcome

    original = replace_(lease_end, "finish", finish)


def _diamonds_end_once_for_each_path(replace_: Replace) -> None:
    def follow(turn: TurnState, rerun_set: RerunSet, *args: Any) -> None:
        position = RerunSet.position
        RerunSet.position = lambda self, ref: None  # type: ignore[method-assign]
        try:
            original(turn, rerun_set, *args)
        finally:
            RerunSet.position = position  # type: ignore[method-assign]

    original = replace_(rerun, "_follow", follow)


def _reruns_hold_nothing(replace_: Replace) -> None:
    def reset(turn: TurnState, rerun_set: RerunSet, record: OperationRecord, ref: TaskRef, page: FoundEdges) -> int:
        fate: int = original(turn, rerun_set, record, ref, page)
        task = turn.task_at(ref)
        if fate == HELD and task is not None:
            revive(turn, turn.state.projects.by_number[task.project], task)
        return fate

    original = replace_(rerun, "_reset_task", reset)


def _links_let_go_of_what_a_rerun_holds(replace_: Replace) -> None:
    replace_(push_outcome, "is_held", lambda task: False)


def _crash_forgets_how_far_flows_are(replace_: Replace) -> None:
    def init(self: FlowTable, next_number: int, records: Sequence[FlowRecord]) -> None:
        for record in records:
            record.unrolled *= record.is_cancelled
        original(self, next_number, records)

    original = replace_(FlowTable, "__init__", init)


def _awaited_for_ever(replace_: Replace) -> None:
    replace_(Changes, "await_no_more", lambda self, ref: None)


# ---------------------------------------------------------------------------------------- slots


def _no_slot_waits_after_a_start(replace_: Replace) -> None:
    def open_(self: SlotTable, low: int, time_low: int) -> None:
        since = self.since
        original(self, low, time_low)
        self.since = since

    original = replace_(SlotTable, "open", open_)


def _slots_half_as_slow(replace_: Replace) -> None:
    def pace_of(*of: Any) -> SlotPace:
        pace: SlotPace = original(*of)
        return pace._replace(interval=pace.interval / 2)

    original = replace_(slots, "pace_of", pace_of)


def _one_more_than_a_slot_may(replace_: Replace) -> None:
    replace_(Slot, "is_full", property(lambda self: self.leases > self.pace.most))


def _tasks_of_slots_not_kept(replace_: Replace) -> None:
    replace_(SlotTable, "keep_record", lambda self, number, record: None)


def _slots_stay_full_when_cleared(replace_: Replace) -> None:
    replace_(slots, "taken_from", lambda project: 0)


def _follow_ups_pass_full_slots(replace_: Replace) -> None:
    def take_batch(*of: Any) -> Any:
        check = slots.check_room
        slots.check_room = lambda turn, project, item: None
        try:
            return original(*of)
        finally:
            slots.check_room = check

    original = replace_(lease_end, "take_batch", take_batch)


def _last_part_left_out(replace_: Replace) -> None:
    def bring(turn: TurnState, project: Project, said: ExportedTask, seq: int) -> bool:
        unfinished = project.importing
        if unfinished is not None and seq == unfinished.first_seq + unfinished.parts - 1:
            return True
        return bool(original(turn, project, said, seq))

    original = replace_(imports, "_bring", bring)


def _imports_begin_again(replace_: Replace) -> None:
    def load(self: Project, record: ProjectRecord, *others: Any) -> None:
        if record.importing is not None:
            record.importing.brought = 0
        original(self, record, *others)

    original = replace_(Project, "__init__", load)


def _runs_before_it_is_whole(replace_: Replace) -> None:
    def note_brought(self: Project, brought: int) -> None:
        original(self, brought)
        self.state = "running"

    original = replace_(Project, "note_brought", note_brought)


MUTANTS: Final = (
    Mutant("a late answer ends the newer lease", "S4", _late_answer_ends_the_newer_lease),
    Mutant("the bucket is full after a restart", "S6", _bucket_full_after_a_restart),
    Mutant("reply before commit", "S5", _reply_before_commit),
    Mutant("carry on after a failed commit", "S2 S5", _carry_on_after_a_failed_commit),
    Mutant("numbers restart at 0", "S4", _numbers_restart_at_0),
    Mutant("priority merged without re-sorting", "S8 S9", _priority_merged_without_re_sorting),
    Mutant("a retry is not kept", "S8 S9", _retry_not_kept),
    Mutant("additive credit", "S7", _additive_credit),
    Mutant("forget who holds what after a restart", "S3", _forget_who_holds_what),
    Mutant("leases never expire", "L1 L2", _leases_never_expire),
    Mutant("leases end early", "S3", _leases_end_early),
    Mutant("an extended lease is slow as if it had not been", "T1", _extensions_leave_the_warning),
    Mutant("a slow lease is noted again and again", "T1", _slow_again_and_again),
    Mutant("a slow task that was made and dispatched at once is not listed", "S12", _slow_task_stays_unlisted),
    Mutant("a timer is forgotten", "L2", _timer_forgotten),
    Mutant("a look-up older than its decision", "S2", _look_up_older_than_decision),
    Mutant("a zombie scheduler writes", "S10", _zombie_scheduler),
    Mutant("an answer counts twice", "S4", _an_answer_counts_twice),
    Mutant("a part ends the lease", "S2 S3 S4", _a_part_ends_the_lease),
    Mutant("a part uses up its token", "S4", _a_part_uses_up_its_token),
    Mutant("a part of a stale token is kept", "S4", _a_part_of_any_token_is_kept),
    Mutant("a late failure brings its new tasks", "B2 S3", _late_failure_brings_its_new_tasks),
    Mutant("the new tasks of failures are forgotten", "B2", _new_tasks_of_failures_forgotten),
    Mutant("the body of a retry is not kept", "B1", _body_of_a_retry_not_kept),
    Mutant("a retry wins over a deferred update", "B1", _a_retry_wins_over_a_deferred_update),
    Mutant("a retry with another body loses its place", "B1", _a_retry_loses_its_place),
    Mutant("a retry after some seconds never counts", "B1", _a_retry_after_never_counts),
    Mutant("reply before sync", "S5", _reply_before_sync),
    Mutant("the floor is ignored", "S8 S9", _floor_ignored),
    Mutant("the floor stays where it was after a trim", "S8 S9", _floor_left_where_it_was),
    Mutant("the floor is raised too far by a refill", "S8 S9", _floor_raised_too_far),
    Mutant("a head is filled a turn late", "S8 S9", _head_filled_a_turn_late),
    Mutant("a head that runs dry is not filled", "L2", _dry_head_not_filled),
    Mutant("delayed tasks run early", "S11", _delayed_tasks_run_early),
    Mutant("how often a task was put off is not kept", "S8", _put_offs_not_kept),
    Mutant("the new tasks of a report come by no job", "B3", _new_tasks_come_by_no_job),
    Mutant("a restarted task keeps its job", "B3", _a_restarted_task_keeps_its_job),
    Mutant("jobs are not kept", "B3 S8", _jobs_not_kept),
    Mutant("handed out while others are due", "P2", _handed_out_while_others_are_due),
    Mutant("what is due in the store only is overlooked", "P2", _due_in_the_store_only_overlooked),
    Mutant("by due time what waited keeps its place", "P3", _due_tasks_keep_their_places),
    Mutant("by arrival what waited loses its place", "P3", _due_tasks_lose_their_places_by_arrival),
    Mutant("by newest some tasks wait by arrival", "P3 S9", _newest_only_sometimes),
    Mutant("another order sorts the first page only", "P3 S9", _sorted_to_the_first_page_only),
    Mutant("which order tasks lie in is not kept", "P3 S9", _order_not_kept),
    Mutant("never asleep", "L3", _never_asleep, fine=True),
    Mutant("finished while a client keeps it open", "F1", _finished_while_held),
    Mutant("the end is not told", "F2", _end_not_told),
    Mutant("the end is forgotten", "F2", _end_forgotten),
    Mutant("checks without a limit", "C1", _checks_without_limit),
    Mutant("a paused project hands out", "C1", _paused_projects_hand_out),
    Mutant("a pause for a time does not end", "L2", _pause_without_its_end),
    Mutant("one more than max_processing", "C2", _one_more_than_max_processing),
    Mutant("missed cron ticks are replayed", "C3", _ticks_replayed),
    Mutant("a shared bucket is not kept", "S6", _shared_bucket_not_kept),
    Mutant("shared tokens are not taken", "S6", _shared_tokens_not_taken),
    Mutant("an operation is not kept with its step", "O1 S2 S3", _operation_not_kept_with_its_step),
    Mutant("what is due still waits for a retry", "S9", _a_retry_for_ever),
    Mutant("an operation meets what came later", "O1 S2 S3", _operation_meets_what_came_later),
    Mutant("a select leaves before its sync", "S16", _select_before_sync),
    Mutant("a select that is sent again overtakes its sync", "S16", _sent_again_before_sync),
    Mutant("an undo changes what has run since", "O2 S3", _undo_of_what_has_run_since),
    Mutant("an undo forgets due times", "O2", _undo_forgets_due_times),
    Mutant("what waits has no row for an undo", "O2", _rows_not_kept_with_their_step),
    Mutant("what has passed a parent does not wait again", "G8", _children_pass_what_comes_back, graphs=True),
    Mutant("a timeout is no failure", "A1", _timeout_no_failure),
    Mutant("a cleared task is known by its old id", "S2", _cleared_task_known_by_its_old_id),
    Mutant("a restart forgets who is drained", "N1", _drained_names_forgotten, crewed=True),
    Mutant("who says hello drains no more", "N1", _drains_until_its_next_hello, crewed=True),
    Mutant("one fetcher of a drained name drains", "N1", _one_of_the_name_drains, crewed=True),
    Mutant("who drains has room", "N1", _drains_and_has_room, crewed=True),
    Mutant("hung places are told as free", "H1", _hung_places_told_as_free, crewed=True),
    Mutant("hung places are told as running", "H1", _hung_places_told_as_running, crewed=True),
    Mutant("free places are told with the hung ones", "H1", _free_places_told_with_the_hung_ones, crewed=True),
    Mutant("the places of the first hello are told", "H1", _first_capacity_told, crewed=True),
    Mutant("a hello forgets the places that hang", "H1 S7", _hung_places_forgotten_with_a_hello, crewed=True),
    Mutant("hung places have room", "S7 S9", _hung_places_have_room, crewed=True),
    Mutant("hung places without a token have room", "H1 S7", _places_without_a_token_have_room, crewed=True),
    Mutant("the first fetcher is served first", "P1", _first_come_first_served, crewed=True),
    Mutant("a fetcher keeps its first priority", "P1", _keeps_its_first_priority, crewed=True),
    Mutant("sets of wishes take turns, in spite of priorities", "P1", _rings_only_rotate, crewed=True),
    Mutant("the next in the line is the worst", "P1", _next_in_line_is_the_worst, crewed=True),
    Mutant("newcomers wait behind the front", "P1", _newcomers_wait_behind, crewed=True),
    Mutant("a fetcher that hands tasks back rests for a minute", "L2 P1", _rests_for_a_minute, crewed=True),
    Mutant(
        "of two parents that end in one turn one is forgotten", "G2 G4", _second_parent_of_a_turn_forgotten, graphs=True
    ),
    Mutant("released twice after a crash", "G2", _told_again_after_a_crash, graphs=True),
    Mutant("the child of a failed parent runs", "G1", _children_of_failed_parents_run, graphs=True),
    Mutant("a lease that runs out for the last time leads to no task", "F3", _timeouts_lead_to_no_task),
    Mutant("a failure leads to two tasks", "F3", _a_failure_leads_to_two_tasks),
    Mutant("a task that is for failures runs before a retry", "G1", _retries_release_dead_letters, graphs=True),
    Mutant("a task that is for failures runs after successes", "G7", _dead_letters_for_successes, graphs=True),
    Mutant("dropped before all parents have ended", "G2 G7", _dropped_before_all_have_ended, graphs=True),
    Mutant("a task that was dropped makes its flow cancelled", "W2", _dropped_tasks_make_flows_cancelled, graphs=True),
    Mutant("a cycle across two batches", "G5", _cycles_across_batches, graphs=True),
    Mutant("a stale success releases", "G1", _stale_success_releases, graphs=True),
    Mutant("a rerun runs a diamond's end twice", "G6", _diamonds_end_once_for_each_path, graphs=True),
    Mutant("a rerun holds nothing", "S11", _reruns_hold_nothing, graphs=True),
    Mutant("a link lets go of what a rerun holds", "S11", _links_let_go_of_what_a_rerun_holds, graphs=True),
    Mutant("a crash forgets how far flows are", "W1 W2", _crash_forgets_how_far_flows_are, graphs=True),
    Mutant("flows of a cron entry overlap", "W4", _flows_of_a_cron_entry_overlap, graphs=True),
    Mutant("graphs of cron entries have no edges", "G1", _graphs_without_edges, graphs=True),
    Mutant("of ticks that wait the last one comes first", "W4", _last_waiting_tick_first, graphs=True),
    Mutant("awaited without children, for ever", "G4 S12", _awaited_for_ever, graphs=True),
    Mutant("no slot waits after a start", "S13", _no_slot_waits_after_a_start, slotted=True),
    Mutant("slots go twice as fast", "S13", _slots_half_as_slow, slotted=True),
    Mutant("a slot has one more out than it may", "S14", _one_more_than_a_slot_may, slotted=True),
    Mutant("how many tasks a slot has had is not kept", "S15", _tasks_of_slots_not_kept, slotted=True),
    Mutant("a slot stays full when it is cleared", "S15", _slots_stay_full_when_cleared, slotted=True),
    Mutant("follow-ups pass full slots", "S15", _follow_ups_pass_full_slots, slotted=True),
    Mutant("a step of an import brings one part less", "I1 S3", _last_part_left_out, restored=True),
    Mutant("an import begins again after a crash", "I1", _imports_begin_again, restored=True),
    Mutant("a project runs before it is whole", "C1 I1", _runs_before_it_is_whole, restored=True),
)
"""All mutants; the first fourteen are those of the simulation's prototype."""


def main() -> int:
    """Print the table; return 1 if a mutant survives."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    survivors = 0
    print(f"{'mutant':<42} {'must be caught by':<18} caught by")
    for mutant in MUTANTS:
        if word in mutant.name:
            caught = hunt(mutant)
            survivors += caught is None
            how = f"{caught.law} with seed {caught.seeds - 1}" if caught else f"NOTHING in {SEEDS} seeds"
            print(f"{mutant.name:<42} {mutant.laws:<18} {how}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
