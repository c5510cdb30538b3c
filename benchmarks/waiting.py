"""What a hand-out costs while very many fetchers wait, by how many priorities they have.

    python -m benchmarks.waiting                       10,000 fetchers, about two minutes
    python -m benchmarks.waiting --fetchers 1000 --rounds 3

A real scheduler on a store in memory, without sockets: all fetchers wait, with a slot each, and want the tasks of any
project. In each round, for each mixture of priorities, tasks are pushed, 250 in a turn, until every fetcher has got
one; then they report, 250 in a turn, and wait again. CPU is that of whole turns: look-ups, decision and commit of a
task's push, hand-out and report. The line alone is measured beside it: all of them enter, and are served.

The mixtures take turns, and the fastest round of each counts, because a machine's speed changes. All fetchers come to
wait in no particular order, or equal ones alone would be visited in the order in which they lie in memory, which is
worth a tenth of the time. So is being the first to be made, which therefore somebody is who is not shown.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterable
from itertools import count, islice
from math import inf
from random import Random
from typing import Final

from benchmarks.harness import Column, Report
from taskqueue.calendar import Calendar
from taskqueue.core.parts.now import Now
from taskqueue.core.projects.waiting_line import WaitingLine
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.protocol.fields import NIL, Assignment, Boot, NewTask, Peer, TaskReport, Wall
from taskqueue.protocol.replies import Select
from taskqueue.protocol.requests import AnyRequest, Done, Hello, Incoming, NewTasks
from taskqueue.store.ledger import Ledger
from taskqueue.store.memory_store import Disk, MemoryStore

COMMAND: Final = "python -m benchmarks.waiting"
COLUMNS: Final = [
    Column("cpu", "CPU a task", "µs", 1),
    Column("beside", "beside equal ones", "%", 1),
    Column("line", "in the line", "µs", 2),
]
FETCHERS: Final = 10_000
ROUNDS: Final = 15
BATCH: Final = 250

KINDS: Final[dict[str, Callable[[Random, int], int]]] = {
    "all equal": lambda rng, place: 0,
    "10 priorities": lambda rng, place: rng.randrange(10),
    "1,000 priorities": lambda rng, place: rng.randrange(1000),
    "a priority each, of 32 bits": lambda rng, place: rng.randrange(-(2**31), 2**31),
    "a priority each, each higher than the last": lambda rng, place: place,
}


class Crowd:
    """A scheduler and all who wait at it.

    Attributes:
        held: the task of each that has one, by session.
    """

    def __init__(self, priorities: Iterable[int]) -> None:
        self.held: dict[str, Assignment] = {}
        self._numbers = count(1)
        self._seconds = count(1)
        self._ledger = Ledger(MemoryStore(Disk()))
        config = CoreConfig(defaults={"rate": inf}, projects={"p": {}}, max_sessions=10**6, fetcher_timeout=1e6)
        self._scheduler = Scheduler(self._ledger.begin("boot"), config, Calendar(), self._now())
        said = list(enumerate(priorities))
        for capacity in (0, 1):
            for place, priority in said:
                self._turn([Hello(session=f"f{place}", n=next(self._numbers), capacity=capacity, priority=priority)])
            Random(0).shuffle(said)

    def push(self, count: int) -> float:
        """So many tasks come and are given away; the CPU seconds of that."""
        tasks: list[NewTask | None] = [
            NewTask(f"t{next(self._numbers)}", "http://example.org/", body=NIL) for _ in range(count)
        ]
        return self._turn([NewTasks(session="producer", n=next(self._numbers), project="p", tasks=tasks)])

    def report(self, count: int) -> float:
        """So many who have a task, those that have had it for longest, succeed with it; the CPU seconds of that."""
        requests: list[AnyRequest] = []
        for session in list(islice(self.held, count)):
            task = self.held.pop(session)
            items: list[TaskReport | None] = [TaskReport(task.project, task.taskid, task.token)]
            requests.append(Done(session=session, n=next(self._numbers), tasks=items))
        return self._turn(requests)

    def _turn(self, requests: list[AnyRequest]) -> float:
        heard = [Incoming(Peer(request.session.encode()), request) for request in requests]
        began_at = time.thread_time()
        turn = self._scheduler.begin(self._now(), heard)
        result = turn.decide(self._ledger.find(turn.needs))
        self._ledger.commit(result.writes)
        seconds = time.thread_time() - began_at
        for said in result.outgoing:
            if isinstance(said.message, Select):
                [self.held[said.session]] = said.message.tasks
        return seconds

    def _now(self) -> Now:
        seconds = next(self._seconds)
        return Now(wall=Wall(1_700_000_000.0 + seconds), boot=Boot(1_000.0 + seconds))


def hand_out(crowd: Crowd, fetchers: int) -> float:
    """Microseconds a task, from its push to its report."""
    gc.collect()
    gc.disable()
    seconds = 0.0
    for act in (crowd.push, crowd.report):
        for at in range(0, fetchers, BATCH):
            seconds += act(min(BATCH, fetchers - at))
        assert len(crowd.held) == (fetchers if act == crowd.push else 0)
    gc.enable()
    return seconds / fetchers * 1e6


def in_line(priorities: list[int]) -> float:
    """Microseconds to enter and to be served."""
    line: WaitingLine[int, int] = WaitingLine()
    began_at = time.thread_time()
    for place, priority in enumerate(priorities):
        line.enter(place, place, priority)
    while line.front:
        line.serve(again=False)
    return (time.thread_time() - began_at) / len(priorities) * 1e6


def main() -> None:
    """Print the figures."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--fetchers", type=int, default=FETCHERS)
    made.add_argument("--rounds", type=int, default=ROUNDS)
    options = made.parse_args()
    report = Report("waiting", f"{options.fetchers:,} fetchers wait", COMMAND, COLUMNS)
    priorities = {
        name: [priority(Random(place), place) for place in range(options.fetchers)] for name, priority in KINDS.items()
    }
    crowds = {"": Crowd([0] * options.fetchers)} | {name: Crowd(given) for name, given in priorities.items()}
    rounds = [
        {name: hand_out(crowd, options.fetchers) for name, crowd in crowds.items()} for _ in range(options.rounds + 1)
    ][1:]
    least = {name: min(each[name] for each in rounds) for name in KINDS}
    for name, given in priorities.items():
        line = min(in_line(given) for _ in range(options.rounds))
        beside = 100 * (least[name] / least["all equal"] - 1)
        report.add(name, {"cpu": least[name], "beside": beside, "line": line})
    report.print()


if __name__ == "__main__":
    main()
