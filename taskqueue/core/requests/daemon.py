"""Requests about the daemon: its status and its figures.

The core knows sessions, the memory of tasks and the durations of attempts; the shell adds the uptime and the figures of
process and store. Figures per minute are in ``steps/history``, the check of the daemon's state is in ``invariants``.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.model.histogram import Histogram
from taskqueue.core.model.project import Project
from taskqueue.core.moves.dispatch import could_give
from taskqueue.core.request_rule import SLOW_MS, RequestRule, asked
from taskqueue.core.requests.pages import of_projects, sees_fetcher, that_fit
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.daemon import (
    DaemonReply,
    DaemonShow,
    KeyList,
    KeyListReply,
    ProjectStand,
    StatusReply,
    StatusShow,
)
from taskqueue.protocol.daemon import Histogram as HistogramView

FIGURES_BYTES: Final = 8 << 10
"""Upper bound of a status without projects and fetchers: sums, counters, and the numbers that its page is sorted by."""


class PartialStatusReply(StatusReply, frozen=True, kw_only=True, tag_field="type", tag="status-reply"):
    """Status for a key that does not reach all projects: the shell adds no counters of its process."""


def status(turn: TurnState, message: StatusShow) -> StatusReply:
    """Answer with the daemon's status, a page of projects and the first fetchers; the shell adds the uptime."""
    state, now = turn.state, turn.now
    scope, kind = turn.caller.scope, StatusReply
    counts, totals = state.grand_totals.counts(), state.grand_totals.totals()
    if scope is not None:
        kind = PartialStatusReply
        counts, totals = state.grand_totals.within(state.projects.reach(scope))
    page = of_projects(turn, message)
    sessions = (
        each for each in state.sessions.values() if each.fetches and (scope is None or sees_fetcher(turn, each))
    )
    room = state.config.max_message - FIGURES_BYTES
    projects = that_fit(state, (project.view(now, state.environment) for project in page.projects), room // 2)
    room -= len(state.environment.pack(projects))
    list_fetchers = that_fit(state, (each.view(now.boot) for each in islice(sessions, message.fetchers)), room)
    return kind(
        n=message.n,
        epoch=state.epoch,
        version=state.config.version,
        uptime_seconds=0.0,
        counts=counts,
        totals=totals,
        projects=projects,
        more=page.more or len(projects) < len(page.projects),
        fetchers=list_fetchers,
        found=page.found,
        numbers=list(page.numbers[: len(projects)]),
        has_room=state.config.has_room,
    )


def _status_ms(request: StatusShow) -> float:
    """Estimate milliseconds: by name only the rows count; any other order scans all projects."""
    return 5.0 if request.sort == "name" else SLOW_MS


def show_daemon(turn: TurnState, request: DaemonShow) -> DaemonReply:
    """Answer with sessions, memory of tasks, durations of attempts, and lateness of tasks that became ready."""
    state = turn.state
    fetching = [session for session in state.sessions.values() if session.fetches]
    memory, projects = state.memory, state.projects
    return DaemonReply(
        n=request.n,
        epoch=state.epoch,
        version=state.config.version,
        projects=len(projects.by_number),
        sessions=len(state.sessions),
        fetchers=len(fetching),
        capacity=sum(session.capacity for session in fetching),
        holds=memory.leases,
        hung=sum(session.hung_places for session in fetching),
        beyond=sum(session.beyond for session in fetching),
        slow=sum(session.slow for session in fetching),
        task_bytes=memory.heads + memory.leased + memory.deferred,
        task_bytes_most=state.config.queue_bytes,
        has_room=state.config.has_room,
        projects_stand=[_stand(turn, each) for name in request.projects if (each := projects.by_name.get(name))],
        histograms={
            "attempt_seconds": histogram_view(state.attempt_seconds),
            "lateness_seconds": histogram_view(state.lateness_seconds),
        },
    )


def _stand(turn: TurnState, project: Project) -> ProjectStand:
    """Make the view of a project for metrics; scans all of its slots in memory."""
    now, slots = turn.now, project.queue.slots
    idle = now.boot - project.idle_since if could_give(turn, project) else 0.0
    found = () if slots is None else slots.by_number.values()
    return ProjectStand(project.name, idle, sum(slot.record.backoff_until > now.wall for slot in found))


def _daemon_ms(request: DaemonShow) -> float:
    """Estimate milliseconds: with projects, all of their slots in memory are scanned."""
    return SLOW_MS if request.projects else 2.0


def key_list(turn: TurnState, request: KeyList) -> KeyListReply:
    """Answer with where the page begins; the shell, which knows keys and connections, adds the rest."""
    return KeyListReply(n=request.n, next=request.after)


def histogram_view(histogram: Histogram) -> HistogramView:
    """Copy a histogram into a view."""
    return HistogramView(list(histogram.bounds), histogram.counts.copy(), histogram.sum)


REQUESTS: Final = (
    RequestRule(DaemonShow, asked(show_daemon), keeps=False, slow_ms_of=_daemon_ms),
    RequestRule(KeyList, asked(key_list), keeps=False, slow_ms=10.0),
    RequestRule(StatusShow, asked(status), keeps=False, slow_ms_of=_status_ms),
)
