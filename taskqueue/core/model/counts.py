"""Counts of a project: tasks by state, and events; and the record of its windows. Stored as maps without zeros.

A project's totals only grow, so the difference of two readings is what happened in between. They change with every
task, and so in place; ``TaskCounts`` is made anew for each record. People are shown ``Counts`` and ``Totals`` of
``protocol.values``.
"""

from __future__ import annotations

from msgspec import Raw, Struct, field

from taskqueue.core.model.histogram import OCTAVES


class TaskCounts(Struct, omit_defaults=True, gc=False):
    """Tasks of a project by state, now. ``failed`` and the like are those that are over and known."""

    ready: int = 0
    delayed: int = 0
    processing: int = 0
    success: int = 0
    failed: int = 0
    cancelled: int = 0
    blocked: int = 0


class EventTotals(Struct, omit_defaults=True, gc=False):
    """Events of a project since it was made. A timeout is also counted as failed or as retried."""

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


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
