"""Counters of a project: its events in the last five minutes, hour and day, and durations of attempts.

No event is counted twice. A project's totals (``EventCounts``) only grow, so the count in a window is
their growth since it began, and only their former values are kept: a ring of *rows*, one for the
beginning of each *period*. Reading is a subtraction, whatever happened meanwhile.

    totals
      │                        ╭──── now ┐
      │             ╭──────────╯         │ in the window
      │       ╭─────╯                    │
      │ ╭─────╯ ◄──────────────────────── row of its oldest period
      └─┴─────┴─────┴─────┴─────┴─────►  wall clock, in periods

Rules:
1. A window of n periods is the present one and the n - 1 before it: between n - 1 and n periods of time.
2. Events count when their turn ends, in the period that is present then.
3. Reading changes nothing, so reading twice gives equal results. A project without events has no rings.
4. If the wall clock steps back, the earlier period becomes the present one and time goes on from there: past
   events keep their age. A step forward ages everything by as much.
5. After a crash the windows are those saved last. Gains of the totals since then count in the period of the
   start: late rather than never. The seconds of these attempts are lost.
6. Loaded windows stay in their saved form until something is counted: of ten thousand projects few are busy at once.
   They can be read in that form.

Seconds fall into bins, see ``histogram``. A ring of bins costs more than one of events, so it has fewer periods.

All rings of a project (``PeriodRing``) are slices of one ``bytearray``, so a project without counts costs nothing
and any other one object, of about 6 kB. A row has counters of 64 and of 32 bits, modulo their size: totals may be more
than 2**32, but the count in a window is less. Times are numbers of the shortest period: ``head`` is the period in which
something was last counted, ``period`` the one of the present call.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import add, sub
from struct import Struct as Packing
from sys import byteorder
from typing import Final, Literal, NamedTuple

from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import astuple
from mypy_extensions import mypyc_attr

from taskqueue.core.model.histogram import BINS, HALVES_FROM, HALVES_OFFSET, LAST, OCTAVES, mean_and_p95, of_octaves
from taskqueue.core.model.history import CountersRecord, Row
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.values import EventTotals


@mypyc_attr(acyclic=True)
class EventCounts:
    """Number of events of each kind in a project, as in EventTotals.

    Not a struct, because they grow several times in each task's life, and compiled code changes the fields of structs
    slowly.
    """

    __slots__ = ("failed", "new", "retried", "selected", "success", "timeout")

    def __init__(self, totals: EventTotals) -> None:
        self.new = totals.new
        self.selected = totals.selected
        self.success = totals.success
        self.failed = totals.failed
        self.retried = totals.retried
        self.timeout = totals.timeout

    def row(self) -> Row:
        """Return the counts, in order of the fields of EventTotals."""
        return self.new, self.selected, self.success, self.failed, self.retried, self.timeout


MASK_32: Final = 2**32 - 1

Columns = list[list[int]]
"""Additions of each period, by counter, the present period first, without trailing zeros.

