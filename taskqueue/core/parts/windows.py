"""The counters of a project: its events in the last five minutes, hour and day, and how long attempts took.

Nothing is counted here a second time. A project's totals only grow, so what a window holds is what they have grown by
since it began, and all that is kept is how high they stood then: a ring of *rows*, one for the beginning of each
*period*. Reading is a subtraction, whatever happened meanwhile.

    totals
      │                        ╭──── now ┐
      │             ╭──────────╯         │ in the window
      │       ╭─────╯                    │
      │ ╭─────╯ ◄──────────────────────── row of its oldest period
      └─┴─────┴─────┴─────┴─────┴─────►  wall clock, in periods

Rules:
1. A window of n periods is the present one and the n - 1 before it: between n - 1 and n periods of time.
2. Events count when the turn that made them ends, in the period that is present then.
3. Reading changes nothing, so reading twice gives the same. A project without events has no rings.
4. If the wall clock steps back, the earlier period becomes the present one and time goes on from there: what was
   counted keeps its age. A step forward ages everything by as much.
5. After a crash the windows are those saved last. What the totals gained since then counts in the period of the
   start: late rather than never. The seconds of these attempts are lost.
6. What was loaded stays as it was saved until something is counted: of ten thousand projects few are busy at once. It
   can be shown as it is.

Seconds fall into bins, see ``duration_bins``. A ring of bins costs more than one of events, so it has fewer periods.

A project with rings takes about 6 kB. Counts are kept modulo 2**32: totals may be more, a window holds fewer of a kind.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import add
from typing import Final, NamedTuple

from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import astuple

from taskqueue.core.parts.counters_record import CountersRecord
from taskqueue.core.parts.counts import EventTotals
from taskqueue.core.parts.duration_bins import BINS, HALVES_FROM, HALVES_OFFSET, LAST, OCTAVES, mean_and_p95, of_octaves
from taskqueue.core.parts.history import Row
from taskqueue.core.parts.period_ring import MASK_32, Columns, Layout, PeriodRing
from taskqueue.protocol.fields import Wall

PERIOD_SECONDS: Final = 10
"""The shortest period; the periods of all rings are multiples of it."""

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
"""The shortest periods in a day."""

_NO_ROWS: Final = bytearray()
_NO_BINS: Final = array("I")


class WindowSums(NamedTuple):
    """The sums of a window.

    Attributes:
        events: of each kind, in the order of the fields of EventTotals.
        seconds: mean and 95th percentile of the durations of attempts that ended in it; None: there were none.
    """

    events: Sequence[int]
    seconds: tuple[float, float] | None


class Recent(NamedTuple):
    """Events of a window by period, the present one first.

    Attributes:
        seconds: of a period; ``passed``: of the present one, so far.
        ended: tasks that succeeded or failed; ``attempts`` are these and those that are retried.
    """

    seconds: float
    passed: float
    new: list[int]
    ended: list[int]
    attempts: list[int]


class Counters:
    """The windows of one project. Times are unix seconds, passed in."""

    __slots__ = ("_bins", "_counted", "_end", "_milliseconds", "_period", "_rows", "_saved", "_shift", "_start")

    def __init__(self, totals: EventTotals) -> None:
        """Empty windows; ``totals`` are from before."""
        self._counted: Row = astuple(totals)
        self._start = self._end = 0.0  # of the present period on the wall clock; an empty one at first
        self._period = self._shift = self._milliseconds = 0
        self._rows = _NO_ROWS
        self._bins = _NO_BINS
        self._saved: CountersRecord | None = None  # until something is counted, instead of rows

    def note(self, counted: Row, now_wall: Wall) -> bool:
        """Count what the totals gained in a turn that ends now, up to these; False if nothing. Totals never shrink."""
        if counted == self._counted:
            return False
        if not self._start <= now_wall < self._end:
            self._begin_period(now_wall)
        self._counted = counted
        return True

    def took(self, seconds: float, now_wall: Wall) -> int:
        """Count the duration in seconds of an attempt that ended, done, failed or timed out; return its bin."""
        if not self._start <= now_wall < self._end:
            self._begin_period(now_wall)
        milliseconds = int(seconds * 1000 + 0.5) if seconds > 0 else 0
        # As ``bin_of`` has it, without a call for each attempt.
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
        """Sums of the last five minutes, hour and day; None: nothing happened. Costs the same however much has."""
        gained = list(self._gained(self._period_at(now_wall)))
        return list(map(_sums, gained[: len(_EVENT_RINGS)], gained[len(_EVENT_RINGS) :]))

    def recent(self, now_wall: Wall) -> tuple[Recent, Recent]:
        """What happened in the last five minutes and in the last hour. Costs 20 µs if anything did."""
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
        """The totals up to which gains have been counted."""
        return self._counted

    @property
    def failed(self) -> int:
        """Number of failed attempts ever counted: ``failing`` can grow only when this does."""
        # A timeout is also counted as failed or as retried, so those two are all there is.
        return self._counted[_FAILED] + self._counted[_RETRIED]

    def failing(self, now_wall: Wall) -> int:
        """Failed attempts in the last five minutes, timeouts included, each counted once."""
        gained = next(self._gained(self._period_at(now_wall)))
        return gained[_FAILED] + gained[_RETRIED] if gained else 0

    def lately(self, event: int, now_wall: Wall) -> int:
        """Events of one kind, an index into the fields of EventTotals, in the last five minutes."""
        period = max(int(now_wall // PERIOD_SECONDS) + self._shift, self._period)
        if _MINUTES.is_over(self._period, period):
            return 0
        if self._rows:
            return self._counted[event] - _MINUTES.level(self._rows, period, event) & MASK_32
        gained = next(self._gained(period))
        return gained[event] if gained else 0

    def saved(self) -> CountersRecord:
        """The record to store, in a batch that has the project's totals too."""
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
        """Windows as stored (None: never), counting what the totals gained since as if it happened now.

        Costs next to nothing if they gained nothing.
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
        """Call before the first event of a period is counted, because the present period must be empty until then."""
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
        """Move to a later period: what was counted so far lies before it."""
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
        """Gains in the window of each of _RINGS; None: nothing."""
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
    """Milliseconds and attempts by bin, and the columns of all rings, as stored."""
    columns = _decode(record.rings)
    rings = [_all_bins(ring, record.bins) for ring in columns[len(_EVENT_RINGS) :]]
    times = [sum(added) for added in _all_bins([[count] for count in record.times], record.bins)]
    return times, [*columns[: len(_EVENT_RINGS)], *rings]


def _all_bins(columns: Columns, bins: int) -> Columns:
    """Columns stored with an older number of bins, converted to the present bins."""
    milliseconds, *saved = columns or [[]]
    if bins == OCTAVES:
        saved = of_octaves(saved)
    return [milliseconds, *saved, *([] for _ in range(BINS - len(saved)))]
