"""A growing store, and the measurements taken at each size (see ``benchmarks.growth``)."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.builds import HERE, Build
from benchmarks.daemon import Daemon, Peer
from benchmarks.traffic import EVERYTHING, PROJECT, WINDOW, Producer, Scheduled, Traffic, expect, now
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.values import PLAIN, Schedule

CONFIG: Final = f"[projects.{PROJECT}]\nrate = inf\n"
"""Config with the defaults of all other settings, ``durability = "commit"`` and the cache included."""

FILL_BATCH: Final = 1000
BATCH: Final = 256
PROGRESS: Final = 500_000
"""Tasks between two lines of progress."""

FRESH: Final = 16
"""Tasks in the first ``select`` after a start, at most."""

NEVER_SEEN: Final = 1 << 50
"""First number of tasks that are never pushed."""

SETTLED: Final = 0.02
"""Share of a core below which an idle daemon has settled: nothing is compacted any more."""
SETTLE_SECONDS: Final = 300.0


class Growing:
    """Daemon that knows the tasks of all numbers below ``size``.

    Attributes:
        size: number of known tasks.
        traffic: traffic to the daemon while it runs.
    """

    def __init__(self, body: int, build: Build = HERE, store: str = "") -> None:
        """Start the daemon; ``store`` is the url of a database, or empty for a folder."""
        self.daemon = Daemon(CONFIG, python=build.python, core="" if store else "0", store=store)
        self.size = 0
        self._body = body
        self.traffic: Traffic

    def __enter__(self) -> Self:
        self.daemon.__enter__()
        self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.daemon.__exit__(kind, error, trace)

    # ------------------------------------------------------------------------------------------------ growing

    def push_to(self, size: int) -> None:
        """Push until ``size`` tasks are known, dispatching none."""
        for numbers in self._parts(size):
            self.traffic.push(numbers, FILL_BATCH)

    def do_to(self, size: int) -> None:
        """Push and run until ``size`` tasks are known, and none waits."""
        for numbers in self._parts(size):
            self.traffic.lifecycles(numbers, FILL_BATCH)

    def lifecycles(self, count: int) -> dict[str, float]:
        """Push ``count`` new tasks and run as many; return the rate and CPU."""
        before = self.daemon.cpu_seconds()
        seconds = self.traffic.lifecycles(self.next(count), BATCH)
        cpu = self.daemon.cpu_seconds() - before
        return {"rate": count / seconds, "cpu": 1e6 * cpu / count}

    def lookups(self, count: int, chance: int) -> dict[str, float]:
        """Push ``count`` tasks in random order, nine of ten of them known; the rest changes nothing either.

        Raises:
            SystemExit: something changed.
        """
        find = self.meters()["find_seconds"]
        figures, outcomes = self.pushed(chosen(self.size, count, chance), dropped_if_unknown)
        expect(outcomes, "ignored", count)
        find = self.meters()["find_seconds"] - find
        return {"lookups": figures["rate"], "lookup_cpu": figures["cpu"], "find": 1e6 * find / count}

    def pushed(self, numbers: list[int], schedule: Scheduled = now) -> tuple[dict[str, float], Counter[str]]:
        """Push these tasks; return the rate, CPU, and outcomes."""
        before, began_at = self.daemon.cpu_seconds(), time.perf_counter()
        outcomes = self.traffic.push(numbers, BATCH, schedule)
        seconds, cpu = time.perf_counter() - began_at, self.daemon.cpu_seconds() - before
        return {"rate": len(numbers) / seconds, "cpu": 1e6 * cpu / len(numbers)}, outcomes

    def meters(self) -> dict[str, float]:
        """Fetch meters of the daemon's loop."""
        return self.daemon.status().shell

    def next(self, count: int) -> range:
        """Return the next unused numbers, which count as known from now on."""
        numbers = range(self.size, self.size + count)
        self.size = numbers.stop
        return numbers

    # ------------------------------------------------------------------------------------------------ starting

    def start_clean(self) -> float:
        """Stop in order and start; return seconds from the start to the first dispatched task."""
        self.traffic.close()
        self.daemon.stop()
        return self._start()

    def start_killed(self, pushed: int) -> float:
        """Kill after ``pushed`` acknowledged tasks, while more are in flight, and start; return seconds as
        ``start_clean`` does.

        Raises:
            SystemExit: an acknowledged task was lost.
        """
        numbers = range(self.size, self.size + pushed)
        more = range(numbers.stop, numbers.stop + 2 * WINDOW * FILL_BATCH)
        self.traffic.push(numbers, FILL_BATCH)
        producer = Producer(self.daemon.url)
        producer.begin(PROJECT, self.traffic.batches(more, FILL_BATCH), WINDOW)
        producer.hear()
        self.daemon.kill()
        self.traffic.close()
        producer.close()
        seconds = self._start()
        if (outcomes := self.traffic.push(numbers, FILL_BATCH)) != {"ignored": pushed}:
            raise SystemExit(f"{pushed:,} acknowledged tasks were answered {dict(outcomes)} after kill -9")
        self.traffic.push(more, FILL_BATCH)
        self.size = more.stop
        return seconds

    def do_waiting(self) -> None:
        """Run all waiting tasks."""
        if waiting := self.daemon.status().counts.ready:
            self.traffic.fetch(waiting, FILL_BATCH)

    def _start(self) -> float:
        began_at = time.perf_counter()
        self.daemon.start()
        self.daemon.wait()
        with Peer(self.daemon.url, f"first-{os.urandom(8).hex()}") as peer:
            peer.send(Hello(session=peer.session, n=1, capacity=FRESH, projects=[PROJECT]))
            while not isinstance(peer.receive(), Select):
                pass
            seconds = time.perf_counter() - began_at
            peer.send(Hello(session=peer.session, n=2, capacity=0, seen=EVERYTHING))
            while getattr(peer.receive(), "n", 0) != 2:
                pass
        self._connect()
        return seconds

    # ------------------------------------------------------------------------------------------------ small things

    def _connect(self) -> None:
        """Connect, and wait until the daemon answers."""
        self.daemon.status()
        self.traffic = Traffic(self.daemon.url, self._body)

    def _parts(self, size: int) -> Iterator[range]:
        """Yield the numbers up to ``size`` in parts, with a line of progress after each."""
        while self.size < size:
            began_at, numbers = time.perf_counter(), self.next(min(PROGRESS, size - self.size))
            yield numbers
            rate = len(numbers) / (time.perf_counter() - began_at)
            memory = self.daemon.rss_bytes() / 1e6
            print(f"  {self.size:>12,} tasks, {rate:,.0f}/s, {memory:,.0f} MB", file=sys.stderr, flush=True)


def settle(daemon: Daemon) -> None:
    """Wait until the daemon's background work ends; SETTLE_SECONDS at most."""
    until = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < until:
        before = daemon.cpu_seconds()
        time.sleep(1.0)
        if daemon.cpu_seconds() - before <= SETTLED:
            return


def peak_bytes(pid: int) -> int:
    """Read the peak of the process's resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def chosen(known: int, count: int, seed: int) -> list[int]:
    """Choose random numbers, nine of ten of them known; with none known, all unknown."""
    chance = random.Random(seed)
    return [
        chance.randrange(known) if known and position % 10 else NEVER_SEEN + chance.randrange(NEVER_SEEN)
        for position in range(count)
    ]


def dropped_if_unknown(number: int) -> Schedule:
    """Schedule a cancellation: for an unknown task it changes nothing, so the push is only a look-up."""
    return Schedule(cancel=True) if number >= NEVER_SEEN else PLAIN
