"""The real scheduler, on a real ledger, beside a naive model: whatever happens, in whatever order."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskqueue.core.messages import Finished, Handed, NewTask
from taskqueue.core.replies import (
    AnyReply,
    DoneReply,
    NewTasksReply,
    ProjectReply,
    ProjectView,
    Select,
    TasksReply,
    TokensReply,
)
from taskqueue.core.requests import (
    AnyRequest,
    Done,
    Extend,
    Hello,
    NewTasks,
    ProjectDo,
    ProjectSet,
    ProjectShow,
    Release,
    TaskCancel,
    TaskRetry,
)
from taskqueue.core.settings import CoreConfig
from tests.properties import model as naive
from tests.properties.model import Model
from tests.unit.core.conftest import Fetcher, World, task

PACES = {"fast": (inf, 3.0), "slow": (0.5, 2.0)}
TASKIDS = [f"t{i}" for i in range(6)]
FETCHERS = ("f0", "f1", "f2")

projects = st.sampled_from(["fast", "fast", "slow", "slow", "gone"])
fetchers = st.sampled_from(FETCHERS)
anything = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(-2, 2),
        "delay": st.sampled_from([0.0, 1.0, 5.5, 30.0]),
        "exetime": st.sampled_from([naive.WALL + 3, naive.WALL + 40, 1.0]),
        "retries": st.integers(0, 3),
        "age": st.sampled_from([2.0, 15.0]),
        "itag": st.sampled_from(["x", "y"]),
        "auto_recrawl": st.booleans(),
        "force_update": st.booleans(),
        "cancel": st.sampled_from([False, False, True]),
        "timeout": st.sampled_from([3 + 1 / 64, 25 + 1 / 64]),
    },
)
usual: list[dict[str, Any]] = [
    {},
    {},
    {"priority": 1},
    {"delay": 5.5},
    {"exetime": naive.WALL + 40},
    {"force_update": True},
    {"force_update": True, "delay": 5.5},
    {"force_update": True, "cancel": True},
    {"age": 15.0, "auto_recrawl": True},
    {"age": 2.0},
    {"itag": "x"},
    {"timeout": 3 + 1 / 64},
]
schedules = st.one_of(st.sampled_from(usual), st.sampled_from(usual), anything)
"""What is usually asked for, and now and then any mixture."""

pushes = st.tuples(st.sampled_from(TASKIDS), schedules)
outcomes = st.sampled_from(
    [
        {"ok": True},
        {"ok": True},
        {"ok": False, "error": "boom"},
        {"ok": False, "retry": False},
        {"ok": False, "retry_after": 4.0},
        {"ok": False, "retry_after": 0.0},
    ]
)


class Sent(NamedTuple):
    request: AnyRequest
    reply: AnyReply


class SchedulerBesideModel(RuleBasedStateMachine):
    """See the module. Time goes in whole seconds, timeouts have odd fractions, so that few things coincide."""

    @initialize(head=st.sampled_from([2, 3, 4096]))
    def begin(self, head: int) -> None:
        defaults = {"retries": naive.RETRIES, "retry_delay": list(naive.RETRY_DELAY)}
        defaults |= {"processing_timeout": naive.PROCESSING_TIMEOUT}
        config = CoreConfig(
            defaults=defaults,  # type: ignore[arg-type]
            projects={name: {"rate": rate, "burst": burst} for name, (rate, burst) in PACES.items()},
            fetcher_timeout=naive.FETCHER_TIMEOUT,
            head_tasks=head,
        )
        self.world = World(config)
        self.model = Model(PACES)
        self.fetchers = {name: self.world.know(Fetcher(self.world, name, 0, None)) for name in FETCHERS}
        self.sent: list[Sent] = []
        self.tokens: list[Handed] = []
        self.bodies = 0

    # ------------------------------------------------------------------------------------ requests

    def new_task(self, taskid: str, schedule: dict[str, Any]) -> NewTask:
        self.bodies += 1
        return task(taskid, body=self.bodies, **schedule)

    def push_request(self, project: str, items: list[tuple[str, dict[str, Any]]]) -> NewTasks:
        return self.world.new_tasks(project, *[self.new_task(*item) for item in items])

    def answer_for(self, handed: Handed, outcome: dict[str, Any], new: list[NewTask]) -> Finished:
        return Finished(handed.project, handed.taskid, handed.token, new=list(new), **outcome)

    @rule(project=projects, items=st.lists(pushes, min_size=1, max_size=5))
    def push(self, project: str, items: list[tuple[str, dict[str, Any]]]) -> None:
        self.turn(self.push_request(project, items))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), outcome=outcomes, followups=st.lists(pushes, max_size=2), pushed=st.lists(pushes, max_size=3))
    def answer(
        self,
        data: st.DataObject,
        outcome: dict[str, Any],
        followups: list[tuple[str, dict[str, Any]]],
        pushed: list[tuple[str, dict[str, Any]]],
    ) -> None:
        """A task is answered for, in good time, late or again, in one turn with pushes that may be of the same."""
        handed = data.draw(st.sampled_from(self.tokens[-12:]))
        for fetcher in self.fetchers.values():
            if (held := fetcher.held.get(handed.taskid)) and held.token == handed.token:
                del fetcher.held[handed.taskid]
        item = self.answer_for(handed, outcome, [self.new_task(*each) for each in followups])
        done = Done(session="f0", n=self.world.n(), tasks=[item])
        extra: list[AnyRequest] = [self.push_request(handed.project, pushed)] if pushed else []
        first = data.draw(st.booleans())
        self.turn(*([done, *extra] if first else [*extra, done]))

    @rule(project=projects, taskids=st.lists(st.sampled_from(TASKIDS), min_size=1, max_size=4), items=st.lists(pushes))
    def cancel(self, project: str, taskids: list[str], items: list[tuple[str, dict[str, Any]]]) -> None:
        if project in self.model.projects:
            request = TaskCancel(session="person", n=self.world.n(), project=project, taskids=taskids)
            self.turn(request, self.push_request(project, items[:5]))

    @rule(project=projects, taskids=st.lists(st.sampled_from(TASKIDS), min_size=1, max_size=4))
    def retry(self, project: str, taskids: list[str]) -> None:
        if project in self.model.projects:
            self.turn(TaskRetry(session="person", n=self.world.n(), project=project, taskids=taskids))

    @rule(
        name=fetchers,
        capacity=st.integers(0, 5),
        wants=st.sampled_from([None, None, ["slow"], ["fast", "slow"], []]),
        forgets=st.booleans(),
        deaf=st.sampled_from([False, False, True]),
    )
    def hello(self, name: str, capacity: int, wants: list[str] | None, forgets: bool, deaf: bool) -> None:
        if forgets and self.fetchers[name].held:
            self.fetchers[name].held.popitem()
        self.greet(name, capacity, wants, deaf)

    @precondition(lambda self: self.tokens)
    @rule(name=fetchers, data=st.data(), seconds=st.sampled_from([None, 2 + 1 / 64, 50 + 1 / 64]))
    def extend(self, name: str, data: st.DataObject, seconds: float | None) -> None:
        token = data.draw(st.sampled_from([*self.fetchers[name].held.values()] or self.tokens[-12:])).token
        self.turn(Extend(session=name, n=self.world.n(), tokens=[token], seconds=seconds))

    @precondition(lambda self: self.tokens)
    @rule(name=fetchers, data=st.data())
    def release(self, name: str, data: st.DataObject) -> None:
        handed = data.draw(st.sampled_from([*self.fetchers[name].held.values()] or self.tokens[-12:]))
        self.turn(Release(session=name, n=self.world.n(), tokens=[handed.token]))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A request comes again: its answer is the same, and nothing else happens."""
        sent = data.draw(st.sampled_from(self.sent[-9:]))
        (reply,) = self.world.turn(sent.request)
        assert reply == sent.reply
        self.hear_from(sent.request.session)
        self.observe()
        self.settle()

    # ------------------------------------------------------------------------------------ people, time, death

    @rule(project=st.sampled_from(["fast", "slow"]), action=st.sampled_from(["stop", "start", "start", "delete"]))
    def act(self, project: str, action: Any) -> None:
        if action == "start" or project in self.model.projects:
            self.turn(ProjectDo(session="person", n=self.world.n(), project=project, action=action))

    @precondition(lambda self: "slow" in self.model.projects)
    @rule(rate=st.sampled_from([0.0, 0.25, 2.0, inf]), burst=st.sampled_from([1.0, 4.0]))
    def set_pace(self, rate: float, burst: float) -> None:
        settings = {"rate": rate, "burst": burst}
        self.turn(ProjectSet(session="person", n=self.world.n(), project="slow", settings=settings))  # type: ignore[arg-type]

    @rule(seconds=st.sampled_from([1, 2, 7, 21, 60]))
    def wait(self, seconds: int) -> None:
        self.pass_seconds(seconds)

    @rule(how=st.sampled_from(["kill", "stop", "reboot", "clean reboot"]), away=st.sampled_from([0, 3, 90]))
    def restart(self, how: str, away: int) -> None:
        """The daemon is away for so long; a second after it is back, fetchers say hello."""
        self.model.age_freshness()
        self.world.elapsed += away
        clean = how in ("stop", "clean reboot")
        if "boot" in how:
            self.world.reboot(clean=clean)
        else:
            self.world.restart(clean=clean)
        self.model.restart(self.world.elapsed, other_boot="boot" in how, clean=clean)
        self.observe()
        if how == "clean reboot":
            self.take_over_levels()
        self.pass_seconds(1)
        for name in FETCHERS:
            self.greet(name, capacity=1, wants=None, deaf=False)

    # ------------------------------------------------------------------------------------ beside the model

    def greet(self, name: str, capacity: int, wants: list[str] | None, deaf: bool) -> None:
        """A fetcher that hears again says hello; ``deaf``: after that, what is sent to it gets lost."""
        fetcher = self.fetchers[name]
        fetcher.deaf = False
        holds = [each.token for each in fetcher.held.values()]
        facts: dict[str, Any] = {"capacity": capacity, "projects": wants, "holds": holds, "seen": fetcher.seen}
        self.turn(Hello(session=name, n=self.world.n(), **facts))
        fetcher.deaf = deaf

    def turn(self, *requests: AnyRequest) -> None:
        """Let requests be heard in one turn, and compare what was answered."""
        numbers = {name: session.number for name, session in self.model.sessions.items()}
        replies = self.world.turn(*requests)
        assert len(replies) == len(requests)
        for request, reply in zip(requests, replies, strict=True):
            self.hear_from(request.session)
            self.compare(request, reply)
            if isinstance(request, Hello):
                self.check_sent_again(request, numbers.get(request.session, 0))
            else:
                self.sent.append(Sent(request, reply))
        self.observe()
        self.settle()

    def hear_from(self, session: str) -> None:
        if session in self.model.sessions:
            self.model.sessions[session].heard_at = self.world.elapsed

    def compare(self, request: AnyRequest, reply: AnyReply) -> None:
        """Do in the model what was asked, and see that it comes to the same."""
        now, model = self.world.elapsed, self.model
        match request, reply:
            case NewTasks(), NewTasksReply():
                assert reply.outcomes == [model.push(request.project, each, now) for each in request.tasks if each]
            case Done(), DoneReply():
                for i, item in enumerate(request.tasks):
                    assert item is not None
                    assert reply.outcomes[i] == model.finish(item, now)
                    if reply.outcomes[i] == "done" and item.new:
                        assert reply.new[i] == [model.push(item.project, each, now) for each in item.new if each]
            case Hello(), _:
                model.hello(request, now)
            case Extend(), TokensReply():
                extended = model.extend(request.session, request.tokens[0], request.seconds, now)
                assert reply.counted == extended
            case Release(), TokensReply():
                assert reply.counted == model.release(request.session, request.tokens[0], now)
            case TaskCancel(), TasksReply():
                assert reply.outcomes == [self.model_cancel(request.project, each) for each in request.taskids]
            case TaskRetry(), TasksReply():
                assert reply.outcomes == [self.model_retry(request.project, each) for each in request.taskids]
            case ProjectDo(action="delete"), ProjectReply(project=None):
                del model.projects[request.project]
            case ProjectDo(), ProjectReply():
                model.make_projects(request.project, now=now)
                model.projects[request.project].state = "stopped" if request.action == "stop" else "running"
            case ProjectSet(), ProjectReply():
                model.projects[request.project].change(now, **request.settings)  # type: ignore[arg-type]
            case _:
                raise AssertionError(f"{request} was answered with {reply}")

    def model_cancel(self, project: str, taskid: str) -> str:
        known = self.model.projects[project].tasks.get(taskid)
        if known is None:
            return "unknown"
        if known.state in naive.OVER:
            return "ignored"
        naive.cancel(known)
        return "done"

    def model_retry(self, project: str, taskid: str) -> str:
        known = self.model.projects[project].tasks.get(taskid)
        if known is None:
            return "unknown"
        if known.state in ("ready", "processing"):
            return "ignored"
        known.state, known.token, known.retried = "ready", 0, 0
        known.held_back = known.timed_out = False
        return "done"

    def check_sent_again(self, hello: Hello, last: int) -> None:
        """What the fetcher has not seen comes again, message by message, without gaps."""
        again = {
            said.message.number: [each.token for each in said.message.tasks]
            for said in self.world.said
            if isinstance(said.message, Select) and said.peer == hello.session.encode()
        }
        for missing in range(hello.seen + 1, last + 1):
            leased = [task.token for _, task, lease in self.model.leases(hello.session) if lease.number == missing]
            assert sorted(again[missing]) == sorted(leased)

    def pass_seconds(self, seconds: int) -> None:
        """Let time pass, and the scheduler sleep through it as far as it can."""
        end = self.world.elapsed + seconds
        while self.world.elapsed < end:
            self.model.age_freshness()
            self.world.elapsed = min(end, max(self.world.elapsed, self.world.next_wake()))
            self.world.turn()
            self.observe()
            self.settle()

    def take_over_levels(self) -> None:
        """What a bucket gained after it was last written is lost when the clock starts again; not more than that."""
        for name, project in self.model.projects.items():
            tokens = self.view(name).tokens
            assert tokens <= project.level or project.rate == inf
            project.level = min(project.level, Fraction(tokens)) if tokens < inf else project.level

    def view(self, name: str) -> ProjectView:
        (reply,) = self.world.turn(ProjectShow(session="viewer", n=1, project=name))
        self.observe()
        assert isinstance(reply, ProjectReply)
        assert reply.project is not None
        return reply.project

    def observe(self) -> None:
        """Let the model see what the last turn did of itself."""
        self.model.pass_time(self.world.elapsed)
        for said in self.world.said:
            if isinstance(said.message, Select):
                self.see(said.peer.decode(), said.message)

    def see(self, session: str, message: Select) -> None:
        facts = self.model.sessions[session]
        if message.number <= facts.number:
            return
        assert message.number == facts.number + 1, "a gap in the numbers"
        facts.number = message.number
        for handed in message.tasks:
            self.model.hand_out(session, message.number, handed, self.world.elapsed)
            self.tokens.append(handed)

    def settle(self) -> None:
        while self.world.next_wake() <= self.world.elapsed:
            self.world.turn()
            self.observe()

    @invariant()
    def nobody_waits_for_work_that_is_there(self) -> None:
        if hasattr(self, "world"):
            self.model.check_nobody_waits_for_work(self.world.elapsed)

    @invariant()
    def it_wakes_in_time(self) -> None:
        if hasattr(self, "world"):
            assert self.world.next_wake() <= self.model.next_event_at() + 1e-6

    @invariant()
    def tasks_are_counted_right(self) -> None:
        if hasattr(self, "world"):
            for name in self.model.projects:
                assert self.view(name).counts == self.model.counts(name)


TestSchedulerBesideModel = pytest.mark.timeout(300)(SchedulerBesideModel.TestCase)
TestSchedulerBesideModel.settings = settings(max_examples=200, stateful_step_count=50)
