"""Cost of keys: a daemon without and with keys, side by side in one run.

    python -m benchmarks.keys --compiled VENV              everything, at most eight minutes
    python -m benchmarks.keys --only lifecycles,latency    only these parts
    python -m benchmarks.keys --list                       list the parts

The daemon has one core, its clients share the other; it syncs as by default. The two take turns within each part and
round, and the order reverses from one round to the next. With keys each connection is encrypted by CURVE, the daemon
looks its key up, and checks each request for the right of its sender.

* *lifecycles*: push, select, done in batches of 1, 16 and 256, as in ``benchmarks.lifecycle``.
* *latency*: push of a task to the fetcher that waits for it, alternating task by task between two idle daemons.
* *reconnects*: connections that say hello, get an answer and end, one after the other, each from another loopback
  address, because the daemon admits 50 connections a second of one.
* *handshakes*: from connecting to the end of the handshake, idle and while a producer and a fetcher keep the daemon
  busy with turns of batches of 256. The client that waits shares a core with these two.
* *names*: an access file with one name and with 10,000: start of the daemon, one reading of the file, one look-up.
* *wrong*: a polite client, alone and beside a process that connects with a wrong key, as often as one core makes, from
  ever other addresses.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import msgspec
import zmq

from benchmarks import contest, processes
from benchmarks.builds import Build, add_options, builds_of_today
from benchmarks.contest import Contender, Load, Pin
from benchmarks.daemon import Peer
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.lateness import quantile
from benchmarks.lifecycle import tasks_of
from benchmarks.lines import OurLine
from benchmarks.peers import ours
from benchmarks.wrong_keys import from_source, loopback_sources
from taskqueue.access.access_file import AccessList, Entries, Entry, read_entries
from taskqueue.access.key_file import server_key
from taskqueue.access.private_file import write_private
from taskqueue.protocol.fetchers import Hello, Welcome

COMMAND: Final = "python -m benchmarks.keys"
PIN: Final = Pin("0", "1")
BATCHES: Final = (1, 16, 256)
BODY_BYTES: Final = 300
WARM_UP: Final = 20
PAUSE_SECONDS: Final = (0.001, 0.005)
LOADED_TIMES: Final = 2
"""Tasks of the load beside handshakes, in multiples of a round of lifecycles."""
LOOKUPS: Final = 100_000
UNTIL_REFUSED_SECONDS: Final = 0.5
"""Time until a flood runs at its full speed."""


class Side(NamedTuple):
    """Daemon to measure."""

    build: Build
    has_keys: bool

    @property
    def label(self) -> str:
        """Name of its row."""
        return self.build.of("with keys" if self.has_keys else "without keys")

    def serve(self) -> ours.Ours:
        """Make the daemon, which starts as a context."""
        return ours.serve(self.setting, PIN.server)

    @property
    def setting(self) -> str:
        """Setting of ``benchmarks.peers.ours``."""
        return ours.setting("commit", self.build, has_keys=self.has_keys)


def main() -> None:
    """Run the parts, and print the tables of each."""
    options = parse()
    if options.list:
        print("\n".join(PARTS))
        return
    for name in options.only.split(","):
        began_at = time.monotonic()
        report = PARTS[name](options)
        report.finish(options)
        print(f"{name}: {time.monotonic() - began_at:.0f} s", flush=True)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=5)
    made.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas; default: all")
    made.add_argument("--list", action="store_true", help="print the parts")
    made.add_argument("--tasks", type=int, default=50_000, help="tasks in batches of 256; fewer in smaller ones")
    made.add_argument("--probes", type=int, default=300, help="measured tasks of a round of latency and wrong")
    made.add_argument("--connections", type=int, default=1_000, help="connections of a round of reconnects")
    made.add_argument("--names", type=int, default=10_000, help="names in the access file")
    add_options(made)
    options: argparse.Namespace = made.parse_args()
    if unknown := set(options.only.split(",")) - set(PARTS):
        made.error(f"--only {','.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    return options


def sides(options: argparse.Namespace) -> list[Side]:
    """Return each build without and with keys."""
    return [Side(build, has_keys) for build in builds_of_today(options) for has_keys in (False, True)]


def ratios(options: argparse.Namespace, columns: dict[str, str], goals: dict[str, str]) -> list[Ratio]:
    """Return ratios with : without of each build, by column its label and its goal."""
    return [
        Ratio(
            build.of(f"{label}, with : without keys"),
            column,
            Side(build, True).label,
            Side(build, False).label,
            goals.get(column, ""),
        )
        for build in builds_of_today(options)
        for column, label in columns.items()
    ]


# ------------------------------------------------------------------------------------------------ work


def lifecycles(options: argparse.Namespace) -> Report:
    columns = {f"rate_{batch}": f"lifecycles in batches of {batch}" for batch in BATCHES}
    cpu = {f"cpu_{batch}": f"CPU in batches of {batch}" for batch in BATCHES}
    report = Report(
        "keys-lifecycles",
        "Lifecycles without and with keys",
        COMMAND,
        [Column(key, label, "/s") for key, label in columns.items()]
        + [Column(key, label, "µs", 1) for key, label in cpu.items()],
        ratios(options, columns | cpu, {"cpu_256": "≤ 1.15"}),
    )
    for batch in BATCHES:
        load = Load(tasks_of(options.tasks, batch), batch, BODY_BYTES)
        for number, side in alternate(options.rounds, sides(options)):
            took = contest.run(Contender(side.label, "ours", side.setting), load, PIN)
            print(f"round {number}  {side.label:<24} {batch:>4}  {took.rate:>9,.0f}/s  CPU {took.cpu_us:6.1f} µs")
            report.add(side.label, {f"rate_{batch}": took.rate, f"cpu_{batch}": took.cpu_us})
    return report


def latency(options: argparse.Namespace) -> Report:
    report = Report(
        "keys-latency",
        "Push to select, idle, without and with keys",
        COMMAND,
        [Column("p50", "p50", "ms", 2), Column("p99", "p99", "ms", 2)],
        ratios(options, {"p50": "p50", "p99": "p99"}, {"p50": "≤ 1.1"}),
    )
    with staying_on(PIN.roles):
        for _, build in alternate(options.rounds, builds_of_today(options)):
            pair = (Side(build, False), Side(build, True))
            with ExitStack() as stack:
                daemons = [stack.enter_context(side.serve()) for side in pair]
                lines = [stack.enter_context(OurLine(awaited(daemon).address)) for daemon in daemons]
                late = probed(lines, options.probes)
            for side, seconds in zip(pair, late, strict=True):
                report.add(side.label, quantiles("", seconds))
    return report


def probed(lines: list[OurLine], probes: int) -> list[list[float]]:
    """Push tasks over each line in turns; return the seconds of each line."""
    late: list[list[float]] = [[] for _ in lines]
    for _, which in alternate(WARM_UP + probes, range(len(lines))):
        late[which].append(lines[which].hand_over())
        time.sleep(random.uniform(*PAUSE_SECONDS))
    return [each[WARM_UP:] for each in late]


def quantiles(prefix: str, seconds: list[float]) -> dict[str, float]:
    """Return median and 99th percentile in milliseconds."""
    late = sorted(1000 * each for each in seconds)
    return {f"{prefix}p50": quantile(late, 0.50), f"{prefix}p99": quantile(late, 0.99)}


# ------------------------------------------------------------------------------------------------ connections


def reconnects(options: argparse.Namespace) -> Report:
    columns = {"seconds": "time", "daemon": "CPU of the daemon", "client": "CPU of the client"}
    report = Report(
        "keys-reconnects",
        f"{options.connections:,} reconnects without and with keys",
        COMMAND,
        [Column(key, label, "s", 2) for key, label in columns.items()],
        ratios(options, columns, {}),
    )
    with staying_on(PIN.roles):
        for _, side in alternate(options.rounds, sides(options)):
            with side.serve() as daemon:
                cpu, mine, began_at = awaited(daemon).cpu_seconds(), time.process_time(), time.perf_counter()
                for _, source in zip(range(options.connections), loopback_sources(), strict=False):
                    greet(daemon.address, source)
                seconds = time.perf_counter() - began_at
                spent = {"daemon": daemon.cpu_seconds() - cpu, "client": time.process_time() - mine}
            report.add(side.label, {"seconds": seconds} | spent)
    return report


def greet(address: str, source: str) -> None:
    """Connect from a loopback address, say hello, and wait for the answer."""
    with Peer(from_source(address, source), f"reconnect-{source}") as peer:
        peer.send(Hello(session=peer.session, n=peer.number(), capacity=0))
        welcome = peer.receive()
        assert isinstance(welcome, Welcome), welcome


def handshakes(options: argparse.Namespace) -> Report:
    columns = {"idle_p50": "idle p50", "idle_p99": "idle p99", "busy_p50": "busy p50", "busy_p99": "busy p99"}
    report = Report(
        "keys-handshakes",
        "Handshakes, idle and behind turns of 256",
        COMMAND,
        [Column(key, label, "ms", 2) for key, label in columns.items()] + [Column("count", "busy ones")],
        ratios(options, columns, {}),
    )
    load = Load(LOADED_TIMES * options.tasks, BATCHES[-1], BODY_BYTES)
    with staying_on(PIN.roles):
        for _, side in alternate(options.rounds, sides(options)):
            with side.serve() as daemon:
                sources = loopback_sources()
                idle = [shake(awaited(daemon).address, next(sources)) for _ in range(options.probes // 2)]
                busy = [shake(daemon.address, next(sources)) for _ in working(side, daemon, load)]
            figures = quantiles("idle_", idle) | quantiles("busy_", busy)
            report.add(side.label, figures | {"count": float(len(busy))})
    return report


def shake(address: str, source: str) -> float:
    """Connect from a loopback address; return the seconds until the end of the handshake."""
    time.sleep(random.uniform(*PAUSE_SECONDS))
    with Peer("", "handshake") as peer, peer.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as monitor:
        url = peer.present_key(from_source(address, source))
        began_at = time.perf_counter()
        peer.socket.connect(url)
        if not monitor.poll(60_000):
            raise SystemExit(f"no handshake from {source} in a minute")
        seconds = time.perf_counter() - began_at
        peer.socket.disable_monitor()
    return seconds


def working(side: Side, daemon: ours.Ours, load: Load) -> Iterator[None]:
    """Yield again and again while a producer pushes, and a fetcher runs, all tasks of the load."""
    contender = Contender(side.label, "ours", side.setting)
    fetcher, producer = (contest.start_role(contender, role, daemon, load, PIN) for role in ("fetch", "produce"))
    while not daemon.status().totals.selected:
        time.sleep(0.01)
    while producer.poll() is None:
        yield
    for process in (producer, fetcher):
        processes.printed(process)


# ------------------------------------------------------------------------------------------------ strangers and names


def names(options: argparse.Namespace) -> Report:
    rows = {count: f"{count:,} name{'s' if count > 1 else ''}" for count in (1, options.names)}
    report = Report(
        "keys-names",
        "Names in the access file",
        COMMAND,
        [
            Column("start", "start of the daemon", "s", 2),
            Column("reading", "reading of the file", "ms", 1),
            Column("lookup", "look-up", "µs", 2),
            Column("rss", "memory of the daemon", "MB", 1),
        ],
        [Ratio(f"{label} : 1 name", column, rows[options.names], rows[1]) for column, label in (("start", "start"),)],
    )
    for _, count in alternate(options.rounds, list(rows)):
        report.add(rows[count], with_names(count))
    return report


def with_names(count: int) -> dict[str, float]:
    """Measure an access file with this many names."""
    daemon = ours.serve(ours.setting("commit", has_keys=True), PIN.server)
    path = daemon.access_file
    assert path is not None
    entries = [Entry(f"web{number}", "fetcher", (os.urandom(32).hex(),), time.time()) for number in range(count)]
    write_private(path, msgspec.json.encode(Entries(tuple(entries))), "keys")
    began_at = time.perf_counter()
    with daemon:
        start = time.perf_counter() - began_at if awaited(daemon) else 0.0
        rss = daemon.rss_bytes()
        began_at = time.perf_counter()
        found = AccessList(read_entries(path) or ())
        reading = time.perf_counter() - began_at
        keys, now = [random.choice(entries).keys[0] for _ in range(LOOKUPS)], time.time()
        began_at = time.perf_counter()
        for key in keys:
            found.holder(key, now)
        lookup = (time.perf_counter() - began_at) / LOOKUPS
    return {"start": start, "reading": 1e3 * reading, "lookup": 1e6 * lookup, "rss": rss / 1e6}


def wrong(options: argparse.Namespace) -> Report:
    measured = builds_of_today(options)
    report = Report(
        "keys-wrong",
        "A polite client beside wrong keys",
        COMMAND,
        [
            Column("p50", "p50", "ms", 2),
            Column("p99", "p99", "ms", 2),
            Column("tried", "wrong keys", "/s"),
            Column("refused", "after a handshake", "/s"),
        ],
        [
            Ratio(build.of("p50, beside wrong keys : alone"), "p50", build.of(BESIDE), build.of(ALONE), "≤ 2")
            for build in measured
        ],
    )
    for _, build in alternate(options.rounds, measured):
        with Side(build, True).serve() as daemon, OurLine(awaited(daemon).address) as line:
            report.add(build.of(ALONE), quantiles("", *probed([line], options.probes)))
            with flooding(daemon):
                before, began_at = daemon.status().shell, time.perf_counter()
                late = quantiles("", *probed([line], options.probes))
                after, seconds = daemon.status().shell, time.perf_counter() - began_at
            refused, cut = (after[name] - before[name] for name in ("keys_refused", "closed_hasty"))
            report.add(build.of(BESIDE), late | {"tried": (refused + cut) / seconds, "refused": refused / seconds})
    return report


ALONE: Final = "alone"
BESIDE: Final = "beside wrong keys"


@contextmanager
def flooding(daemon: ours.Ours) -> Iterator[None]:
    """Have another process connect with a wrong key, as often as a core makes."""
    server = server_key(daemon.folder).public
    process: subprocess.Popen[bytes] = processes.start_module("benchmarks.wrong_keys", [daemon.url, server], PIN.roles)
    try:
        while not daemon.status().shell["keys_refused"]:
            time.sleep(UNTIL_REFUSED_SECONDS)
        yield
    finally:
        process.kill()
        process.communicate()


# ------------------------------------------------------------------------------------------------ parts


def awaited(daemon: ours.Ours) -> ours.Ours:
    """Wait until the daemon listens."""
    daemon.wait()
    return daemon


@contextmanager
def staying_on(cores: str) -> Iterator[None]:
    """Keep this process on these cores meanwhile."""
    before = os.sched_getaffinity(0)
    processes.stay_on(cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


PARTS: Final[dict[str, Callable[[argparse.Namespace], Report]]] = {
    "lifecycles": lifecycles,
    "latency": latency,
    "reconnects": reconnects,
    "handshakes": handshakes,
    "names": names,
    "wrong": wrong,
}


if __name__ == "__main__":
    main()
