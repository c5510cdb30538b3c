"""Thousands of tasks, pushed, started and done by processes that are killed: in order, none lost, none done twice.

Facts are not asked of the daemon but read from ledgers outside: producers write answered pushes, fetchers write tasks
before they start them, and reports that counted. Numbers grow with every dispatch, and a token is such a number masked
by its session, so the starts of all fetchers, sorted by their tokens' numbers, are in the order of dispatch.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest

from taskqueue.core.model.hashes import derive
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import SECRET_KEY
from tests.integration.nursery import WAIT_SECONDS, Forked
from tests.nightly import usually

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]

CAPACITY = 200

PART = usually(4, nightly=1)
"""Divisor of the task counts; a quarter is still more of each project than the daemon has in memory."""
SOLOS = {"one": (1, 1000 // PART), "seven": (7, 2000 // PART), "hundred": (100, 3000 // PART)}
"""Projects with one fetcher: its capacity, and their tasks, all pushed before it starts, so that their order is known.
"""
SHARED = 7000 // PART
"""Tasks of each of two producers of the project that three fetchers share, pushed while these work."""
KILLS = 4
HEAD_TASKS = 200
TASKS = sum(tasks for _, tasks in SOLOS.values()) + 2 * SHARED


class Pushed(NamedTuple):
    """Task in a producer's ledger; ``nth`` counts tasks of the same producer."""

    producer: str
    nth: int
    priority: int
    outcome: str

    @property
    def place(self) -> tuple[int, int]:
        """Place of the task in the order of dispatch."""
        return (-self.priority, self.nth)


class Start(NamedTuple):
    """Task in a fetcher's ledger, given to this session."""

    taskid: str
    token: int
    session: str


class Crew:
    """Processes around one daemon, and their ledgers.

    Attributes:
        counted: tasks answered as done, as the fetchers have reported so far.
    """

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self._url = url
        self._folder = folder
        self._stack = stack
        read_end, self._write_end = os.pipe()
        self._told: IO[str] = stack.enter_context(os.fdopen(read_end))
        stack.callback(os.close, self._write_end)
        self._fetchers: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._producers: list[tuple[subprocess.Popen[bytes], Path]] = []
        self.counted = 0

    def fetch(self, project: str, capacity: int) -> int:
        """Start a fetcher; return its index."""
        place = len(self._fetchers)
        record = self._folder / f"fetcher-{place}"
        self._fetchers.append((self._start("fetcher", project, capacity, record, place), record))
        return place

    def produce(self, project: str, name: str, count: int) -> None:
        """Start a producer."""
        record = self._folder / f"producer-{name}"
        self._producers.append((self._start("producer", project, name, count, record), record))

    def wait_for_producers(self) -> None:
        """Wait until everything has been pushed and answered."""
        assert [process.wait(WAIT_SECONDS) for process, _ in self._producers] == [0] * len(self._producers)

    def wait_until_counted(self, count: int) -> None:
        """Wait until ``count`` tasks have been answered as done."""
        while self.counted < count:
            self.wait_for_more()

    def wait_for_more(self) -> None:
        """Wait until more tasks have been answered as done."""
        self.counted += int(self._told.readline())

    def kill_fetcher(self, place: int) -> None:
        """Kill a fetcher with SIGKILL."""
        process = self._fetchers[place][0]
        process.kill()
        process.wait(WAIT_SECONDS)

    def dismiss(self) -> None:
        """Let the living fetchers end, once all their reports are answered."""
        living = [process for process, _ in self._fetchers if process.poll() is None]
        for process in living:
            process.terminate()
        assert [process.wait(WAIT_SECONDS) for process in living] == [0] * len(living)

    def pushed(self) -> dict[str, Pushed]:
        """Return each pushed task by taskid, with its outcome."""
        lines = [line.split() for _, record in self._producers for line in record.read_text().splitlines()]
        assert len({taskid for taskid, _, _ in lines}) == len(lines)
        return {taskid: _pushed(taskid, int(priority), outcome) for taskid, priority, outcome in lines}

    def starts(self, place: int | None = None) -> list[Start]:
        """Return starts of one fetcher in order, or of all, one fetcher after the other."""
        lines = self._lines("start", place)
        return [Start(taskid, int(token), session) for taskid, token, session in lines]

    def done(self, place: int | None = None) -> list[str]:
        """Return taskids answered as done, of one fetcher or of all; any other answer fails the test."""
        lines = self._lines("done", place)
        assert {outcome for _, outcome in lines} == {"done"}
        return [taskid for taskid, _ in lines]

    def _lines(self, kind: str, place: int | None) -> list[list[str]]:
        fetchers = self._fetchers if place is None else [self._fetchers[place]]
        lines = [line.split() for _, record in fetchers for line in record.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == kind]

    def _start(self, what: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"tests.integration.{what}_main", self._url, *map(str, arguments)]
        process = Forked[bytes](command, cwd=ROOT, stdout=self._write_end)
        self._stack.callback(process.wait, WAIT_SECONDS)
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as it:
        yield it


def _pushed(taskid: str, priority: int, outcome: str) -> Pushed:
    producer, nth = taskid.rsplit("-", 1)
    return Pushed(producer, int(nth), priority, outcome)


