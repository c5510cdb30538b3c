"""Accuracy of the remaining time: six simulated crawls, and the daemon's forecasts of their end while they run.

    python -m benchmarks.remaining              a table
    python -m benchmarks.remaining --seed 7     with other random choices

The scheduler is real, its store is in memory, and time is a number, so the table is the same on each machine. A crawl
has ended when it has nothing left but what waits for a retry.
"""

from __future__ import annotations

import argparse
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.display.projects import remaining_text
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.fields import Boot, Peer, Wall
from taskqueue.protocol.messages import AnyRequest, Incoming, Outgoing
from taskqueue.protocol.projects import ProjectReply, ProjectShow, Remaining
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import Assignment, NewTask, TaskReport
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger
from taskqueue.texts.units import duration_text
from tests.memory_store import Disk, MemoryStore

PROJECT: Final = "crawl"
BEGIN: Final = 1_700_000_000.0
"""Unix seconds: 22:13:20 UTC."""

STEP_SECONDS: Final = 5
LOOK_SECONDS: Final = 60
GIVEN_UP_SECONDS: Final = 4 * 3600.0
"""Time after which a crawl that has not ended never will."""

PUSHED_AT_ONCE: Final = 1000
PLACES: Final = 20


class Crawl(NamedTuple):
    """Simulated crawl.

    Attributes:
        seeds: pages that it begins with.
        settings: settings of its project.
        seconds: longest time of a page; the shortest is a third.
        links: function that returns the numbers of the pages that a page leads to.
        fails: share of attempts that fail.
        away: function that says whether there are no fetchers, by seconds after the beginning.
        ends: True if it has an end.
    """

    seeds: int
    settings: Mapping[str, Any] = MappingProxyType({})
    seconds: float = 30.0
    links: Callable[[random.Random], list[int]] = lambda chance: []
    fails: float = 0.0
    away: Callable[[float], bool] = lambda elapsed: False
    ends: bool = True


class Look(NamedTuple):
    """Forecast, with the seconds after the beginning and the number of finished tasks."""

    elapsed: float
    done: int
    told: Remaining


class Told(NamedTuple):
    """All forecasts of a crawl; ``end`` is when it ended, inf if it did not."""

    looks: list[Look]
    end: float

    @property
    def half_way(self) -> Look:
        """First forecast at which half of its tasks had ended."""
        return next(look for look in self.looks if 2 * look.done >= self.looks[-1].done)

    def is_true(self, look: Look) -> bool:
        """Whether the end lies in the forecast range."""
        told, left = look.told, self.end - look.elapsed
        return not told.reason and told.soonest_seconds <= left <= told.latest_seconds


def _more_than_one(chance: random.Random) -> list[int]:
    """Return ten new pages, or none: 1.2 on average."""
    return [chance.getrandbits(60) for _ in range(10)] if chance.random() < 0.12 else []


def _of_a_site(chance: random.Random) -> list[int]:
    return [chance.randrange(5000) for _ in range(10)]


CRAWLS: Final[dict[str, Crawl]] = {
    "steady": Crawl(seeds=5000),
    "limited by its rate": Crawl(seeds=3000, settings={"rate": 0.5, "burst": 5}),
    "growing": Crawl(seeds=200, links=_more_than_one, ends=False),
    "a tail of retries": Crawl(seeds=4000, fails=0.15),
    "bursts and paused hours": Crawl(
        seeds=4000, settings={"active": "22:00-23:00 UTC"}, away=lambda elapsed: elapsed % 600 > 400
    ),
    "shrinking": Crawl(seeds=10, links=_of_a_site),
}


def simulate(crawl: Crawl, seed: int = 1) -> Told:
    """Run the crawl to its end, with a forecast each minute."""
    return _Run(crawl, seed).told()


