"""Tasks for a caller that runs several at once: a Worker, which awaits them, or a loop that can't await.

    daemon ──► buffer of the client ──take, take_now──► running ──it is reported, or ``end``──► free
                   └── waited too long, or its lease has ended: back, unstarted

Rules:
1. At most ``room`` tasks run at once: a task runs from the moment when it is taken until it is reported, released or
   passed on, even if its lease ends.
2. The number of tasks that wait here beside them follows the rate of finished runs, see rules 5 to 9; hellos say which
   tasks run and which only wait.
3. While too many reports and pushes wait for the daemon's answer, no task is given out: see ``outbox``.
4. A caller that lets tasks wait too long gets no others beside those that it runs, until it asks again. A caller that
   awaits tasks is exempt: it is about to take the next one.

``Prefetch`` is the number of tasks that wait beside those that run, so that a free place has a task at once. A task
that waits here uses up its lease, so the number follows what the places really finish:

5. As many as finish in PREFETCH_SECONDS, and at most one per place; none at the start, when nothing is known.
6. None while the median run takes longer than SLOW_SECONDS: then the moment that a free place waits for its next task
   is negligible.
7. The number changes at most once in LOOK_SECONDS, because each change is a message to the daemon.
8. None after a task had to go back because it waited too long, until a run ends that is not slow.
9. While tasks are early, which must not be started yet, as many others are wanted, at most one per place; by rules 6 to
   8, and none at the start. So a place does not wait for a time that is a second away, and where runs are slow, an
   early task finds its place free when its time comes.

A caller may fix the number of rule 5; the others still apply.

A ``BlockingIntake`` is one for threads: the client's own thread has the tasks, and is asked for each.

    caller's thread ──take_now──► client's thread: task or None ──► caller's thread

That waits for the client's thread, some 50 µs, and never for the daemon.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf
from statistics import median
from types import TracebackType
from typing import Final, Self

from taskqueue.client.arguments import checked_capacity, checked_seconds
from taskqueue.client.connection.background import Background
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.leases import KeptLeases
from taskqueue.client.tasks.outbox import Outbox
from taskqueue.client.tasks.task import Task
from taskqueue.errors import ClientClosed
from taskqueue.protocol.fetchers import Hung

WAIT_SECONDS: Final = 10.0
"""Time after which a task that waits for a loop goes back; a quarter of its lease if that is less."""


class Intake:
    """Source of tasks for a loop that must not wait, until it is closed; also a context manager.

    ``client.intake`` makes it.

    Args:
        fetching, outbox, kept_leases: parts of the client.
        projects: projects to take tasks of; None: all.
        room: tasks that run at once.
        prefetch: tasks that wait beside them; None: as many as the rate of finished runs suggests.
        priority: fetchers with a higher one are served first.
        patience: seconds that a task may wait here.
        on_arrival: see ``client.intake``.

    Attributes:
        on_lost: called with a running task when the daemon ends its lease, for a caller that sets ``task.lost`` itself;
            set it before the first task is taken. None: the client sets ``task.lost``, also when it is closed.
    """

    def __init__(
        self,
        fetching: FetchBuffer,
        outbox: Outbox,
        kept_leases: KeptLeases,
        projects: Iterable[str] | None,
        room: int,
        *,
        prefetch: int | None = None,
        priority: int = 0,
        patience: float = WAIT_SECONDS,
        on_arrival: Callable[[], object] | None = None,
    ) -> None:
        self._fetching = fetching
        self._outbox = outbox
        self._kept_leases = kept_leases
        self._loop = asyncio.get_running_loop()
        self._room = checked_capacity("room", room)
        self._prefetch = Prefetch(room, None if prefetch is None else checked_capacity("prefetch", prefetch))
        self._running: dict[int, tuple[Task, float]] = {}
        self._freed = asyncio.Event()
        self.on_lost: Callable[[Task], object] | None = None
        self._on_arrival = on_arrival
        self._will_tell = False
        self._closed = False
        consumer = fetching.join(projects, self._wanted(), room, checked_seconds("patience", patience), priority)
        consumer.is_lazy, consumer.ended, consumer.lost = True, self._note_end, self._note_lost
        self._consumer = consumer
        consumer.closed = self._note_closed
        self._tell_no_more = outbox.when_idle(self._note_idle)
        if on_arrival is not None:
            consumer.arrived = self._tell_soon

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def room(self) -> int:
        """Tasks that run at once; if it is lowered, waiting tasks beyond it go back unstarted."""
        return self._room

    @room.setter
    def room(self, room: int) -> None:
        is_lower = checked_capacity("room", room) < self._room
        self._room = self._prefetch.places = self._consumer.places = room
        if self._closed:
            return
        self._want()
        if is_lower:
            self._fetching.give_back_excess(self._consumer)
        self._freed.set()

    @property
    def running(self) -> int:
        """Number of tasks that were taken and not reported, released or passed on yet."""
        return len(self._running)

    def take_now(self) -> Task | None:
        """Return the next task to run, if one is here and may begin; None: no task, no room, or the intake is closed.

        This does not wait. End each task by a report, ``release`` or ``pass_on``, even if ``task.cancelled`` says
        meanwhile that its lease has ended.
        """
        if len(self._running) >= self._room or self._outbox.is_busy or self._closed:
            return None
        now = self._loop.time()
        task = self._fetching.take_now(self._consumer, now)
        if task is not None:
            return self._begin(task, now)
        if self._consumer.standing < self._room:  # Some went back because the caller did not look.
            self._want()
        return None

    async def take(self) -> Task:
        """Return the next task to run, as soon as there are a task and room for it. Several coroutines may wait.

        Raises:
            ClientClosed: the intake or its client is closed, or was meanwhile.
        """
        self._consumer.is_lazy = False
        while (task := self.take_now()) is None:
            if self._closed:
                raise ClientClosed("the intake was closed")
            if len(self._running) >= self._room or self._outbox.is_busy:
                self._freed.clear()
                await self._freed.wait()
            else:
                await self._fetching.news(self._consumer)
        return task

    def close(self) -> None:
        """Take no more; tasks that were not taken go back unstarted. Running tasks are still to be reported."""
        if self._closed:
            return
        self._note_closed()
        self._tell_no_more()
        self._fetching.leave(self._consumer)

    # ------------------------------------------------------------------------------------ calls of a Worker

    def holds(self, task: Task) -> bool:
        """Return True if the task's lease is in force, as far as is known here."""
        return self._fetching.holds(task.token)

    def tell_hung(self, hung: Hung | None, since: float) -> None:
        """State which places hang; None: none. ``since``: time at which the first lease ended, by the loop's clock."""
        self._fetching.tell_hung(self._consumer, hung, since)

    def end(self, task: Task) -> None:
        """Count the task as no longer running; its place is free."""
        self._fetching.end(task.token)

    def give_back(self, task: Task) -> None:
        """Give back a task that came too late for its handler to be called; its place is free."""
        del self._running[task.token]
        self._fetching.end(task.token)
        self._freed.set()
        self._fetching.give_back([task], self._consumer)

    # ------------------------------------------------------------------------------------ events

    def _begin(self, task: Task, now: float) -> Task:
        self._running[task.token] = task, now
        self._fetching.begin(task.token, self._consumer)
        if self.on_lost is None:
            self._kept_leases.hand_over(task)
        return task

    def _note_lost(self, token: int) -> None:
        if self.on_lost is not None and (running := self._running.get(token)) is not None:
            self.on_lost(running[0])

    def _note_end(self, token: int) -> None:
        running = self._running.pop(token, None)
        if running is None:
            return
        self._freed.set()
        if self._closed:
            return
        now = self._loop.time()
        if self._consumer.returned:
            self._note_returned()
        if self._prefetch.ran(now - running[1], now):
            self._want()
        if self._on_arrival is not None:
            self._tell_soon()

    def _note_idle(self) -> None:
        self._freed.set()
        if self._on_arrival is not None:
            self._tell_soon()

    def _note_closed(self) -> None:
        self._closed = True
        self._freed.set()

    def _note_returned(self) -> None:
        self._consumer.returned = 0
        self._prefetch.waited_too_long()

    def _want(self) -> None:
        if self._consumer.returned:
            self._note_returned()
        self._fetching.resize(self._consumer, self._wanted(), self._prefetch.ahead)

    def _wanted(self) -> int:
        return self._room + self._prefetch.size if self._room else 0

    # ------------------------------------------------------------------------------------ telling

    def _tell_soon(self) -> None:
        """Call ``on_arrival`` once for all events of this turn of the loop, if there is a task then."""
        if not self._will_tell and not self._closed:
            self._will_tell = True
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._will_tell = False
        if self._closed or self._on_arrival is None or len(self._running) >= self._room or self._outbox.is_busy:
            return
        if self._fetching.has_one(self._consumer, self._loop.time()):
            self._on_arrival()


