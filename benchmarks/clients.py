"""Ordinary clients: one task a call, 16 producers and 16 workers at once; beside RQ, Celery, Dramatiq and Huey.

    python -m benchmarks.clients                       3 rounds of each
    python -m benchmarks.clients --only taskqueue --tasks 20000
    python -m benchmarks.clients --compiled VENV         daemon, producers and workers with a compiled core, too

Each package is used as its manual shows, with its default durability: taskqueue syncs before it answers, the others
use Redis as its package starts it, which writes a snapshot now and then and loses what came after. Producers are 2
processes of 8 threads that push one task after the other. Workers are 2 processes of 8 places (taskqueue, with an
``async`` handler; Dramatiq, with threads), 16 processes (RQ, which forks for each job unless told otherwise; Celery,
also with its default, a process a core) or 16 threads (Huey). A task writes one line into a ledger, which shows that
each was run, and once; the time is from the first push to the last line. Nothing is pinned: all processes share the
cores.

Calls of one taskqueue client that are in flight at the same time share messages, so 8 threads cost little more than
one; the task of a lone caller leaves at once. Most of a client's time goes into system calls, switches between
threads and asyncio, not into what a compiler can shorten. On uvloop a worker takes 0.96 of the CPU a task (0.84 to
1.08 in nine paired rounds), which is less than the rounds differ, so there is no extra for it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, cast

from msgspec import Struct

from benchmarks import processes
from benchmarks.builds import HERE, Build, add_options, builds_of_today
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.peers.ordinary import ROOT, ROW_BYTES, Ordinary, Running, rows
from benchmarks.peers.service import not_on_path

PRODUCERS: Final = 16
PROCESSES: Final = 2
"""Processes of producers, with as many threads as needed."""
WARM_UP: Final = 64
LOOK_SECONDS: Final = 0.01
LIMIT_SECONDS: Final = 300.0
SETTLE_SECONDS: Final = 0.5
IDLE_SHARE: Final = 0.2
"""Share of a core that started workers use at most."""


class Contender(Struct, frozen=True):
    """Package to measure.

    Attributes:
        module: module of benchmarks.peers.
        part: share of our number of tasks; slow packages need fewer for the same precision.
        goal: ratio that our rate should reach.
        build: build of taskqueue for all processes.
        needs: command of its server.
    """

    label: str
    module: str
    setting: str = ""
    part: float = 1.0
    goal: str = "≥ 10"
    needs: str = "redis-server"
    build: Build = HERE

    def unavailable(self) -> str:
        """Return why it can't be measured here; empty if it can."""
        try:
            self.load()
        except ImportError as error:
            return f"the package {error.name} is not installed"
        return not_on_path(self.needs) if self.needs else ""

    def load(self) -> Ordinary:
        """Import its module."""
        return cast(Ordinary, import_module(f"benchmarks.peers.{self.module}"))


OURS: Final = "taskqueue"

PEERS: Final = (
    Contender("RQ", "rq", "Worker", 0.05),
    Contender("RQ, without forks", "rq", "SimpleWorker", 0.1),
    Contender("Celery", "celery", "16", 0.2),
    Contender("Celery, a process a core", "celery", "2", 0.2),
    Contender("Dramatiq", "dramatiq", "", 0.4, "≥ 3"),
    Contender("Huey", "huey", "", 0.4, "≥ 3"),
)


class Shape(NamedTuple):
    """Processes of producers, threads in each, tasks of each thread."""

    processes: int
    threads: int
    each: int

    @property
    def tasks(self) -> int:
        """Number of all tasks."""
        return self.processes * self.threads * self.each


class Took(NamedTuple):
    """Measurement: tasks a second, and CPU time per task of producers, server and workers."""

    rate: float
    producers_us: float
    server_us: float
    workers_us: float


def main() -> None:
    """Run the rounds, print each, and the table."""
    options = parse()
    ours = [Contender(build.of(OURS), "client", needs="", build=build) for build in builds_of_today(options)]
    chosen = [contender for contender in (*ours, *PEERS) if contender.label.startswith(options.only or "")]
    report = Report(
        "clients",
        f"Ordinary clients, {PRODUCERS} producers and {PRODUCERS} workers, tasks a second",
        "python -m benchmarks.clients",
        [
            Column("rate", "tasks", "/s"),
            Column("producers", "CPU of producers", "µs a task"),
            Column("server", "of the server", "µs a task"),
            Column("workers", "of workers", "µs a task"),
        ],
        ratios=[
            Ratio(f"{one.label} against {peer.label}", "rate", one.label, peer.label, peer.goal)
            for one in ours
            for peer in PEERS
        ],
    )
    for number, contender in alternate(options.rounds, chosen):
        if why := contender.unavailable():
            report.missing(contender.label, why)
            continue
        took = measured(contender, int(options.tasks * contender.part))
        print(f"round {number}  {contender.label:<24} {took.rate:>9,.0f} tasks/s", flush=True)
        figures = {"rate": took.rate, "producers": took.producers_us, "server": took.server_us}
        report.add(contender.label, {**figures, "workers": took.workers_us})
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=20_000, help="tasks of taskqueue; slower packages do a part of them")
    made.add_argument("--only", help="beginning of the names of contenders")
    add_options(made)
    options: argparse.Namespace = made.parse_args()
    return options


