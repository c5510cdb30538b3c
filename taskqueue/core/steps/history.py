"""History of events and of the daemon, written by the minute and shown.

Its values are in ``model/history`` and ``model/daemon_minutes``.

Rules of events:
1. The end of a turn only records which totals have grown in this minute. Their growth is counted after the minute, of
   POINTS_A_TURN projects in a turn. A minute without events wakes nothing up.
2. A point of an hour is written again with each minute, so the current hour is known so far.
3. A minute is written when it has passed: a crash loses at most a minute. A clean shutdown writes the current one.
4. Events of a deleted project stay in the sum over all projects; its own points are dropped when they are old.
5. If the wall clock is put back, the minutes and hours that it repeats are written again.

Rules of the daemon's minutes:
1. A minute is written by the first turn after it, in that turn's batch. The core never asks for a turn for this: events
   bring turns anyway, and a daemon that sleeps writes nothing.
2. A crash loses the current minute; a clean shutdown writes it.
3. If the wall clock is put back, the minutes that it repeats are written again. Later ones are dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from math import ceil
from typing import Final

from taskqueue.core.model.daemon_minutes import MINUTES_KEPT, DaemonMinute
from taskqueue.core.model.history import ALL, SECONDS, PointsRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.request_rule import Halves, RequestRule, asked, in_halves
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.daemon import DaemonHistory, DaemonHistoryReply, DaemonPoint
from taskqueue.protocol.insight import HistoryPoint, HistoryReply, StatsHistory
from taskqueue.protocol.message_room import room_in

# ------------------------------------------------------------------------------------------------ events, written

POINTS_A_TURN = 256
"""Projects whose points are written in one turn: 1.5 ms, the store's part included."""

PAGE_POINTS = 256
"""Slices scanned for a page, at most: each may cost a read of its own, 5 ms together."""


def has_work(state: State) -> bool:
    """Whether there are points to write."""
    return bool(state.history.due) or state.history.is_over(state.last_now.wall)


def step(turn: TurnState) -> None:
    """Write some points of the last minute."""
    history = turn.state.history
    if not history.due and history.is_over(turn.now.wall):
        _begin(turn)
    if history.due:
        _write(turn, POINTS_A_TURN)
        turn.more |= bool(history.due)


def _begin(turn: TurnState) -> None:
    """Begin to write the minute that was counted, and to count the next one."""
    history = turn.state.history
    history.begin()
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


# ------------------------------------------------------------------------------------------------ events, shown


def show_events(turn: TurnState, request: StatsHistory, wanted: Needs) -> Halves:
    """Answer with a page of the history."""
    state = turn.state
    number = state.projects.named(request.project).number if request.project else ALL
    seconds = SECONDS[request.every]
    slices = state.history.series[request.every].slices
    times = list(slices)
    first = bisect_left(times, int(request.since // seconds))
    end = bisect_left(times, ceil(request.until / seconds)) if request.until else len(times)
    page = tuple(times[first : min(end, first + PAGE_POINTS)])
    following = first + len(page)
    next_time = times[following] if following < end else 0
    wanted.points.append(PointsRef(request.session, request.n, request.every, number, page, next_time))
    yield
    reply = HistoryReply(n=request.n, points=[])
    found = turn.found.points.get((request.session, request.n))
    if found is not None and found[0].project == number:  # if not, that project was deleted in this turn
        ref, rows = found
        reply.points = [
            HistoryPoint(float(at * seconds), *row) for at, row in zip(ref.times, rows, strict=True) if row is not None
        ]
        reply.next = float(ref.next * seconds)
    return reply


# ------------------------------------------------------------------------------------------------ minutes, written


MINUTE_BYTES: Final = 640
"""Bytes of a point in a message, at most."""

PAGE_MINUTES = 360
"""Minutes in a page, at most: a quarter of a day."""


def note_minute(turn: TurnState, figures: DaemonMinute) -> None:
    """Write the minute that the shell has measured, with the events of its turns."""
    minutes, writes, now = turn.state.daemon_minutes, turn.changes.writes, int(turn.now.wall // 60)
    minute = _completed(turn.state, figures)
    is_past = minute.minute <= now  # if not, the clock was put back in this turn
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


# ------------------------------------------------------------------------------------------------ minutes, shown


def show_minutes(turn: TurnState, request: DaemonHistory) -> DaemonHistoryReply:
    """Answer with a page of the last day's minutes."""
    state, now = turn.state, int(turn.now.wall // 60)
    first = max(ceil(request.since / 60), now - MINUTES_KEPT + 1)
    last = min(ceil(request.until / 60) - 1, now) if request.until else now
    most = min(PAGE_MINUTES, max(1, room_in(state.config.max_message) // MINUTE_BYTES))
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


REQUESTS: Final = (
    RequestRule(StatsHistory, *in_halves(show_events), keeps=False, slow_ms=5.0),
    RequestRule(DaemonHistory, asked(show_minutes), keeps=False, slow_ms=2.0),
)
