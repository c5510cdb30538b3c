"""What edges between tasks cost: a layered graph beside the same tasks without edges, and chains in both orders.

    python -m benchmarks.edges                         1 round: 1,000,000 edges, and chains of 100,000
    python -m benchmarks.edges --layers 11 --chain 10000

A real daemon. Each task of a layer waits for ten of the layer before, chosen at random; a layer is pushed after the one
before it, all of them before the first task runs. Then one fetcher does all of them, and what it reports releases the
next layer. ``CPU`` is the daemon's. A chain, in which each task waits for the one before it, is pushed in that order
and backwards: then each task waits for one that is unknown when it comes, and might close a cycle.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from benchmarks.daemon import Daemon
from benchmarks.harness import Column, Ratio, Report, parser
from benchmarks.traffic import Fetcher, Producer, body_of, expect, taskid_of
from taskqueue.protocol.fields import NewTask

CONFIG: Final = (
    "[defaults]\nrate = inf\n[projects.plain]\n[projects.edges]\n[projects.forwards]\n[projects.backwards]\n"
)
WIDTH: Final = 1000
"""Tasks of a layer."""
PARENTS: Final = 10
BATCH: Final = 256
BODY_BYTES: Final = 300
WITH, WITHOUT = "with edges", "without edges"
COLUMNS: Final = [
    Column("push", "pushed", "/s"),
    Column("run", "run", "/s"),
    Column("push_cpu", "CPU of a push", "µs", 1),
    Column("run_cpu", "CPU of a run", "µs", 1),
]
RATIOS: Final = [
    Ratio("pushed with edges, against without", "push", WITH, WITHOUT),
    Ratio("run with edges, against without", "run", WITH, WITHOUT),
    Ratio("a chain backwards, against forwards", "push", "chain, backwards", "chain, forwards"),
]


def main() -> None:
    """Run the rounds."""
    options = parse()
    tasks = WIDTH * options.layers
    edges = WIDTH * PARENTS * (options.layers - 1)
    title = f"A graph of {tasks:,} tasks and {edges:,} edges, chains of {options.chain:,}"
    report = Report("edges", title, "python -m benchmarks.edges", COLUMNS, ratios=RATIOS)
    for number in range(options.rounds):
        with Daemon(CONFIG) as daemon:
            daemon.wait()
            graphs = {WITHOUT: ("plain", 0), WITH: ("edges", PARENTS)}
            for label in sorted(graphs, reverse=bool(number % 2)):
                project, parents = graphs[label]
                nodes = layered(options.layers, parents, Random(number))
                report.add(label, push(daemon, project, nodes, tasks) | run(daemon, project, tasks))
            chain = [[at - 1] if at else [] for at in range(options.chain)]
            report.add("chain, forwards", push(daemon, "forwards", enumerate(chain), len(chain)))
            backwards = reversed(list(enumerate(chain)))
            report.add("chain, backwards", push(daemon, "backwards", backwards, len(chain)))
    report.finish(options)


def parse() -> argparse.Namespace:
    """The command line."""
    made = parser(__doc__, rounds=1)
    made.add_argument("--layers", type=int, default=101)
    made.add_argument("--chain", type=int, default=100_000)
    options: argparse.Namespace = made.parse_args()
    return options


def layered(layers: int, parents: int, random: Random) -> Iterator[tuple[int, Sequence[int]]]:
    """Each task's number, and those that it waits for."""
    for number in range(WIDTH * layers):
        before = number // WIDTH * WIDTH - WIDTH
        yield number, random.sample(range(before, before + WIDTH), parents) if before >= 0 else ()


def push(daemon: Daemon, project: str, nodes: Iterator[tuple[int, Sequence[int]]], count: int) -> dict[str, float]:
    """Push the tasks; how many a second, and what one costs."""
    producer = Producer(daemon.url)
    made = list(batches(nodes))
    cpu, began_at = daemon.cpu_seconds(), time.perf_counter()
    producer.begin(project, iter(made), window=8)
    while producer.is_busy:
        producer.hear()
    seconds = time.perf_counter() - began_at
    expect(producer.outcomes, "new", count)
    producer.close()
    return {"push": count / seconds, "push_cpu": (daemon.cpu_seconds() - cpu) / count * 1e6}


def batches(nodes: Iterator[tuple[int, Sequence[int]]]) -> Iterator[list[NewTask | None]]:
    """Their tasks, in batches."""
    body = body_of(BODY_BYTES)
    batch: list[NewTask | None] = []
    for number, parents in nodes:
        taskid = taskid_of(number)
        named = tuple(map(taskid_of, parents))
        batch.append(NewTask(taskid, f"http://example.com/{taskid}", body=body, depends_on=named))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def run(daemon: Daemon, project: str, count: int) -> dict[str, float]:
    """Do the tasks; how many a second, and what one costs."""
    cpu, began_at = daemon.cpu_seconds(), time.perf_counter()
    with Fetcher(daemon.url, count, BATCH, project) as fetcher:
        while fetcher.is_busy:
            fetcher.hear()
    seconds = time.perf_counter() - began_at
    return {"run": count / seconds, "run_cpu": (daemon.cpu_seconds() - cpu) / count * 1e6}


if __name__ == "__main__":
    main()