class BlockingIntake:
    """Source of tasks for any thread that must not wait, until it is closed; also a context manager.

    ``client.intake`` makes it.
    """

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
        """Tasks that run at once; if it is lowered, waiting tasks beyond it go back unstarted."""
        return self._intake.room

    @room.setter
    def room(self, room: int) -> None:
        self._background.call(lambda: setattr(self._intake, "room", room))

    @property
    def running(self) -> int:
        """Number of tasks that were taken and not reported, released or passed on yet."""
        return self._intake.running

    def take_now(self) -> Task | None:
        """Return the next task to run, if one is here and may begin; None: no task, no room, or the intake is closed.

        This does not wait for the daemon. End each task by a report, ``release`` or ``pass_on``, even if
        ``task.cancelled`` says meanwhile that its lease has ended.
        """
        with suppress(ClientClosed):
            return self._background.call(self._intake.take_now)
        return None

    def close(self) -> None:
        """Take no more; tasks that were not taken go back unstarted. Running tasks are still to be reported."""
        with suppress(ClientClosed):
            self._background.call(self._intake.close)


PREFETCH_SECONDS: Final = 0.1
SLOW_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.2

MEDIAN_RUNS: Final = 31
"""Last runs of which the median is taken."""


class Prefetch:
    """Number of tasks that wait in one intake.

    Args:
        places: tasks that run at once.
        fixed: the number, instead of rule 5; None: by rule 5.

    Attributes:
        places: as given; may change.
        size: number of tasks that are to wait, now.
        ahead: most other tasks that are wanted, now, while as many are early.
    """

    def __init__(self, places: int, fixed: int | None = None) -> None:
        self.size = fixed or 0
        self.ahead = 0
        self.places = places
        self._fixed = fixed
        self._lasted: deque[float] = deque(maxlen=MEDIAN_RUNS)
        self._ended = 0
        self._looked_at = -inf
        self._waited_too_long = False

    def ran(self, seconds: float, now: float) -> bool:
        """Record the length of an ended run; returns True if ``size`` or ``ahead`` has changed."""
        self._lasted.append(seconds)
        self._ended += 1
        if seconds <= SLOW_SECONDS:
            self._waited_too_long = False
        since = now - self._looked_at
        if since < LOOK_SECONDS:
            return False
        before = self.size, self.ahead
        is_slow = self._waited_too_long or median(self._lasted) > SLOW_SECONDS
        self.size = 0 if is_slow else self._fitting(self._ended / since)
        self.ahead = 0 if is_slow else self.places
        self._looked_at = now
        self._ended = 0
        return before != (self.size, self.ahead)

    def waited_too_long(self) -> None:
        """Record that a task had to go back."""
        self.size = self.ahead = 0
        self._waited_too_long = True

    def _fitting(self, rate: float) -> int:
        return min(self.places, int(rate * PREFETCH_SECONDS)) if self._fixed is None else self._fixed
