"""Counts of a project: tasks by state, and events. Stored with its record, as maps without zeros.

A project's totals only grow, so the difference of two readings is what happened in between. They change with every
task, and so in place; ``TaskCounts`` is made anew for each record. People are shown ``Counts`` and ``Totals`` of
``protocol.insight``.
"""

from __future__ import annotations

from msgspec import Struct


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
