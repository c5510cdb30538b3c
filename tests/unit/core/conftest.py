"""World: a real scheduler on a real ledger on a disk in memory, on virtual time, with fetchers that talk to it.

world.push("news", task("a"))       push, and return the outcome of each task
world.fetcher(capacity=2)           a fetcher that has said hello and keeps the tasks that it is sent
world.ask(request)                  the reply to any request
world.turn(request, request)        several requests in one turn
world.advance(60)                   sleep, waking only when the scheduler asked for it
world.restart()                     kill -9 and start again; reboot() restarts the machine, too

After every turn the invariants are checked: in memory, and on the disk if the turn wrote to it or is the first after a
start. A large world that ``make_world`` made is checked every few turns, before its process ends, and after the test.
Each test runs with heads of two tasks and with heads of all tasks, because clients must not see a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from math import inf
from typing import Any, Protocol, TypeVar

import msgspec
import pytest
from msgspec import Raw

from taskqueue.calendar import Calendar
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.events import Event
from taskqueue.core.model.flow import counted_as
from taskqueue.core.model.needs import Found, Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.records import ProjectRecord, WriteSet
from taskqueue.core.model.retention_keys import lows_of
from taskqueue.core.model.task import DELAYED, LIVE, OVER, PROCESSING, Task, is_retry
from taskqueue.core.scheduler import Scheduler
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.callers import EVERYBODY
from taskqueue.protocol.codec import decode_outgoing
from taskqueue.protocol.fetchers import Extend, Hello, HelloWanted, LeaseRef, Release, Select, TokensReply, Welcome
from taskqueue.protocol.fields import Boot, Peer, Token, Wall
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest, Flaws, Incoming, Outgoing
from taskqueue.protocol.projects import (
    Project,
    ProjectDo,
    ProjectHold,
    ProjectReply,
    ProjectSet,
    ProjectShow,
    ProjectWait,
    WaitReply,
)
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply, TaskReply, TaskShow
from taskqueue.protocol.values import Assignment, NewTask, Schedule, TaskCounts, TaskReport
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import CoreConfig, Layer, overlay
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.records.edges import decode_mark, tasks_of
from taskqueue.store.records.flows import decode_flow, flow_of
from taskqueue.store.records.layout import AWAITED
from taskqueue.store.records.operations import rows_of, undo_key
from tests.memory_store import Disk, MemoryStore

WALL = Wall(1_700_000_000.0)
"""Unix seconds at which every world begins."""

BOOT = 1_000.0
"""Seconds on the boot clock at which every world begins."""

MOST_TURNS = 2_000
"""Turns in a row at one moment; more are a busy loop."""

REMEMBERED = 1 << 15
"""Records of the disk that are cached, decoded: each turn reads all, and few differ from the turn before."""

CHECKED_A_TURN = 64
"""Tasks, sessions and projects up to which a world is checked after each turn, even if rare checks are allowed. A
larger one is checked after each second turn, each third, …: otherwise a test of 600 tasks costs four times as much with
tiny heads, which need more turns.
"""

R = TypeVar("R", bound=AnyReply)


def task(taskid: str, body: object = None, project: str | None = None, url: str = "", **schedule: Any) -> NewTask:
    """Make a task as a producer describes it; further keywords are fields of its schedule."""
    return NewTask(taskid, url or f"http://example.org/{taskid}", Schedule(**schedule), packed(body), project)


def packed(value: object) -> Raw:
    """Pack a body or a result."""
    return Raw(msgspec.msgpack.encode(value))


def body_of(handed: Assignment | TaskReply) -> object:
    """Unpack the body of a task."""
    return msgspec.msgpack.decode(bytes(handed.body))


def ref(handed: Assignment) -> LeaseRef:
    """Name the lease of a task, as its fetcher does."""
    return LeaseRef(handed.project, handed.taskid, handed.token)


def read_again(message: AnyOutgoing | Raw) -> AnyOutgoing:
    """Return the message, decoded if it is a stored reply in its sent form."""
    return decode_outgoing(bytes(message)) if isinstance(message, Raw) else message


def laid_over(under: Layer, layer: Layer) -> dict[str, Any]:
    """Merge settings over others, tables key by key."""
    merged = dict(under)
    overlay(merged, layer)
    return merged


class World:
    """Scheduler, disk, clocks and fetchers of a test; see the module.

    Attributes:
        elapsed: seconds since the world began.
        wakes: turns that were taken without a request.
        wall_step: seconds by which the wall clock was set forward.
        needs, found: lookups of the last turn.
        said, events, kept: messages, events and writes of the last turn.
        inbox: all replies so far, in order.
        happened: all events so far.
        unreachable: peers to which sends fail.
        connections: by session, its connection; by default each has its own.
        environment: of each scheduler that is started.
    """

    def __init__(self, config: CoreConfig, *, rarely: bool = False) -> None:
        """Start the first scheduler.

        Args:
            rarely: check a large world every few turns only; the caller calls ``check_rest`` after the last turn.
        """
        self.config = config
        self.disk = Disk()
        self.elapsed = 0.0
        self.wakes = 0
        self.wall_step = 0.0
        self.needs = Needs()
        self.found = Found()
        self.said: list[Outgoing] = []
        self.events: list[Event] = []
        self.kept = WriteSet()
        self.inbox: list[AnyReply] = []
        self.happened: list[Event] = []
        self.unreachable: list[bytes] = []
        self.connections: dict[str, str] = {}
        self.caller = EVERYBODY
        self.environment: Environment = Calendar()
        self._undelivered: list[Outgoing] = []
        self._fetchers: dict[str, Fetcher] = {}
        self._numbers = count(1)
        self._boots = 1
        self._booted_at = -BOOT
        self._rarely = rarely
        self._start()
        self.settle()

    # ------------------------------------------------------------------------------------ time

    @property
    def now(self) -> Now:
        return Now(wall=WALL + self.elapsed + self.wall_step, boot=Boot(self.elapsed - self._booted_at))

    def advance(self, seconds: float) -> None:
        """Let time pass; the scheduler sleeps as far as it can."""
        end = self.elapsed + seconds
        while (wake_at := self.next_wake()) < end:
            self.elapsed = max(self.elapsed, wake_at)
            self.settle()
        self.elapsed = end
        self.settle()

    def next_wake(self) -> float:
        """Return the time of the next wake-up, in seconds since the world began."""
        return self.scheduler.next_event_at(self.now) + self._booted_at

    def settle(self) -> None:
        """Take all turns that the scheduler wants at once."""
        for _ in range(MOST_TURNS):
            if self.next_wake() > self.elapsed and not self._undelivered:
                return
            self._wake()
        raise AssertionError(f"the scheduler took {MOST_TURNS} turns in a row without coming to rest")

    # ------------------------------------------------------------------------------------ talk

    def turn(
        self,
        *requests: AnyRequest,
        flaws: Sequence[Flaws] = (),
        config: CoreConfig | None = None,
        figures: DaemonMinute | None = None,
        cut: Sequence[Peer | str] = (),
    ) -> list[AnyReply]:
        """Take one turn with these requests; return the replies, without taking further turns."""
        heard = self.heard(*requests)
        for each, flaw in zip(heard, flaws, strict=False):
            each.flaws = flaw
        turn = self.scheduler.begin(self.now, heard)
        self.needs, self.found = turn.needs, self.ledger.find(turn.needs)
        result = turn.decide(self.found, config, self._undelivered, figures=figures, cut=cut)
        self._undelivered = [said for said in result.outgoing if said.peer in self.unreachable]
        self._has_written |= self.ledger.commit(result.writes)
        self._unchecked_turns += 1
        if not self._rarely or self._unchecked_turns * CHECKED_A_TURN >= self._size():
            self.check()
        self.said, self.events, self.kept = result.outgoing, result.events, result.writes
        self.happened += result.events
        said = [read_again(each.message) for each in result.outgoing if not self._deliver(each)]
        replies = [each for each in said if not isinstance(each, Select | HelloWanted)]
        self.inbox += replies
        return replies

    def heard(self, *requests: AnyRequest) -> list[Incoming]:
        """Wrap requests as a turn gets them."""
        return [
            Incoming(
                Peer(self.connections.get(each.session, each.session).encode()),
                each,
                caller=self.caller,
            )
            for each in requests
        ]

    def answer(self, request: AnyRequest, flaws: Flaws | None = None) -> AnyReply:
        """Take a turn with a request, and return its reply of any kind."""
        (reply,) = [each for each in self.turn(request, flaws=[flaws or {}]) if each.n == request.n]
        self.settle()
        return reply

    def ask(self, kind: type[R], request: AnyRequest, flaws: Flaws | None = None) -> R:
        """Take a turn with a request, and return its reply, which is of that kind."""
        reply = self.answer(request, flaws)
        assert isinstance(reply, kind), reply
        return reply

    def n(self) -> int:
        """Return the next request number, which all sessions share."""
        return next(self._numbers)

    def new_tasks(self, project: str, *tasks: NewTask | None, session: str = "producer") -> NewTasks:
        return NewTasks(session=session, n=self.n(), project=project, tasks=list(tasks))

    def push(self, project: str, *tasks: NewTask | None, flaws: Flaws | None = None) -> list[str]:
        """Push tasks; return the outcome of each."""
        return list(self.ask(NewTasksReply, self.new_tasks(project, *tasks), flaws).outcomes)

    def fetcher(
        self, capacity: int = 100, projects: list[str] | None = None, name: str = "fetcher", priority: int = 0
    ) -> Fetcher:
        """Make a fetcher, and let it say hello."""
        fetcher = self.know(Fetcher(self, name, capacity, projects, priority))
        fetcher.hello()
        return fetcher

    def know(self, fetcher: Fetcher) -> Fetcher:
        """Deliver messages for the fetcher to it."""
        self._fetchers[fetcher.session] = fetcher
        return fetcher

    def pseudonym(self, session: str) -> str:
        """Return the pseudonym that users see in place of a session's id."""
        return self.scheduler.pseudonym(session)

    def show(self, taskid: str, project: str = "news") -> TaskReply:
        """Ask ``task-show``."""
        return self.ask(TaskReply, TaskShow(session="person", n=self.n(), project=project, taskid=taskid))

    def project(self, name: str = "news") -> Project:
        """Ask ``project-show``."""
        view = self.ask(ProjectReply, ProjectShow(session="person", n=self.n(), project=name)).project
        assert view is not None
        return view

    def counts(self, project: str = "news") -> TaskCounts:
        return self.project(project).counts

    def do(self, action: Any, project: str = "news", seconds: float | None = None) -> Project | None:
        request = ProjectDo(session="person", n=self.n(), project=project, action=action, seconds=seconds)
        return self.ask(ProjectReply, request).project

    def set(self, project: str = "news", **settings: Any) -> Project:
        request = ProjectSet(session="person", n=self.n(), project=project, settings=settings)
        view = self.ask(ProjectReply, request).project
        assert view is not None
        return view

    def wait(
        self, seconds: float = 30.0, project: str = "news", session: str = "script", *, ignore_retries: bool = False
    ) -> Waiting:
        """Ask for a reply when the project has finished."""
        request = ProjectWait(
            session=session, n=self.n(), project=project, seconds=seconds, ignore_retries=ignore_retries
        )
        waiting = Waiting(self, request.n)
        self.turn(request)
        self.settle()
        return waiting

    def hold(self, seconds: float, project: str = "news", session: str = "producer") -> Project:
        """Keep the project open for ``seconds``; 0 ends that."""
        request = ProjectHold(session=session, n=self.n(), project=project, seconds=seconds)
        view = self.ask(ProjectReply, request).project
        assert view is not None
        return view

    def event_kinds(self, project: str = "news") -> list[str]:
        """List the kinds of the project's events so far, in order."""
        return [event.kind for event in self.happened if event.project == project]

    def known(self) -> list[Task]:
        """List all tasks on the disk, found by taskid or, if unlisted, by lease."""
        entries = self.disk.families[layout.IDS].values
        listed = [_listed(key, record) for key, record in entries.items() if record != AWAITED]
        return listed + [task for task in self.leased() if layout.id_key(task.project, task.taskid) not in entries]

    def leased(self) -> list[Task]:
        """List the processing tasks on the disk."""
        leases = self.disk.families[layout.ORDERS[PROCESSING]].values
        return [_leased(key, lease) for key, lease in leases.items()]

    def tasks_in_memory(self) -> int:
        """Count the waiting tasks in the scheduler's memory; the only look inside it."""
        state = self.scheduler._state
        return sum(len(each.queue.ready) + len(each.queue.delayed) for each in state.projects.by_name.values())

    def configure(self, config: CoreConfig) -> None:
        """Apply a new config."""
        self.config = config
        self.turn(config=config)
        self.settle()

    # ------------------------------------------------------------------------------------ start and end

    def restart(self, *, clean: bool = False) -> None:
        """End the process, by kill -9 or (clean) by a shutdown, and start another; fetchers live on, unheard."""
        self._end(clean)
        self._start()
        self.settle()

    def crash(self) -> None:
        """Kill the process and start another, which has not taken a turn yet."""
        self._end()
        self._start()

    def reboot(self, *, clean: bool = False, lose_unsynced: bool = False, uptime: float = 10.0) -> None:
        """Restart the machine and the process; afterwards the boot clock shows ``uptime``."""
        self._end(clean)
        if lose_unsynced:
            self.disk.power_cut()
        self._boots += 1
        self._booted_at = self.elapsed - uptime
        self._start()
        self.settle()

    def _end(self, clean: bool = False) -> None:
        self.check_rest()
        if clean:
            self.ledger.stop()

    def _start(self) -> None:
        self._has_written = True
        self._unchecked_turns = 0
        self.ledger = Ledger(MemoryStore(self.disk))
        loaded = self.ledger.begin(f"boot-{self._boots}", make_secret=bytes)
        self.scheduler = Scheduler(loaded, self.config, self.environment, self.now)

    def _wake(self) -> None:
        self.wakes += 1
        self.turn()

    def _deliver(self, said: Outgoing) -> bool:
        fetcher = self._fetchers.get(said.session)
        if fetcher is None or said.peer in self.unreachable or not isinstance(said.message, Select):
            return False
        fetcher.hear(said.message)
        return True

    # ------------------------------------------------------------------------------------ what must hold

    def check(self) -> None:
        """Check all invariants; those of the disk if it was written to since the last check."""
        self._unchecked_turns = 0
        if self._has_written:
            self._has_written = False
            self._check_disk()
        self.scheduler.verify()

    def check_rest(self) -> None:
        """Check the world if it has taken turns since the last check."""
        if self._unchecked_turns:
            self.check()

    def _size(self) -> int:
        state = self.scheduler._state
        return len(self.disk.families[layout.IDS].values) + len(state.sessions) + len(state.projects.by_name)

    def _check_disk(self) -> None:
        keys = {family: entries.keys for family, entries in self.disk.families.items()}
        specs = set(keys[layout.SPECS])
        records = [layout.decode_project(value) for value in self.disk.families[layout.PROJECTS].values.values()]
        known = self.known()
        bare = [task for task in known if task.bare]
        left_behind = _left_behind(known, {record.number: record.cleared for record in records})
        in_order = [layout.spec_key_of(key) for family in layout.ORDERS.values() for key in keys[family]]
        assert len(known) == len(specs) + len(bare), "of a bare task no spec is left"
        assert specs - set(in_order) == left_behind, "only what a clear has left behind is in no order"
        assert len(in_order) == len(specs - left_behind)
        told = {_history_key(task.project, task.taskid) for task in known if not task.bare}
        assert told.issuperset(key[:-1] for key in keys[layout.HISTORY]), "an attempt of no task is left behind"
        assert specs.issuperset(keys[layout.DEFERRED]), "an update of no task is left behind"
        there = [task for task in known if layout.seq_key(task.project, task.seq) not in left_behind]
        self._check_flows(there)
        self._check_rows(keys[layout.UNDO_ROWS])
        self._check_edges(keys, {(task.project, task.taskid): task for task in there + self.leased()})
        flagged = {layout.id_key(task.project, task.taskid): task for task in known if task.has_result}
        assert flagged.keys() >= set(keys[layout.RESULTS]), "a result of no task is left behind"
        lacking = [flagged[key] for key in flagged.keys() - set(keys[layout.RESULTS])]
        assert {layout.seq_key(task.project, task.seq) for task in lacking} <= left_behind, "a result is missing"
        stored = {family: Counter(key[:4] for key in keys[family]) for family in layout.ORDERS.values()}
        for record in records:
            self._check_counts(record, stored, bare)
            self._check_lows(record, keys)

    def _check_edges(self, keys: dict[str, list[bytes]], known: dict[tuple[int, str], Task]) -> None:
        marks = self.disk.families[layout.PARENTS].values
        edges = [(*tasks_of(key), decode_mark(marks[key])) for key in keys[layout.PARENTS]]
        children = [tasks_of(key) for key in keys[layout.CHILDREN]]
        projects = {layout.project_of(key) for key in keys[layout.PROJECTS]}
        both = sorted((child, parent) for child, parent, _ in edges if parent.project in projects)
        assert both == sorted((child, parent) for parent, child in children if parent.project in projects), (
            "each edge is there in both orders"
        )
        for ref, task in known.items():
            for links in (task.links, task.lease.links if task.lease else None):
                if links is not None and links.number:
                    missing = [1 for child, _, mark in edges if child == ref and mark == (0, links.number)]
                    assert len(missing) == links.missing, f"{task.taskid} counts the edges that are not satisfied"

    def _check_flows(self, known: list[Task]) -> None:
        if not any(self.disk.families[family].keys for family in (layout.FLOWS, layout.STAGES, layout.STAGE_IDS)):
            return
        leased = {(task.project, task.taskid): task for task in self.leased()}
        there = [leased.get((task.project, task.taskid), task) for task in known]
        flows = [decode_flow(value) for value in self.disk.families[layout.FLOWS].values.values()]
        for family in (layout.STAGES, layout.STAGE_IDS):
            staged = Counter(flow_of(key) for key in self.disk.families[family].keys)
            assert staged == {flow.number: flow.tasks for flow in flows}, "what is staged is there, and nothing else"
        for flow in flows:
            links = [(task, task.links) for task in there if task.links is not None and task.links.flow == flow.number]
            states = Counter(counted_as(task.state, ties) for task, ties in links)
            assert all(flow.counts[state] == states[state] for state in LIVE), "a flow counts its live tasks"
            assert all(flow.counts[state] >= states[state] for state in OVER), "a flow counts its tasks that are over"
            assert sum(flow.counts) == flow.unrolled, "a flow counts all of its tasks that have been made"

    def _check_rows(self, keys: list[bytes]) -> None:
        records = map(layout.decode_operation, self.disk.families[layout.OPERATIONS].values.values())
        having = [rows for record in records if (rows := rows_of(record)) is not None]
        kept = sorted(undo_key(number, position) for number, rows in having for position in range(rows.pages))
        assert list(keys) == kept, "rows for an undo are there, and no others"

    def _check_counts(self, record: ProjectRecord, stored: dict[str, Counter[bytes]], bare: list[Task]) -> None:
        prefix = layout.project_key(record.number)
        counts = [each[prefix] for each in stored.values()]
        for task in bare:
            counts[task.state - 1] += task.project == record.number
        assert TaskCounts(*counts) == record.counts
        delayed = self.disk.families[layout.ORDERS[DELAYED]].values
        waiting = sum(is_retry(_placed(key, value)) for key, value in delayed.items() if key.startswith(prefix))
        assert record.held_back in (None, waiting), "what waits for a retry is counted"

    def _check_lows(self, record: ProjectRecord, keys: dict[str, list[bytes]]) -> None:
        """Check that no finished task lies below the point where retention begins to read."""
        prefix = layout.project_key(record.number)
        for state in OVER:
            low = lows_of(record)[state]
            places = [key[4:] for key in keys[layout.ORDERS[state]] if key.startswith(prefix)]
            assert all(int.from_bytes(place, "big") >= low for place in places)


