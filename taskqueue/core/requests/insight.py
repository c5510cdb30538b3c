"""Requests for statistics of projects, for counts of jobs, and for the log of changes.

Elsewhere: failures and history, which take several turns (``steps/failures``, ``steps/history``), and ``why`` and
``watch``.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import astuple, replace

from taskqueue.core.model.needs import LOG_MOST, ChangeRecord, LogRef, Needs, PageRef
from taskqueue.core.model.task import LIVE, STATE_NAMES
from taskqueue.core.model.windows import Counters, WindowSums
from taskqueue.core.request_rule import Halves, RequestRule, asked, in_halves
from taskqueue.core.requests.pages import of_stats
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.insight import (
    QUIET,
    JobCounts,
    JobCountsReply,
    Log,
    LogReply,
    ProjectStats,
    Stats,
    StatsReply,
    Window,
    Windows,
)
from taskqueue.protocol.message_room import room_in
from taskqueue.protocol.values import Change, EventTotals, TaskCounts


def stats(turn: TurnState, message: Stats) -> StatsReply:
    """Answer with a page of the projects' statistics."""
    page = of_stats(turn, message)
    rows = [
        ProjectStats(project.name, EventTotals(*project.totals.row()), windows_of(project.counters, turn.now.wall))
        for project in page.projects
    ]
    return StatsReply(n=message.n, projects=rows, more=page.more)


def windows_of(counters: Counters, now_wall: Wall) -> Windows:
    """Sum the windows that end now (unix seconds)."""
    return Windows(*map(_window, counters.sums(now_wall)))


def _window(sums: WindowSums | None) -> Window:
    """Make the view of one window; QUIET itself if nothing happened, because messages omit that very object."""
    if sums is None:
        return QUIET
    new, selected, success, failed, retried, timeout = sums.events
    if sums.seconds is None:
        return Window(new, selected, success, failed, retried, timeout)
    return Window(new, selected, success, failed, retried, timeout, *sums.seconds)


# ------------------------------------------------------------------------------------------------ jobs


JOB_TASKS = 1024
"""Tasks of any job scanned for a page, at most."""


def count_job(turn: TurnState, request: JobCounts, wanted: Needs) -> Halves:
    """Answer with counts of the tasks of a job among the next tasks of a project, in the order of their taskids.

    Each page counts the tasks with taskids in its range, so that no task counts twice, whatever happens between pages.
    Tasks of a job are never unlisted, so leases need not be scanned.
    """
    project = turn.state.projects.named(request.project)
    ref = PageRef(project.number, request.after, JOB_TASKS, whole=False, errors=False, job=request.job)
    wanted.pages.append(ref)
    yield
    reply = JobCountsReply(n=request.n, counts=TaskCounts())
    page = turn.found.pages.get(ref)
    if page is None:  # the project was created in this turn
        return reply
    counts = dict.fromkeys(STATE_NAMES[1:], 0)
    for known in page.tasks:
        task = turn.find(project, known.taskid) or known
        is_dropped = task.state in LIVE and task.seq <= project.cleared
        if task.job == request.job and not is_dropped:
            counts[STATE_NAMES[task.state]] += 1
    return JobCountsReply(n=request.n, counts=TaskCounts(**counts), next="" if page.end else page.last)


# ------------------------------------------------------------------------------------------------ the log


LOOKED_AT = 1000
"""Entries scanned for a page, at most: reading them takes about 2 ms."""


def show_log(turn: TurnState, request: Log, wanted: Needs) -> Halves:
    """Answer with a page of the log, newest entry first."""
    state, scope = turn.state, turn.caller.scope
    end = max(min(request.before or state.next_log, state.next_log), _oldest(state))
    first = max(end - LOOKED_AT, _oldest(state))
    wanted.log.append(LogRef(first, end))
    yield
    reply = LogReply(n=request.n, entries=[])
    found = {entry.number: entry for entry in turn.changes.writes.log} | turn.found.log
    room = room_in(state.config.max_message)
    for number in range(end - 1, first - 1, -1):
        entry = found.get(number)
        if entry is None:
            continue
        if entry.at < request.since:
            return reply
        if request.project is not None and request.project != entry.project and request.project not in entry.projects:
            continue
        if scope is not None and (entry := _part_of(entry, scope)) is None:
            continue
        room -= len(state.environment.pack(entry))
        if reply.entries and (room < 0 or len(reply.entries) == request.limit):
            reply.next = number + 1
            return reply
        reply.entries.append(Change(*astuple(entry)[: len(Change.__struct_fields__)]))
    reply.next = first if first > _oldest(state) else 0
    return reply


def _part_of(entry: ChangeRecord, scope: Scope) -> ChangeRecord | None:
    """Return an entry as far as it is about projects in the scope; None: it names none of them.

    Without the names of others it has no group, count and detail either, because these are about all of them. Nor has
    one that may be a part: of a change of many projects, each entry has the detail of all.
    """
    names = scope.among(entry.projects)
    has_own = bool(entry.project) and scope.has(entry.project)
    if not (names or has_own):
        return None
    is_whole = entry.is_whole or not entry.projects
    if is_whole and len(names) == len(entry.projects) and (has_own or not entry.project):
        return entry
    return replace(entry, project=entry.project if has_own else "", group="", projects=names, count=0, detail="")


def _oldest(state: State) -> int:
    return max(1, state.next_log - LOG_MOST)


REQUESTS: Final = (
    RequestRule(Log, *in_halves(show_log), keeps=False, slow_ms=5.0),
    RequestRule(Stats, asked(stats), keeps=False, slow_ms=2.0),
    RequestRule(JobCounts, *in_halves(count_job), keeps=False, slow_ms=5.0),
)
