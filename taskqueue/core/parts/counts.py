"""What is counted of a project: tasks by state, and events. Kept with its record, as maps of what is not 0.

A project's totals only grow; what lies between two looks at them is what has happened meanwhile. Both are touched with
every task, so they are changed in place; whoever is shown them gets ``Counts`` and ``Totals`` of ``protocol.views``.
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


class EventTotals(Struct, omit_defaults=True, gc=False):
    """Events of a project since it was made. A timeout is also counted as failed or as retried."""

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0
