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

Seconds fall into bins that double in width, from 1 ms to 140 minutes, so that an estimate from them is wrong by less
than a factor of two (C. Masson, J. Rim, H. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
relative-error guarantees", 2019, has the principle and finer bins). A ring of bins costs more than one of events, so
it has fewer periods.

A project with rings takes about 5 kB. Counts are kept modulo 2**32: totals may be more, a window holds fewer of a kind.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub
from struct import Struct as Packing
from sys import byteorder
from typing import Final, Literal

from msgspec import Raw, Struct, field
from msgspec.msgpack import Decoder, Encoder

from taskqueue.protocol.views import QUIET, Totals, Window, Windows

PERIOD_SECONDS: Final = 10
"""The shortest period; those of all rings are multiples of it."""

BINS: Final = 24
"""Attempts by the bit length of their milliseconds: < 1, 1, 2-3, 4-7, …; the last one has all from 70 minutes on."""

_FAILED: Final = Totals.__struct_fields__.index("failed")
_RETRIED: Final = Totals.__struct_fields__.index("retried")

_32_BITS: Final = 2**32 - 1

Columns = list[list[int]]
"""Of a ring: what each period added, the present one first, without the zeros at the end; less than nothing where a
count passed 2**32."""

_encode: Final = Encoder().encode
_decode: Final = Decoder(list[Columns]).decode


class CountersRecord(Struct, array_like=True):
    """The windows of a project as the store keeps them.

    Attributes:
        period: the present one when it was made, counted as the rings do.
        shift: ``period`` less the number of PERIOD_SECONDS since 1970: what the wall clock has stepped back.
        totals: at that time, in the order of the fields of Totals.
        times: milliseconds of all attempts, and attempts by bin; empty if there are no rings.
        rings: the Columns of each, encoded: lists of numbers would take up to 25 kB.
    """

    period: int
    shift: int
    totals: tuple[int, ...]
    times: list[int] = field(default_factory=list)
    rings: Raw = Raw(b"\x90")


Width = Literal["Q", "I"]
"""Of a number: 64 or 32 bits."""


class Layout:
    """What a row is made of: columns of 64 bits, then columns of 32 bits."""

    def __init__(self, wide: int, narrow: int) -> None:
        self.packing = Packing(f"={wide}Q{narrow}I")
        self.masks = [2**64 - 1] * wide + [_32_BITS] * narrow
        self.places: list[tuple[Width, slice]] = [("Q", slice(n, None, self.packing.size // 8)) for n in range(wide)]
        self.places += [("I", slice(2 * wide + n, None, self.packing.size // 4)) for n in range(narrow)]


class PeriodRing:
    """Where one ring is among the rows of a project, and how to read and write it. Holds no counts itself.

    Attributes:
        end: offset of the first byte after it.
    """

    def __init__(self, start: int, periods: int, ticks: int, layout: Layout) -> None:
        """``periods`` of ``ticks`` times the shortest period each."""
        self._start = start
        self._periods = periods
        self._ticks = ticks
        self._layout = layout
        self.end = start + periods * layout.packing.size

    def advance(self, rows: bytearray, head: int, period: int, row: bytes) -> None:
        """Let ``row`` be that of all periods after the one of ``head``, up to that of ``period``."""
        first, last = head // self._ticks + 1, period // self._ticks
        for n in range(max(first, last - self._periods + 1), last + 1):
            at = self._offset(n)
            rows[at : at + len(row)] = row

    def gained(self, rows: bytearray, head: int, period: int, now: Sequence[int]) -> list[int] | None:
        """What was added in the window that ends with ``period``, up to ``now``; None: nothing since it began."""
        first = period // self._ticks - self._periods + 1
        if first > head // self._ticks:
            return None
        then = self._layout.packing.unpack_from(rows, self._offset(first))
        return [a - b & mask for a, b, mask in zip(now, then, self._layout.masks, strict=True)]

    def is_over(self, head: int, period: int) -> bool:
        """All that was counted until the period of ``head`` was before the window that ends with ``period``."""
        return period // self._ticks - self._periods + 1 > head // self._ticks

    def level(self, rows: bytearray, period: int, column: int) -> int:
        """How high one column of 32 bits stood when the window began that ends with ``period``."""
        at = self._offset(period // self._ticks - self._periods + 1) + 4 * column
        return int.from_bytes(rows[at : at + 4], byteorder)

    def told(self, columns: Columns, head: int, period: int) -> list[int] | None:
        """The same as ``gained``, from what ``columns`` tells instead of rows."""
        left = self._periods + head // self._ticks - period // self._ticks
        if left <= 0:
            return None
        return [sum(added[:left]) & mask for added, mask in zip(columns, self._layout.masks, strict=True)]

    def columns(self, rows: bytearray, head: int, now: Sequence[int]) -> Columns:
        """What each period added."""
        sums = self.gained(rows, head, head, now) or []
        return [self._additions(rows, head, n, now[n]) if total else [] for n, total in enumerate(sums)]

    def restore(self, rows: bytearray, head: int, now: Sequence[int], columns: Columns) -> None:
        """Write the rows of which ``columns`` tells."""
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
        """A column, as numbers that can be read and written."""
        width, place = self._layout.places[column]
        return memoryview(rows)[self._start : self.end].cast(width)[place]

    def _turned(self, column: list[int], head: int) -> list[int]:
        """From the order of places to that of ages, the present period first; and back, it is the same."""
        newest = head // self._ticks % self._periods
        return column[newest::-1] + column[:newest:-1]

    def _offset(self, n: int) -> int:
        return self._start + n % self._periods * self._layout.packing.size


_EVENTS: Final = Layout(0, 6)
_TIMES: Final = Layout(1, BINS)

# Periods of 10 s, 2 min and 1 h for events; of 50 s, 10 min and 3 h for what attempts took.
_MINUTES: Final = PeriodRing(0, 30, 1, _EVENTS)
_HOUR: Final = PeriodRing(_MINUTES.end, 30, 12, _EVENTS)
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


class Counters:
    """The windows of one project. Times are unix seconds, given."""

    __slots__ = ("_bins", "_counted", "_end", "_milliseconds", "_period", "_rows", "_saved", "_shift", "_start")

    def __init__(self, totals: Totals) -> None:
        """Windows in which nothing has happened yet; ``totals`` are from before."""
        self._counted = _row_of(totals)
        self._start = self._end = 0.0  # of the present period on the wall clock; an empty one at first
        self._period = self._shift = self._milliseconds = 0
        self._rows = _NO_ROWS
        self._bins = _NO_BINS
        self._saved: CountersRecord | None = None  # until something is counted, instead of rows

    def note(self, totals: Totals, now_wall: float) -> bool:
        """A turn has ended: what the totals gained in it happened now; False if nothing. Totals never shrink."""
        counted = (totals.new, totals.selected, totals.success, totals.failed, totals.retried, totals.timeout)
        if counted == self._counted:
            return False
        if not self._start <= now_wall < self._end:
            self._begin_period(now_wall)
        self._counted = counted
        return True

    def took(self, seconds: float, now_wall: float) -> None:
        """An attempt has ended, done, failed or timed out, after so many seconds of processing."""
        if not self._start <= now_wall < self._end:
            self._begin_period(now_wall)
        milliseconds = int(seconds * 1000 + 0.5) if seconds > 0 else 0
        size = milliseconds.bit_length()
        if size >= BINS:
            size = BINS - 1
        self._milliseconds += milliseconds
        bins = self._bins
        bins[size] = bins[size] + 1 & _32_BITS

    def view(self, now_wall: float) -> Windows:
        """The windows that end now. Costs the same however much has happened."""
        gained = list(self._gained(self._period_at(now_wall)))
        events, times = gained[: len(_EVENT_RINGS)], gained[len(_EVENT_RINGS) :]
        return Windows(*map(_window, events, times))

    @property
    def counted(self) -> tuple[int, ...]:
        """The totals of which all that they gained has been counted, in the order of the fields of Totals."""
        return self._counted

    @property
    def failed(self) -> int:
        """Attempts that failed, of all that was ever counted: only when it grows ``failing`` does."""
        # A timeout is also counted as failed or as retried, so those two are all there is.
        return self._counted[_FAILED] + self._counted[_RETRIED]

    def failing(self, now_wall: float) -> int:
        """Attempts that failed in the last five minutes, the timeouts among them, each counted once."""
        gained = next(self._gained(self._period_at(now_wall)))
        return gained[_FAILED] + gained[_RETRIED] if gained else 0

    def lately(self, event: int, now_wall: float) -> int:
        """How often one kind of event, a place among the fields of Totals, was in the last five minutes."""
        period = max(int(now_wall // PERIOD_SECONDS) + self._shift, self._period)
        if _MINUTES.is_over(self._period, period):
            return 0
        if self._rows:
            return self._counted[event] - _MINUTES.level(self._rows, period, event) & _32_BITS
        gained = next(self._gained(period))
        return gained[event] if gained else 0

    def saved(self) -> CountersRecord:
        """What the store is to keep; it goes into a batch that has the project's totals too."""
        if self._saved is not None:
            return self._saved
        record = CountersRecord(self._period, self._shift, self._counted)
        if self._rows:
            record.times = self._times()
            columns = [ring.columns(self._rows, self._period, self._counted) for ring in _EVENT_RINGS]
            columns += [ring.columns(self._rows, self._period, record.times) for ring in _TIME_RINGS]
            record.rings = Raw(_encode(columns))
        return record

    @classmethod
    def load(cls, record: CountersRecord | None, totals: Totals, now_wall: float) -> Counters:
        """Windows as they were saved (None: never), and what the totals gained since as if it happened now.

        Costs next to nothing if they gained nothing.
        """
        if record is None:
            return cls(totals)
        counters = cls(Totals(*record.totals))
        counters._shift = record.shift
        if record.times and _ticks(now_wall) + record.shift - record.period < _LONGEST:
            counters._saved, counters._period = record, record.period
        counters.note(totals, now_wall)
        return counters

    def _restore(self, record: CountersRecord) -> None:
        self._saved = None
        self._milliseconds = record.times[0]
        self._bins = array("I", record.times[1:])
        self._rows = bytearray(_DAY_TIMES.end)
        nows = [record.totals] * len(_EVENT_RINGS) + [record.times] * len(_TIME_RINGS)
        for ring, now, columns in zip(_RINGS, nows, _decode(record.rings), strict=True):
            ring.restore(self._rows, record.period, now, columns)

    def _begin_period(self, now_wall: float) -> None:
        """Comes before the first thing that is counted, because the present period is an empty one until then."""
        if self._saved is not None:
            self._restore(self._saved)
        ticks = _ticks(now_wall)
        self._start, self._end = ticks * PERIOD_SECONDS, (ticks + 1) * PERIOD_SECONDS
        if not self._rows:
            self._allocate(ticks + self._shift)
        elif ticks + self._shift < self._period:
            self._shift = self._period - ticks
        else:
            self._advance(ticks + self._shift)

    def _advance(self, period: int) -> None:
        """What was counted until now was before the periods after the last one."""
        rows, head = self._rows, self._period
        row = _EVENTS.packing.pack(*[count & _32_BITS for count in self._counted])
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

    def _period_at(self, now_wall: float) -> int:
        return max(_ticks(now_wall) + self._shift, self._period)

    def _times(self) -> list[int]:
        return [self._milliseconds, *self._bins]

    def _gained(self, period: int) -> Iterator[list[int] | None]:
        """In the window of each of _RINGS; None: nothing."""
        if self._saved is not None:
            rings = zip(_RINGS, _decode(self._saved.rings), strict=True)
            yield from (ring.told(columns, self._period, period) for ring, columns in rings)
        elif not self._rows:
            yield from [None] * len(_RINGS)
        else:
            yield from (ring.gained(self._rows, self._period, period, self._counted) for ring in _EVENT_RINGS)
            times = self._times()
            yield from (ring.gained(self._rows, self._period, period, times) for ring in _TIME_RINGS)


def _row_of(totals: Totals) -> tuple[int, ...]:
    return totals.new, totals.selected, totals.success, totals.failed, totals.retried, totals.timeout


def _window(counts: list[int] | None, times: list[int] | None) -> Window:
    if not counts:
        return QUIET
    mean, p95 = _mean_and_p95(times) if times else (QUIET.mean_seconds, QUIET.p95_seconds)
    new, selected, success, failed, retried, timeout = counts
    return Window(new, selected, success, failed, retried, timeout, mean, p95)


def _ticks(now_wall: float) -> int:
    return int(now_wall // PERIOD_SECONDS)


def _mean_and_p95(times: list[int]) -> tuple[float, float]:
    """Seconds, of milliseconds in all and attempts by bin."""
    milliseconds, *bins = times
    count = sum(bins)
    if not count:
        return QUIET.mean_seconds, QUIET.p95_seconds  # the very defaults, which a message leaves out
    return milliseconds / count / 1000, _p95(bins, count // 20) / 1000


def _p95(bins: list[int], longer: int) -> float:
    """Milliseconds of the attempt than which ``longer`` others took longer: a place within the right bin.

    The attempts of a bin are taken as spread evenly over it, on the logarithmic scale.
    """
    size = BINS - 1
    while longer >= bins[size]:
        longer -= bins[size]
        size -= 1
    part = 1 - (longer + 0.5) / bins[size]
    return 2.0 ** (size - 1 + part) if size else part