Negative where a counter passed 2**32.
"""

Width = Literal["Q", "I"]
"""Width of a counter: 64 or 32 bits."""


class Layout:
    """Columns of a row: those of 64 bits, then those of 32 bits."""

    def __init__(self, wide: int, narrow: int) -> None:
        self.packing = Packing(f"={wide}Q{narrow}I")
        self.masks = [2**64 - 1] * wide + [MASK_32] * narrow
        self.places: list[tuple[Width, slice]] = [("Q", slice(n, None, self.packing.size // 8)) for n in range(wide)]
        self.places += [("I", slice(2 * wide + n, None, self.packing.size // 4)) for n in range(narrow)]


class PeriodRing:
    """Position and format of a ring in the bytes of a project; it contains no counters itself.

    Attributes:
        end: offset of the first byte after it.
    """

    def __init__(self, start: int, periods: int, ticks: int, layout: Layout) -> None:
        """``periods`` of ``ticks`` shortest periods each."""
        self._start = start
        self._periods = periods
        self._ticks = ticks
        self._layout = layout
        self.end = start + periods * layout.packing.size

    def advance(self, rows: bytearray, head: int, period: int, row: bytes) -> None:
        """Write ``row`` for all periods after that of ``head``, up to that of ``period``, or the last that fit."""
        first, last = head // self._ticks + 1, period // self._ticks
        for n in range(max(first, last - self._periods + 1), last + 1):
            at = self._offset(n)
            rows[at : at + len(row)] = row

    def gained(self, rows: bytearray, head: int, period: int, now: Sequence[int]) -> list[int] | None:
        """Return the additions in the window that ends with ``period``, up to ``now``; None if there are none."""
        first = period // self._ticks - self._periods + 1
        if first > head // self._ticks:
            return None
        then = self._layout.packing.unpack_from(rows, self._offset(first))
        return [a - b & mask for a, b, mask in zip(now, then, self._layout.masks, strict=True)]

    def is_over(self, head: int, period: int) -> bool:
        """Return whether everything counted until ``head`` lies before the window that ends with ``period``."""
        return period // self._ticks - self._periods + 1 > head // self._ticks

    def level(self, rows: bytearray, period: int, column: int) -> int:
        """Return one 32-bit column at the beginning of the window that ends with ``period``."""
        at = self._offset(period // self._ticks - self._periods + 1) + 4 * column
        return int.from_bytes(rows[at : at + 4], byteorder)

    def gained_by_columns(self, columns: Columns, head: int, period: int) -> list[int] | None:
        """Return what ``gained`` does, computed from ``columns`` instead of rows."""
        left = self._periods + head // self._ticks - period // self._ticks
        if left <= 0:
            return None
        return [sum(added[:left]) & mask for added, mask in zip(columns, self._layout.masks, strict=True)]

    def columns(self, rows: bytearray, head: int, now: Sequence[int]) -> Columns:
        """Return the additions of each period."""
        sums = self.gained(rows, head, head, now) or []
        return [self._additions(rows, head, n, now[n]) if total else [] for n, total in enumerate(sums)]

    def series(self, columns: Columns, head: int, period: int) -> Columns:
        """Return ``columns`` as of ``period``, each as long as the ring."""
        quiet = [0] * min(self._periods, period // self._ticks - head // self._ticks)
        width = len(self._layout.masks)
        padded = [quiet + (columns[n] if n < len(columns) else []) + [0] * self._periods for n in range(width)]
        return [each[: self._periods] for each in padded]

    def restore(self, rows: bytearray, head: int, now: Sequence[int], columns: Columns) -> None:
        """Write the rows that ``columns`` describes."""
        row = self._layout.packing.pack(*[last & mask for last, mask in zip(now, self._layout.masks, strict=True)])
        rows[self._start : self.end] = row * self._periods
        for n, added in enumerate(columns):
            if added:
                self._restore(rows, head, n, now[n], added)

    def _additions(self, rows: bytearray, head: int, column: int, last: int) -> list[int]:
        levels = self._turned(self._view(rows, column).tolist(), head)
        added = list(map(sub, [last & self._layout.masks[column], *levels], levels))
        while not added[-1]:
            added.pop()
        return added

    def _restore(self, rows: bytearray, head: int, column: int, last: int, added: Sequence[int]) -> None:
        view = self._view(rows, column)
        levels = list(accumulate(added, sub, initial=last & self._layout.masks[column]))[1:]
        levels += levels[-1:] * (self._periods - len(levels))
        view[:] = memoryview(array(view.format, self._turned(levels, head)))

    def _view(self, rows: bytearray, column: int) -> memoryview:
        width, place = self._layout.places[column]
        return memoryview(rows)[self._start : self.end].cast(width)[place]

    def _turned(self, column: list[int], head: int) -> list[int]:
        """Reorder a column from positions to ages, the present period first; its own inverse."""
        newest = head // self._ticks % self._periods
        return column[newest::-1] + column[:newest:-1]

    def _offset(self, n: int) -> int:
        return self._start + n % self._periods * self._layout.packing.size


PERIOD_SECONDS: Final = 10
"""Seconds of the shortest period; the periods of all rings are multiples of it."""

_FAILED: Final = EventTotals.__struct_fields__.index("failed")
_RETRIED: Final = EventTotals.__struct_fields__.index("retried")

_encode: Final = Encoder().encode
_decode: Final = Decoder(list[Columns]).decode

_EVENTS: Final = Layout(0, 6)
_TIMES: Final = Layout(1, BINS)

# Periods of 10 s, 2 min and 1 h for events; of 50 s, 10 min and 3 h for what attempts took.
_MINUTES: Final = PeriodRing(0, 30, 1, _EVENTS)
_HOUR_TICKS: Final = 12
_HOUR: Final = PeriodRing(_MINUTES.end, 30, _HOUR_TICKS, _EVENTS)
_DAY: Final = PeriodRing(_HOUR.end, 24, 360, _EVENTS)
_MINUTES_TIMES: Final = PeriodRing(_DAY.end, 6, 5, _TIMES)
_HOUR_TIMES: Final = PeriodRing(_MINUTES_TIMES.end, 6, 60, _TIMES)
_DAY_TIMES: Final = PeriodRing(_HOUR_TIMES.end, 8, 1080, _TIMES)

_EVENT_RINGS: Final = (_MINUTES, _HOUR, _DAY)
_TIME_RINGS: Final = (_MINUTES_TIMES, _HOUR_TIMES, _DAY_TIMES)
_RINGS: Final = (*_EVENT_RINGS, *_TIME_RINGS)

_LONGEST: Final = 8640
"""Number of shortest periods in a day."""

_NO_ROWS: Final = bytearray()
_NO_BINS: Final = array("I")


class WindowSums(NamedTuple):
    """Sums of a window.

    Attributes:
        events: count of each kind, in order of the fields of EventTotals.
        seconds: mean and 95th percentile of the durations of attempts that ended in it; None if there were none.
    """

    events: Sequence[int]
    seconds: tuple[float, float] | None


class Recent(NamedTuple):
    """Events of a window by period, the present one first.

    Attributes:
        seconds: length of a period; ``passed``: of the present one, so far.
        ended: tasks that succeeded or failed; ``attempts`` adds those that are retried.
    """

    seconds: float
    passed: float
    new: list[int]
    ended: list[int]
    attempts: list[int]


class Counters:
    """Windows of one project. Times are unix seconds, passed in."""

    __slots__ = ("_bins", "_counted", "_end", "_milliseconds", "_period", "_rows", "_saved", "_shift", "_start")

    def __init__(self, totals: EventTotals) -> None:
        """Start with empty windows after these totals."""
        self._counted: Row = astuple(totals)
        self._start = self._end = 0.0  # of the present period on the wall clock; an empty one at first
        self._period = self._shift = self._milliseconds = 0
        self._rows = _NO_ROWS
        self._bins = _NO_BINS
        self._saved: CountersRecord | None = None  # until something is counted, instead of rows

    def note(self, counted: Row, now_wall: Wall) -> bool:
        """Count the gains of the totals, which never shrink, in a turn that ends now; return False if none."""
        if counted == self._counted:
            return False
        if not self._start <= now_wall < self._end:
            self._begin_period(now_wall)
        self._counted = counted
        return True

    def took(self, seconds: float, now_wall: Wall) -> int:
        """Count the seconds of an ended attempt (done, failed or timed out); return their bin."""
        if not self._start <= now_wall < self._end:
            self._begin_period(now_wall)
        milliseconds = int(seconds * 1000 + 0.5) if seconds > 0 else 0
        # ``bin_of``, without a call for each attempt.
        if milliseconds < HALVES_FROM:
            place = (milliseconds | 1).bit_length() - 1
        else:
            place = (milliseconds * milliseconds).bit_length() - HALVES_OFFSET
            if place > LAST:
                place = LAST
        self._milliseconds += milliseconds
        try:
            self._bins[place] += 1
        except OverflowError:  # of 32 bits; to mask each sum would cost more
            self._bins[place] = 0
        return place

    def sums(self, now_wall: Wall) -> list[WindowSums | None]:
        """Return sums of the last five minutes, hour and day; None for each without events. The cost is constant."""
        gained = list(self._gained(self._period_at(now_wall)))
        return list(map(_sums, gained[: len(_EVENT_RINGS)], gained[len(_EVENT_RINGS) :]))

    def recent(self, now_wall: Wall) -> tuple[Recent, Recent]:
        """Return the events of the last five minutes and of the last hour; costs 20 µs if there are any."""
        period = self._period_at(now_wall)
        saved = _times_of(self._saved)[1] if self._saved is not None else []
        minutes, hour = [
            ring.series(
                saved[place] if saved else ring.columns(self._rows, self._period, self._counted) if self._rows else [],
                self._period,
                period,
            )
            for place, ring in enumerate((_MINUTES, _HOUR))
        ]
        passed = now_wall % PERIOD_SECONDS
        return _recent(minutes, 1, passed), _recent(hour, _HOUR_TICKS, period % _HOUR_TICKS * PERIOD_SECONDS + passed)

    @property
    def counted(self) -> Row:
        """Totals up to which gains have been counted."""
        return self._counted

    @property
    def failed(self) -> int:
        """Number of failed attempts ever counted: ``failing`` can grow only when this does."""
        # Each timeout counts as failed or retried, too.
        return self._counted[_FAILED] + self._counted[_RETRIED]

    def failing(self, now_wall: Wall) -> int:
        """Return the failed attempts of the last five minutes, timeouts included, each counted once."""
        gained = next(self._gained(self._period_at(now_wall)))
        return gained[_FAILED] + gained[_RETRIED] if gained else 0

    def lately(self, event: int, now_wall: Wall) -> int:
        """Return the events of one kind, an index into the fields of EventTotals, in the last five minutes."""
        period = max(int(now_wall // PERIOD_SECONDS) + self._shift, self._period)
        if _MINUTES.is_over(self._period, period):
            return 0
        if self._rows:
            return self._counted[event] - _MINUTES.level(self._rows, period, event) & MASK_32
        gained = next(self._gained(period))
        return gained[event] if gained else 0

    def saved(self) -> CountersRecord:
        """Return the record to store, in a batch that has the project's totals, too."""
        if self._saved is not None:
            return self._saved
        if not self._rows:
            return CountersRecord(self._period, self._shift, self._counted, bins=BINS)
        times = self._times()
        columns = [ring.columns(self._rows, self._period, self._counted) for ring in _EVENT_RINGS]
        columns += [_trimmed(ring.columns(self._rows, self._period, times)) for ring in _TIME_RINGS]
        while len(times) > 1 and not times[-1]:
            times.pop()
        return CountersRecord(self._period, self._shift, self._counted, times, Raw(_encode(columns)), BINS)

    @classmethod
    def load(cls, record: CountersRecord | None, totals: EventTotals, now_wall: Wall) -> Counters:
        """Load stored windows (None if there are none), and count the totals' gains since then as if they happened now.

        Costs next to nothing if there are no gains.
        """
        if record is None:
            return cls(totals)
        counters = cls(EventTotals(*record.totals))
        counters._shift = record.shift
        if record.times and _ticks(now_wall) + record.shift - record.period < _LONGEST:
            counters._saved, counters._period = record, record.period
        counters.note(astuple(totals), now_wall)
        return counters

    def _restore(self, record: CountersRecord) -> None:
        self._saved = None
        times, columns = _times_of(record)
        self._milliseconds = times[0]
        self._bins = array("I", [count & MASK_32 for count in times[1:]])
        self._rows = bytearray(_DAY_TIMES.end)
        nows = [record.totals] * len(_EVENT_RINGS) + [times] * len(_TIME_RINGS)
        for ring, now, added in zip(_RINGS, nows, columns, strict=True):
            ring.restore(self._rows, record.period, now, added)

    def _begin_period(self, now_wall: Wall) -> None:
        """Begin a period, before its first event is counted, because the present period must be empty until then."""
        if self._saved is not None:
            self._restore(self._saved)
        ticks = _ticks(now_wall)
        self._start, self._end = float(ticks * PERIOD_SECONDS), float((ticks + 1) * PERIOD_SECONDS)
        if not self._rows:
            self._allocate(ticks + self._shift)
        elif ticks + self._shift < self._period:
            self._shift = self._period - ticks
        else:
            self._advance(ticks + self._shift)

    def _advance(self, period: int) -> None:
        """Move to a later period: everything counted so far lies before it."""
        rows, head = self._rows, self._period
        row = _EVENTS.packing.pack(*[count & MASK_32 for count in self._counted])
        for ring in _EVENT_RINGS:
            ring.advance(rows, head, period, row)
        row = _TIMES.packing.pack(self._milliseconds, *self._bins)
        for ring in _TIME_RINGS:
            ring.advance(rows, head, period, row)
        self._period = period

    def _allocate(self, period: int) -> None:
        self._rows = bytearray(_DAY_TIMES.end)
        self._bins = array("I", bytes(4 * BINS))
        self._period = period - 2 * _LONGEST  # so that every ring is written all round
        self._advance(period)

    def _period_at(self, now_wall: Wall) -> int:
        return max(_ticks(now_wall) + self._shift, self._period)

    def _times(self) -> list[int]:
        return [self._milliseconds, *self._bins]

    def _gained(self, period: int) -> Iterator[list[int] | None]:
        """Yield the gains in the window of each of _RINGS; None for each without gains."""
        if self._saved is not None:
            rings = zip(_RINGS, _times_of(self._saved)[1], strict=True)
            yield from (ring.gained_by_columns(columns, self._period, period) for ring, columns in rings)
        elif not self._rows:
            yield from [None] * len(_RINGS)
        else:
            yield from (ring.gained(self._rows, self._period, period, self._counted) for ring in _EVENT_RINGS)
            times = self._times()
            yield from (ring.gained(self._rows, self._period, period, times) for ring in _TIME_RINGS)


