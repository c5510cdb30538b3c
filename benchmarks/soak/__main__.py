"""Soak: an hour at half of the rate that the machine makes, with everything that happens to a daemon in months.

    python -m benchmarks.soak                  an hour after a quarter of kills; 1 if it is not well
    python -m benchmarks.soak --minutes 3      whether it works; too short to say what is flat
    python -m benchmarks.soak --seed 7         other moments
    python -m benchmarks.soak --minutes 0.3 --warm-up 1 --rate 300 --workers 3

The daemon and its crew (``benchmarks.soak.crew``) have the machine for themselves: 50 workers, a producer of batches of
64, and a prober. All have keys. How many lifecycles a second they make is measured on a daemon of its own; the soak has
half of that. Bodies have 300 bytes, one task in 500 fails once, a task is forgotten half a minute after its end, and
a session five minutes after its last word, so after a warm-up nothing should grow. Meanwhile, at moments that the seed
chooses:

* a worker ends each second or so, by kill -9 while it holds tasks or in order, and another one takes its place;
* the config is changed and read again;
* the crew gets a new key, and the old one is refused;
* in the first fifth, the daemon is killed (-9) or stopped and started. Then one process lives, so that a leak shows.

Each 10 seconds the daemon's memory, descriptors, threads and CPU, the size of its store, the rate, and the latency of
the prober (from its push to its waiting fetcher) are read. A trend is the median of the slopes between all pairs of
samples (Theil 1950, Sen 1968): of the store and the rate over all, of everything else from one sixth of the last
process's life on, because a process that has just started is small and fast. It is flat if an hour of it adds no more
than its bound.

At the end nothing waits any more, and each acknowledged push must have one acknowledged success. One task in 5,000 is
kept; all of them are looked up.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import ceil, inf
from multiprocessing.process import BaseProcess
from random import Random
from statistics import median
from types import TracebackType
from typing import Final, NamedTuple, Self

from benchmarks import processes
from benchmarks.daemon import Daemon, Peer
from benchmarks.harness import Column, Plot, Report, parser
from benchmarks.lateness import quantile
from benchmarks.soak.crew import KEPT, PROBE, Ledger, Post, probe, produce, work
from benchmarks.wrong_keys import loopback_sources
from taskqueue.access.access_file import authorise, finish_rotation, rotate
from taskqueue.access.key_file import make_key, server_key, write_new_key
from taskqueue.protocol.daemon import Verify, VerifyReply
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from tests.attack.waits import corrected

COMMAND: Final = "python -m benchmarks.soak"
NAME: Final = "crew"
"""Name of the crew's key."""
CORES: Final = [str(core) for core in sorted(os.sched_getaffinity(0))]
"""The first one is the daemon's, the others are the crew's."""

RATE_SECONDS: Final = (5.0, 20.0)
"""Time at full speed before the rate is measured, and during it."""
FASTEST: Final = 200_000
"""Lifecycles a second that no machine makes."""
MARGIN: Final = 100_000
"""Tasks for which the ledger has room besides those of the rate."""
WARM_UP_SECONDS: Final = 150.0
SAMPLE_SECONDS: Final = 10.0
TICK_SECONDS: Final = 0.1
DRAIN_SECONDS: Final = 120.0
LIFE_SECONDS: Final = 60.0
"""Mean life of a worker."""
RELOAD_SECONDS: Final = (30.0, 90.0)
ROTATE_SECONDS: Final = (120.0, 240.0)
FINISH_SECONDS: Final = 10.0
"""Time from a new key to the refusal of the old one."""
RESTARTS: Final = 12
"""Kills and stops of the daemon."""
RESTARTING: Final = 1 / 5
"""Part of the soak in which they happen."""
LONG_ENOUGH_MINUTES: Final = 30.0
"""Length of a soak whose trends are judged."""
ROWS: Final = 15
LOOKED_UP: Final = 500

CONFIG: Final = """
[daemon]
fetcher_timeout = 10
session_timeout = 300
[defaults]
rate = inf
retries = {retries}
retry_delay = [1]
fail_pause_num = 0
error_burst = inf
[projects.load]
keep.success = 30
keep.then = "forget"
[projects.probe]
keep.success = 30
keep.then = "forget"
[projects.kept]
"""
RETRIES: Final = (5, 6)
"""Values of a setting, between which reloads change."""


