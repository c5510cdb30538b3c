"""History of events: counts by kind for each minute of a day, and for each hour of 90 days.

A *point* has the events of one project, or of all together, in one minute or hour. Where nothing happened there is
none. All points of one minute, or hour, are a *slice*; it is written, and dropped, as a whole.

    totals ──► changed projects, former totals ──end of the minute──► points of the minute; those of the hour grow
                                                  └──some projects a turn──► at last, the sum: a whole slice

The state of the scheduler must never come in here. ``steps/history`` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from operator import add, sub
from typing import Final, NamedTuple

from msgspec import Raw, Struct, field

from taskqueue.core.model.histogram import OCTAVES
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.values import EventTotals

Row = tuple[int, ...]
"""Number of events of each kind, in order of the fields of EventTotals."""

NO_EVENTS: Final[Row] = (0,) * len(EventTotals.__struct_fields__)

SECONDS: Final[Mapping[Resolution, int]] = {"minute": 60, "hour": 3600}
SLICES_MOST: Final[Mapping[Resolution, int]] = {"minute": 24 * 60, "hour": 90 * 24}
"""Slices kept: a day of minutes, 90 days of hours."""

LATE_SECONDS: Final = 3600
"""Seconds that old slices may stay, to be dropped together: each dropped range makes reading a little slower."""

POINTS_MOST = 8_000_000
"""Points of projects that are kept, of minutes and of hours each; beyond it the oldest slices go, down to nine tenths.

A point of 3,000 busy projects takes 11 to 15 bytes on disk, so all points take 240 MB at most.
"""


class CountersRecord(Struct, array_like=True):
    """Windows of a project, as stored.

    Attributes:
        period: present period when it was made, counted as the rings do.
        shift: ``period`` less the number of PERIOD_SECONDS since 1970: the steps back of the wall clock.
        totals: totals at that time, in order of the fields of EventTotals.
        times: milliseconds of all attempts, and attempts by bin, without zeros at the end; empty if there are no rings.
        rings: Columns of each ring, without empty ones at the end, encoded: lists of numbers would take up to 25 kB.
        bins: number of bins; OCTAVES in stores from before there were BINS.
    """

    period: int
    shift: int
    totals: tuple[int, ...]
    times: list[int] = field(default_factory=list)
    rings: Raw = Raw(b"\x90")
    bins: int = OCTAVES


class KeptPoint(NamedTuple):
    """Point of a project that replaces its point at that time, in minutes or hours since 1970."""

    resolution: Resolution
    at: int
    project: int
    events: Row


class KeptSlice(NamedTuple):
    """Sum over all projects at a time, and the number of projects with a point there."""

    resolution: Resolution
    at: int
    events: Row
    projects: int


class DroppedSlices(NamedTuple):
    """Order to drop slices from ``start`` to below ``end``; if not ``whole``, only the projects' points in them."""

    resolution: Resolution
    start: int
    end: int
    whole: bool


class PointsRef(NamedTuple):
    """Request for points, for request ``n`` of a session.

    Attributes:
        project: number of the project; ALL for the sum over all projects.
        times: times of the slices, in minutes or hours since 1970.
        next: time of the slice after these; 0 if there is none.
    """

    session: str
    n: int
    resolution: Resolution
    project: int
    times: tuple[int, ...]
    next: int


ALL: Final = 0
"""Placeholder for a project number: all projects."""


class LoadedSlices(Struct):
    """Slices of one resolution in the store.

    Attributes:
        slices: number of projects with a point, by time, in order.
        rows: points of the last slice, by project.
        sum: sum of the last slice over all projects.
    """

    slices: dict[int, int] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    sum: Row = NO_EVENTS


