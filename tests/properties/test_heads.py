"""Heads of two or three tasks beside a naive list: a real scheduler, and turns with many requests at once.

Most turns here find an order that is being read further, because no turn is taken in between: tasks read for
such a turn are older than its changes of these tasks. After each turn the heads must contain exactly
the stored tasks below their floors; dispatched tasks must be the first of the list, with their latest bodies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import structs

from taskqueue.protocol.fetchers import Hello, Release
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import Bulk
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import Done, NewTasks, NewTasksReply, TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import NewTask, TaskFilter, TaskReport
from taskqueue.settings.settings import CoreConfig
from tests.nightly import TIMES
from tests.simulation.reloads import compare_with_store
from tests.unit.core.conftest import WALL, Fetcher, World, body_of, ref, task

TASKIDS = [f"t{number:02}" for number in range(24)]
FOR_EVER = 1e7

taskids = st.sampled_from(TASKIDS)
schedules: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {},
        {"priority": 1},
        {"priority": 2},
        {"priority": -1},
        {"delay": 3.0},
        {"delay": 3.0},
        {"delay": 7.0, "priority": 1},
        {"delay": 30.0},
        {"exetime": WALL + 20},
        {"force_update": True},
        {"force_update": True, "priority": 2},
        {"force_update": True, "priority": -2},
        {"force_update": True, "delay": 3.0},
        {"force_update": True, "delay": 7.0},
        {"force_update": True, "exetime": WALL + 20},
        {"force_update": True, "cancel": True},
    ]
)
weights = st.sampled_from([1, 1, 1, 400, 3000])
"""Bytes of bodies: a head has room for one of the largest, or a few of the middle ones."""

pushes = st.lists(st.tuples(taskids, schedules, weights), min_size=1, max_size=6)


@dataclass
class Known:
    """Task in the list."""

    made: int
    state: str = "over"
    priority: int = 0
    at: float = 0.0
    body: object = None
    deferred: NewTask | None = None

    @property
    def place(self) -> tuple[int, int]:
        return -self.priority, self.made


@dataclass
class List:
    """All tasks, without their places."""

    tasks: dict[str, Known] = field(default_factory=dict)
    made: int = 0
    now: float = 0.0

    def in_state(self, state: str) -> dict[str, Known]:
        return {taskid: known for taskid, known in self.tasks.items() if known.state == state}

    def first(self) -> str:
        ready = self.in_state("ready")
        return min(ready, key=lambda taskid: ready[taskid].place)

    def promote(self) -> None:
        """Make due tasks ready."""
        for known in self.in_state("delayed").values():
            if known.at <= self.now:
                known.state = "ready"

    def push(self, new: NewTask, outcome: str) -> None:
        """Apply a push with this outcome."""
        if outcome in ("new", "restarted"):
            self.made += 1
            self.tasks[new.taskid] = Known(self.made)
        known = self.tasks.get(new.taskid)
        if known is None or outcome == "ignored":
            assert outcome == "ignored"
        elif outcome == "deferred":
            schedule = new.schedule
            at = schedule.exetime if schedule.delay is None else self.now + WALL + schedule.delay
            known.deferred = structs.replace(new, schedule=structs.replace(schedule, exetime=at, delay=None))
        elif outcome == "rejected":
            assert known.state == "processing"  # there is no room for one more deferred update
        elif outcome == "cancelled":
            self.cancel(known)
        elif outcome == "merged":
            known.priority = max(known.priority, new.schedule.priority)
            if known.state == "delayed" and self.due(new) < known.at:
                self.wait(known, self.due(new))
        else:
            known.priority, known.body = new.schedule.priority, body_of(new)  # type: ignore[arg-type]
            self.wait(known, self.due(new))

    def cancel(self, known: Known) -> None:
        """Cancel a task; a deferred update of it is applied before."""
        deferred, known.state, known.deferred = known.deferred, "over", None
        if deferred is not None:
            known.priority, known.body = deferred.schedule.priority, body_of(deferred)  # type: ignore[arg-type]

    def due(self, new: NewTask) -> float:
        schedule = new.schedule
        return schedule.exetime - WALL if schedule.delay is None else self.now + schedule.delay

    def wait(self, known: Known, at: float) -> None:
        known.state, known.at = ("delayed", at) if at > self.now else ("ready", 0.0)

    def end(self, taskid: str, *, ok: bool) -> None:
        """End a lease, and apply its deferred update."""
        known = self.tasks[taskid]
        deferred, known.deferred = known.deferred, None
        known.state = "over" if ok else "ready"
        if deferred is not None:
            self.push(deferred, "restarted" if ok else "replaced")


class HeadsBesideList(RuleBasedStateMachine):
    """State machine of this module; only its rules take pending turns."""

    @initialize(
        head_tasks=st.sampled_from([2, 2, 3, 5]),
        head_bytes=st.sampled_from([2000, 4000, 1 << 20]),
        queue_bytes=st.sampled_from([4000, 1 << 20]),
    )
    def begin(self, head_tasks: int, head_bytes: int, queue_bytes: int) -> None:
        config = CoreConfig(
            defaults={"rate": inf, "processing_timeout": FOR_EVER},
            projects={"news": {}, "shop": {}},
            fetcher_timeout=FOR_EVER,
            session_timeout=FOR_EVER,
            head_tasks=head_tasks,
            head_bytes=head_bytes,
            queue_bytes=queue_bytes,
        )
        self.world = World(config)
        self.fetcher = self.world.know(Fetcher(self.world, "fetcher", 0, None))
        self.list = List()
        self.bodies = 0
        self.seen = 0

    # ------------------------------------------------------------------------------------ what happens

    @rule(items=pushes, more=st.one_of(st.none(), pushes))
    def push(self, items: list[tuple[str, dict[str, Any], int]], more: list[Any] | None) -> None:
        """Send one message, or two about the same tasks in one turn."""
        self.turn(*[self.new_tasks(each) for each in (items, more) if each])

    @rule(schedule=schedules, weight=weights, step=st.sampled_from([1, -1, 2]), crash=st.booleans())
    def push_all(self, schedule: dict[str, Any], weight: int, step: int, crash: bool) -> None:
        """Push many more tasks than a head has room for; a process that begins then has read none of them."""
        self.turn(self.new_tasks([(taskid, schedule, weight) for taskid in TASKIDS[::step]]))
        if crash:
            self.world.crash()

    @rule(items=pushes, clear=st.booleans())
    def push_elsewhere(self, items: list[tuple[str, dict[str, Any], int]], clear: bool) -> None:
        """Fill or free the shared memory by another project."""
        self.turn(self.world.new_tasks("shop", *[self.new_task(*item) for item in items]))
        if clear:
            self.turn(ProjectDo(session="person", n=self.world.n(), project="shop", action="clear"))

    @rule(items=pushes, count=st.integers(1, 4))
    def push_and_take(self, items: list[tuple[str, dict[str, Any], int]], count: int) -> None:
        """Push tasks that may be dispatched in the same turn."""
        self.turn(self.new_tasks(items), self.hello(count))
        self.turn(self.hello(0))

    @rule(about=st.lists(taskids, min_size=1, max_size=4), items=pushes)
    def cancel_between_pushes(self, about: list[str], items: list[tuple[str, dict[str, Any], int]]) -> None:
        cancel = TaskCancel(session="person", n=self.world.n(), project="news", taskids=about)
        self.turn(self.new_tasks(items), cancel, self.new_tasks(items[::-1]))

    @rule(about=st.lists(taskids, min_size=1, max_size=4), items=pushes)
    def retry_and_push(self, about: list[str], items: list[tuple[str, dict[str, Any], int]]) -> None:
        retry = TaskRetry(session="person", n=self.world.n(), project="news", taskids=about)
        self.turn(retry, self.new_tasks(items))

    @rule(priority=st.integers(-2, 2), digit=st.sampled_from("01"))
    def reprioritise_many(self, priority: int, digit: str) -> None:
        """Change priorities by an operation, which acts one turn later on more tasks than fit into a head."""
        wanted = TaskFilter(url=f"*/t{digit}*")
        self.turn(
            Bulk(
                session="person",
                n=self.world.n(),
                action="reprioritise",
                project="news",
                filter=wanted,
                priority=priority,
            )
        )
        self.settle()
        for taskid, known in self.list.tasks.items():
            if taskid.startswith(f"t{digit}") and known.state != "over":
                known.priority = priority

    @precondition(lambda self: self.fetcher.held)
    @rule(data=st.data(), items=pushes, ok=st.booleans(), first=st.booleans())
    def answer(self, data: st.DataObject, items: list[Any], ok: bool, first: bool) -> None:
        """Answer for tasks, done or unstarted, in one turn with pushes that may be of the same tasks."""
        names = data.draw(st.lists(st.sampled_from(sorted(self.fetcher.held)), min_size=1, unique=True))
        handed = [self.fetcher.held.pop(taskid) for taskid in names]
        finished = [TaskReport("news", each.taskid, each.token) for each in handed]
        end: AnyRequest = Release(session="fetcher", n=self.world.n(), leases=[ref(each) for each in handed])
        if ok:
            end = Done(session="fetcher", n=self.world.n(), tasks=list(finished))
        push = self.new_tasks(items)
        self.turn(*([end, push] if first else [push, end]))

    @rule(seconds=st.sampled_from([1, 2, 5, 20]))
    def wait(self, seconds: int) -> None:
        """Pass time; the next turn finds due tasks."""
        self.world.elapsed += seconds
        self.list.now += seconds

    @rule(settled=st.booleans())
    def start_again(self, settled: bool) -> None:
        """Start a new process, which knows nothing but two lower bounds."""
        self.world.crash()
        if settled:
            self.settle()

    @rule()
    def settle(self) -> None:
        self.world.settle()
        self.see()
        self.list.promote()
        due = [known.at for known in self.list.in_state("delayed").values()]
        assert self.world.next_wake() <= min(due, default=inf) + 1e-6
        self.check_bounds()

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        """Check that all requested tasks come, if they exist."""
        self.settle()
        before, there = len(self.fetcher.held), len(self.list.in_state("ready"))
        self.turn(self.hello(before + count))
        self.settle()
        assert len(self.fetcher.held) == before + min(count, there)
        self.turn(self.hello(0))

    @precondition(lambda self: len(self.list.in_state("over")) < 5)
    @rule(restarted=st.booleans())
    def drain(self, restarted: bool) -> None:
        """Let all tasks end, one by one, in the order of the list."""
        if restarted:
            self.start_again(settled=False)
        self.wait(60)
        self.settle()
        self.turn(self.hello(len(self.fetcher.held) + 1))
        self.settle()
        while self.fetcher.held:
            self.end_one()
        assert all(known.state == "over" for known in self.list.tasks.values())
        self.turn(self.hello(0))

    # ------------------------------------------------------------------------------------ beside the list

    def check_bounds(self) -> None:
        """Check the bounds of memory, which one task of each order may exceed."""
        config = self.world.config
        queues = [project.queue for project in self.world.scheduler._state.projects.by_name.values()]
        heads = [head for queue in queues for head in (queue.ready, queue.delayed) if len(head)]
        for head in heads:
            assert len(head) <= config.head_tasks
            assert head.bytes <= config.head_bytes or len(head) == 1
        share = config.queue_bytes // max(1, len(heads))
        over = [head for head in heads if head.bytes > share and len(head) > 1]
        assert not over or sum(head.bytes for head in heads) <= config.queue_bytes

    def end_one(self) -> None:
        handed = self.fetcher.held.pop(next(iter(self.fetcher.held)))
        answer = TaskReport("news", handed.taskid, handed.token)
        self.turn(Done(session="fetcher", n=self.world.n(), tasks=[answer]))
        self.wait(60 if self.list.in_state("delayed") else 0)
        self.settle()

    def new_tasks(self, items: list[tuple[str, dict[str, Any], int]]) -> NewTasks:
        return self.world.new_tasks("news", *[self.new_task(*item) for item in items])

    def new_task(self, taskid: str, schedule: dict[str, Any], weight: int) -> NewTask:
        self.bodies += 1
        return task(taskid, body=[self.bodies, "x" * weight], **schedule)

    def hello(self, capacity: int) -> Hello:
        holds: list[int] = [each.token for each in self.fetcher.held.values()]
        return Hello(
            session="fetcher",
            n=self.world.n(),
            capacity=capacity,
            projects=["news"],
            holds=holds,
            seen=self.fetcher.seen,
        )

    def turn(self, *requests: AnyRequest) -> None:
        """Take one turn; apply its answers to the list, and compare the dispatches."""
        replies = {reply.n: reply for reply in self.world.turn(*requests)}
        for request in requests:
            self.follow(request, replies.get(request.n))
        self.see()
        compare_with_store(self.world.scheduler, self.world.ledger)

    def follow(self, request: AnyRequest, reply: object) -> None:
        match request, reply:
            case NewTasks(project="news"), NewTasksReply():
                for new, outcome in zip(request.tasks, reply.outcomes, strict=True):
                    assert new is not None
                    self.list.push(new, outcome)
            case Done(), _:
                for each in request.tasks:
                    self.follow_end(each.taskid if each else "", ok=True)
            case Release(), _:
                for taskid in self.released(request):
                    self.follow_end(taskid, ok=False)
            case ((TaskCancel() | TaskRetry()), TasksReply()):
                for taskid, done in zip(request.taskids, reply.outcomes, strict=True):
                    known = self.list.tasks.get(taskid)
                    if known is not None and done == "done" and isinstance(request, TaskCancel):
                        self.list.cancel(known)
                    elif known is not None and done == "done":
                        known.state = "ready"

    def follow_end(self, taskid: str, *, ok: bool) -> None:
        """End a task in the list, unless it was cancelled in the same turn."""
        if self.list.tasks[taskid].state == "processing":
            self.list.end(taskid, ok=ok)

    def released(self, request: Release) -> list[str]:
        return [lease.taskid for lease in request.leases]

    def see(self) -> None:
        """Check that tasks dispatched since the last call were the first of the list, or have become due meanwhile."""
        for message in self.fetcher.messages[self.seen :]:
            for handed in message.tasks:
                known = self.list.tasks[handed.taskid]
                if known.state == "delayed" and known.at <= self.list.now:
                    known.state = "ready"
                assert known.state == "ready"
                assert known.place <= self.list.tasks[self.list.first()].place
                assert body_of(handed) == known.body
                known.state = "processing"
        self.seen = len(self.fetcher.messages)
        gone = [taskid for taskid in self.fetcher.held if self.list.tasks[taskid].state != "processing"]
        for taskid in gone:
            del self.fetcher.held[taskid]


TestHeadsBesideList = pytest.mark.timeout(300)(HeadsBesideList.TestCase)
TestHeadsBesideList.settings = settings(max_examples=60 * TIMES, stateful_step_count=40)
