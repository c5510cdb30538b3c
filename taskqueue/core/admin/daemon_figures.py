"""The figures of the daemon itself that the core knows; the shell adds those of the process and the store."""

from __future__ import annotations

from typing import Final

from taskqueue.core.parts.histogram import Histogram
from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.daemon import DaemonReply, DaemonShow, HistogramView


def show(turn: TurnState, request: DaemonShow) -> DaemonReply:
    """What is connected, what memory the tasks take, how long attempts took, and how late tasks became ready."""
    state = turn.state
    fetching = [session for session in state.sessions.values() if session.fetches]
    memory = state.memory
    return DaemonReply(
        n=request.n,
        epoch=state.epoch,
        version=state.config.version,
        projects=len(state.projects.by_number),
        sessions=len(state.sessions),
        fetchers=len(fetching),
        capacity=sum(session.capacity for session in fetching),
        holds=memory.leases,
        hung=sum(session.hung_places for session in fetching),
        beyond=sum(session.beyond for session in fetching),
        task_bytes=memory.heads + memory.leased + memory.deferred,
        task_bytes_most=state.config.memory_bytes,
        has_room=state.config.has_room,
        histograms={
            "attempt_seconds": histogram_view(state.attempt_seconds),
            "lateness_seconds": histogram_view(state.lateness_seconds),
        },
    )


def histogram_view(histogram: Histogram) -> HistogramView:
    """A histogram as it is now."""
    return HistogramView(list(histogram.bounds), histogram.counts.copy(), histogram.sum)


REQUESTS: Final = (RequestRule(DaemonShow, asked(show), keeps=False, slow_ms=2.0),)
