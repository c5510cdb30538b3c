"""What is done to each system, and what is seen of it.

rate       joins, or as many tasks without edges: tasks a second from the first submit to the last end
together   joins whose parents end at once: how often each child ran
crash      joins, and kill -9 in their middle: how often each child ran
star       one parent of many children: seconds to submit and to release them, memory
cycle      what is said to one, and what becomes of it
"""

from __future__ import annotations

import time
from typing import Any, Final, Literal, NamedTuple

from benchmarks import processes
from benchmarks.dependencies.graphs import Kind, Outcome, graph, outcome
from benchmarks.dependencies.stage import LOOK_SECONDS, Drawn, Stage
from benchmarks.dependencies.systems import Contender

CRASH_TAKES: Final = "0.05"
"""Seconds of a task in the middle of which a process is killed."""
DOWN_SECONDS: Final = 1.0
AFTER_SECONDS: Final = 3.0
"""In which a child that ran once might run again; and a task of a cycle at all."""
STAR_SECONDS: Final = 240.0
"""After which a star that is not released is left."""


class Lost(Exception):
    """A scene gives no figures; the text says why."""


class Star(NamedTuple):
    """Seconds and bytes of one parent with many children."""

    submit_seconds: float
    release_seconds: float
    server_bytes: int
    worker_bytes: int
    client_bytes: int


def rate(contender: Contender, kind: Kind, count: int) -> float:
    """Tasks a second, of 3 × count.

    Raises:
        Lost: a task was, or was run twice.
    """
    with Stage(contender, Drawn(kind, count)) as stage:
        began_at = _begun(stage)
        stage.wait_for(3 * count)
        rows = stage.rows()
    if len(rows) != 3 * count or len({row.taskid for row in rows}) != 3 * count:
        distinct = len({row.taskid for row in rows})
        raise Lost(f"of {3 * count:,} tasks, {distinct:,} were run, {len(rows) - distinct:,} of them again")
    return 3 * count / (max(row.at for row in rows) - began_at)


def together(contender: Contender, count: int) -> Outcome:
    """Joins whose parents end at once."""
    with Stage(contender, Drawn("joins", count), "tick") as stage:
        _begun(stage)
        return _seen(stage)


def crash(contender: Contender, count: int, victims: Literal["workers", "servers"]) -> Outcome:
    """Joins, in whose middle all workers or all servers are killed, and started again a moment later."""
    with Stage(contender, Drawn("joins", count), CRASH_TAKES) as stage:
        _begun(stage)
        stage.wait_for(3 * count // 2)
        if victims == "workers":
            stage.kill_workers()
            time.sleep(DOWN_SECONDS)
            stage.start_workers()
        else:
            stage.kill_servers()
            time.sleep(DOWN_SECONDS)
            stage.start_servers()
        return _seen(stage)


def star(contender: Contender, count: int) -> Star:
    """One parent with so many children.

    Raises:
        Lost: it was refused, or not released in STAR_SECONDS.
    """
    with Stage(contender, Drawn("star", count)) as stage:
        began_at, client_bytes = time.time(), 0
        if not stage.brings:
            submitted = _submitted(stage)
            began_at, client_bytes = submitted["began_at"], submitted["peak_bytes"]
        submitted_at = time.time()
        stage.start_workers()
        until = time.monotonic() + STAR_SECONDS
        while (released := stage.released()) < count:
            if time.monotonic() > until:
                raise Lost(f"{released:,} children were released {STAR_SECONDS:.0f} s after the workers' start")
        released_at, parent_at = time.time(), stage.rows()[0].at
        submit_seconds = (parent_at if stage.brings else submitted_at) - began_at
        return Star(submit_seconds, released_at - parent_at, *stage.peak_bytes(), client_bytes)


def cycle(contender: Contender) -> str:
    """What is said to one, and what becomes of it."""
    with Stage(contender, Drawn("cycle", 0)) as stage:
        if not stage.brings:
            said: str = processes.printed(stage.submit())["said"]
            if said.startswith("refused"):
                return said
        stage.start_workers()
        stage.settle()
        time.sleep(AFTER_SECONDS)
        ran = len({row.taskid for row in stage.rows()})
        states = stage.ask("states")
        return f"accepted; {ran} of the 2 tasks ran{f' ({states})' if states else ''}"


def _begun(stage: Stage) -> float:
    """Start the workers and submit the graph; when that began, in epoch seconds."""
    began_at = time.time()
    stage.start_workers()
    if stage.brings:
        return began_at
    stage.settle()
    return float(_submitted(stage)["began_at"])


def _submitted(stage: Stage) -> dict[str, Any]:
    """What the process that submitted the graph has printed.

    Raises:
        Lost: the graph was refused.
    """
    printed = processes.printed(stage.submit())
    if printed["said"] != "accepted":
        raise Lost(printed["said"])
    return printed


def _seen(stage: Stage) -> Outcome:
    """What became of the children, once each ran or nothing happens any more."""
    nodes = list(graph(stage.graph.kind, stage.graph.size))
    missing = {node.name for node in nodes if node.parents}
    since, seen = time.monotonic(), 0
    while missing and time.monotonic() - since < stage.contender.quiet_seconds:
        time.sleep(LOOK_SECONDS)
        if stage.brings and stage.contender.safe and stage.rests():
            stage.start_workers()
        if (run := stage.run()) != seen:
            missing -= {row.taskid for row in stage.rows()}
            since, seen = time.monotonic(), run
    time.sleep(AFTER_SECONDS)
    return outcome(nodes, stage.rows())
