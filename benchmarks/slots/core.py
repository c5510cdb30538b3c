"""The core with slots: select and done, on a store in memory and a virtual clock, without sockets.

Each slot that may go has a delay that ends by the next turn, so that it waits after each dispatch and goes on in the
next turn; in the other slots a task was dispatched, and the next one may go in a day. In each turn a fetcher reports
all of its tasks and gets as many; new tasks of the same slots, which aren't counted, take their place.
"""

from __future__ import annotations

import time
from itertools import count
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.slots.blocks import BlockDisk
from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.fields import NIL, Boot, Peer, Wall
from taskqueue.protocol.messages import AnyRequest, Incoming, Outgoing
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import Assignment, NewTask, TaskReport
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger
from tests.memory_store import MemoryStore

PROJECT: Final = "bench"
PUSHED: Final = 1000
"""Tasks in a turn of the preparations."""
HELD: Final = 2
"""Tasks of each slot that may go: one is dispatched, the other is next."""
PLENTY: Final = 1 << 40
TURN_SECONDS: Final = 1.0
DELAY: Final = 0.5
"""Delay of the slots that may go: less than a turn."""


class Core:
    """Scheduler whose project has slots, some of which may go.

    Args:
        slots: number of slots; 0: the project is not divided, and has as many tasks as with ``beside``.
        going: share of slots that may go.
        bounded: True for a daemon's default bounds of memory; otherwise all slots are in memory.
    """

    def __init__(self, slots: int, going: float, *, bounded: bool = False, beside: int = 0) -> None:
        by = "host" if slots else "none"
        slot: dict[str, Any] = {"by": by, "delay": DELAY, "patterns": {"idle-*": {"delay": 86400}}}
        config = CoreConfig(defaults={"rate": inf}, projects={PROJECT: {"slot": slot}})
        if not bounded:
            config = replace(
                config,
                head_tasks=PLENTY,
                head_bytes=PLENTY,
                queue_bytes=PLENTY,
                slots_in_memory=PLENTY,
                max_leases=PLENTY,
            )
        self._ledger = Ledger(MemoryStore(BlockDisk()))
        self._elapsed = 0.0
        self._numbers = count(1)
        self._scheduler = Scheduler(self._ledger.begin("boot"), config, Calendar(), self._now())
        self._held: list[Assignment] = []
        self.seconds = 0.0
        live = max(1, round(slots * going))
        hosts = [f"{'idle' if slots and each >= live else 'live'}-{each}.org" for each in range(slots or beside)]
        if going < 1:
            self._let_wait(hosts[live:])
        for _ in range(HELD):
            self._push(hosts[:live] if slots else hosts)

    def rate(self, tasks: int, batch: int) -> float:
        """Measure tasks dispatched and reported in a second of CPU, in turns of ``batch``."""
        self._fetch(batch)
        done, self.seconds = 0, 0.0
        while done < tasks:
            held = self._held
            self._report()
            counted = self.seconds
            assert len(self._held) == batch, f"{len(self._held)} tasks came instead of {batch}"
            done += len(held)
            self._push(_hosts(self._held))
            self.seconds = counted
        seconds = self.seconds
        self._fetch(0)
        hosts = _hosts(self._held)
        self._report()
        self._push(hosts)
        return done / seconds

    def _let_wait(self, hosts: list[str]) -> None:
        """Dispatch a task of each host, report it as done, and push another."""
        for at in range(0, len(hosts), PUSHED):
            self._fetch(PUSHED)
            self._push(hosts[at : at + PUSHED])
            while self._held:
                self._report()
        self._fetch(0)
        self._push(hosts)

    def _fetch(self, capacity: int) -> None:
        self._turn(Hello(session="fetcher", n=next(self._numbers), capacity=capacity, name="fetcher"))

    def _push(self, hosts: list[str]) -> None:
        for at in range(0, len(hosts), PUSHED):
            tasks: list[NewTask | None] = [
                NewTask(f"{next(self._numbers):x}", f"http://{host}/", body=NIL) for host in hosts[at : at + PUSHED]
            ]
            self._turn(NewTasks(session="producer", n=next(self._numbers), project=PROJECT, tasks=tasks))

    def _report(self) -> None:
        held, self._held = self._held, []
        reports: list[TaskReport | None] = [TaskReport(task.project, task.taskid, task.token) for task in held]
        self._turn(Done(session="fetcher", n=next(self._numbers), tasks=reports))

    def _turn(self, *requests: AnyRequest) -> None:
        """Run a turn, and the turns that it asks for, at once."""
        self._elapsed += TURN_SECONDS
        heard = [Incoming(Peer(request.session.encode()), request) for request in requests]
        more = True
        while more:
            began_at = time.thread_time()
            turn = self._scheduler.begin(self._now(), heard)
            result = turn.decide(self._ledger.find(turn.needs))
            self._ledger.commit(result.writes)
            self.seconds += time.thread_time() - began_at
            self._held += _handed(result.outgoing)
            heard, more = [], self._scheduler.next_event_at(self._now()) <= self._now().boot

    def _now(self) -> Now:
        return Now(wall=Wall(1_700_000_000.0 + self._elapsed), boot=Boot(1_000.0 + self._elapsed))


def _hosts(tasks: list[Assignment]) -> list[str]:
    return [task.url.removeprefix("http://").removesuffix("/") for task in tasks]


def _handed(said: list[Outgoing]) -> list[Assignment]:
    return [task for each in said if isinstance(each.message, Select) for task in each.message.tasks]