class _Run:
    def __init__(self, crawl: Crawl, seed: int) -> None:
        self._crawl = crawl
        self._chance = random.Random(seed)
        self._ledger = Ledger(MemoryStore(Disk()))
        loaded = self._ledger.begin("boot", make_secret=bytes)
        config = CoreConfig(defaults={"rate": inf}, projects={PROJECT: dict(crawl.settings)})
        self._elapsed = 0.0
        self._scheduler = Scheduler(loaded, config, Calendar(), self._now())
        self._numbers = count(1)
        self._held: deque[tuple[float, Assignment]] = deque()
        self._done = self._seen = 0

    def told(self) -> Told:
        """Yield a forecast each minute."""
        for first in range(0, self._crawl.seeds, PUSHED_AT_ONCE):
            self._push(list(range(first, min(first + PUSHED_AT_ONCE, self._crawl.seeds))))
        looks: list[Look] = []
        while self._elapsed < GIVEN_UP_SECONDS or self._crawl.ends:
            self._step()
            if self._elapsed % LOOK_SECONDS == 0:
                looks.append(Look(self._elapsed, self._done, self._remaining()))
                if looks[-1].told.reason == "nothing-left":
                    return Told(looks, self._elapsed)
        return Told(looks, inf)

    def _step(self) -> None:
        self._elapsed += STEP_SECONDS
        away = self._crawl.away(self._elapsed)
        self._ask(
            Hello(
                session="fetcher",
                n=self._n(),
                capacity=0 if away else PLACES,
                holds=[each.token for _, each in self._held],
                seen=self._seen,
            )
        )
        ready = [each for until, each in self._held if until <= self._elapsed]
        self._held = deque(each for each in self._held if each[0] > self._elapsed)
        if ready:
            self._ask(Done(session="fetcher", n=self._n(), tasks=list(map(self._report, ready))))
        for _ in range(PLACES):
            if self._scheduler.next_event_at(self._now()) > self._now().boot:
                return
            self._turn([])

    def _report(self, each: Assignment) -> TaskReport:
        ok = self._chance.random() >= self._crawl.fails
        self._done += ok
        new = [_page(number) for number in self._crawl.links(self._chance)] if ok else []
        return TaskReport(each.project, each.taskid, each.token, ok, new=list(new))

    def _push(self, numbers: list[int]) -> None:
        self._ask(NewTasks(session="producer", n=self._n(), project=PROJECT, tasks=list(map(_page, numbers))))

    def _remaining(self) -> Remaining:
        said = self._ask(ProjectShow(session="person", n=self._n(), project=PROJECT))
        view = next(each.message.project for each in said if isinstance(each.message, ProjectReply))
        assert view is not None
        assert view.remaining is not None
        return view.remaining

    def _ask(self, request: AnyRequest) -> list[Outgoing]:
        return self._turn([Incoming(Peer(request.session.encode()), request)])

    def _turn(self, heard: list[Incoming]) -> list[Outgoing]:
        turn = self._scheduler.begin(self._now(), heard)
        result = turn.decide(self._ledger.find(turn.needs))
        self._ledger.commit(result.writes)
        for each in result.outgoing:
            if isinstance(each.message, Select):
                self._seen = each.message.number
                self._held += [(self._elapsed + self._takes(), task) for task in each.message.tasks]
        return result.outgoing

    def _takes(self) -> float:
        return self._chance.uniform(self._crawl.seconds / 3, self._crawl.seconds)

    def _now(self) -> Now:
        return Now(Wall(BEGIN + self._elapsed), Boot(1.0 + self._elapsed))

    def _n(self) -> int:
        return next(self._numbers)


def _page(number: int) -> NewTask:
    return NewTask(f"{number:x}", f"http://example.org/{number}")


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description="Measure the accuracy of the remaining time on six simulated crawls.")
    options.add_argument("--seed", type=int, default=1, help="seed of the crawls' random choices")
    seed: int = options.parse_args().seed
    print("| crawl | forecast at half-way | took | true | share of true ranges |")
    print("|---|---|---:|---|---:|")
    for name, crawl in CRAWLS.items():
        print(f"| {name} | {' | '.join(_row(simulate(crawl, seed)))} |", flush=True)


def _row(told: Told) -> Iterator[str]:
    half = told.half_way
    yield remaining_text(half.told)
    ranges = [look for look in told.looks if not look.told.reason]
    yield duration_text(told.end - half.elapsed) if told.end < inf else "no end"
    yield "yes" if told.is_true(half) or (half.told.reason == "growing" and told.end == inf) else "no"
    yield f"{sum(map(told.is_true, ranges))} of {len(ranges)}"


if __name__ == "__main__":
    main()
