"""Desk: a scheduler for scenarios written by hand, one turn at a time, at the scenario's times.

Core, ledger, memory store and codec are the real ones; every message goes through bytes.
"""

from __future__ import annotations

from typing import Any

import msgpack

from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.fields import Boot, Peer, Setting, Wall
from taskqueue.protocol.messages import Incoming
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger
from tests.memory_store import Disk, MemoryStore
from tests.simulation.world import BEGINNING

Message = dict[str, Any]


class Desk:
    """Scheduler with a project ``p`` on one disk.

    Attributes:
        at: seconds since the beginning, on both clocks.
        boot: number of the machine's run; its boot clock starts anew with it.
    """

    def __init__(self, **settings: Setting) -> None:
        self.at = 0.0
        self.boot = 1
        self._booted_at = 0.0
        self._n: dict[str, int] = {}
        self._disk = Disk()
        self._config = CoreConfig(projects={"p": {"rate": float("inf"), **settings}}, head_tasks=2)
        self.restart()

    def turn(self, *requests: Message, at: float | None = None) -> list[Message]:
        """Take one turn that hears these requests; return the messages that it sent, in order."""
        self.at = self.at if at is None else at
        heard = [self._hear(request) for request in requests]
        now = self._now()
        turn = self._core.begin(now, heard)
        result = turn.decide(self._ledger.find(turn.needs))
        self._ledger.commit(result.writes)
        self._core.verify()
        return [msgpack.unpackb(encode(said.message)) for said in result.outgoing]

    def settle(self, at: float | None = None) -> list[Message]:
        """Take turns while something is due; return the messages that they sent."""
        said = self.turn(at=at)
        while self.wakes_at() <= self.at:
            said += self.turn()
        return said

    def wakes_at(self) -> float:
        """Return the time of the next turn, in seconds since the beginning."""
        return self._core.next_event_at(self._now()) + self._booted_at

    def restart(self, *, reboot_to: float | None = None) -> None:
        """Kill -9, and start again; or cut the power and boot, so that the boot clock shows ``reboot_to``."""
        if reboot_to is not None:
            self._disk.power_cut(lucky=1_000_000)
            self.boot += 1
            self._booted_at = self.at - reboot_to
        self._ledger = Ledger(MemoryStore(self._disk))
        self._core = Scheduler(
            self._ledger.begin(f"boot-{self.boot}", make_secret=bytes), self._config, Calendar(), self._now()
        )

    def request(self, session: str, type_: str, **fields: Any) -> Message:
        """Make the next request of a session; a scenario may send it twice."""
        self._n[session] = self._n.get(session, 0) + 1
        return {"type": type_, "v": 1, "session": session, "n": self._n[session], **fields}

    def push(self, *taskids: str, **schedule: Any) -> Message:
        """Make a producer's request."""
        tasks = [{"taskid": taskid, "url": f"http://p/{taskid}", "schedule": schedule} for taskid in taskids]
        return self.request("producer", "new-task", project="p", tasks=tasks)

    def child(self, taskid: str, *parents: str, **schedule: Any) -> Message:
        """Make a producer's request for a task with parents."""
        item = {"taskid": taskid, "url": f"http://p/{taskid}", "schedule": schedule, "depends_on": list(parents)}
        return self.request("producer", "new-task", project="p", tasks=[item])

    def hello(self, fetcher: str, capacity: int = 1, **facts: Any) -> Message:
        """Make a fetcher's hello."""
        return self.request(fetcher, "hello", capacity=capacity, **facts)

    def done(self, fetcher: str, task: Message, **outcome: Any) -> Message:
        """Make a fetcher's report on one task that it was sent."""
        return self.request(fetcher, "done", tasks=[{**lease_of(task), **outcome}])

    def _now(self) -> Now:
        return Now(wall=Wall(BEGINNING + self.at), boot=Boot(self.at - self._booted_at))

    def _hear(self, message: Message) -> Incoming:
        request, flaws = decode_request(msgpack.packb(message))
        return Incoming(Peer(message["session"].encode()), request, flaws)


def lease_of(task: Message) -> Message:
    """Name the lease of a dispatched task, as its fetcher does."""
    return {key: task[key] for key in ("project", "taskid", "token")}


def handed(said: list[Message]) -> list[Message]:
    """Collect the tasks of the select messages among these."""
    return [task for message in said if message["type"] == "select" for task in message["tasks"]]


def outcomes(said: list[Message]) -> list[str]:
    """Collect the outcomes in the replies among these."""
    return [outcome for message in said for outcome in message.get("outcomes", [])]