# ------------------------------------------------------------------------------------------------ a round


def measured(contender: Contender, tasks: int) -> Took:
    """Measure one round.

    Raises:
        SystemExit: a task was lost, or run twice.
    """
    module = contender.load()
    with tempfile.TemporaryDirectory(prefix="taskqueue-bench-") as folder, module.server(contender.build) as server:
        ledger = Path(folder, "ledger")
        ledger.touch()
        environment = {**os.environ, "TASKQUEUE_BENCH_URL": server.url, "TASKQUEUE_BENCH_LEDGER": str(ledger)}
        commands = module.workers(server.url, contender.setting, contender.build)
        with working(commands, environment, Path(folder, "log")) as workers:
            line = Line(contender, environment, ledger, server, workers)
            line.push(Shape(1, 1, WARM_UP))
            settle(workers)
            return line.push(Shape(PROCESSES, PRODUCERS // PROCESSES, max(1, tasks // PRODUCERS)))


@contextmanager
def working(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], log: Path
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run workers, each in a process group of its own, which ends with it."""
    with log.open("ab") as out:
        started = [
            subprocess.Popen(
                command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )
            for command in commands
        ]  # fmt: skip
    try:
        yield started
    finally:
        for worker in started:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def settle(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all workers have started, which shows in that they are idle."""
    while True:
        before = group_cpu_seconds(workers)
        time.sleep(SETTLE_SECONDS)
        if group_cpu_seconds(workers) - before < IDLE_SHARE * SETTLE_SECONDS:
            return


def group_cpu_seconds(workers: Sequence[subprocess.Popen[bytes]]) -> float:
    """Sum the CPU time of the processes in these groups that are alive."""
    groups, spent = {str(worker.pid) for worker in workers}, 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if fields[2] in groups:
                spent += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return spent


class Line(NamedTuple):
    """Processes of a round.

    Attributes:
        environment: variables of producers and workers.
    """

    contender: Contender
    environment: Mapping[str, str]
    ledger: Path
    server: Running
    workers: Sequence[subprocess.Popen[bytes]]

    def push(self, shape: Shape) -> Took:
        """Open the gate for all producers, and wait until every task was run."""
        gate = self.ledger.with_name(f"gate-{os.urandom(4).hex()}")
        before = self.ledger.stat().st_size // ROW_BYTES
        producers = [self.produce(shape, gate) for _ in range(shape.processes)]
        while len(list(gate.parent.glob(f"{gate.name}.*"))) < shape.processes:
            time.sleep(LOOK_SECONDS)
        spent = self.cpu_seconds()
        gate.touch()
        pushed = [processes.printed(producer) for producer in producers]
        wait_for(self.ledger, before + shape.tasks)
        server_us, workers_us = (
            1e6 * (now - then) / shape.tasks for now, then in zip(self.cpu_seconds(), spent, strict=True)
        )
        done = rows(self.ledger)[before:]
        check([taskid for each in pushed for taskid in each["taskids"]], [row.taskid for row in done])
        seconds = max(row.at for row in done) - min(each["began_at"] for each in pushed)
        producers_us = 1e6 * sum(each["cpu_seconds"] for each in pushed) / shape.tasks
        return Took(shape.tasks / seconds, producers_us, server_us, workers_us)

    def cpu_seconds(self) -> tuple[float, float]:
        """CPU time of the server, and of the workers."""
        return processes.cpu_seconds(self.server.pid), group_cpu_seconds(self.workers)

    def produce(self, shape: Shape, gate: Path) -> subprocess.Popen[bytes]:
        """Start a process of producers."""
        numbers = [str(shape.threads), str(shape.each), str(gate)]
        command = [*self.contender.build.command("benchmarks.peers.producer"), self.contender.module, *numbers]
        return subprocess.Popen(
            command, env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )


def wait_for(ledger: Path, tasks: int) -> None:
    """Wait until ``tasks`` tasks were run.

    Raises:
        SystemExit: it takes too long.
    """
    until = time.monotonic() + LIMIT_SECONDS
    while (run := ledger.stat().st_size // ROW_BYTES) < tasks:
        if time.monotonic() > until:
            raise SystemExit(f"{run} of {tasks} tasks were run in {LIMIT_SECONDS:.0f} seconds")
        time.sleep(LOOK_SECONDS)


def check(pushed: list[str], done: list[str]) -> None:
    """Check that no task was lost or run twice.

    Raises:
        SystemExit: one was.
    """
    if sorted(pushed) != sorted(done):
        raise SystemExit(f"{len(pushed)} tasks were pushed, {len(done)} run, {len(set(done))} of them different")


if __name__ == "__main__":
    main()
