"""Full lifecycles a second: push, select, done, through a real daemon, with everything on disk.

    producer ──new-task──► daemon ──select──► fetcher
                             ▲ ◄──────done──────┘           three processes, loopback sockets, RocksDB

    python benchmarks/lifecycle.py                    200,000 tasks in batches of 256, durability commit, 3 rounds
    python benchmarks/lifecycle.py --batch 1 --tasks 20000 --durability interval

Producer and fetcher speak the protocol with the project's own codec and do nothing else, so that the daemon is the
bottleneck. Task ids are random, bodies are incompressible. At the end the ledger is checked: each task was handed out
once, each ``done`` counted once, and the daemon knows as many successes as there were tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import zmq

from taskqueue.core.messages import Finished, NewTask
from taskqueue.core.replies import DoneReply, NewTasksReply, Select, StatusReply, Welcome
from taskqueue.core.requests import AnyRequest, Done, Hello, NewTasks, Status
from taskqueue.wire import decode_said, encode

PROJECT: Final = "bench"
WINDOW: Final = 8
"""Batches that the producer has unanswered at once."""
CAPACITY_BATCHES: Final = 8
"""Batches that the fetcher holds at once."""

CONFIG: Final = """
[server]
bind = "{url}"
log_level = "warning"
[store]
path = "{folder}/data"
durability = "{durability}"
[projects.bench]
rate = inf
"""


def main() -> None:
    """Run the rounds and print each, and their medians."""
    options = parse()
    if options.role:
        ROLES[options.role](options)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """All rounds."""
    rounds = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(run(options, folder))
        print(f"round {number + 1}: {describe(rounds[-1])}", flush=True)
    print(f"\n{options.tasks:,} tasks a round, batches of {options.batch}, bodies of {options.body} bytes, "
          f"durability {options.durability}; {pinning(options)}")  # fmt: skip
    report(rounds)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=256, help="tasks a message, both ways")
    parser.add_argument("--body", type=int, default=300, help="bytes")
    parser.add_argument("--durability", choices=("commit", "interval", "none"), default="commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pin", default="0:1", help="cores of the daemon : of producer and fetcher; empty: nowhere")
    parser.add_argument("--json", type=Path, help="write the rounds to this file, too")
    parser.add_argument("--role", choices=("producer", "fetcher"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------ a round


def run(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """One round: start the three, wait for the end, check the ledger."""
    url = f"tcp://127.0.0.1:{free_port()}"
    config = Path(folder, "taskqueue.toml")
    config.write_text(CONFIG.format(url=url, folder=folder, durability=options.durability))
    daemon_core, _, peers_core = options.pin.partition(":")
    daemon = start(["-m", "taskqueue.cli.main", "scheduler", "-c", str(config)], daemon_core)
    try:
        with Peer(url, "bench-status") as peer:
            before = peer.status()
            cpu_before = cpu_seconds(daemon.pid)
            fetcher = start([__file__, *as_arguments(options, "fetcher", url)], peers_core)
            producer = start([__file__, *as_arguments(options, "producer", url)], peers_core)
            pushed, done = output(producer), output(fetcher)
            cpu = cpu_seconds(daemon.pid) - cpu_before
            after = peer.status()
    finally:
        daemon.terminate()
        daemon.wait()
    check(options, pushed, done, after)
    return figures(options, pushed, done, cpu, before, after)


def check(options: argparse.Namespace, pushed: dict[str, Any], done: dict[str, Any], after: StatusReply) -> None:
    """The ledger: nothing lost, nothing twice."""
    if pushed["outcomes"] != {"new": options.tasks}:
        raise SystemExit(f"pushed {options.tasks} tasks, was told {pushed['outcomes']}")
    if done["outcomes"] != {"done": options.tasks} or done["distinct"] != options.tasks:
        raise SystemExit(f"did {done['distinct']} of {options.tasks} tasks, was told {done['outcomes']}")
    if after.counts.success != options.tasks or after.totals.selected != options.tasks:
        raise SystemExit(f"the daemon counts {after.counts} and {after.totals}")


def figures(
    options: argparse.Namespace,
    pushed: dict[str, Any],
    done: dict[str, Any],
    cpu: float,
    before: StatusReply,
    after: StatusReply,
) -> dict[str, Any]:
    """What a round is reported by."""
    seconds = done["ended_at"] - pushed["began_at"]
    spent = {name: after.shell[name] - before.shell[name] for name in after.shell if name.endswith("_seconds")}
    steps = {name.removesuffix("_seconds"): 1e6 * spent[name] / options.tasks for name in spent}
    return {
        "tasks_per_second": options.tasks / seconds,
        "cpu_us": 1e6 * cpu / options.tasks,
        "busy": sum(spent.values()) / seconds,
        "turns": after.shell["turns"] - before.shell["turns"],
        "syncs": after.shell["syncs"] - before.shell["syncs"],
        "steps_us": steps,
    }


def describe(figures: dict[str, Any]) -> str:
    """One line."""
    return (
        f"{figures['tasks_per_second']:>8,.0f} lifecycles/s   daemon CPU {figures['cpu_us']:5.1f} µs a task"
        f"   {figures['turns']:,.0f} turns, {figures['syncs']:,.0f} syncs"
    )


def report(rounds: list[dict[str, Any]]) -> None:
    """Medians, with the least and the greatest."""
    for name, label in (("tasks_per_second", "lifecycles/s"), ("cpu_us", "daemon CPU, µs a task")):
        values = [figures[name] for figures in rounds]
        print(f"{label:<24}{statistics.median(values):>10,.1f}   ({min(values):,.1f} to {max(values):,.1f})")
    print("of which, in the loop's own thread (wall µs a task, and share):")
    steps = {step: statistics.median(figures["steps_us"][step] for figures in rounds) for step in rounds[0]["steps_us"]}
    for step, spent in steps.items():
        print(f"  {step:<22}{spent:>10.2f}   {100 * spent / sum(steps.values()):3.0f} %")
    options = parse()
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1))


def pinning(options: argparse.Namespace) -> str:
    """Where what ran."""
    if not options.pin:
        return "nothing is pinned"
    daemon_core, _, peers_core = options.pin.partition(":")
    return f"the daemon on core {daemon_core}, producer and fetcher on core {peers_core}"


# ------------------------------------------------------------------------------------------------ the peers


class Peer:
    """A session that speaks the protocol over one DEALER."""

    def __init__(self, url: str, session: str) -> None:
        self.session = session
        self.n = 0
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(url)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def number(self) -> int:
        """Of the next request."""
        self.n += 1
        return self.n

    def send(self, request: AnyRequest) -> None:
        """Send a request."""
        self.socket.send(encode(request))

    def receive(self) -> Any:
        """The next message."""
        return decode_said(self.socket.recv())

    def status(self) -> StatusReply:
        """How the daemon is; waits until it listens."""
        self.send(Status(session=self.session, n=self.number()))
        reply = self.receive()
        assert isinstance(reply, StatusReply)
        return reply


def produce(options: argparse.Namespace) -> None:
    """Push all tasks, ``WINDOW`` batches ahead of the answers."""
    counts: dict[str, int] = {}
    with Peer(options.url, "bench-producer") as peer:
        body = msgspec.Raw(msgspec.msgpack.encode(os.urandom(options.body - 3)))
        batches = [list(batch) for batch in in_batches(options.tasks, options.batch)]
        began_at = time.time()
        sent = answered = 0
        while answered < len(batches):
            if sent < len(batches) and sent - answered < WINDOW:
                tasks: list[NewTask | None] = [NewTask(i, f"http://example.com/{i}", body=body) for i in batches[sent]]
                peer.send(NewTasks(session=peer.session, n=peer.number(), project=PROJECT, tasks=tasks))
                sent += 1
                continue
            reply = peer.receive()
            assert isinstance(reply, NewTasksReply)
            count(counts, reply.outcomes)
            answered += 1
    print(json.dumps({"began_at": began_at, "outcomes": counts}))


def fetch(options: argparse.Namespace) -> None:
    """Do all tasks: report each ``select`` as done, in batches."""
    counts: dict[str, int] = {}
    seen: set[str] = set()
    reported = 0
    capacity = max(16, CAPACITY_BATCHES * options.batch)
    with Peer(options.url, "bench-fetcher") as peer:
        peer.send(Hello(session=peer.session, n=peer.number(), capacity=capacity, projects=[PROJECT]))
        while reported < options.tasks:
            message = peer.receive()
            if isinstance(message, Select):
                seen.update(task.taskid for task in message.tasks)
                done: list[Finished | None] = [Finished(t.project, t.taskid, t.token) for t in message.tasks]
                for start_at in range(0, len(done), options.batch):
                    part = done[start_at : start_at + options.batch]
                    peer.send(Done(session=peer.session, n=peer.number(), tasks=part))
            elif isinstance(message, DoneReply):
                count(counts, message.outcomes)
                reported += len(message.outcomes)
            else:
                assert isinstance(message, Welcome)
        ended_at = time.time()
    print(json.dumps({"ended_at": ended_at, "outcomes": counts, "distinct": len(seen)}))


ROLES: Final = {"producer": produce, "fetcher": fetch}


# ------------------------------------------------------------------------------------------------ small things


def in_batches(tasks: int, batch: int) -> Iterable[Iterable[str]]:
    """Random ids, so that nothing is in order."""
    for start_at in range(0, tasks, batch):
        yield [os.urandom(16).hex() for _ in range(min(batch, tasks - start_at))]


def count(counts: dict[str, int], outcomes: Iterable[str]) -> None:
    """Add the outcomes up."""
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1


def start(arguments: list[str], cores: str) -> subprocess.Popen[bytes]:
    """A Python process on these cores."""
    prefix = ["taskset", "-c", cores] if cores else []
    return subprocess.Popen([*prefix, sys.executable, *arguments], stdout=subprocess.PIPE)


def output(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a peer prints at its end."""
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args!r} failed")
    result: dict[str, Any] = json.loads(printed)
    return result


def as_arguments(options: argparse.Namespace, role: str, url: str) -> list[str]:
    """The command line of a peer."""
    return [
        f"--role={role}", f"--url={url}", f"--tasks={options.tasks}",
        f"--batch={options.batch}", f"--body={options.body}",
    ]  # fmt: skip


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port of loopback that nobody uses."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    port: int = socket.bind_to_random_port("tcp://127.0.0.1")
    socket.close()
    return port


if __name__ == "__main__":
    main()
