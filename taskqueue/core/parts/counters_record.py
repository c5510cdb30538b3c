"""The record of a project's windows in the store."""

from __future__ import annotations

from msgspec import Raw, Struct, field

from taskqueue.core.parts.duration_bins import OCTAVES


class CountersRecord(Struct, array_like=True):
    """The windows of a project as the store keeps them.

    Attributes:
        period: the present one when it was made, counted as the rings do.
        shift: ``period`` less the number of PERIOD_SECONDS since 1970: what the wall clock has stepped back.
        totals: at that time, in the order of the fields of EventTotals.
        times: milliseconds of all attempts, and attempts by bin, without zeros at the end; empty if there are no rings.
        rings: the Columns of each, without empty ones at the end, encoded: lists of numbers would take up to 25 kB.
        bins: how many there were; in stores from before there were BINS, OCTAVES.
    """

    period: int
    shift: int
    totals: tuple[int, ...]
    times: list[int] = field(default_factory=list)
    rings: Raw = Raw(b"\x90")
    bins: int = OCTAVES