def in_order(starts: list[Start], it: Daemon) -> list[Start]:
    """Sort starts in the daemon's order of dispatch."""
    with closing(it.reader()) as still:
        secret = still.get(META, [SECRET_KEY])[0]
    assert secret is not None
    masks = {session: derive(secret, session).mask for session in {start.session for start in starts}}
    return sorted(starts, key=lambda start: start.token ^ masks[start.session])


def assert_first_in_first_out(handed: list[Pushed]) -> None:
    """Assert order among equal priorities of one producer; tasks of others may come in between."""
    order: dict[tuple[str, int], list[int]] = defaultdict(list)
    for task in handed:
        order[task.producer, task.priority].append(task.nth)
    assert all(each == sorted(each) for each in order.values())


def assert_healthy(it: Daemon, client: Peer) -> None:
    assert client.ask("verify")["problems"] == []
    assert client.shell()["reloads"] == 0
    assert "Traceback" not in it.log()
    assert it.stop() == 0


# ---------------------------------------------------------------------------------------- the daemon is killed


@pytest.mark.parametrize(
    ("daemon", "seed", "durability"),
    [
        ("folder", 1, "commit"), *usually([], nightly=[("folder", 2, "commit")]),
        ("folder", 3, "none"), ("postgres", 1, "commit"),
    ],
    indirect=["daemon"],
)  # fmt: skip
def test_however_often_the_daemon_is_killed_each_task_is_started_once_in_order_and_done_once(
    daemon: DaemonFactory, peer: PeerFactory, stack: ExitStack, tmp_path: Path, seed: int, durability: str
) -> None:
    it = daemon(head_tasks=HEAD_TASKS, durability=durability)
    crew = Crew(it.url, tmp_path, stack)
    for project, (_, count) in SOLOS.items():
        crew.produce(project, project, count)
    crew.wait_for_producers()

    for project, (capacity, _) in SOLOS.items():
        crew.fetch(project, capacity)
    for _ in range(3):
        crew.fetch("shared", CAPACITY)
    crew.produce("shared", "left", SHARED)
    crew.produce("shared", "right", SHARED)
    for moment in sorted(random.Random(seed).sample(range(TASKS * 9 // 10), KILLS)):
        crew.wait_until_counted(moment)
        it.kill()
        it.start()
    crew.wait_until_counted(TASKS)
    crew.wait_for_producers()
    crew.dismiss()

    client = peer(it)
    pushed, starts = crew.pushed(), crew.starts()
    assert (len(pushed), {task.outcome for task in pushed.values()}) == (TASKS, {"new"})
    assert Counter(start.taskid for start in starts) == Counter(pushed.keys())
    assert Counter(crew.done()) == Counter(pushed.keys())
    assert client.ask("status")["counts"] == {"success": TASKS}
    totals = client.ask("status")["totals"]
    # A dispatch that was stored but not sent before the kill happens, and counts, again.
    assert totals.pop("selected") >= TASKS
    assert totals == {"new": TASKS, "success": TASKS}
    for place, _ in enumerate(SOLOS):
        places = [pushed[start.taskid].place for start in crew.starts(place)]
        assert places == sorted(places)
    assert_first_in_first_out([pushed[start.taskid] for start in in_order(starts, it)])
    assert_healthy(it, client)


# ---------------------------------------------------------------------------------------- a fetcher is killed


@pytest.mark.parametrize(
    ("daemon", "seed"), [("folder", 1), ("postgres", 1), *usually([], nightly=[("folder", 2)])], indirect=["daemon"]
)
def test_when_a_fetcher_is_killed_at_most_what_it_held_is_started_twice_and_everything_is_done_once(
    daemon: DaemonFactory, peer: PeerFactory, stack: ExitStack, tmp_path: Path, seed: int
) -> None:
    it = daemon(fetcher_timeout=5)
    crew, chance = Crew(it.url, tmp_path, stack), random.Random(seed)
    crew.produce("shared", "left", TASKS // 2)
    crew.produce("shared", "right", TASKS // 2)
    for _ in range(3):
        crew.fetch("shared", CAPACITY)

    crew.wait_until_counted(chance.randrange(TASKS // 4, TASKS // 2))
    crew.kill_fetcher(0)
    held = {start.taskid for start in crew.starts(0)} - set(crew.done(0))
    crew.wait_until_counted(crew.counted + chance.randrange(TASKS // 4))
    it.kill()
    it.start()
    client = peer(it)
    crew.wait_until_counted(TASKS - len(held))
    # Reports of the killed fetcher may have been counted without an answer, so its ledger lacks them.
    while client.ask("status")["counts"] != {"success": TASKS}:
        crew.wait_for_more()
    crew.wait_for_producers()
    crew.dismiss()

    times = Counter(start.taskid for start in crew.starts())
    done = Counter(crew.done())
    twice = {taskid for taskid, count in times.items() if count > 1}
    assert times.keys() == crew.pushed().keys()
    # Started without an answer: held, or reported but unanswered.
    assert held
    assert (twice <= held, len(twice) <= CAPACITY, max(times.values()) <= 2) == (True, True, True)
    assert (times.keys() - done.keys() <= held, max(done.values())) == (True, 1)
    totals = client.ask("status")["totals"]
    assert (totals["new"], totals["success"]) == (TASKS, TASKS)
    # Besides tasks started twice, those on their way to each fetcher when it, or the daemon, was killed.
    assert TASKS + len(twice) <= totals["selected"] <= TASKS + 3 * CAPACITY
    assert_healthy(it, client)
