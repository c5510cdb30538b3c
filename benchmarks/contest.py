"""One round of one contender: a server on one core, a producer and a fetcher on another, push → take → done.

    producer ──batches──► server ──batches──► fetcher
                            ▲ ◄──────done───────┘          three processes, loopback sockets, everything on disk

Every contender is a module of ``benchmarks.peers`` that offers what ``Peer`` says. Producer and fetcher are processes
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
"""Batches that a producer has unanswered at once, and that a fetcher holds at once."""


class Load(NamedTuple):
    """What is pushed: so many tasks, so many a message, bodies of so many bytes."""

    tasks: int
    batch: int
    body: int

    def made(self) -> list[list[Made]]:
        """The tasks, in batches. Ids are random, so that nothing is in order."""
        body = os.urandom(self.body)
        starts = range(0, self.tasks, self.batch)
        return [[_made(body) for _ in range(min(self.batch, self.tasks - start))] for start in starts]


class Made(NamedTuple):
    """A task that is to be pushed."""

    taskid: str
    url: str
    body: bytes


class Server(Protocol):
    """A server that listens.

    Attributes:
        address: for the roles; a text that the module understands.
    """

    address: str

    def cpu_seconds(self) -> float:
        """CPU time that it has used since its start."""

    def meters(self) -> dict[str, float]:
        """Counters of its own that grow, by name; empty if it has none that are of interest."""

    def check(self, load: Load) -> None:
        """Compare its own counts with what was pushed.

        Raises:
            SystemExit: something was lost, or is still there.
        """


class Peer(Protocol):
    """What a module of ``benchmarks.peers`` offers to this contest."""

    def unavailable(self) -> str:
        """Why it can't be measured here; empty: it can."""

    def serve(self, setting: str, core: str) -> AbstractContextManager[Server]:
        """Start the server with one of its settings, on these cores."""

    def produce(self, address: str, load: Load) -> dict[str, Any]:
        """Push all; ``began_at`` and ``ended_at`` in epoch seconds, how many were ``accepted``."""

    def fetch(self, address: str, load: Load) -> dict[str, Any]:
        """Take and finish all; both times, how many were ``finished``, how many of them ``distinct``."""


class Contender(Struct, frozen=True):
    """A peer and the setting that it is started with.

    Attributes:
        part: of the tasks that others do; a slow one needs fewer for the same precision.
    """

    label: str
    peer: str
    setting: str
    part: float = 1.0

    @property
    def module(self) -> Peer:
        """Its module."""
        return peer_of(self.peer)


class Round(NamedTuple):
    """What was measured.

    Attributes:
        rate: lifecycles a second.
        cpu_us: CPU time of the server a lifecycle.
        meters: by how much the server's own counters have grown.
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
        """``0:1``, or nothing."""
        server, _, roles = text.partition(":")
        return cls(server, roles)

    def __str__(self) -> str:
        if not self.server:
            return "nothing is pinned"
        return f"the server on core {self.server}, producer and fetcher on core {self.roles}"


def peer_of(name: str) -> Peer:
    """The module of a peer."""
    return cast(Peer, import_module(f"benchmarks.peers.{name}"))


def run(contender: Contender, load: Load, pin: Pin) -> Round:
    """One round.

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
    """A process that pushes all ("produce") or takes and finishes all ("fetch")."""
    arguments = [contender.peer, role, server.address, *(str(number) for number in load)]
    return processes.start_module("benchmarks.peers.role", arguments, pin.roles)


def check(contender: Contender, server: Server, load: Load, pushed: dict[str, Any], done: dict[str, Any]) -> None:
    """See that nothing was lost, and nothing happened twice.

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
