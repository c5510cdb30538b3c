"""The graphs that every system is given, and what its ledger says of them at the end.

    plain   3 N tasks, none of which waits for another
    joins   N times two parents and a child that waits for both
    star    one parent and N children
    cycle   two tasks that wait for each other

A task's name is its number and its role: ``a`` and ``b`` are parents, ``c`` is a child, ``x`` waits for nothing.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, Literal, NamedTuple

from benchmarks.peers.ordinary import Row, note

Kind = Literal["plain", "joins", "star", "cycle"]

NAME_DIGITS: Final = 31
TICK_SECONDS: Final = 0.1
TAKES: Final = os.environ.get("TASKQUEUE_BENCH_TAKES", "0")
"""Seconds that a task takes; ``tick``: a parent ends when the clock has a whole multiple of TICK_SECONDS, so that those
that run at once end at once."""


class Node(NamedTuple):
    """A task, and the tasks that it waits for, which come before it in every graph but a cycle."""

    name: str
    parents: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """Children by how often they ran.

    Attributes:
        early: ran before a parent of theirs had ended for the first time.
        latest: seconds from the end of a child's last parent to its own, at most.
    """

    once: int
    never: int
    again: int
    early: int
    latest: float


def name_of(number: int, role: str) -> str:
    """As long as a row of the ledger wants it."""
    return f"{number:0{NAME_DIGITS}d}{role}"


def graph(kind: Kind, count: int) -> Iterator[Node]:
    """Its tasks, parents first."""
    if kind == "plain":
        yield from (Node(name_of(number, "x")) for number in range(3 * count))
    elif kind == "joins":
        for number in range(count):
            parents = name_of(number, "a"), name_of(number, "b")
            yield from (*map(Node, parents), Node(name_of(number, "c"), parents))
    elif kind == "star":
        parent = name_of(0, "a")
        yield Node(parent)
        yield from (Node(name_of(number, "c"), (parent,)) for number in range(count))
    else:
        one, other = name_of(0, "a"), name_of(0, "b")
        yield from (Node(one, (other,)), Node(other, (one,)))


def run(name: str) -> None:
    """The task: take its time, and say that it was run."""
    time.sleep(seconds_of(name))
    note(name)


def seconds_of(name: str) -> float:
    """How long this task takes if it begins now."""
    if TAKES != "tick":
        return float(TAKES)
    return TICK_SECONDS - time.time() % TICK_SECONDS if name[-1] in "ab" else 0.0


def outcome(nodes: Iterable[Node], rows: Sequence[Row]) -> Outcome:
    """What became of those that have parents."""
    runs = Counter(row.taskid for row in rows)
    first = {row.taskid: row.at for row in reversed(rows)}
    children = [node for node in nodes if node.parents]
    times = Counter(min(runs[child.name], 2) for child in children)
    waits = [
        first[child.name] - max(first.get(parent, inf) for parent in child.parents)
        for child in children
        if child.name in first
    ]
    early = sum(wait < 0 for wait in waits)
    return Outcome(times[1], times[0], times[2], early, max(waits, default=0.0))
