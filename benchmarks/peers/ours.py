"""taskqueue in the contest: a real daemon; producer and fetcher speak the protocol with the project's own codec.

The setting is its durability, ``commit``, ``interval`` or ``none``; ``keys`` if it has keys; ``synced`` if its
hand-outs are; and, if it is another build, its interpreter.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks.builds import HERE, Build
from benchmarks.contest import WINDOW, Load, Made
from benchmarks.daemon import Daemon, Peer
from taskqueue.protocol.codec import encode
from taskqueue.protocol.fetchers import Hello, Select, Welcome
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask, TaskReport

PROJECT: Final = "bench"
PRODUCER: Final = "bench-producer"
FETCHER: Final = "bench-fetcher"
LEAST_CAPACITY: Final = 16

CONFIG: Final = """
[daemon]
log_level = "warning"
[store]
durability = "{durability}"
{more}[projects.bench]
rate = inf
"""


class Ours(Daemon):
    """Daemon that implements ``Server``."""

    def meters(self) -> dict[str, float]:
        """Fetch meters of the loop."""
        return self.status().shell

    def check(self, load: Load) -> None:
        status = self.status()
        if status.counts.success != load.tasks or status.totals.selected != load.tasks:
            raise SystemExit(f"the daemon counts {status.counts} and {status.totals}")


def unavailable() -> str:
    return ""


def setting(durability: str, build: Build = HERE, *, has_keys: bool = False, is_synced: bool = False) -> str:
    """Make the setting of ``serve``."""
    words = [durability, *(["keys"] if has_keys else []), *(["synced"] if is_synced else []), build.python]
    return " ".join(words).strip()


class Said(NamedTuple):
    """Meaning of a setting: the config, the interpreter of another build, and whether the daemon has keys."""

    config: str
    python: str
    has_keys: bool

    @classmethod
    def of(cls, setting: str) -> Said:
        durability, *others = setting.split()
        python = " ".join(word for word in others if word not in ("keys", "synced"))
        return cls(config_with(durability, is_synced="synced" in others), python, "keys" in others)


def config_with(durability: str, *, is_synced: bool = False) -> str:
    """Make the config of a daemon; one of an earlier version has no setting ``handout``."""
    return CONFIG.format(durability=durability, more='handout = "synced"\n' if is_synced else "")


def serve(setting: str, core: str) -> Ours:
    said = Said.of(setting)
    return Ours(said.config, core, said.python, has_keys=said.has_keys)


def produce(address: str, load: Load) -> dict[str, Any]:
    frames = deque(new_task_frames(load.made()))
    accepted = ahead = 0
    with Peer(address, PRODUCER) as peer:
        began_at = time.time()
        while frames or ahead:
            while frames and ahead < WINDOW:
                peer.socket.send(frames.popleft())
                ahead += 1
            reply = peer.receive()
            assert isinstance(reply, NewTasksReply)
            accepted += reply.outcomes.count("new")
            ahead -= 1
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "accepted": accepted}


def new_task_frames(batches: list[list[Made]]) -> list[bytes]:
    """Make a frame per batch."""
    body = msgspec.Raw(msgspec.msgpack.encode(batches[0][0].body))
    frames = []
    for n, batch in enumerate(batches, 1):
        tasks: list[NewTask | None] = [NewTask(made.taskid, made.url, body=body) for made in batch]
        frames.append(encode(NewTasks(session=PRODUCER, n=n, project=PROJECT, tasks=tasks)))
    return frames


def hello(load: Load, n: int = 1) -> Hello:
    """Make the fetcher's hello."""
    return Hello(session=FETCHER, n=n, capacity=max(LEAST_CAPACITY, WINDOW * load.batch), projects=[PROJECT])


def fetch(address: str, load: Load) -> dict[str, Any]:
    """Take and finish all, reporting each ``select`` as done in batches."""
    selects: list[Select] = []
    finished = 0
    with Peer(address, FETCHER) as peer:
        began_at = time.time()
        peer.send(hello(load, peer.number()))
        while finished < load.tasks:
            message = peer.receive()
            if isinstance(message, Select):
                selects.append(message)
                for start in range(0, len(message.tasks), load.batch):
                    peer.send(done(peer.number(), message, start, start + load.batch))
            elif isinstance(message, DoneReply):
                finished += message.outcomes.count("done")
            else:
                assert isinstance(message, Welcome)
        ended_at = time.time()
    distinct = len({task.taskid for select in selects for task in select.tasks})
    return {"began_at": began_at, "ended_at": ended_at, "finished": finished, "distinct": distinct}


def done(n: int, select: Select, start: int, end: int) -> Done:
    """Report tasks ``start`` to ``end`` of a message as success."""
    tasks: list[TaskReport | None] = [
        TaskReport(task.project, task.taskid, task.token) for task in select.tasks[start:end]
    ]
    return Done(session=FETCHER, n=n, tasks=tasks)
