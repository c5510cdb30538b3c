"""Values that are stored and shown alike: counts, totals, filters and actions of operations, layers of a rerun."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from taskqueue.protocol.choices import STATES, RerunScope, StateName
from taskqueue.protocol.fields import MAX_PAUSE_SECONDS, EpochSeconds


class Counts(Struct, omit_defaults=True, gc=False):
    """Tasks of a project by state, now. ``failed`` and the like are those that are over and known."""

    ready: int = 0
    delayed: int = 0
    processing: int = 0
    success: int = 0
    failed: int = 0
    cancelled: int = 0
    blocked: int = 0


class Totals(Struct, omit_defaults=True, gc=False):
    """Events of a project since it was made."""

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


Glob = Annotated[str, Meta(max_length=256)]


class TaskFilter(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which tasks a bulk operation is about: those that everything said here is true of.

    Attributes:
        states: in one of these; empty: in any that the action makes sense for, but to ``retry``, failed ones.
        url: a glob that the url matches.
        error: a glob that the error of the last attempt matches.
        before, since: unix seconds: ended before that, or at that time or later; of those that are live their last run
            counts, and one that was never run is left out.
        pushed_since, pushed_before: unix seconds: first came at that time or later, or before it; a task of which that
            is unknown is left out.
    """

    states: Annotated[list[StateName], Meta(max_length=len(STATES))] = []
    url: Glob = ""
    error: Glob = ""
    before: EpochSeconds = 0.0
    since: EpochSeconds = 0.0
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0


PauseSeconds = Annotated[float, Meta(gt=0, le=MAX_PAUSE_SECONDS)]
"""Of a pause by an operator that ends by itself."""

Action = Literal["pause", "resume", "stop", "start", "clear", "reset", "delete"]

BulkAction = Literal["retry", "cancel", "reprioritise", "reschedule"]

OperationAction = Literal[BulkAction, Action, "rerun"]
"""What an operation does."""


class RerunLayer(Struct, frozen=True, omit_defaults=True):
    """Tasks of a rerun of which none waits for another: they wait for tasks of the layers before.

    Attributes:
        tasks: how many.
        taskids: of the first ones; of another project than the first task's, behind its name and a slash.
    """

    tasks: int
    taskids: list[str] = []


class RerunView(Struct, frozen=True, omit_defaults=True):
    """What a rerun takes.

    Attributes:
        taskid, scope: what it begins with, and which others are meant.
        passed: tasks that it leaves as they are, though they are meant: bare, gone, or pushed anew meanwhile.
        layers, depth: the first layers, and how many there are; known before any task is changed.
    """

    taskid: str
    scope: RerunScope
    passed: int = 0
    layers: list[RerunLayer] = []
    depth: int = 0
