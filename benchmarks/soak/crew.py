"""Processes around the daemon of a soak, a session each, and the ledger of what was acknowledged to them.

    producer ──tasks──► daemon ──tasks──► 50 workers, which hold them for a moment, and report them
                          │  ▲
                          └──┴── prober: pushes a task to itself, again and again, and measures

Each is forked, has a loopback address of its own, as a machine would, and a session that outlives the daemon and its
connections: if an answer is late it connects anew, with the key that its key file has by then, and repeats what was not
answered. SIGHUP lets it do so at once, SIGTERM lets it finish what it holds and end.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Iterator
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.daemon import Peer
from benchmarks.traffic import BODIES, BODY_BYTES, WINDOW, body_of
from benchmarks.wrong_keys import from_source
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.fetchers import Hello, HelloWanted, Select, Welcome
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import PLAIN, Assignment, NewTask, Schedule, TaskReport

LOAD: Final = "load"
"""Project of most tasks, which are forgotten soon."""
KEPT: Final = "kept"
"""Project of some tasks, which are kept, and looked up at the end."""
KEPT_EACH: Final = 5000
"""Distance of the numbers of two tasks of this project."""
PROBE: Final = "probe"
"""Project of the prober."""

BATCH: Final = 64
BACKLOG_MOST: Final = 20_000
"""Ready tasks with which the producer waits."""
FAILS_EACH: Final = 500
"""Distance of the numbers of two tasks that fail at their first attempt; failures are kept for a week."""
CAPACITY: Final = 200
WORK_SECONDS: Final = (0.02, 0.1)
"""Time that a worker holds its tasks."""
HELLO_SECONDS: Final = 3.0
STATUS_SECONDS: Final = 1.0
PROBE_SECONDS: Final = 0.05
PROBE_PATIENCE: Final = 0.25
NEVER_SECONDS: Final = 86_400.0
MOST_PATIENT: Final = 4.0
"""Seconds after which an unanswered request is repeated, at most."""

MULTIPLIER: Final = 0x9E3779B97F4A7C15
IDS: Final = 1 << 64
INVERSE: Final = pow(MULTIPLIER, -1, IDS)


def taskid_of(number: int) -> str:
    """Return the taskid of a number: well mixed, as those of real urls are, and found again by ``number_of``."""
    return f"{number * MULTIPLIER % IDS:016x}"


def number_of(taskid: str) -> int:
    """Return the number of a taskid."""
    return int(taskid, 16) * INVERSE % IDS


class Ledger:
    """Facts about each task, a byte each by its number, in memory that all forked processes share.

    A process that was killed may have been told more than it wrote down, never less.

    Attributes:
        pushed: 1 if its push was acknowledged.
        dispatched: number of the dispatches of its first attempt.
        reported: 1 if a success was reported, whether that was answered or not.
        done: number of acknowledged successes; more than one is an error.
    """

    def __init__(self, most: int, workers: int) -> None:
        self.pushed, self.dispatched, self.reported, self.done = (mmap.mmap(-1, most) for _ in range(4))
        self._counts = memoryview(mmap.mmap(-1, 8 * (workers + 1))).cast("Q")

    @property
    def size(self) -> int:
        """Number of tasks that the producer has begun to push."""
        return self._counts[0]

    @size.setter
    def size(self, value: int) -> None:
        self._counts[0] = value

    def count_dispatched(self, taskids: list[str]) -> None:
        """Note dispatches of first attempts."""
        for number in map(number_of, taskids):
            self.dispatched[number] = min(255, self.dispatched[number] + 1)

    def note_reported(self, taskids: list[str]) -> None:
        """Note successes that are about to be reported."""
        for number in map(number_of, taskids):
            self.reported[number] = 1

    def count_done(self, worker: int, taskids: list[str]) -> None:
        """Note acknowledged successes of a worker."""
        for taskid in taskids:
            self.done[number_of(taskid)] += 1
        self._counts[1 + worker] += len(taskids)

    def total_done(self) -> int:
        """Count acknowledged successes."""
        return sum(self._counts[1:])

    def found(self) -> Found:
        """Compare what was acknowledged."""
        size, unsure, lost = self.size, 0, []
        for number in zeros(self.done, size):
            if self.pushed[number] and self.reported[number]:
                unsure += 1
            elif self.pushed[number]:
                lost.append(taskid_of(number))
        once = self.done[:size].count(b"\1")
        again = size - self.dispatched[:size].count(b"\1") - self.dispatched[:size].count(b"\0")
        return Found(
            pushed=self.pushed[:size].count(b"\1"),
            done=size - self.done[:size].count(b"\0"),
            lost=lost,
            doubled=size - once - self.done[:size].count(b"\0"),
            again=again,
            unsure=unsure,
        )

    def kept(self) -> list[str]:
        """List acknowledged tasks of the project that keeps them."""
        return [taskid_of(number) for number in range(0, self.size, KEPT_EACH) if self.pushed[number]]


class Found(NamedTuple):
    """Counts of a ledger.

    Attributes:
        pushed: acknowledged pushes.
        done: tasks with an acknowledged success.
        lost: acknowledged tasks without one, which no worker has reported either.
        doubled: tasks of which more than one success was acknowledged.
        again: tasks whose first attempt was dispatched more than once.
        unsure: tasks that were reported by a worker that was killed before the answer came.
    """

    pushed: int
    done: int
    lost: list[str]
    doubled: int
    again: int
    unsure: int


def zeros(content: mmap.mmap, size: int) -> Iterator[int]:
    """Yield the positions of zeros among the first ``size`` bytes."""
    at = content.find(b"\0", 0, size)
    while at >= 0:
        yield at
        at = content.find(b"\0", at + 1, size)


class Post(NamedTuple):
    """Daemon to connect to, key file to read, and ledger to write."""

    url: str
    key: Path
    ledger: Ledger

    def address(self, source: str) -> str:
        """Address for ``Peer``, from a loopback address."""
        return f"{from_source(self.url, source)} {self.key}"


class Line:
    """Session that outlives the daemon, its connections and its keys.

    Args:
        patience: seconds until an unanswered request is repeated; twice as long after each time, up to MOST_PATIENT.

    Attributes:
        connections: connections made so far.
        is_leaving: True after SIGTERM.
    """

    def __init__(self, address: str, patience: float = 1.0) -> None:
        self.session = os.urandom(16).hex()
        self.connections = 1
        self.is_leaving = False
        self._unanswered: dict[int, AnyRequest] = {}
        self._asked_at: dict[int, float] = {}
        self._patience = self._patient = patience
        self._is_old = False
        self._address = address
        self._n = 0
        self._peer = Peer(address, self.session)
        signal.signal(signal.SIGTERM, self._leave)
        signal.signal(signal.SIGHUP, self._renew)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    @property
    def awaits(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._unanswered)

    def number(self) -> int:
        """Return the number of the next request."""
        self._n += 1
        return self._n

    def ask(self, request: AnyRequest) -> None:
        """Send a request until it is answered; a hello only once, because a later one has newer facts."""
        self._unanswered[request.n] = request
        self._asked_at[request.n] = time.monotonic()
        self._peer.send(request)

    def receive(self, seconds: float) -> Any:
        """Return the next message, or None if none comes; of an answer only the first one.

        Raises:
            SystemExit: a request was refused.
        """
        oldest = next(iter(self._asked_at.values()), inf)
        if self._is_old or time.monotonic() - oldest > self._patient:
            self._connect_anew()
        if not self._peer.socket.poll(int(1000 * max(0.001, seconds))):
            return None
        message = self._peer.receive()
        if isinstance(message, Select | HelloWanted):
            return message
        if isinstance(message, ErrorReply):
            if message.code == "unavailable":
                return None
            raise SystemExit(f"refused: {message}")
        self._patient = self._patience
        self._asked_at.pop(message.n, None)
        return message if self._unanswered.pop(message.n, None) else None

    def _connect_anew(self) -> None:
        self._peer.socket.close()
        self._peer = Peer(self._address, self.session)
        self.connections += 1
        self._is_old = False
        self._patient = min(2 * self._patient, MOST_PATIENT)
        self._unanswered = {n: each for n, each in self._unanswered.items() if not isinstance(each, Hello)}
        self._asked_at = dict.fromkeys(self._unanswered, time.monotonic())
        for request in self._unanswered.values():
            self._peer.send(request)

    def _leave(self, *_: object) -> None:
        self.is_leaving = True

    def _renew(self, *_: object) -> None:
        self._is_old = True


# ------------------------------------------------------------------------------------------------ producer


def produce(post: Post, source: str, rate: float) -> None:
    """Push tasks at a rate, late ones at once, until SIGTERM; then take the answers to all."""
    line, ledger = Line(post.address(source)), post.ledger
    bodies = [body_of(BODY_BYTES) for _ in range(BODIES)]
    asked: dict[int, range] = {}
    backlog, status_at, next_at = 0, 0.0, time.monotonic()
    while asked or not line.is_leaving:
        now = time.monotonic()
        if now >= status_at:
            line.ask(StatusShow(session=line.session, n=line.number(), limit=1, fetchers=0))
            status_at = now + STATUS_SECONDS
        if now >= next_at and len(asked) < WINDOW and backlog < BACKLOG_MOST and not line.is_leaving:
            numbers = range(ledger.size, ledger.size + BATCH)
            ledger.size = numbers.stop
            tasks: list[NewTask | None] = [_task(number, bodies[number % BODIES]) for number in numbers]
            request = NewTasks(session=line.session, n=line.number(), project=LOAD, tasks=tasks)
            asked[request.n] = numbers
            line.ask(request)
            next_at += BATCH / rate
            continue
        message = line.receive(next_at - now if now < next_at else WORK_SECONDS[0])
        if isinstance(message, StatusReply):
            backlog = message.counts.ready
        elif isinstance(message, NewTasksReply):
            numbers = asked.pop(message.n)
            if message.outcomes != ["new"] * BATCH:
                raise SystemExit(f"new tasks were answered {message.outcomes}, {message.errors}")
            ledger.pushed[numbers.start : numbers.stop] = b"\1" * BATCH


def _task(number: int, body: Any) -> NewTask:
    taskid = taskid_of(number)
    return NewTask(
        taskid, f"http://example.com/{taskid}", PLAIN, body, project=KEPT if number % KEPT_EACH == 0 else None
    )


# ------------------------------------------------------------------------------------------------ fetchers


class Fetcher:
    """Fetcher that keeps to the protocol.

    Attributes:
        line: its session.
        held: tasks that it holds and has not reported, by their tokens.
        reported: reports without an answer, by the numbers of their requests.
    """

    def __init__(self, line: Line, name: str, capacity: int, projects: list[str]) -> None:
        self.line = line
        self.held: dict[int, Assignment] = {}
        self.reported: dict[int, list[TaskReport]] = {}
        self._name = name
        self._capacity = capacity
        self._projects = projects
        self._seen = self._greeted = 0
        self._hello_at = 0.0
        self._has_left = False

    def hear(self, seconds: float) -> Any:
        """Take a message, or None if none comes; say hello if it is time."""
        line = self.line
        if line.connections > self._greeted or time.monotonic() > self._hello_at or line.is_leaving > self._has_left:
            self._hello()
        message = line.receive(seconds)
        if isinstance(message, HelloWanted):
            self._hello()
        elif isinstance(message, Welcome):
            for token in message.ended:
                self.held.pop(token, None)
        elif isinstance(message, Select) and message.number == self._seen + 1:
            self._seen += 1
            self.held |= {task.token: task for task in message.tasks}
            return message
        elif isinstance(message, Select) and message.number > self._seen:
            self._hello()
        return message if isinstance(message, NewTasksReply | DoneReply) else None

    def report(self, reports: list[TaskReport]) -> None:
        """Report all that is held."""
        line = self.line
        request = Done(session=line.session, n=line.number(), tasks=list(reports))
        self.held.clear()
        self.reported[request.n] = reports
        line.ask(request)

    def finish(self) -> None:
        """Say that nothing is held, and wait until nothing is unanswered."""
        self._hello()
        while self.line.awaits:
            self.line.receive(WORK_SECONDS[0])

    def _hello(self) -> None:
        line, awaited = self.line, (each.token for reports in self.reported.values() for each in reports)
        hello = Hello(
            session=line.session,
            n=line.number(),
            capacity=0 if line.is_leaving else self._capacity,
            projects=self._projects,
            holds=[*self.held, *awaited],
            running=list(self.held),
            seen=self._seen,
            name=self._name,
        )
        line.ask(hello)
        self._greeted, self._hello_at = line.connections, time.monotonic() + HELLO_SECONDS
        self._has_left = line.is_leaving


def work(post: Post, source: str, place: int) -> None:
    """Take tasks, hold them for a moment and report them, until SIGTERM, and then until nothing is held.

    Args:
        place: number of the worker.
    """
    ledger, chance = post.ledger, Random()
    fetcher = Fetcher(Line(post.address(source)), f"worker-{place}", CAPACITY, [LOAD, KEPT])
    while not fetcher.line.is_leaving or fetcher.held or fetcher.reported:
        until = time.monotonic() + chance.uniform(*WORK_SECONDS)
        while (left := until - time.monotonic()) > 0:
            message = fetcher.hear(left)
            if isinstance(message, Select):
                ledger.count_dispatched([task.taskid for task in message.tasks if not task.retried])
            elif isinstance(message, DoneReply):
                pairs = zip(fetcher.reported.pop(message.n), message.outcomes, strict=True)
                ledger.count_done(place, [each.taskid for each, said in pairs if each.ok and said == "done"])
        if fetcher.held and len(fetcher.reported) < WINDOW:
            reports = [_report_of(task) for task in fetcher.held.values()]
            ledger.note_reported([each.taskid for each in reports if each.ok])
            fetcher.report(reports)
    fetcher.finish()


def _report_of(task: Assignment) -> TaskReport:
    """Report a success, or the failure of a first attempt."""
    if task.retried or number_of(task.taskid) % FAILS_EACH != 1:
        return TaskReport(task.project, task.taskid, task.token)
    return TaskReport(task.project, task.taskid, task.token, ok=False, error="HTTP 503")


def probe(post: Post, source: str, sink: Connection) -> None:
    """Push a task to itself, again and again, and send the seconds until it came, until SIGTERM."""
    line = Line(post.address(source), PROBE_PATIENCE)
    fetcher = Fetcher(line, "prober", 1, [PROBE])
    # Without it the project would finish after each task, and the daemon would log that.
    never = NewTask("never", "http://example.com/", Schedule(delay=NEVER_SECONDS))
    line.ask(NewTasks(session=line.session, n=line.number(), project=PROBE, tasks=[never]))
    while not line.is_leaving:
        taskid, began_at = os.urandom(8).hex(), time.monotonic()
        task = NewTask(taskid, f"http://example.com/{taskid}")
        line.ask(NewTasks(session=line.session, n=line.number(), project=PROBE, tasks=[task]))
        has_pushed = False
        while not (fetcher.held and has_pushed):
            has_pushed |= isinstance(message := fetcher.hear(PROBE_SECONDS), NewTasksReply)
            if isinstance(message, Select) and message.tasks:
                sink.send(time.monotonic() - began_at)
        fetcher.report([TaskReport(each.project, each.taskid, each.token) for each in fetcher.held.values()])
        while fetcher.reported:
            if isinstance(message := fetcher.hear(PROBE_SECONDS), DoneReply):
                fetcher.reported.pop(message.n)
        time.sleep(PROBE_SECONDS)
    fetcher.finish()