class Bound(NamedTuple):
    """Growth in an hour up to which a figure counts as flat.

    Attributes:
        share: part of the figure's median.
        least: growth that is allowed in any case.
        of_process: True if it is a figure of the process, which begins anew with each start.
        sign: -1 if it must not fall, 1 if it must not rise.
    """

    share: float
    least: float = 0.0
    of_process: bool = False
    sign: int = 1


FIGURES: Final = {
    "rss": (Column("rss", "memory", "MB", 1), Bound(0.1, of_process=True)),
    "descriptors": (Column("descriptors", "descriptors"), Bound(0.0, 10, of_process=True)),
    "threads": (Column("threads", "threads"), Bound(0.0, 1, of_process=True)),
    "store": (Column("store", "store", "MB", 1), Bound(0.1)),
    "cpu": (Column("cpu", "CPU", "% of a core", 1), Bound(0.1, of_process=True)),
    "p50": (Column("p50", "latency p50", "ms", 2), Bound(0.2, of_process=True)),
    "p99": (Column("p99", "latency p99", "ms", 2), Bound(0.5, of_process=True)),
    "rate": (Column("rate", "lifecycles", "/s"), Bound(0.05, sign=-1)),
}


class Sample(NamedTuple):
    """Figures at a moment.

    Attributes:
        minute: minutes since the beginning of the soak.
        life: number of the daemon's start.
    """

    minute: float
    life: int
    figures: dict[str, float]


def main() -> int:
    """Run the soak; return the process's exit code."""
    options = parse()
    processes.stay_on(",".join(CORES[1:]))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # processes of the crew inherit it until they have a handler
    gc.freeze()
    rate = options.rate or most_rate(options.workers) / 2
    print(f"{rate:,.0f} lifecycles/s", flush=True)
    most = MARGIN + int(1.2 * rate * (60 * options.minutes + options.warm_up))
    with Daemon(config(0), CORES[0], has_keys=True) as daemon:
        daemon.wait()
        chance = Random(options.seed)
        with Crew(daemon, rate, most, chance, options.workers) as crew:
            soak = Soak(daemon, crew, options.minutes, chance)
            soak.run(options.warm_up)
        problems = list(soak.problems())
        account = soak.account()
    report = reported(soak.samples, options.minutes)
    found, judged = trends(soak.samples, options.minutes), options.minutes >= LONG_ENOUGH_MINUTES
    rows = "A row has the median, the least and the greatest of its samples."
    for text in (rows, table(found, judged), account, *(f"Problem: {each}" for each in problems)):
        report.note(text)
    report.finish(options)
    return 1 if problems or (judged and not all(each.is_flat for each in found)) else 0


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--minutes", type=float, default=75.0)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--warm-up", type=float, default=WARM_UP_SECONDS, help="seconds before the first sample")
    made.add_argument("--rate", type=float, help="lifecycles per second; default: half of what is measured")
    made.add_argument("--workers", type=int, default=50)
    return made.parse_args()


# ------------------------------------------------------------------------------------------------ crew