@lru_cache(REMEMBERED)
def _listed(key: bytes, record: bytes) -> Task:
    return layout.task_of(layout.project_of(key), key[4:].decode(), record)


@lru_cache(REMEMBERED)
def _placed(key: bytes, record: bytes) -> Task:
    return layout.task_of(layout.project_of(key), "", record)


@lru_cache(REMEMBERED)
def _leased(key: bytes, lease: bytes) -> Task:
    return layout.decode_lease(layout.project_of(key), lease)


@lru_cache(REMEMBERED)
def _history_key(project: int, taskid: str) -> bytes:
    return layout.history_key(project, taskid)


def _left_behind(known: list[Task], cleared: dict[int, int]) -> frozenset[bytes]:
    """Collect keys of the specs of cleared tasks that no sweep has reached yet."""
    return frozenset(
        layout.seq_key(task.project, task.seq)
        for task in known
        if task.state in LIVE and task.seq <= cleared[task.project]
    )


class Waiting:
    """Request that may be answered later.

    Attributes:
        n: its number.
    """

    def __init__(self, world: World, n: int) -> None:
        self.n = n
        self._world = world

    @property
    def answer(self) -> AnyReply | None:
        """Reply, or None before there is one."""
        answers = [reply for reply in self._world.inbox if reply.n == self.n]
        assert len(answers) <= 1
        return answers[0] if answers else None

    @property
    def finished(self) -> bool | None:
        """Whether the reply says that the project has finished; None before there is a reply."""
        reply = self.answer
        return reply.finished if isinstance(reply, WaitReply) else None


