"""One project: its settings, its bucket, its queue, and what of them the store keeps.

running ──stop──► stopped     accepts tasks, hands out nothing
   │ ▲ ◄─start──┘   ▲
pause│resume        │ stop
   ▼ │              │
 paused ────────────┘         the same, set by a person who means to resume
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

from taskqueue.core.bucket import Bucket
from taskqueue.core.changes import Changes
from taskqueue.core.kept import ProjectRecord
from taskqueue.core.messages import Setting
from taskqueue.core.replies import Counts, ProjectState, ProjectView
from taskqueue.core.requests import Action
from taskqueue.core.settings import Layer, Settings, as_layer, merge
from taskqueue.core.task import KEY_BYTES, NO_FLOOR
from taskqueue.core.task_queue import TaskQueue
from taskqueue.errors import Rejected

_TRANSITIONS: Final[Mapping[tuple[Action, ProjectState], ProjectState]] = {
    ("pause", "running"): "paused",
    ("pause", "paused"): "paused",
    ("resume", "running"): "running",
    ("resume", "paused"): "running",
    ("stop", "running"): "stopped",
    ("stop", "paused"): "stopped",
    ("stop", "stopped"): "stopped",
    ("start", "running"): "running",
    ("start", "paused"): "running",
    ("start", "stopped"): "running",
}
"""Where an action leads to; what is not here is refused."""


class Project:
    """A project and everything of it that is in memory.

    Attributes:
        number: the first part of its tasks' keys in the store.
        layers: settings from the config, in the order in which they win.
        totals: events since the project was made.
    """

    __slots__ = (
        "bucket", "layers", "name", "number", "overrides", "queue", "settings", "state", "totals",
    )  # fmt: skip

    def __init__(self, record: ProjectRecord, changes: Changes, layers: Sequence[Layer], now: float) -> None:
        self.number = record.number
        self.name = record.name
        self.state: ProjectState = record.state
        self.overrides = dict(record.overrides)
        self.layers = layers
        self.settings = merge(*layers, self.overrides)
        self.totals = record.totals
        self.bucket = Bucket(self.settings.rate, self.settings.burst, record.bucket_level, min(record.bucket_at, now))
        low = int.from_bytes(record.ready_low, "big"), int.from_bytes(record.delayed_low, "big")
        self.queue = TaskQueue(changes, record.counts, *low)

    def apply(self, layers: Sequence[Layer], overrides: Mapping[str, Setting], now: float) -> None:
        """Use other settings from now on; no task and no token is lost.

        Raises:
            Rejected: they don't fit; nothing has changed.
        """
        settings = merge(*layers, overrides)
        self.layers = layers
        self.overrides = dict(overrides)
        self._use(settings, now)

    def act(self, action: Action) -> None:
        """Pause, resume, stop or start.

        Raises:
            Rejected: that can't be done in this state.
        """
        state = _TRANSITIONS.get((action, self.state))
        if state is None:
            reason = f'project "{self.name}" is {self.state}: start it before you {action} it'
            raise Rejected("state", reason)
        self.state = state

    def record(self) -> ProjectRecord:
        """What the store is to keep of it."""
        return ProjectRecord(
            number=self.number,
            name=self.name,
            state=self.state,
            overrides=self.overrides,
            counts=self.counts(),
            totals=self.totals,
            bucket_level=self.bucket.level,
            bucket_at=self.bucket.at,
            ready_low=_key_bytes(self.queue.ready.low_key()),
            delayed_low=_key_bytes(self.queue.delayed.low_key()),
        )

    def counts(self) -> Counts:
        """Tasks by state."""
        return Counts(*self.queue.counts[1:])

    def view(self, now: float) -> ProjectView:
        """The project as people see it; ``now`` on the boot clock."""
        return ProjectView(
            name=self.name,
            state=self.state,
            counts=self.counts(),
            totals=copy(self.totals),
            settings=as_layer(self.settings),
            overrides=self.overrides,
            tokens=self.bucket.level_at(now),
        )

    def _use(self, settings: Settings, now: float) -> None:
        self.settings = settings
        self.bucket.change(settings.rate, settings.burst, now)


def new_record(number: int, name: str, settings: Settings, now: float) -> ProjectRecord:
    """The record of a project that is made now (boot-clock seconds): running, with a full bucket."""
    return ProjectRecord(number=number, name=name, bucket_level=settings.burst, bucket_at=now)


def _key_bytes(key: int) -> bytes:
    return min(key, NO_FLOOR - 1).to_bytes(KEY_BYTES, "big")
