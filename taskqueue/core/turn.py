"""A turn: time and requests in; writes, messages and events out.

    Scheduler.begin(now, incoming) ──► Turn ─┬─ needs            what to look up
                                             └─ decide(found)    ──► TurnResult

    begin    release bodies, follow a clock that was put back
             need what is due                cron entries, operations, cleared and old tasks, heads that ran low
             need what was requested
    decide   1. absorb what was found        heads refilled, hollow tasks filled, outcomes of sessions
                push tasks of its own        of projects that finished in the previous turn, and of cron entries
             2. answer requests              in order of arrival; repeats from kept outcomes; a push that may
                                             close a cycle waits, and comes first after its search
             3. run due timers               leases that ran out, silent fetchers, tasks that are due
                take a step of an operation  and one of clearing, and of retention
                tell children of ends        tasks that waited for nothing else become ready
                take a step of a flow        tasks of it are checked, made or ended
             move tasks to their slots    of projects that are divided otherwise than before
             sort ready tasks anew        of projects that go by another order than before
             4. dispatch                     fair shares, each project at its pace
             5. settle                       heads trimmed, timers set, changed records written
                welcome                      fetchers whose hello waited for the dispatch

Equal state, time, requests and look-ups give an equal turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue.core import answers, lookups, step_rules
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.needs import Found
from taskqueue.core.model.project import Project
from taskqueue.core.moves import answer_waiters, change_log, cycles, flows, memory_limits, slots, statistics
from taskqueue.core.moves.dispatch import Dispatch, call_crowded, offer
from taskqueue.core.requests import fetchers, watch
from taskqueue.core.startup import configure
from taskqueue.core.steps import completion, history, operations, propagation
from taskqueue.core.timers import run_due_timers
from taskqueue.core.turn_result import TurnResult
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import Incoming, Outgoing
from taskqueue.settings.settings import CoreConfig


class Turn:
    """A turn that has begun; decide it once, after its needs have been looked up.

    Attributes:
        needs: what to look up.
    """

    __slots__ = ("_incoming", "_turn", "_waited", "needs")

    def __init__(self, turn: TurnState, incoming: Sequence[Incoming]) -> None:
        if turn.state.in_turn:
            raise Corrupt("a turn begins before the one before it has been decided")
        turn.state.in_turn = True
        self._turn: TurnState | None = turn
        state = turn.state
        self._waited = state.waiting_pushes.take_searched() if "cycles" in state.pending.steps else []
        self._incoming = incoming
        self.needs = lookups.begin(turn, [*self._waited, *incoming])

    def decide(
        self,
        found: Found,
        config: CoreConfig | None = None,
        undelivered: Sequence[Outgoing] = (),
        reloaded: Sequence[str] | None = None,
        figures: DaemonMinute | None = None,
        cut: Sequence[Peer | str] = (),
    ) -> TurnResult:
        """Decide the turn, once its needs have been looked up.

        Args:
            found: what was looked up for its needs.
            config: a new config, in force from this turn on; None if it did not change.
            undelivered: messages of earlier turns that could not be sent, because their peer is gone or does not read.
            reloaded: names of the settings that changed when the config file was read again; None if it was not read.
            figures: the shell's figures of a completed minute; None if an earlier turn got them.
            cut: peers whose connections the daemon has closed for good, and owners who may do less or nothing; their
                tasks are returned.

        Raises:
            Corrupt: an invariant is broken, or the turn has been decided before; throw the scheduler away.
        """
        turn, self._turn = self._turn, None
        if turn is None:
            raise Corrupt("a turn is decided that has been decided before")
        turn.found = found
        turn.changes.start_with(found.tasks, found.awaited)
        state = turn.state
        if figures is not None:
            history.note_minute(turn, figures)
        if state.waits.late:
            answer_waiters.begin(turn)
        lookups.absorb(turn)
        if state.pending.finishing:
            completion.finish(turn)
        if state.pending.steps:
            step_rules.take(turn, is_first=True)
        # Not earlier: the look-ups for the work above follow the old settings.
        if config is not None:
            configure(turn, config)
        if reloaded is not None:
            change_log.note_reload(turn, reloaded)
        for message in undelivered:
            fetchers.miss(turn, message)
        if cut:
            self._waited += fetchers.cut_off(turn, cut)
        for each in self._waited:
            answers.answer_waited(turn, each)
        for each in self._incoming:
            answers.answer_request(turn, each)
        run_due_timers(turn)
        if state.pending.steps:
            step_rules.take(turn, is_first=False)
        _offer(turn)
        if state.shared or state.fair_queue.busy_ring() is not None:
            Dispatch(turn).run()
        _settle(turn)
        if state.held_welcomes:
            fetchers.welcome(turn)
        state.in_turn = False
        return TurnResult(turn.changes.take(), turn.outgoing, turn.events)


def _offer(turn: TurnState) -> None:
    state = turn.state
    if state.connections.crowded:
        call_crowded(turn)
    for session in turn.freed.values():
        state.fair_queue.weigh(session)
    if turn.freed and state.pending.barred:
        for project in state.pending.take_barred():
            offer(turn, project)
    for project in turn.dirty.values():
        offer(turn, project)


def _settle_project(turn: TurnState, project: Project) -> None:
    """Trim the heads of a changed project, set its timers, and write its record."""
    state, queue, number = turn.state, project.queue, project.number
    memory_limits.settle(state, project)
    if queue.processing.leased:
        state.boot_timers.note(("lease", number), queue.processing.next_at())
    if len(queue.delayed):
        lookups.note_due(state, project)
    if project.keeps:
        state.wall_timers.note(("retention", number), project.old_at())
    lookups.note_low(state, project)
    completion.note(turn, project)
    statistics.note(turn, project)
    if queue.slots is not None:
        slots.settle(turn, project)
    turn.changes.writes.projects.append(project.record())


def _settle(turn: TurnState) -> None:
    state, writes = turn.state, turn.changes.writes
    if state.flows.by_number:
        flows.settle(turn)
    for project in turn.dirty.values():
        _settle_project(turn, project)
    if writes.propagations or "propagation" in state.pending.steps:
        propagation.settle(turn)
    if "cycles" in state.pending.steps:
        cycles.settle(turn)
    for project in memory_limits.relieve(state):
        slots.settle(turn, project)
        writes.projects.append(project.record())
    if turn.entered:
        operations.list_leases(turn)
    if state.watch_log is not None:
        watch.settle(turn, state.watch_log)
    if state.task_waiters:
        answer_waiters.answer_ended_tasks(turn)
    if turn.drawn:
        writes.buckets += [shared.record() for shared in turn.drawn.values()]
    if state.pending.steps:
        step_rules.end(state)
    state.left_undone = turn.more or bool(state.waits.late)