def _sums(counts: list[int] | None, times: list[int] | None) -> WindowSums | None:
    return WindowSums(counts, mean_and_p95(times[0], times[1:]) if times else None) if counts else None


def _recent(series: Columns, ticks: int, passed: float) -> Recent:
    new, _, success, failed, retried, _ = series
    ended = list(map(add, success, failed))
    return Recent(float(ticks * PERIOD_SECONDS), passed, new, ended, list(map(add, ended, retried)))


def _ticks(now_wall: Wall) -> int:
    return int(now_wall // PERIOD_SECONDS)


def _trimmed(columns: Columns) -> Columns:
    return columns[: max((n + 1 for n, added in enumerate(columns) if added), default=0)]


def _times_of(record: CountersRecord) -> tuple[list[int], list[Columns]]:
    """Return milliseconds and attempts by bin, and the columns of all rings, as stored."""
    columns = _decode(record.rings)
    rings = [_all_bins(ring, record.bins) for ring in columns[len(_EVENT_RINGS) :]]
    times = [sum(added) for added in _all_bins([[count] for count in record.times], record.bins)]
    return times, [*columns[: len(_EVENT_RINGS)], *rings]


def _all_bins(columns: Columns, bins: int) -> Columns:
    """Convert columns stored with an older number of bins to the present bins."""
    milliseconds, *saved = columns or [[]]
    if bins == OCTAVES:
        saved = of_octaves(saved)
    return [milliseconds, *saved, *([] for _ in range(BINS - len(saved)))]
