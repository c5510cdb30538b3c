"""One round of a contender: a server on one core, a producer and a fetcher on another, push → take → done.

    producer ──batches──► server ──batches──► fetcher
                            ▲ ◄──────done───────┘          three processes, loopback sockets, everything on disk

Every contender is a module of ``benchmarks.peers`` that implements ``Peer``. Producer and fetcher are processes
of their own (``benchmarks.peers.role``), write many batches ahead of the answers, and what is pushed is made before the
clock starts, so that the server is the bottleneck. All push the same: random ids, a url, incompressible bodies.

At the end the ledger is checked: each task accepted once, taken once and finished once, and the server agrees.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from importlib import import_module
from subprocess import Popen
from typing import Any, Final, NamedTuple, Protocol, cast

from msgspec import Struct

from benchmarks import processes

WINDOW: Final = 8
"""Unanswered batches of a producer, and batches that a fetcher holds at once."""


class Load(NamedTuple):
    """Load to push: number of tasks, tasks a message, bytes a body."""

    tasks: int
    batch: int
    body: int

    def made(self) -> list[list[Made]]:
        """Make the tasks, in batches, with random ids, so that nothing is in order."""
        body = os.urandom(self.body)
        starts = range(0, self.tasks, self.batch)
        return [[_made(body) for _ in range(min(self.batch, self.tasks - start))] for start in starts]


class Made(NamedTuple):
    """Task to push."""

    taskid: str
    url: str
    body: bytes


class Server(Protocol):
    """Server that listens.

    Attributes:
        address: address for producer and fetcher, in any form that the module understands.
    """

    address: str

    def cpu_seconds(self) -> float:
        """Return CPU time used since its start."""

    def meters(self) -> dict[str, float]:
        """Return its own growing counters by name; empty if none is of interest."""

    def check(self, load: Load) -> None:
        """Compare its own counts with what was pushed.

        Raises:
            SystemExit: a task was lost, or is still there.
        """


class Peer(Protocol):
    """Interface of a module of ``benchmarks.peers``."""

    def unavailable(self) -> str:
        """Return why it can't be measured here; empty if it can."""

    def serve(self, setting: str, core: str) -> AbstractContextManager[Server]:
        """Start the server with one of its settings, on these cores."""

    def produce(self, address: str, load: Load) -> dict[str, Any]:
        """Push all; return ``began_at`` and ``ended_at`` in epoch seconds, and how many were ``accepted``."""

    def fetch(self, address: str, load: Load) -> dict[str, Any]:
        """Take and finish all; return both times, how many were ``finished``, and how many of these ``distinct``."""


class Contender(Struct, frozen=True):
    """Peer and its setting.

    Attributes:
        part: share of the others' number of tasks; a slow peer needs fewer for the same precision.
    """

    label: str
    peer: str
    setting: str
    part: float = 1.0

    @property
    def module(self) -> Peer:
        """Import its module."""
        return peer_of(self.peer)


class Round(NamedTuple):
    """Measurement of a round.

    Attributes:
        rate: lifecycles a second.
        cpu_us: CPU time of the server per lifecycle.
        meters: growth of the server's own counters.
    """

    rate: float
    seconds: float
    cpu_us: float
    meters: dict[str, float]


class Pin(NamedTuple):
    """Cores of the server, and of producer and fetcher; empty: any."""

    server: str
    roles: str

    @classmethod
    def of(cls, text: str) -> Pin:
        """Parse ``0:1``, or nothing."""
        server, _, roles = text.partition(":")
        return cls(server, roles)

    def __str__(self) -> str:
        if not self.server:
            return "nothing is pinned"
        return f"the server on core {self.server}, producer and fetcher on core {self.roles}"


def peer_of(name: str) -> Peer:
    """Import the module of a peer."""
    return cast(Peer, import_module(f"benchmarks.peers.{name}"))


def run(contender: Contender, load: Load, pin: Pin) -> Round:
    """Measure one round.

    Raises:
        SystemExit: the ledger is wrong.
    """
    with contender.module.serve(contender.setting, pin.server) as server:
        meters, cpu = server.meters(), server.cpu_seconds()
        roles = [start_role(contender, name, server, load, pin) for name in ("fetch", "produce")]
        done, pushed = (processes.printed(role) for role in roles)
        cpu = server.cpu_seconds() - cpu
        grown = {name: value - meters[name] for name, value in server.meters().items()}
        check(contender, server, load, pushed, done)
    seconds = done["ended_at"] - pushed["began_at"]
    return Round(load.tasks / seconds, seconds, 1e6 * cpu / load.tasks, grown)


def start_role(contender: Contender, role: str, server: Server, load: Load, pin: Pin) -> Popen[bytes]:
    """Start a process that pushes all ("produce") or takes and finishes all ("fetch")."""
    arguments = [contender.peer, role, server.address, *(str(number) for number in load)]
    return processes.start_module("benchmarks.peers.role", arguments, pin.roles)


def check(contender: Contender, server: Server, load: Load, pushed: dict[str, Any], done: dict[str, Any]) -> None:
    """Check that nothing was lost, and nothing happened twice.

    Raises:
        SystemExit: something was, or did.
    """
    counts = (pushed["accepted"], done["finished"], done["distinct"])
    if counts != (load.tasks,) * 3:
        raise SystemExit(f"{contender.label}: of {load.tasks} tasks {counts} were accepted, finished, different")
    server.check(load)


def _made(body: bytes) -> Made:
    taskid = os.urandom(16).hex()
    return Made(taskid, f"http://example.com/{taskid}", body)
