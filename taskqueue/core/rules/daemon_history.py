"""Keeping, and showing, how the daemon was by the minute. The values: ``daemon_minutes``.

Rules:
1. A minute is kept by the first turn after it, in that turn's batch. The core never asks for a turn for this: a minute
   in which something happened ends with a turn anyway (``event_history``), and a daemon that sleeps writes nothing.
2. A crash loses the running minute; an orderly end keeps what there is of it.
3. If the wall clock is put back, the minutes that it goes through again are kept anew. Later ones are dropped.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from taskqueue.core.parts.daemon_minutes import MINUTES_KEPT, DaemonMinute
from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.daemon import DaemonHistory, DaemonHistoryReply, DaemonPoint
from taskqueue.protocol.message_room import room_in

POINT_BYTES: Final = 640
"""Of a point in a message, at most."""

PAGE_POINTS = 360
"""A quarter of a day."""


def note(turn: TurnState, figures: DaemonMinute) -> None:
    """Keep the minute that the shell has measured, with what the turns in it have done."""
    minutes, writes, now = turn.state.daemon_minutes, turn.changes.writes, int(turn.now.wall // 60)
    minute = _completed(turn.state, figures)
    is_past = minute.minute <= now  # if not, the clock has been put back in this very turn
    writes.dropped_daemon_minutes += minutes.drop_after(minute.minute if is_past else now - 1)
    if is_past:
        writes.daemon_minutes.append(minutes.keep(minute))


def _completed(state: State, figures: DaemonMinute) -> DaemonMinute:
    totals = state.grand_totals
    before, state.daemon_minutes.events = state.daemon_minutes.events, totals.events()
    new, selected, *ended = (after - then for after, then in zip(totals.events(), before, strict=True))
    counts = totals.counts()
    return figures._replace(
        epoch=state.epoch,
        new=new,
        selected=selected,
        ended=sum(ended[:3]),
        ready=counts.ready,
        delayed=counts.delayed,
        blocked=counts.blocked,
        processing=counts.processing,
    )


# ------------------------------------------------------------------------------------------------ reading


def show(turn: TurnState, request: DaemonHistory) -> DaemonHistoryReply:
    """A page of the last day."""
    state, now = turn.state, int(turn.now.wall // 60)
    first = max(ceil(request.since / 60), now - MINUTES_KEPT + 1)
    last = min(ceil(request.until / 60) - 1, now) if request.until else now
    most = min(PAGE_POINTS, max(1, room_in(state.config.max_message) // POINT_BYTES))
    page = state.daemon_minutes.between(first, last)
    points = [_point(each) for each in page[:most]]
    return DaemonHistoryReply(n=request.n, points=points, next=page[most].minute * 60.0 if len(page) > most else 0.0)


def _point(kept: DaemonMinute) -> DaemonPoint:
    return DaemonPoint(
        at=kept.minute * 60.0,
        epoch=kept.epoch,
        turns=kept.turns,
        commits=kept.commits,
        syncs=kept.syncs,
        turn_p50_seconds=kept.turn_p50 / 1e6,
        turn_p99_seconds=kept.turn_p99 / 1e6,
        turn_most_seconds=kept.turn_most / 1e6,
        commit_p50_seconds=kept.commit_p50 / 1e6,
        commit_p99_seconds=kept.commit_p99 / 1e6,
        commit_most_seconds=kept.commit_most / 1e6,
        sync_p50_seconds=kept.sync_p50 / 1e6,
        sync_p99_seconds=kept.sync_p99 / 1e6,
        sync_most_seconds=kept.sync_most / 1e6,
        resident_bytes=kept.resident_bytes,
        new=kept.new,
        selected=kept.selected,
        ended=kept.ended,
        ready=kept.ready,
        delayed=kept.delayed,
        blocked=kept.blocked,
        processing=kept.processing,
    )


REQUESTS: Final = (RequestRule(DaemonHistory, asked(show), keeps=False, slow_ms=2.0),)
