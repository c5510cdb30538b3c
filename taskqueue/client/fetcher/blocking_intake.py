"""An Intake for threads: the client's own thread has the tasks, and is asked for each.

    caller's thread ──take_now──► client's thread: task or None ──► caller's thread

That waits for the client's thread, some 50 µs, and never for the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from taskqueue.client.connection.background import Background
from taskqueue.client.fetcher.intake import Intake
from taskqueue.client.tasks.task import Task
from taskqueue.errors import Closed


class BlockingIntake:
    """Takes tasks until it is closed; made by ``client.intake``, used by any thread. A context manager, too."""

    def __init__(self, background: Background, make: Callable[[], Intake]) -> None:
        self._background = background
        self._intake = background.call(make)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def room(self) -> int:
        """See ``Intake.room``."""
        return self._intake.room

    @room.setter
    def room(self, room: int) -> None:
        self._background.call(lambda: setattr(self._intake, "room", room))

    @property
    def running(self) -> int:
        """See ``Intake.running``."""
        return self._intake.running

    def take_now(self) -> Task | None:
        """See ``Intake.take_now``."""
        with suppress(Closed):
            return self._background.call(self._intake.take_now)
        return None

    def close(self) -> None:
        """See ``Intake.close``."""
        with suppress(Closed):
            self._background.call(self._intake.close)
