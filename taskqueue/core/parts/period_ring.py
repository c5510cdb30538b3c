"""A ring of rows of counters, one row per period, with the counters as they stood at its beginning; see ``windows``.

All rings of a project are slices of one ``bytearray``, so that a project without counts costs nothing and any other one
object. A row has counters of 64 and of 32 bits, modulo their size. Times are numbers of the shortest period: ``head``
is that in which something was last counted, ``period`` that in which somebody looks or counts now.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import sub
from struct import Struct as Packing
from sys import byteorder
from typing import Final, Literal

MASK_32: Final = 2**32 - 1

Columns = list[list[int]]
"""Per counter, what each period added, the present one first, without trailing zeros; negative where a counter passed
2**32.
"""

Width = Literal["Q", "I"]
"""Of a counter: 64 or 32 bits."""


class Layout:
    """Columns of a row: those of 64 bits, then those of 32 bits."""

    def __init__(self, wide: int, narrow: int) -> None:
        self.packing = Packing(f"={wide}Q{narrow}I")
        self.masks = [2**64 - 1] * wide + [MASK_32] * narrow
        self.places: list[tuple[Width, slice]] = [("Q", slice(n, None, self.packing.size // 8)) for n in range(wide)]
        self.places += [("I", slice(2 * wide + n, None, self.packing.size // 4)) for n in range(narrow)]


class PeriodRing:
    """The position of a ring in the bytes of a project, and how to read and write it. Contains no counters itself.

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
        """Write ``row`` for all periods after that of ``head``, up to that of ``period``, or the last that fit."""
        first, last = head // self._ticks + 1, period // self._ticks
        for n in range(max(first, last - self._periods + 1), last + 1):
            at = self._offset(n)
            rows[at : at + len(row)] = row

    def gained(self, rows: bytearray, head: int, period: int, now: Sequence[int]) -> list[int] | None:
        """What was added in the window that ends with ``period``, up to ``now``; None: nothing."""
        first = period // self._ticks - self._periods + 1
        if first > head // self._ticks:
            return None
        then = self._layout.packing.unpack_from(rows, self._offset(first))
        return [a - b & mask for a, b, mask in zip(now, then, self._layout.masks, strict=True)]

    def is_over(self, head: int, period: int) -> bool:
        """Whether everything counted until ``head`` lies before the window that ends with ``period``."""
        return period // self._ticks - self._periods + 1 > head // self._ticks

    def level(self, rows: bytearray, period: int, column: int) -> int:
        """One 32-bit column at the beginning of the window that ends with ``period``."""
        at = self._offset(period // self._ticks - self._periods + 1) + 4 * column
        return int.from_bytes(rows[at : at + 4], byteorder)

    def gained_by_columns(self, columns: Columns, head: int, period: int) -> list[int] | None:
        """Like ``gained``, computed from ``columns`` instead of rows."""
        left = self._periods + head // self._ticks - period // self._ticks
        if left <= 0:
            return None
        return [sum(added[:left]) & mask for added, mask in zip(columns, self._layout.masks, strict=True)]

    def columns(self, rows: bytearray, head: int, now: Sequence[int]) -> Columns:
        """What each period added."""
        sums = self.gained(rows, head, head, now) or []
        return [self._additions(rows, head, n, now[n]) if total else [] for n, total in enumerate(sums)]

    def series(self, columns: Columns, head: int, period: int) -> Columns:
        """``columns`` as they are seen in ``period``, each as long as the ring."""
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