class Series:
    """Slices of one resolution.

    Attributes:
        at: time of the slice that is written now, or was written last.
        rows, sum: content of that slice.
        slices: see ``LoadedSlices``; the slice that is written now is added when it is complete.
    """

    __slots__ = ("at", "resolution", "rows", "slices", "sum")

    def __init__(self, resolution: Resolution, loaded: LoadedSlices) -> None:
        self.resolution = resolution
        self.slices = loaded.slices
        self.at = next(reversed(loaded.slices), 0)
        self.rows = loaded.rows
        self.sum = loaded.sum

    def begin(self, at: int) -> Iterator[DroppedSlices]:
        """Begin the slice of that time; if the wall clock was put back, drop later ones."""
        if at == self.at:
            return
        if at < self.at:
            yield DroppedSlices(self.resolution, at, self.at + 1, whole=True)
            self.slices = {time: count for time, count in self.slices.items() if time < at}
        self.at, self.rows, self.sum = at, {}, NO_EVENTS

    def add(self, project: int, gained: Row) -> KeptPoint:
        """Return the project's point with its gain, which the sum already includes."""
        row = self.rows[project] = _plus(self.rows.get(project, NO_EVENTS), gained)
        return KeptPoint(self.resolution, self.at, project, row)

    def count(self, gained: Row) -> None:
        """Add a gain to the sum."""
        self.sum = _plus(self.sum, gained)

    def end(self) -> KeptSlice:
        """Complete the slice, for now."""
        self.slices[self.at] = len(self.rows)
        return KeptSlice(self.resolution, self.at, self.sum, len(self.rows))

    def bring(self, project: int, rows: Mapping[int, Row], sums: Mapping[int, Row]) -> Iterator[KeptSlice]:
        """Count a further project's points, by time; yield the slices.

        The sum of a known slice stays: it has the events of projects that have been deleted.

        Args:
            sums: sums of the slices as stored.
        """
        for at, row in rows.items():
            if at == self.at:
                self.rows[project] = row
                self.slices[at] = len(self.rows)
                yield KeptSlice(self.resolution, at, self.sum, len(self.rows))
            else:
                self.slices[at] = self.slices.get(at, 0) + 1
                yield KeptSlice(self.resolution, at, sums.get(at, row), self.slices[at])
        self.slices = dict(sorted(self.slices.items()))

    def drop(self) -> Iterator[DroppedSlices]:
        """Drop old slices and, if there are too many points, the oldest points."""
        old_to = self.at - SLICES_MOST[self.resolution] + 1
        if self.slices and next(iter(self.slices)) <= old_to - LATE_SECONDS // SECONDS[self.resolution]:
            yield DroppedSlices(self.resolution, 0, old_to, whole=True)
            self.slices = {time: count for time, count in self.slices.items() if time >= old_to}
        left = sum(self.slices.values())
        if left > POINTS_MOST:
            yield DroppedSlices(self.resolution, 0, self._thin(left), whole=False)

    def _thin(self, left: int) -> int:
        """Drop points from the oldest slices; return the time before which none are left."""
        for time, count in self.slices.items():
            if left <= POINTS_MOST * 9 // 10 or time == self.at:
                return time
            self.slices[time] = 0
            left -= count
        return self.at


class History:
    """Events to be written next, and the series that they go to.

    Attributes:
        minute: current minute, since 1970, if anything has happened in it.
        due_at: end of the minute (unix seconds); inf if nothing has happened in it.
        moved: former totals of the projects with events in it, by number.
        due: former totals of the projects with events in the minute that is being written, by number.
        ended: last totals of the projects deleted meanwhile, by number.
        series: series by resolution.
    """

    __slots__ = ("due", "due_at", "ended", "minute", "moved", "series")

    def __init__(self, loaded: Mapping[Resolution, LoadedSlices]) -> None:
        self.minute = 0
        self.due_at = inf
        self.moved: dict[int, Row] = {}
        self.due: dict[int, Row] = {}
        self.ended: dict[int, Row] = {}
        self.series = {each: Series(each, loaded.get(each) or LoadedSlices()) for each in SECONDS}

    def is_over(self, now_wall: Wall) -> bool:
        """Return whether the current minute has ended, or has not begun because the clock was put back."""
        return bool(self.moved) and not self.minute * 60 <= now_wall < self.due_at

    def note(self, project: int, before: Row, now_wall: Wall) -> None:
        """Record the first event of a project in the current minute, with its totals before that."""
        if not self.moved:
            self.minute = int(now_wall // 60)
            self.due_at = (self.minute + 1) * 60.0
        self.moved[project] = before

    def begin(self) -> None:
        """Start writing the current minute; later events belong to another one."""
        self.due, self.moved, self.due_at = self.moved, {}, inf

    def remove(self, project: int, totals: Row) -> None:
        """Record that a project was deleted; its events remain in the sums."""
        if project in self.due or project in self.moved:
            self.ended[project] = totals

    def gained(self, project: int, counted: Row | None) -> Row:
        """Return the gain of a project in the minute that is being written.

        Args:
            counted: its present totals; None if it was deleted.
        """
        before = self.due.pop(project)
        after = self.moved.get(project) or counted or self.ended.pop(project)
        return tuple(map(sub, after, before))


def _plus(a: Row, b: Row) -> Row:
    return tuple(map(add, a, b))
