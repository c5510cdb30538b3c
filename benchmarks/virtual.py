"""A real scheduler on a real ledger in memory, on virtual time, and one fetcher: what the figures of the core need.

    line = Line(config, capacity=100)
    line.push("news", 1000)            so many new tasks, at any delay
    line.turn(...)                     one turn with these requests; what it hands out is in line.held
    line.next_wake()                   when the scheduler wants the next one; line.elapsed says what time it is

Nothing here looks at a clock, so that the figures are the same on every machine.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from taskqueue.calendar import Calendar
from taskqueue.core.parts.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.protocol.fields import NIL, Assignment, Boot, NewTask, Peer, Schedule, TaskReport, Wall
from taskqueue.protocol.replies import Select
from taskqueue.protocol.requests import AnyRequest, Done, Hello, Incoming, NewTasks
from taskqueue.store.ledger import Ledger
from taskqueue.store.memory_store import Disk, MemoryStore

WALL: Final = Wall(1_700_000_000.0)
BOOT: Final = Boot(1_000.0)
BATCH: Final = 1_000
FETCHER: Final = "fetcher"


class Line:
    """A scheduler and the fetcher that it serves.

    Attributes:
        elapsed: seconds since it began.
        held: what the fetcher has, in the order in which it came.
        taken: how many tasks it was ever given.
    """

    def __init__(self, config: CoreConfig, capacity: int) -> None:
        self.elapsed = 0.0
        self.held: list[Assignment] = []
        self.taken = 0
        self._seen = 0
        self._capacity = capacity
        self._numbers = count(1)
        self._ledger = Ledger(MemoryStore(Disk()))
        self._scheduler = Scheduler(self._ledger.begin("boot"), config, Calendar(), self._now)
        self.settle()

    def turn(self, *requests: AnyRequest) -> None:
        """Take one turn; the fetcher takes what it is given."""
        heard = [Incoming(Peer(request.session.encode()), request) for request in requests]
        now = self._now
        turn = self._scheduler.begin(now, heard)
        result = turn.decide(self._ledger.find(turn.needs))
        self._ledger.commit(result.writes)
        for said in result.outgoing:
            if isinstance(said.message, Select):
                self._seen = said.message.number
                self.held += said.message.tasks
                self.taken += len(said.message.tasks)

    def next_wake(self) -> float:
        """When the scheduler wants its next turn."""
        return self._scheduler.next_event_at(self._now) - BOOT

    def settle(self) -> None:
        """Take the turns that it wants to take at once."""
        while self.next_wake() <= self.elapsed:
            self.turn()

    def sleep(self, seconds: float) -> None:
        """Wake when the scheduler wants to be woken, and at the end."""
        end = self.elapsed + seconds
        while (at := self.next_wake()) < end:
            self.elapsed = max(self.elapsed, at)
            self.turn()
        self.elapsed = end
        self.turn()
        self.settle()

    def push(self, project: str, tasks: int, delay: float | None = None) -> None:
        """So many new tasks for a project."""
        schedule = Schedule(delay=delay)
        while tasks > 0:
            batch = [
                NewTask(f"t{next(self._numbers)}", "http://example.org/", schedule, NIL)
                for _ in range(min(BATCH, tasks))
            ]
            tasks -= len(batch)
            self.turn(NewTasks(session="producer", n=next(self._numbers), project=project, tasks=list(batch)))
        self.settle()

    def hello(self) -> None:
        """The fetcher says what it holds, and takes more."""
        holds: list[int] = [handed.token for handed in self.held]
        message = Hello(session=FETCHER, n=next(self._numbers), capacity=self._capacity, holds=holds, seen=self._seen)
        self.turn(message)
        self.settle()

    def finish(self, tasks: int) -> list[Assignment]:
        """The fetcher succeeds with so many of the tasks that it has had for longest; they are returned."""
        done, self.held = self.held[:tasks], self.held[tasks:]
        for start in range(0, len(done), BATCH):
            items = [TaskReport(each.project, each.taskid, each.token) for each in done[start : start + BATCH]]
            self.turn(Done(session=FETCHER, n=next(self._numbers), tasks=list(items)))
        self.settle()
        return done

    @property
    def _now(self) -> Now:
        return Now(wall=WALL + self.elapsed, boot=BOOT + self.elapsed)
