"""Writing the history of events, and showing it. The values: ``history``.

Rules:
1. At the end of a turn it is only noted whose totals have grown, once a minute. What has grown is counted when the
   minute is over, of POINTS_A_TURN projects in a turn. Nobody is woken up for a minute in which nothing happened.
2. A point of an hour is written again with each minute, so an hour is known as far as it has gone.
3. What a minute has is kept when it is over: a crash loses a minute at most. An orderly end keeps what there is of it.
4. What a deleted project did is still in the sum of all; its own points go when they are old.
5. If the wall clock is put back, the minutes and hours that it goes through again are written anew.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from math import ceil
from typing import Final

from taskqueue.core.parts.history import ALL, SECONDS, PointsRef
from taskqueue.core.projects.session import Session
from taskqueue.core.request_rule import RequestRule, asked_by
from taskqueue.core.tasks.needs import Needs
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.insight import HistoryReply, Point, StatsHistory

POINTS_A_TURN = 256
"""Projects whose points are written in one turn: 1.5 ms, the store's part included."""

PAGE_POINTS = 256
"""Slices examined for a page: each may cost a read of its own, 5 ms together."""


def step(turn: TurnState) -> None:
    """Write some points of the last minute."""
    wall, history = turn.now.wall, turn.state.history
    if history.moved and not history.due and (wall >= history.due_at or wall < history.minute * 60):
        _begin(turn)
    if history.due:
        _write(turn, POINTS_A_TURN)
        turn.more |= bool(history.due)


def _begin(turn: TurnState) -> None:
    """Begin to write the minute that was counted, and to count another one."""
    history = turn.state.history
    history.due, history.moved = history.moved, {}
    for series in history.series.values():
        at = history.minute * 60 // SECONDS[series.resolution]
        turn.changes.writes.dropped_slices += series.begin(at)


def _write(turn: TurnState, most: int) -> None:
    """Write the points of at most ``most`` projects; after the last one, the sums over all projects."""
    state = turn.state
    history, kept = state.history, turn.changes.writes
    for number in list(islice(history.due, most)):
        project = state.projects.by_number.get(number)
        gained = history.gained(number, project.counters.counted if project else None)
        for series in history.series.values():
            series.count(gained)
            if project:
                kept.points.append(series.add(number, gained))
    if not history.due:
        for series in history.series.values():
            kept.slices.append(series.end())
            kept.dropped_slices += series.drop()


def write_all(turn: TurnState) -> None:
    """Write everything counted so far, at a clean shutdown."""
    history = turn.state.history
    for _ in range(2):
        if history.due:
            _write(turn, len(history.due))
        if history.moved:
            _begin(turn)


# ------------------------------------------------------------------------------------------------ reading


def need(turn: TurnState, request: StatsHistory, wanted: Needs) -> None:
    """Look up the points of a page."""
    state = turn.state
    project = state.projects.by_name.get(request.project) if request.project else None
    if request.project and project is None:
        return
    seconds = SECONDS[request.every]
    slices = state.history.series[request.every].slices
    times = list(slices)
    first = bisect_left(times, int(request.since // seconds))
    end = bisect_left(times, ceil(request.until / seconds)) if request.until else len(times)
    page = tuple(times[first : min(end, first + PAGE_POINTS)])
    following = first + len(page)
    next_time = times[following] if following < end else 0
    number = project.number if project else ALL
    wanted.points.append(PointsRef(request.session, request.n, request.every, number, page, next_time))


def show(turn: TurnState, session: Session, request: StatsHistory) -> HistoryReply:
    """A page of the history."""
    if request.project:
        turn.state.projects.named(request.project)
    seconds = SECONDS[request.every]
    reply = HistoryReply(n=request.n, points=[])
    found = turn.found.points.get((request.session, request.n))
    if found is not None:
        ref, rows = found
        reply.points = [
            Point(float(at * seconds), *row) for at, row in zip(ref.times, rows, strict=True) if row is not None
        ]
        reply.next = float(ref.next * seconds)
    return reply


REQUESTS: Final = (RequestRule(StatsHistory, asked_by(show), need, keeps=False, slow_ms=5.0),)
