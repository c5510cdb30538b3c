"""Replies to watchers, at the end of a turn, with the projects that have changed; without watchers there is no cost.

Rules:
1. A watcher that knows nothing, or a version that the log no longer has, gets all projects.
2. A watcher that lacks a published change gets its reply at once; others when a change is published, or when their
   time has passed.
3. A turn sends a bounded number of rows; the changes since a version are collected once for all watchers that know it
   and reach the same projects.
4. A watcher that does not reach all projects gets sums over its own only, and no reply because of others.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.waiters import Waiter
from taskqueue.core.model.watch_log import WatchLog
from taskqueue.core.request_rule import RequestRule, asked_by
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.insight import WATCH_ROWS, ProjectPulse, Watch, WatchReply
from taskqueue.protocol.message_room import PULSE_BYTES_MOST, pulse_bytes, room_in
from taskqueue.protocol.values import EventTotals, TaskCounts

ROWS_A_TURN: Final = 2048
"""Rows sent in one turn, at most: four full replies, about 4 ms."""

ANSWER_COST: Final = 8
"""Cost of a reply without rows, in rows."""


SCANNED_A_ROW: Final = 8
"""Projects that cost as much as a row when they are searched for those that a watcher reaches."""

Patterns = tuple[str, ...]
"""Globs of the projects that a watcher reaches; empty: all."""


class Sums(NamedTuple):
    """Sums over all projects that a watcher reaches, and their number."""

    counts: TaskCounts
    totals: EventTotals
    found: int


class News(NamedTuple):
    """Changes for a watcher, who knows ``version`` afterwards."""

    projects: list[ProjectPulse]
    gone: list[str]
    version: int
    more: bool


def watch(turn: TurnState, session: Session, request: Watch) -> None:
    """Add a watcher, whose reply is sent at the end of this turn or of a later one.

    Raises:
        Rejected: too many requests wait already.
    """
    state, now = turn.state, turn.now.boot
    log = state.watch_log
    if log is None:
        projects = state.projects
        log = WatchLog(state.next_number(), [projects.by_name[name] for name in projects.names], now)
    known = log.known(request.since)
    is_told_now = known < log.published or not known or not request.seconds
    waiter = Waiter(session, request.n, Boot(now + request.seconds), known, apart=True, scope=turn.caller.scope)
    if (former := log.leave(waiter.key)) is not None:
        state.waits.leave(former)
    state.waits.add(log.telling if is_told_now else log.quiet, waiter)
    log.asked_at = now
    state.watch_log = log


def settle(turn: TurnState, log: WatchLog) -> None:
    """Record, at the end of a turn, the projects that it changed, and reply to watchers."""
    state, now = turn.state, turn.now.boot
    for project in turn.dirty.values():
        log.note(project)
    log.publish(now)
    if log.telling or log.quiet.next_at() <= now:
        _tell(turn, log)
    if log.telling:
        turn.more = True
    elif log.is_over(now):
        state.watch_log = None
        return
    state.boot_timers.note(("watch", 0), log.next_at())


def _tell(turn: TurnState, log: WatchLog) -> None:
    now, budget = turn.now.boot, ROWS_A_TURN
    told: dict[tuple[int, Patterns], News] = {}
    sums: dict[Patterns, Sums] = {}
    for waiter in chain(log.telling.take(), log.quiet.take(now)):
        if (refusal := waiter.refusal) is not None:
            turn.state.waits.leave(waiter)
            turn.send(waiter.session, refusal, after_sync=False)
            budget -= ANSWER_COST
        elif waiter.known == log.version and waiter.until > now:
            log.quiet.add(waiter)  # it knows the changes published meanwhile
            budget -= 1
        else:
            scope = waiter.scope
            patterns = () if scope is None else scope.patterns
            news = told.get((waiter.known, patterns))
            if news is None:
                news = told[waiter.known, patterns] = _news(turn, log, waiter.known, scope)
                budget -= 0 if scope is None else (log.version - waiter.known) // SCANNED_A_ROW
            if scope is not None and waiter.known and waiter.until > now and not (news.projects or news.gone):
                log.quiet.add(waiter._replace(known=news.version))
                budget -= 1
            else:
                if patterns not in sums:
                    sums[patterns] = _sums(turn.state, scope)
                    budget -= 0 if scope is None else len(turn.state.projects.names) // SCANNED_A_ROW
                turn.state.waits.leave(waiter)
                turn.send(waiter.session, _reply(turn, log, waiter, news, sums[patterns]), after_sync=False)
                log.asked_at = now
                budget -= ANSWER_COST + len(news.projects)
        if budget <= 0:
            return


def _sums(state: State, scope: Scope | None) -> Sums:
    if scope is None:
        return Sums(state.grand_totals.counts(), state.grand_totals.totals(), len(state.projects.names))
    reach = state.projects.reach(scope)
    return Sums(*state.grand_totals.within(reach), len(reach.names))


def _news(turn: TurnState, log: WatchLog, known: int, scope: Scope | None) -> News:
    """Collect the changes since a version that fit into a message."""
    state = turn.state
    room = room_in(state.config.max_message) - PULSE_BYTES_MOST
    changes, more = log.after(known, WATCH_ROWS, None if scope is None else partial(_is_reached, state, scope))
    projects: list[ProjectPulse] = []
    gone: list[str] = []
    version = known
    for what, changed in changes:
        if room < 0:
            more = True
            break
        if isinstance(what, str):
            gone.append(what)
            room -= len(what)
        else:
            pulse = pulse_of(state.projects.by_number[what])
            projects.append(pulse)
            room -= pulse_bytes(pulse)
        version = changed
    # If projects change faster than a watcher asks, there would always be more: unpublished changes can wait.
    return News(projects, gone, version if more else log.version, more and version < log.published)


def _is_reached(state: State, scope: Scope, what: int | str) -> bool:
    """Whether a change of the watch log is of a project in the scope."""
    return scope.has(what if isinstance(what, str) else state.projects.by_number[what].name)


def pulse_of(project: Project) -> ProjectPulse:
    """Make the watchers' view of a project."""
    settings = project.settings
    return ProjectPulse(
        project.name,
        settings.group,
        project.state,
        project.pause.record.reason,
        settings.rate,
        settings.burst,
        settings.bucket,
        tuple(project.queue.counts[1:]),
        project.totals.row(),
        project.pause.record.until,
        project.slow,
    )


def _reply(turn: TurnState, log: WatchLog, waiter: Waiter, news: News, sums: Sums) -> WatchReply:
    state = turn.state
    return WatchReply(
        n=waiter.n,
        epoch=state.epoch,
        since=log.since(news.version),
        counts=sums.counts,
        totals=sums.totals,
        projects=news.projects,
        gone=news.gone,
        anew=not waiter.known,
        more=news.more,
        found=sums.found,
    )


REQUESTS: Final = (RequestRule(Watch, asked_by(watch), keeps=False),)