class Crew:
    """Processes around a daemon; the context ends by killing all of them.

    Attributes:
        unexpected: how processes ended that should not have.
        ended: ends of workers, by their kind.
    """

    def __init__(self, daemon: Daemon, rate: float, most: int, chance: Random, workers: int) -> None:
        assert daemon.access_file is not None
        self.ledger = Ledger(most, workers)
        self.unexpected: list[str] = []
        self.ended: Counter[str] = Counter()
        self._fork = multiprocessing.get_context("fork")
        self._chance = chance
        self._access_file = daemon.access_file
        self._key = daemon.folder / "crew.key"
        self._server = server_key(daemon.folder).public
        authorise(self._access_file, NAME, self._new_key(), "fetcher")
        self._post = Post(daemon.url, self._key, self.ledger)
        self._sources = loopback_sources()
        self._waits, sink = self._fork.Pipe(duplex=False)
        self._producer = self._made(produce, rate)
        self._prober = self._made(probe, sink)
        self._workers = [self._made(work, place) for place in range(workers)]
        self._leaving: list[BaseProcess] = []
        self._ends_at = [0.0] * workers

    def __enter__(self) -> Self:
        for process in self._all():
            process.start()
        self._ends_at = [self._end() for _ in self._workers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._all():
            process.kill()
            process.join()

    def come_and_go(self) -> None:
        """End workers whose time is over, and start others in their places."""
        for place, process in enumerate(self._workers):
            if process.is_alive() and time.monotonic() < self._ends_at[place]:
                continue
            if not process.is_alive():
                self._note(process)
            elif self._chance.random() < 0.5:
                process.kill()
                process.join()
                self.ended["killed"] += 1
            else:
                process.terminate()
                self._leaving.append(process)
                self.ended["stopped"] += 1
            self._workers[place] = self._made(work, place)
            self._workers[place].start()
            self._ends_at[place] = self._end()
        for process in [each for each in self._leaving if not each.is_alive()]:
            self._leaving.remove(process)
            if process.exitcode != -signal.SIGTERM:  # so it ends if it had not begun yet
                self._note(process)
        for process in (self._producer, self._prober):
            if not process.is_alive():
                self._note(process)
                raise SystemExit(self.unexpected[-1])

    def rotate(self) -> None:
        """Make a new key, let the daemon know it beside the old one, and have all connect anew with it."""
        rotate(self._access_file, NAME, self._new_key())
        for pid in [process.pid for process in self._all() if process.pid]:
            os.kill(pid, signal.SIGHUP)

    def finish_rotation(self) -> None:
        """Have the daemon refuse the old key."""
        finish_rotation(self._access_file, NAME)

    def stop_pushing(self) -> None:
        """Let the producer take its last answers and end; kill the prober."""
        self._producer.terminate()
        self._producer.join(DRAIN_SECONDS)
        self._note(self._producer)
        self._prober.kill()
        self._prober.join()

    def waits(self) -> list[float]:
        """Return the seconds that each task of the prober took since the last call."""
        found = []
        while self._waits.poll():
            found.append(self._waits.recv())
        return found

    def _all(self) -> list[BaseProcess]:
        return [self._producer, self._prober, *self._workers, *self._leaving]

    def _made(self, act: Callable[..., None], *arguments: object) -> BaseProcess:
        return self._fork.Process(target=act, args=(self._post, next(self._sources), *arguments), daemon=True)

    def _note(self, process: BaseProcess) -> None:
        if process.exitcode != 0:
            self.unexpected.append(f"a process of the crew ended with {process.exitcode}")

    def _end(self) -> float:
        return time.monotonic() + 1 + self._chance.expovariate(1 / LIFE_SECONDS)

    def _new_key(self) -> str:
        """Put a new key in the place of the key file; return its public half."""
        key, made = make_key(NAME, self._server), self._key.with_suffix(".new")
        write_new_key(made, key)
        made.replace(self._key)
        return key.public


def most_rate(workers: int) -> float:
    """Measure the lifecycles a second that daemon and crew make at full speed."""
    before, measured = RATE_SECONDS
    with Daemon(config(0), CORES[0], has_keys=True) as daemon:
        daemon.wait()
        with Crew(daemon, inf, int(FASTEST * (before + measured)), Random(0), workers) as crew:
            time.sleep(before)
            done, began_at = crew.ledger.total_done(), time.monotonic()
            time.sleep(measured)
            return (crew.ledger.total_done() - done) / (time.monotonic() - began_at)


def config(number: int) -> str:
    """Return the config after this number of reloads."""
    return CONFIG.format(retries=RETRIES[number % len(RETRIES)])


# ------------------------------------------------------------------------------------------------ soak


class Soak:
    """Daemon and crew, what happens to them, and the samples.

    Attributes:
        samples: all of them, in their order.
        longest: longest time in seconds that a task of the prober took.
        starts: number of the daemon's starts after the first one, by what ended it.
    """

    def __init__(self, daemon: Daemon, crew: Crew, minutes: float, chance: Random) -> None:
        self.samples: list[Sample] = []
        self.longest = 0.0
        self.starts: Counter[str] = Counter()
        self._daemon = daemon
        self._crew = crew
        self._chance = chance
        self._seconds = 60 * minutes
        self._sample_seconds = min(SAMPLE_SECONDS, self._seconds / 12)
        self._waits: list[float] = []
        self._reloads = self._rotations = 0
        self._is_rotating = False
        self._began_at = self._sampled_at = 0.0
        self._done = 0
        self._cpu = 0.0

    def run(self, warm_up: float) -> None:
        """Warm up, then let everything happen, until nothing waits at the end."""
        self._go_on(warm_up, [self._reload, self._rotate])
        self._waits.clear()
        self._began_at = self._sampled_at = time.monotonic()
        self._done = self._crew.ledger.total_done()
        self._cpu = processes.cpu_seconds(self._daemon.pid)
        self._go_on(self._seconds, [self._sample, self._reload, self._rotate, self._restart])
        self._crew.stop_pushing()
        self._drain()

    def problems(self) -> Iterator[str]:
        """Yield what is not as it should be, once all has been run; stops the daemon."""
        found = self._crew.ledger.found()
        if found.lost:
            yield f"{len(found.lost)} acknowledged tasks were lost: {', '.join(found.lost[:5])}"
        if found.doubled:
            yield f"{found.doubled} tasks have two acknowledged successes"
        yield from sorted(set(self._crew.unexpected))
        kept = self._crew.ledger.kept()
        with Peer(self._daemon.address, f"check-{os.urandom(8).hex()}") as peer:
            for start in range(0, len(kept), LOOKED_UP):
                some: list[NewTask | None] = [NewTask(each, "http://example.com/") for each in kept[start:][:LOOKED_UP]]
                peer.send(NewTasks(session=peer.session, n=peer.number(), project=KEPT, tasks=some, states=True))
                reply = peer.receive()
                assert isinstance(reply, NewTasksReply), reply
                if others := Counter(reply.states) - Counter({"success": len(some)}):
                    yield f"kept tasks that are not a success: {dict(others)}"
            peer.send(Verify(session=peer.session, n=peer.number()))
            reply = peer.receive()
            assert isinstance(reply, VerifyReply), reply
            yield from (f"verify: {each}" for each in reply.problems)
        self._daemon.stop()
        if "Traceback" in (log := self._daemon.log()):
            yield log[log.index("Traceback") :][:2000]
        command = [sys.executable, "-m", "taskqueue", "store", "check", str(self._daemon.folder / "store")]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        if checked.returncode:
            yield f"store check: {checked.stdout}{checked.stderr}"

    def account(self) -> str:
        """Say what has happened, and what became of the tasks."""
        found, ended = self._crew.ledger.found(), self._crew.ended
        reloads = self._daemon.log().count("config-reloaded")
        return (
            f"{found.pushed:,} pushes were acknowledged: {len(found.lost)} lost, {found.doubled} done twice, "
            f"{found.again:,} dispatched again; {found.unsure} were reported by workers that were killed before the "
            f"answer. The daemon was killed {self.starts['killed']} times and stopped {self.starts['stopped']} times, "
            f"the config was reloaded {reloads} times and the key replaced {self._rotations} times; "
            f"{ended['killed']:,} workers were killed and {ended['stopped']:,} stopped. The longest time from a push "
            f"to its fetcher was {self.longest:.1f} s."
        )

    # ------------------------------------------------------------------------------------------------ events

    def _go_on(self, seconds: float, acts: Sequence[Callable[[], float]]) -> None:
        """Call each of these when it is due; it returns the seconds until the next time."""
        now = time.monotonic()
        ends_at, due = now + seconds, dict.fromkeys(acts, now + self._sample_seconds)
        while (now := time.monotonic()) < ends_at:
            self._crew.come_and_go()
            self._waits += self._crew.waits()
            for act, at in due.items():
                if now >= at:
                    due[act] = act() + time.monotonic()
            time.sleep(TICK_SECONDS)

    def _sample(self) -> float:
        now, done, pid = time.monotonic(), self._crew.ledger.total_done(), self._daemon.pid
        cpu, passed = processes.cpu_seconds(pid), now - self._sampled_at
        waits = self._waits or [self._sample_seconds]
        self.longest = max(self.longest, *waits)
        late = sorted(1000 * each for each in corrected(waits))
        self._waits = []
        figures = {
            "rss": processes.rss_bytes(pid) / 1e6,
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task")),
            "store": self._daemon.disk_bytes() / 1e6,
            "cpu": 100 * (cpu - self._cpu) / passed,
            "p50": quantile(late, 0.5),
            "p99": quantile(late, 0.99),
            "rate": (done - self._done) / passed,
        }
        self.samples.append(Sample((now - self._began_at) / 60, self.starts.total(), figures))
        self._sampled_at, self._done, self._cpu = now, done, cpu
        return self._sample_seconds

    def _reload(self) -> float:
        self._reloads += 1
        (self._daemon.folder / "taskqueue.toml").write_text(config(self._reloads))
        os.kill(self._daemon.pid, signal.SIGHUP)
        return self._chance.uniform(*RELOAD_SECONDS)

    def _rotate(self) -> float:
        """Begin a rotation, or finish the one that has begun."""
        self._is_rotating = not self._is_rotating
        if self._is_rotating:
            self._crew.rotate()
            return FINISH_SECONDS
        self._crew.finish_rotation()
        self._rotations += 1
        return self._chance.uniform(*ROTATE_SECONDS)

    def _restart(self) -> float:
        """Kill or stop the daemon and start it, while RESTARTING."""
        seconds = self._seconds * RESTARTING
        if time.monotonic() > self._began_at + seconds:
            return inf
        if self._chance.random() < 0.5:
            self._daemon.kill()
            self.starts["killed"] += 1
        else:
            self._daemon.stop()
            self.starts["stopped"] += 1
        self._daemon.start()
        self._daemon.wait()
        self._cpu = 0.0
        return max(2 * self._sample_seconds, seconds / RESTARTS * self._chance.uniform(0.5, 1.5))

    def _drain(self) -> None:
        """Wait until nothing waits, or nothing has moved for DRAIN_SECONDS."""
        with Peer(self._daemon.address, f"drain-{os.urandom(8).hex()}") as peer:
            done, until = self._crew.ledger.total_done(), time.monotonic() + DRAIN_SECONDS
            while time.monotonic() < until:
                rows = [project.counts for project in peer.status().projects if project.name != PROBE]
                if not any(each.ready + each.delayed + each.processing for each in rows):
                    return
                if (now_done := self._crew.ledger.total_done()) > done:
                    done, until = now_done, time.monotonic() + DRAIN_SECONDS
                time.sleep(TICK_SECONDS)


# ------------------------------------------------------------------------------------------------ what came out


def reported(samples: Sequence[Sample], minutes: float) -> Report:
    """Put the samples into ROWS rows, by minute."""
    columns = [column for column, _ in FIGURES.values()]
    plot = Plot("lines", x_label="minute")
    report = Report("soak", "Soak: an hour at half of the rate", COMMAND, columns, plot=plot)
    for sample in samples:
        row = minutes / ROWS * max(1, ceil(sample.minute / minutes * ROWS))
        report.add(f"{row:g}", sample.figures)
    return report


class Trend(NamedTuple):
    """Course of a figure.

    Attributes:
        parts: medians of the first, the middle and the last sixth.
        an_hour: growth in an hour.
        most: growth in an hour up to which it counts as flat.
    """

    column: Column
    parts: list[float]
    an_hour: float
    most: float
    sign: int

    @property
    def is_flat(self) -> bool:
        """Whether it grows, or falls, no more than it may."""
        return self.sign * self.an_hour <= self.most

    def row(self, judged: bool) -> str:
        """Format it as a row of ``trends``."""
        digits = self.column.digits
        figures = [*(f"{part:,.{digits}f}" for part in self.parts), f"{self.an_hour:+,.{digits}f}"]
        bound = f"{'≤ +' if self.sign > 0 else '≥ −'}{self.most:,.{digits}f}"
        said = ("flat" if self.is_flat else "**not flat**") if judged else "too short"
        return f"| {' | '.join([self.column.title, *figures, bound, said])} |"


def trends(samples: Sequence[Sample], minutes: float) -> list[Trend]:
    """Compute the trend of each figure."""
    last = [sample for sample in samples if sample.life == samples[-1].life]
    settled = last[len(last) // 6 :]
    parts = [(0.0, 1 / 6), (5 / 12, 7 / 12), (5 / 6, inf)]
    found = []
    for key, (column, bound) in FIGURES.items():
        level = median(sample.figures[key] for sample in samples)
        an_hour = 60 * slope([(each.minute, each.figures[key]) for each in (settled if bound.of_process else samples)])
        medians = [
            median([each.figures[key] for each in samples if begin <= each.minute / minutes < end] or [level])
            for begin, end in parts
        ]
        found.append(Trend(column, medians, an_hour, max(bound.least, bound.share * level), bound.sign))
    return found


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points; 0 without a pair."""
    return median([(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2)] or [0.0])


def table(found: Sequence[Trend], judged: bool) -> str:
    """Format trends as a table."""
    head = "|  | first sixth | middle | last sixth | an hour adds | flat up to |  |"
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---|", *(each.row(judged) for each in found)])


if __name__ == "__main__":
    sys.exit(main())
