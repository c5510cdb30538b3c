"""Latency from the push of a task to the waiting fetcher: one task at a time, alone and beside others.

    python -m benchmarks.latency
    python -m benchmarks.latency --probes 100 --rounds 2
    python -m benchmarks.latency --compiled VENV --before VENV

Producer and fetcher are in one process, on another core than the server, and speak its protocol without a client
library. Between two tasks are some random milliseconds.

* idle: nothing else happens.
* half load: another producer and another fetcher work in another project (tube, queue), in messages of 16 tasks, at
  half the rate that the same server reached just before at full speed. They share a core with the measured ones.

Before the fetcher gets the task, taskqueue needs nothing on disk, with any durability: the answer to the producer
waits for the disk, ``select`` does not. beanstalkd with a sync each (``-f 0``) syncs the job first; by default (``-f
50``) it does not, nor does Redis (a list, LPUSH and BRPOP, AOF everysec).
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from msgspec import Struct

from benchmarks import contest, processes
from benchmarks.builds import add_options, builds
from benchmarks.contest import Load, Pin
from benchmarks.harness import Column, Plot, Ratio, Report, alternate, parser
from benchmarks.lateness import quantile
from benchmarks.lines import BeanstalkdLine, Line, OurLine, RedisLine
from benchmarks.peers import ours

COMMAND: Final = "python -m benchmarks.latency"
COLUMNS: Final = [
    Column("idle_p50", "idle p50", "ms", 2),
    Column("idle_p99", "idle p99", "ms", 2),
    Column("load_p50", "half load p50", "ms", 2),
    Column("load_p99", "half load p99", "ms", 2),
    Column("load", "load", "tasks/s"),
]
BATCH: Final = 16
BODY_BYTES: Final = 300
WARM_UP: Final = 20
START_SECONDS: Final = 1.5
"""Time until the load has started."""
PAUSE_SECONDS: Final = (0.001, 0.006)
LOADED_SECONDS: Final = 0.02
"""Length of a probe under load with its pause: more than it takes, so that the load goes on meanwhile."""
PIN: Final = Pin("0", "1")


class Contender(Struct, frozen=True):
    """Server with a setting, and its line.

    Attributes:
        flat_out: tasks of the run that finds the server's full speed: some seconds of work.
    """

    label: str
    peer: str
    setting: str
    line: Callable[[str], AbstractContextManager[Line]]
    flat_out: int = 20_000


SYNC_EACH: Final = Contender("beanstalkd, sync each", "beanstalkd", "0", BeanstalkdLine, flat_out=2_000)
PEERS: Final = [
    SYNC_EACH,
    Contender("beanstalkd, default", "beanstalkd", "50", BeanstalkdLine),
    Contender("Redis list, AOF everysec", "redis", "everysec", RedisLine),
]


def contenders(options: argparse.Namespace) -> list[Contender]:
    """Return contenders of the builds, and the others."""
    mine = [
        Contender(build.of(f"taskqueue, {durability}"), "ours", ours.setting(durability, build), OurLine)
        for durability in ("commit", "interval")
        for build in builds(options)
    ]
    return [each for each in (*mine, *PEERS) if each.label.startswith(options.only or "")]


def ratios(measured: list[Contender]) -> list[Ratio]:
    """Return the ratios of each build with ``commit``."""
    return [
        Ratio(f"{when} p50, {each.label} : beanstalkd sync each", f"{column}_p50", each.label, SYNC_EACH.label, goal)
        for each in measured
        for when, column, goal in (("idle", "idle", "≤ 1.2"), ("half load", "load", ""))
        if each.label.startswith("taskqueue, commit")
    ]


def main() -> None:
    """Run all rounds."""
    options = parse()
    processes.stay_on(PIN.roles)
    plot = Plot("bars", "log", columns=("idle_p50", "idle_p99", "load_p50", "load_p99"))
    measured = contenders(options)
    report = Report("latency", "Latency of one task", COMMAND, COLUMNS, ratios(measured), plot=plot)
    for _, contender in alternate(options.rounds, measured):
        if why := contest.peer_of(contender.peer).unavailable():
            report.missing(contender.label, why)
        else:
            report.add(contender.label, idle(contender, options.probes) | loaded(contender, options.probes))
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=5)
    made.add_argument("--probes", type=int, default=300, help="measured tasks per round; default: 300")
    made.add_argument("--only", help="beginning of the names of rows")
    add_options(made)
    return made.parse_args()


# ------------------------------------------------------------------------------------------------ a round


def idle(contender: Contender, probes: int) -> dict[str, float]:
    """Measure without load."""
    with contest.peer_of(contender.peer).serve(contender.setting, PIN.server) as server:
        return ways(contender, server.address, probes, "idle")


def loaded(contender: Contender, probes: int) -> dict[str, float]:
    """Measure beside the load."""
    most = contest.run(
        contest.Contender(contender.label, contender.peer, contender.setting),
        Load(contender.flat_out, BATCH, BODY_BYTES),
        PIN,
    ).rate
    rate = most / 2
    load = Load(max(BATCH, int(rate * (START_SECONDS + probes * LOADED_SECONDS))), BATCH, BODY_BYTES)
    with contest.peer_of(contender.peer).serve(contender.setting, PIN.server) as server:
        fetcher = _start("benchmarks.peers.role", contender.peer, "fetch", server.address, load)
        producer = _start("benchmarks.paced", contender.peer, server.address, rate, load)
        time.sleep(START_SECONDS)
        figures = ways(contender, server.address, probes, "load")
        has_ended = producer.poll() is not None
        for process in (producer, fetcher):
            processes.stop(process)
    if has_ended:
        raise SystemExit(f"{contender.label}: the load ended before it was measured beside it")
    return figures | {"load": rate}


def ways(contender: Contender, address: str, probes: int, name: str) -> dict[str, float]:
    """Push ``probes`` tasks; return p50 and p99 of their times in milliseconds."""
    chance = random.Random(os.getpid())
    seconds: list[float] = []
    with contender.line(address) as line:
        for _ in range(WARM_UP + probes):
            seconds.append(line.hand_over())
            time.sleep(chance.uniform(*PAUSE_SECONDS))
    late = sorted(1000 * each for each in seconds[WARM_UP:])
    return {f"{name}_p50": quantile(late, 0.50), f"{name}_p99": quantile(late, 0.99)}


def _start(module: str, *parts: str | float | Load) -> subprocess.Popen[bytes]:
    """Start a process of the load."""
    words: list[str] = []
    for part in parts:
        words += [str(number) for number in part] if isinstance(part, Load) else [str(part)]
    return processes.start_module(module, words, PIN.roles)


if __name__ == "__main__":
    main()
