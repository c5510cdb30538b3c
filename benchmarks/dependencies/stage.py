"""A system at work, in a temporary folder on a free port of loopback: its processes, which can be killed and started.

with Stage(contender, Drawn("joins", 100), takes="0.05") as stage:
    stage.submit()
    stage.kill_workers()
    stage.start_workers()
    stage.wait()
    stage.rows()
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from benchmarks import processes
from benchmarks.dependencies.graphs import Kind
from benchmarks.dependencies.systems import Contender, loaded
from benchmarks.peers.ordinary import ROOT, ROW_BYTES, Row, rows
from benchmarks.peers.service import START_SECONDS, connect

LOOK_SECONDS: Final = 0.01
SETTLE_SECONDS: Final = 0.5
SETTLE_LIMIT_SECONDS: Final = 30.0
IDLE_SHARE: Final = 0.2
"""Of a core, that processes which have started use at most."""


class Drawn(NamedTuple):
    """The graph that is handed in, see ``benchmarks.dependencies.graphs``."""

    kind: Kind
    size: int


class Stage:
    """One system with one graph.

    Args:
        takes: what a task takes, see ``benchmarks.dependencies.graphs.TAKES``.
    """

    def __init__(self, contender: Contender, graph: Drawn, takes: str = "0") -> None:
        self.contender = contender
        self.graph = graph
        self._folder = tempfile.TemporaryDirectory(prefix="taskqueue-bench-")
        self.folder = Path(self._folder.name)
        self.ledger = self.folder / "ledger"
        self.ledger.touch()
        self._address = f"127.0.0.1:{processes.free_port()}"
        self._environment = {
            **os.environ,
            "TASKQUEUE_BENCH_URL": self._address,
            "TASKQUEUE_BENCH_LEDGER": str(self.ledger),
            "TASKQUEUE_BENCH_FOLDER": str(self.folder),
            "TASKQUEUE_BENCH_SAFE": str(int(contender.safe)),
            "TASKQUEUE_BENCH_GRAPH": f"{graph.kind} {graph.size}",
            "TASKQUEUE_BENCH_TAKES": takes,
        }
        self.brings = loaded(contender.module).BRINGS
        self._servers: list[subprocess.Popen[bytes]] = []
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.ask("prepare")
        self.start_servers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_workers()
        self.kill_servers()
        self._folder.cleanup()

    def start_servers(self) -> None:
        """Start what keeps the tasks; return as soon as it listens."""
        self._servers = self._started(self.ask("servers"))
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            with suppress(OSError):
                return connect(self._address).close()
            time.sleep(LOOK_SECONDS)
        raise SystemExit(f"{self.contender.label} does not listen: {self.log()[-2000:]}")

    def start_workers(self) -> None:
        """Start what runs the tasks."""
        self._workers = self._started(self.ask("workers"))

    def rests(self) -> bool:
        """No worker is left."""
        return all(worker.poll() is not None for worker in self._workers)

    def settle(self) -> None:
        """Wait until all have started, which shows in that they rest; SETTLE_LIMIT_SECONDS at most."""
        until = time.monotonic() + SETTLE_LIMIT_SECONDS
        while time.monotonic() < until:
            before = self._cpu_seconds()
            time.sleep(SETTLE_SECONDS)
            if self._cpu_seconds() - before < IDLE_SHARE * SETTLE_SECONDS:
                return

    def kill_workers(self) -> None:
        """kill -9 of all of them, with what they have started."""
        kill(self._workers)
        self._workers = []

    def kill_servers(self) -> None:
        """kill -9 of all of them."""
        kill(self._servers)
        self._servers = []

    def submit(self) -> subprocess.Popen[bytes]:
        """A process that hands in the graph; ``processes.printed`` gives what it says at its end."""
        graph = self.graph
        command = [sys.executable, "-m", "benchmarks.dependencies.submit", self.contender.module, graph.kind]
        return subprocess.Popen(
            [*command, str(graph.size)], env=self._environment, cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=(self.folder / "log").open("ab"),
        )  # fmt: skip

    def ask(self, what: str) -> Any:
        """What the system's module says, in a process with its environment."""
        command = [sys.executable, "-m", "benchmarks.dependencies.ask", self.contender.module, what]
        process = subprocess.Popen(
            command, env=self._environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        return processes.printed(process)["said"]

    def released(self) -> int:
        """How many children of a star may run."""
        return int(self.ask("released"))

    def run(self) -> int:
        """How many rows the ledger has."""
        return self.ledger.stat().st_size // ROW_BYTES

    def rows(self) -> list[Row]:
        """What was run, in order."""
        return rows(self.ledger)

    def wait_for(self, tasks: int) -> bool:
        """Until so many tasks were run; False: nothing happened for the contender's quiet_seconds."""
        seen, since = self.run(), time.monotonic()
        while seen < tasks:
            time.sleep(LOOK_SECONDS)
            if (now := self.run()) != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > self.contender.quiet_seconds:
                return False
        return True

    def peak_bytes(self) -> tuple[int, int]:
        """Most resident memory of a process of the servers, and of one of the workers."""
        servers, workers = (
            max((peak_bytes(pid) for pid in members(each)), default=0) for each in (self._servers, self._workers)
        )
        return servers, workers

    def log(self) -> str:
        """What all of them have written."""
        return (self.folder / "log").read_text(errors="replace")

    def _cpu_seconds(self) -> float:
        return sum(cpu_seconds(pid) for pid in members([*self._servers, *self._workers]))

    def _started(self, commands: Sequence[Sequence[str]]) -> list[subprocess.Popen[bytes]]:
        with (self.folder / "log").open("ab") as out:
            return [
                subprocess.Popen(
                    command, env=self._environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    start_new_session=True,
                )
                for command in commands
            ]  # fmt: skip


def kill(leaders: Sequence[subprocess.Popen[bytes]]) -> None:
    """kill -9 of the sessions of these processes, and wait."""
    while pids := members(leaders):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for leader in leaders:
            leader.wait()


def members(leaders: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Processes of the sessions of these, in whatever groups, but those that have ended."""
    sessions, found = {str(leader.pid) for leader in leaders}, []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if fields[3] in sessions and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def cpu_seconds(pid: int) -> float:
    """Of a process; 0 if it has ended."""
    with suppress(OSError):
        return processes.cpu_seconds(pid)
    return 0.0


def peak_bytes(pid: int) -> int:
    """Most resident memory of a process so far; 0 if it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
    return 0
