"""What people see of a rerun, as values without methods."""

from __future__ import annotations

from msgspec import Struct

from taskqueue.protocol.choices import RerunScope


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