class Fetcher:
    """Fetcher that keeps its tasks until the test ends them.

    Attributes:
        held: tasks that it has, by taskid, in the order of arrival.
        taken: all taskids that it was ever sent, in order.
        messages: each ``select`` that reached it.
        deaf: whether messages to it get lost.
    """

    def __init__(
        self, world: World, session: str, capacity: int, projects: list[str] | None, priority: int = 0
    ) -> None:
        self.world = world
        self.session = session
        self.capacity = capacity
        self.projects = projects
        self.priority = priority
        self.seen = 0
        self.held: dict[str, Assignment] = {}
        self.taken: list[str] = []
        self.messages: list[Select] = []
        self.ended: set[int] = set()
        self.working: list[int] = []
        self.deaf = False

    def hear(self, message: Select) -> None:
        if self.deaf:
            return
        self.messages.append(message)
        if message.number <= self.seen:
            return
        assert message.number == self.seen + 1, f"select {message.number} came after {self.seen}"
        self.seen = message.number
        self.held |= {each.taskid: each for each in message.tasks}
        self.taken += [each.taskid for each in message.tasks]

    def tokens(self, *taskids: str) -> list[int]:
        return [self.held[taskid].token for taskid in taskids]

    def leases(self, *taskids: str) -> list[LeaseRef]:
        return [ref(self.held[taskid]) for taskid in taskids]

    def hello(self, **facts: Any) -> None:
        """Say hello with the fetcher's facts; keywords override them."""
        known = {"capacity": self.capacity, "projects": self.projects, "holds": self.holds, "seen": self.seen}
        stated: dict[str, Any] = known | {"name": self.session, "priority": self.priority} | facts
        stated["running"] = list(stated.get("running", ()))
        hello = Hello(session=self.session, n=self.world.n(), **stated)
        self.world.answer(hello)
        self.heed(hello.n)

    @property
    def holds(self) -> list[int]:
        """List tokens of its tasks, except for those whose leases it knows to have ended."""
        return [each.token for each in self.held.values() if each.token not in self.ended]

    def heed(self, n: int) -> None:
        """Apply the ended leases in the latest welcome, to hello ``n``."""
        for reply in reversed(self.world.inbox):
            if reply.n == n:
                if isinstance(reply, Welcome):
                    self.ended.update(reply.ended)
                return

    def answers(self, *items: TaskReport) -> Done:
        """Make a request with these reports, without sending it."""
        return Done(session=self.session, n=self.world.n(), tasks=list(items))

    def finished(self, taskid: str, **outcome: Any) -> TaskReport:
        """Drop a task, and make the report on it."""
        handed = self.held.pop(taskid)
        return TaskReport(handed.project, taskid, handed.token, **outcome)

    def done(self, taskid: str, **outcome: Any) -> str:
        """Report a success; return the outcome."""
        reply = self.world.ask(DoneReply, self.answers(self.finished(taskid, **outcome)))
        return reply.outcomes[0]

    def fail(self, taskid: str, **outcome: Any) -> str:
        """Report a failure; return the outcome."""
        return self.done(taskid, ok=False, **outcome)

    def finish_all(self) -> None:
        """Succeed with all tasks that it has, one by one, and with those that come meanwhile."""
        while self.held:
            assert self.done(next(iter(self.held))) == "done"

    def release(self, *taskids: str) -> TokensReply:
        leases = self.leases(*taskids)
        for taskid in taskids:
            del self.held[taskid]
        return self.world.ask(TokensReply, Release(session=self.session, n=self.world.n(), leases=leases))

    def extend(self, *taskids: str, seconds: float | None = None) -> TokensReply:
        leases = self.leases(*taskids)
        return self.world.ask(
            TokensReply, Extend(session=self.session, n=self.world.n(), leases=leases, seconds=seconds)
        )

    def forge(self, taskid: str, token: int, **outcome: Any) -> str:
        """Report with any token; return the outcome."""
        item = TaskReport("news", taskid, Token(token), **outcome)
        return self.world.ask(DoneReply, self.answers(item)).outcomes[0]


class MakeWorld(Protocol):
    """Type of the fixture ``make_world``: takes settings of the core, and of all projects."""

    def __call__(self, defaults: dict[str, Any] | None = None, **config: Any) -> World: ...


@pytest.fixture(params=[2, 4096], ids=["tiny-heads", "whole-heads"])
def make_world(request: pytest.FixtureRequest) -> Iterator[MakeWorld]:
    """Make worlds with the projects news and shop, unlimited unless ``defaults`` says otherwise.

    Large worlds are checked every few turns, and after the test.
    """
    made: list[World] = []

    def make(defaults: dict[str, Any] | None = None, **config: Any) -> World:
        given: dict[str, Any] = {"projects": {"news": {}, "shop": {}}, "head_tasks": request.param} | config
        made.append(World(CoreConfig(defaults={"rate": inf} | (defaults or {}), **given), rarely=True))
        return made[-1]

    yield make
    for world in made:
        world.check_rest()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Make a world with the projects news and shop, without limits."""
    return make_world()
