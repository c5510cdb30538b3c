"""Lateness of timers: 100,000 that are due at random moments within ten seconds.

    python -m benchmarks.lateness                                 10,000 a second for ten seconds, 3 rounds
    python -m benchmarks.lateness --timers 20000 --seconds 2 --far 100000 --rounds 2

Lateness is the time from the due moment of a timer to its arrival at one waiting fetcher that takes all there is. All
clocks are the machine's own, so a timer that comes too early shows. "And N for later days": the same queue has N more
timers, due in one to thirty days.

* taskqueue: delayed tasks, ``durability = "commit"``; in a further row the fetcher reports each as done at once.
* beanstalkd (default sync): its delay is whole seconds, so it is rounded up. One row is against the wanted moments,
  one against the rounded ones.
* Redis (AOF everysec): a sorted set by time; a script asks for what is due, with a pause of a millisecond between.

A refill of the delayed queue's head stops the daemon's loop for 1 to 2 ms, a write that meets a sync of the log for
longer; both show in the p99.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from msgspec import Struct

from benchmarks.builds import Build, add_options, builds
from benchmarks.harness import Column, Goal, Plot, Report, alternate, parser
from benchmarks.peers import beanstalkd, ours, redis
from benchmarks.processes import stay_on
from benchmarks.timers import InBeanstalkd, InRedis, InTaskqueue, InTaskqueueDone, Out, Timers, Wanted
from benchmarks.traffic import taskid_of

COMMAND: Final = "python -m benchmarks.lateness"
COLUMNS: Final = [
    Column("p50", "p50", "ms", 2),
    Column("p99", "p99", "ms", 2),
    Column("most", "most", "ms", 1),
    Column("early", "too early"),
]
DAY: Final = 86_400
LEASES: Final = "[limits]\nmax_leases = 200_000\n"
"""Limit of leases: the fetcher has one connection, which may have half of them."""
LEAD_SECONDS: Final = 4.0
PUTS_A_SECOND: Final = 8_000
"""Rate below that of each of the three systems."""

OURS: Final = "taskqueue"
DONE: Final = "taskqueue, each reported done"
BEANSTALKD: Final = "beanstalkd"
ROUNDED: Final = "beanstalkd, against its whole seconds"
REDIS: Final = "Redis, asked each millisecond"


class Contender(Struct, frozen=True):
    """System, with or without timers for later days.

    Attributes:
        serve: function that starts it.
        far: number of timers for later days.
    """

    label: str
    serve: Callable[[], Iterator[Timers]]
    unavailable: Callable[[], str]
    far: int

    @property
    def name(self) -> str:
        """Name of its row."""
        return named(self.label, self.far)


def named(label: str, far: int) -> str:
    """Name the row of a system with ``far`` timers for later days."""
    return f"{label}, and {far:,} for later days" if far else label


def main() -> None:
    """Run all rounds."""
    options = parse()
    stay_on("1")
    rows = [named(build.of(OURS), far) for far in dict.fromkeys([0, options.far]) for build in builds(options)]
    goals = [Goal(f"{row}: p99", "p99", row, "≤ 3 ms") for row in rows]
    goals += [Goal(f"{row}: too early", "early", row, "0") for row in rows]
    title = f"Lateness of {options.timers:,} timers in {options.seconds} seconds"
    result = Report("lateness", title, COMMAND, COLUMNS, goals=goals, plot=Plot("bars", "log", columns=("p50", "p99")))
    for _, contender in alternate(options.rounds, contenders(options)):
        if why := contender.unavailable():
            result.missing(contender.name, why)
        else:
            measure(result, contender, options)
    result.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--timers", type=int, default=100_000, help="timers; taskqueue's fetcher can hold 100,000")
    made.add_argument("--seconds", type=int, default=10)
    made.add_argument("--far", type=int, default=1_000_000, help="further timers of a second row; 0: no second row")
    made.add_argument("--only", help="beginning of the names of rows")
    add_options(made)
    return made.parse_args()


def contenders(options: argparse.Namespace) -> list[Contender]:
    """Return each system with and without timers for later days."""
    others = builds(options)
    made = []
    for far in dict.fromkeys([0, options.far]):
        made += [Contender(build.of(OURS), partial(in_taskqueue, build), ours.unavailable, far) for build in others]
        made += [
            Contender(BEANSTALKD, in_beanstalkd, beanstalkd.unavailable, far),
            Contender(REDIS, in_redis, redis.unavailable, far),
        ]
    made[len(others) : len(others)] = [
        Contender(build.of(DONE), partial(in_taskqueue_reporting, build), ours.unavailable, 0) for build in others
    ]
    return [each for each in made if each.name.startswith(options.only or "")]


# ------------------------------------------------------------------------------------------------ a round


def measure(result: Report, contender: Contender, options: argparse.Namespace) -> None:
    """Measure one contender once."""
    with contextmanager(contender.serve)() as timers:
        timers.put(later_days(options.timers, contender.far))
        due = soon(options.timers, options.seconds)
        timers.put(due)
        if time.time() > min(due.values()):
            raise SystemExit(f"{contender.name} took too long to accept the timers: the first were due already")
        out = timers.fetch(len(due))
        result.add(contender.name, figures(out, due))
        if isinstance(timers, InBeanstalkd):
            result.add(named(ROUNDED, contender.far), figures(out, timers.rounded))


def soon(count: int, seconds: int) -> dict[int, float]:
    """Choose random moments within ``seconds``, none before all timers are set."""
    chance = random.Random()
    first = time.time() + LEAD_SECONDS + count / PUTS_A_SECOND
    return {number: first + chance.uniform(0, seconds) for number in range(count)}


def later_days(above: int, count: int) -> dict[int, float]:
    """Choose moments of timers in later days, with numbers from ``above``."""
    chance, now = random.Random(), time.time()
    return {above + number: now + chance.uniform(DAY, 30 * DAY) for number in range(count)}


def figures(out: Sequence[Out], due: Wanted) -> dict[str, float]:
    """Compute figures of the timers that came out."""
    due_at = {taskid_of(number): at for number, at in due.items()}
    late = sorted(1000 * (timer.at - due_at[timer.taskid]) for timer in out)
    return {
        "p50": quantile(late, 0.50),
        "p99": quantile(late, 0.99),
        "most": late[-1],
        "early": sum(one < 0 for one in late),
    }


def quantile(values: Sequence[float], share: float) -> float:
    """Return the sorted value below which this share of them lies."""
    return values[min(len(values) - 1, int(share * len(values)))]


# ------------------------------------------------------------------------------------------------ the systems


def in_taskqueue(build: Build) -> Iterator[Timers]:
    """Start a daemon whose fetcher holds the tasks it gets."""
    with in_commit(build) as daemon:
        yield InTaskqueue(daemon.address)


def in_taskqueue_reporting(build: Build) -> Iterator[Timers]:
    """Start a daemon whose fetcher reports the tasks it gets."""
    with in_commit(build) as daemon:
        yield InTaskqueueDone(daemon.address)


def in_commit(build: Build) -> ours.Ours:
    """Start a daemon whose fetcher can hold 100,000 tasks."""
    return ours.Ours(ours.config_with("commit") + LEASES, "0", build.python)


def in_beanstalkd() -> Iterator[Timers]:
    """Start beanstalkd with a binlog."""
    with beanstalkd.serve("50", "0") as server:
        yield InBeanstalkd(server.address)


def in_redis() -> Iterator[Timers]:
    """Start Redis with an append-only file."""
    with redis.serve("everysec", "0") as server:
        yield InRedis(server.address)


if __name__ == "__main__":
    main()
