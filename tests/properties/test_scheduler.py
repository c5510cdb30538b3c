"""The real scheduler, on a real ledger, beside a naive model, under random events in random order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from math import ceil, inf
from operator import itemgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.task import CANCELLED
from taskqueue.core.steps import bulk, retention, sweep
from taskqueue.core.steps import undo as undo_steps
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.fetchers import Extend, Hello, Release, Select, TokensReply
from taskqueue.protocol.insight import JobCounts, JobCountsReply, Stats, StatsReply, Why, WhyReply
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import Bulk, OperationReply, OperationShow, OperationUndo
from taskqueue.protocol.projects import (
    GroupDo,
    Project,
    ProjectDo,
    ProjectHold,
    ProjectReply,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
    WaitReply,
)
from taskqueue.protocol.tasks import (
    Done,
    DoneReply,
    NewTasks,
    NewTasksReply,
    TaskCancel,
    TaskList,
    TaskListReply,
    TaskReply,
    TaskRetry,
    TaskShow,
    TasksReply,
)
from taskqueue.protocol.values import Again, Assignment, NewTask, TaskCounts, TaskFilter, TaskReport
from taskqueue.settings.settings import CoreConfig, Pace
from tests.nightly import TIMES
from tests.properties import model as naive
from tests.properties.model import Model
from tests.properties.records import OVER, Operation, Task
from tests.unit.core.conftest import Fetcher, World, packed, ref, task

SECTIONS: dict[str, dict[str, Any]] = {
    "fast": {"rate": inf, "burst": 3.0, "group": "g"},
    "slow": {"rate": 0.5, "burst": 2.0, "group": "g"},
    "duo": {"bucket": "both"},
}
BUCKETS = {"both": (1.0, 2.0)}
TASKIDS = [f"t{i}" for i in range(6)]
FETCHERS = ("f0", "f1", "f2")
STATES = ("ready", "delayed", "processing", *OVER)

projects = st.sampled_from(["fast", "fast", "slow", "slow", "duo", "gone"])
known_projects = st.sampled_from(["fast", "fast", "slow", "duo"])
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
        "job": st.sampled_from(["monday", "tuesday"]),
        "auto_recrawl": st.booleans(),
        "repeat": st.sampled_from([0, 1, 2]),
        "force_update": st.booleans(),
        "cancel": st.sampled_from([False, False, True]),
        "timeout": st.sampled_from([3 + 1 / 64, 25 + 1 / 64]),
        "expires_at": st.sampled_from([naive.WALL + 5, naive.WALL + 45]),
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
    {"age": 2.0, "auto_recrawl": True, "repeat": 1},
    {"age": 2.0},
    {"itag": "x"},
    {"job": "monday"},
    {"timeout": 3 + 1 / 64},
    {"expires_at": naive.WALL + 45},
]
schedules = st.one_of(st.sampled_from(usual), st.sampled_from(usual), anything)
"""Usual schedules, and now and then any mixture."""

pushes = st.tuples(st.sampled_from(TASKIDS), schedules)
outcomes: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {},
        {},
        {"ok": False},
        {"ok": False, "error": "HTTP 500"},
        {"ok": False, "error": "HTTP 404", "retry": False},
        {"ok": False, "retry_after": 4.0},
        {"ok": False, "retry_after": 0.0},
        {"ok": False, "again": Again(False, packed("another"), -2)},
        {"ok": False, "retry_after": 4.0, "again": Again(True, packed("another"), 2)},
    ]
)
some_settings: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"rate": 0.0},
        {"rate": 0.25, "burst": 1.0},
        {"rate": 2.0, "burst": 4.0},
        {"rate": inf},
        {"max_processing": 1.0},
        {"max_processing": 2.0},
        {"max_tasks": 3.0},
        {"max_queue": 2.0},
        {"max_depth": 0.0},
        {"max_depth": 0.0},
        {"order": "due"},
        {"order": "due"},
        {"order": "arrival"},
        {"order": "newest"},
        {"fail_pause_num": 0},
        {"fail_pause_num": 1},
        {"fail_pause_num": 1},
        {"error_burst": 2.0},
        {"error_burst": 3.0},
        {"error_burst": inf},
        {"bucket": "both"},
        {"bucket": ""},
        {"on_finished": {}},
        {"on_finished": {"taskid": "t0", "priority": 1}},
        {"cron": {"tick": {"every": "7s"}}},
        {"cron": {"tick": {"every": "7s", "missed": "once", "task": {"priority": 2}}}},
        {"cron": {"tock": {"every": "50s"}}},
        {"keep": {"success": 0.0, "failed": 10.0}},
        {"keep": {"success": 20.0, "cancelled": 0.0, "then": "forget"}},
        {"keep": {"success": 5.0, "then": "forget"}},
        {"keep": {"then": "remember"}},
    ]
)
filters = st.builds(
    TaskFilter,
    states=st.just([]),
    url=st.sampled_from(["", "", "*/t[0-2]", "*x"]),
    error=st.sampled_from(["", "", "HTTP *"]),
    job=st.sampled_from(["", "", "monday"]),
)


class Sent(NamedTuple):
    request: AnyRequest
    reply: AnyReply


class StillWorld(World):
    """World that takes no turn by itself."""

    def settle(self) -> None:
        pass


class SchedulerBesideModel(RuleBasedStateMachine):
    """State machine of this module.

    Time goes in whole seconds and timeouts have odd fractions, so that few events coincide.
    """

    @initialize(head=st.sampled_from([2, 3, 4096]))
    def begin(self, head: int) -> None:
        config = CoreConfig(
            defaults=naive.DEFAULTS,
            projects=SECTIONS,  # type: ignore[arg-type]
            buckets={name: Pace(*pace) for name, pace in BUCKETS.items()},
            fetcher_timeout=naive.FETCHER_TIMEOUT,
            head_tasks=head,
        )
        self.world = StillWorld(config)
        self.model = Model(SECTIONS, BUCKETS)
        self.fetchers = {name: self.world.know(Fetcher(self.world, name, 0, None)) for name in FETCHERS}
        self.sent: list[Sent] = []
        self.tokens: list[Assignment] = []
        self.events: list[tuple[str, str]] = []
        self.answers: list[tuple[int, bool | None]] = []
        self.started: list[tuple[int, Operation]] = []
        self.bodies = 0
        self.reads = count(1_000_000)
        self.settle()

    # ------------------------------------------------------------------------------------ producers and fetchers

    def new_task(self, taskid: str, schedule: dict[str, Any]) -> NewTask:
        self.bodies += 1
        return task(taskid, body=self.bodies, **schedule)

    def push_request(self, project: str, items: list[tuple[str, dict[str, Any]]]) -> NewTasks:
        return self.world.new_tasks(project, *[self.new_task(*item) for item in items])

    def answer_for(self, handed: Assignment, outcome: dict[str, Any], new: list[NewTask]) -> TaskReport:
        return TaskReport(handed.project, handed.taskid, handed.token, new=list(new), **outcome)

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
        """Answer for a task in time, late or again, in one turn with pushes that may be of the same task."""
        handed = data.draw(st.sampled_from(self.tokens[-12:]))
        self.let_go(handed)
        item = self.answer_for(handed, outcome, [self.new_task(*each) for each in followups])
        done = Done(session="f0", n=self.world.n(), tasks=[item])
        extra: list[AnyRequest] = [self.push_request(handed.project, pushed)] if pushed else []
        first = data.draw(st.booleans())
        self.turn(*([done, *extra] if first else [*extra, done]))

    @precondition(lambda self: any(fetcher.held for fetcher in self.fetchers.values()))
    @rule(outcome=outcomes)
    def answer_everything(self, outcome: dict[str, Any]) -> None:
        """Report the same outcome of all leases of all fetchers: a site is down, or well."""
        for name, fetcher in self.fetchers.items():
            items = [self.answer_for(handed, outcome, []) for handed in fetcher.held.values()]
            fetcher.held.clear()
            if items:
                self.turn(Done(session=name, n=self.world.n(), tasks=list(items)))

    @rule(project=st.sampled_from(["fast", "duo"]), outcome=outcomes, seconds=st.sampled_from([21, 60]))
    def a_site_is_down(self, project: str, outcome: dict[str, Any], seconds: int) -> None:
        """Let all tasks fail, also in the checks after a pause, or end with another outcome."""
        self.push(project, [(taskid, {"force_update": True}) for taskid in TASKIDS])
        for end in ({"ok": False, "error": "HTTP 500", "retry_after": None}, outcome):
            self.greet("f0", capacity=5, wants=None, deaf=False)
            self.greet("f1", capacity=5, wants=None, deaf=False)
            self.answer_everything(end)
            self.pass_seconds(seconds)

    @rule(times=st.sampled_from([2, 3, 4]), seconds=st.sampled_from([0, 1]))
    def a_site_is_busy(self, times: int, seconds: int) -> None:
        """Put all tasks off by nothing, again and again."""
        for _ in range(times):
            self.greet("f0", capacity=5, wants=None, deaf=False)
            self.answer_everything({"ok": False, "retry_after": 0.0})
            if seconds:
                self.pass_seconds(seconds)

    def let_go(self, handed: Assignment) -> None:
        for fetcher in self.fetchers.values():
            if (held := fetcher.held.get(handed.taskid)) and held.token == handed.token:
                del fetcher.held[handed.taskid]

    @rule(
        name=fetchers,
        capacity=st.integers(0, 5),
        wants=st.sampled_from([None, None, ["slow"], ["fast", "duo"], []]),
        forgets=st.booleans(),
        deaf=st.sampled_from([False, False, True]),
        works=st.sampled_from([False, False, True]),
    )
    def hello(self, name: str, capacity: int, wants: list[str] | None, forgets: bool, deaf: bool, works: bool) -> None:
        if forgets and self.fetchers[name].held:
            self.fetchers[name].held.popitem()
        self.fetchers[name].priority = capacity % 3 - 1
        self.greet(name, capacity, wants, deaf, works)

    @precondition(lambda self: self.tokens)
    @rule(name=fetchers, data=st.data(), seconds=st.sampled_from([None, 2 + 1 / 64, 50 + 1 / 64]))
    def extend(self, name: str, data: st.DataObject, seconds: float | None) -> None:
        handed = data.draw(st.sampled_from([*self.fetchers[name].held.values()] or self.tokens[-12:]))
        self.turn(Extend(session=name, n=self.world.n(), leases=[ref(handed)], seconds=seconds))

    @precondition(lambda self: self.tokens)
    @rule(name=fetchers, data=st.data())
    def release(self, name: str, data: st.DataObject) -> None:
        handed = data.draw(st.sampled_from([*self.fetchers[name].held.values()] or self.tokens[-12:]))
        self.turn(Release(session=name, n=self.world.n(), leases=[ref(handed)]))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Repeat a request: its answer is the same, and nothing else happens."""
        sent = data.draw(st.sampled_from(self.sent[-9:]))
        (reply,) = self.take_turn(sent.request, is_repeat=True)
        assert reply == sent.reply
        self.settle()

    # ------------------------------------------------------------------------------------ operators

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
        project=known_projects,
        action=st.sampled_from(
            ["stop", "start", "start", "pause", "resume", "resume", "clear", "clear", "reset", "delete"]
        ),
        before=st.lists(pushes, max_size=2),
        after=st.lists(pushes, max_size=3),
        apart=st.booleans(),
        seconds=st.sampled_from([None, 5.0, 100.0]),
    )
    def act(
        self,
        project: str,
        action: Any,
        before: list[tuple[str, dict[str, Any]]],
        after: list[tuple[str, dict[str, Any]]],
        apart: bool,
        seconds: float | None,
    ) -> None:
        """Act on a project between pushes before and after it, in one turn or in two."""
        seconds = seconds if action == "pause" else None
        request = ProjectDo(session="person", n=self.world.n(), project=project, action=action, seconds=seconds)
        around = [self.push_request(project, items) for items in (before, after)]
        if apart:
            self.take_turn(around[0], request)
            self.turn(around[1])
        else:
            self.turn(around[0], request, around[1])

    @rule(action=st.sampled_from(["stop", "start", "pause", "resume", "clear"]))
    def act_on_group(self, action: Any) -> None:
        self.turn(GroupDo(session="person", n=self.world.n(), group="g", action=action))

    @rule(project=known_projects, settings=some_settings)
    def set_settings(self, project: str, settings: dict[str, Any]) -> None:
        self.turn(ProjectSet(session="person", n=self.world.n(), project=project, settings=settings))

    @rule(project=known_projects, keys=st.sampled_from([[], [], ["rate"], ["cron.tick"], ["on_finished"], ["bucket"]]))
    def unset_settings(self, project: str, keys: list[str]) -> None:
        self.turn(ProjectUnset(session="person", n=self.world.n(), project=project, keys=keys))

    @rule(project=known_projects, seconds=st.sampled_from([0.0, 5.0, 25.0]), session=st.sampled_from(["a", "b"]))
    def hold(self, project: str, seconds: float, session: str) -> None:
        self.turn(ProjectHold(session=session, n=self.world.n(), project=project, seconds=seconds))

    @rule(project=known_projects, seconds=st.sampled_from([0.0, 30.0, 60.0]), session=st.sampled_from(["a", "b"]))
    def wait_for_the_end(self, project: str, seconds: float, session: str) -> None:
        self.turn(ProjectWait(session=session, n=self.world.n(), project=project, seconds=seconds))

    @rule(
        project=st.sampled_from(["", "", "fast", "slow"]),
        action=st.sampled_from(["retry", "retry", "cancel", "reprioritise", "reschedule", "reschedule"]),
        which=filters,
        states=st.one_of(st.just(set[str]()), st.sets(st.sampled_from(STATES))),
        priority=st.integers(-1, 2),
        when=st.sampled_from([{}, {"delay": 0.0}, {"delay": 5.5}, {"delay": 30.0}, {"exetime": naive.WALL + 40}]),
        dry_run=st.sampled_from([False, False, True]),
        items=st.lists(pushes, max_size=2),
        crash=st.booleans(),
    )
    def change_many(
        self,
        project: str,
        action: Any,
        which: TaskFilter,
        states: set[str],
        priority: int,
        when: dict[str, Any],
        dry_run: bool,
        items: list[tuple[str, dict[str, Any]]],
        crash: bool,
    ) -> None:
        """Run a bulk operation, which skips tasks that arrive in its turn; a crash within it changes nothing."""
        named = [state for state in STATES if state in states and state in naive.SENSIBLE[action]]
        wanted = TaskFilter(named, which.url, which.error, job=which.job)  # type: ignore[arg-type]
        about: dict[str, Any] = {"project": project} if project else {"group": "g"}
        request = Bulk(
            session="person",
            n=self.world.n(),
            action=action,
            filter=wanted,
            priority=priority,
            dry_run=dry_run,
            **about,
            **when,
        )
        self.take_turn(request, self.push_request(project or "fast", items))
        if crash:
            self.take_turn()
            self.start_again(self.world.crash, "kill")
        self.settle()
        if crash:
            self.greet_all()

    @precondition(lambda self: self.started)
    @rule(data=st.data(), items=st.lists(pushes, max_size=2), crash=st.booleans())
    def undo(self, data: st.DataObject, items: list[tuple[str, dict[str, Any]]], crash: bool) -> None:
        """Undo an operation, beside pushes; a crash within it changes nothing."""
        number, _ = data.draw(st.sampled_from(self.started[-5:]))
        request = OperationUndo(session="person", n=self.world.n(), id=number)
        self.take_turn(self.push_request("fast", items), request)
        if crash:
            self.take_turn()
            self.start_again(self.world.crash, "kill")
        self.settle()
        if crash:
            self.greet_all()

    # ------------------------------------------------------------------------------------ time, death

    @rule(seconds=st.sampled_from([1, 2, 7, 21, 60]))
    def wait(self, seconds: int) -> None:
        self.pass_seconds(seconds)

    @rule(seconds=st.sampled_from([-400, -7, 3, 50]))
    def set_the_wall_clock(self, seconds: int) -> None:
        self.model.age_freshness()
        self.world.wall_step += seconds
        self.take_turn()
        self.settle()

    @rule(how=st.sampled_from(["kill", "stop", "reboot", "clean reboot"]), away=st.sampled_from([0, 3, 90]))
    def restart(self, how: str, away: int) -> None:
        """Restart the daemon after some seconds; then fetchers send a hello."""
        self.model.age_freshness()
        self.world.elapsed += away
        clean = how in ("stop", "clean reboot")
        if "boot" in how:
            self.start_again(lambda: self.world.reboot(clean=clean), how)
        else:
            self.start_again(lambda: self.world.restart(clean=clean), how)
        self.settle()
        self.greet_all()

    def greet_all(self) -> None:
        """Send hellos a second after the start, so that the ends of leases and of fetchers' times don't coincide."""
        self.pass_seconds(1)
        for name in FETCHERS:
            self.greet(name, capacity=1, wants=None, deaf=False)

    def start_again(self, die: Any, how: str) -> None:
        die()
        now, wall = self.times()
        self.model.restart(now, wall, other_boot="boot" in how, clean=how in ("stop", "clean reboot"))
        if how == "clean reboot":
            self.take_over_levels()

    # ------------------------------------------------------------------------------------ beside the model

    def times(self) -> tuple[float, float]:
        return self.world.elapsed, self.world.elapsed + self.world.wall_step

    def greet(self, name: str, capacity: int, wants: list[str] | None, deaf: bool, works: bool = False) -> None:
        """Send a fetcher's hello; it receives messages again.

        ``deaf``: later messages to it get lost; ``works``: it still runs tasks whose leases have ended.
        """
        fetcher = self.fetchers[name]
        fetcher.deaf = False
        facts: dict[str, Any] = {"capacity": capacity, "projects": wants, "holds": fetcher.holds, "seen": fetcher.seen}
        facts["priority"] = fetcher.priority
        facts["running"] = [each.token for each in fetcher.held.values()] if works else []
        hello = Hello(session=name, n=self.world.n(), **facts)
        self.turn(hello)
        fetcher.heed(hello.n)
        fetcher.deaf = deaf

    def turn(self, *requests: AnyRequest) -> None:
        """Send requests in one turn, and apply their effects."""
        self.take_turn(*requests)
        self.settle()

    def take_turn(self, *requests: AnyRequest, is_repeat: bool = False) -> list[AnyReply]:
        """Take one turn of the scheduler and of the model; compare the answers."""
        numbers = {name: session.number for name, session in self.model.sessions.items()}
        self.model.begin_turn(*self.times())
        unlisted = self.unlisted()
        said = self.world.turn(*requests)
        self.note_listed(unlisted - self.unlisted())
        replies = {reply.n: reply for reply in said}
        for request in requests:
            if request.session in self.model.sessions:
                self.model.sessions[request.session].heard_at = self.world.elapsed
            if isinstance(request, ProjectWait):
                self.model_wait(request, replies.get(request.n))
            elif not is_repeat:
                self.compare(request, replies[request.n])
            if isinstance(request, Hello):
                self.check_sent_again(request, numbers.get(request.session, 0))
            elif not is_repeat and not isinstance(replies.get(request.n), (ErrorReply, WaitReply, type(None))):
                self.sent.append(Sent(request, replies[request.n]))
        self.observe()
        asked = {request.n for request in requests if not isinstance(request, ProjectWait)}
        self.note_answers([reply for reply in said if reply.n not in asked])
        return [replies[request.n] for request in requests if request.n in replies]

    def unlisted(self) -> set[tuple[str, str]]:
        """Return processing tasks that the store has only by their leases."""
        projects = self.world.scheduler._state.projects.by_name.values()
        return {
            (project.name, task.taskid)
            for project in projects
            for task in project.queue.processing.leased.values()
            if task.unlisted
        }

    def note_listed(self, listed: set[tuple[str, str]]) -> None:
        """Record that a bulk operation writes the leases of a project that it reaches anew, as they are in memory."""
        for name, each, lease in self.model.leases():
            if (name, each.new.taskid) in listed:
                lease.kept = lease.deadline

    def compare(self, request: AnyRequest, reply: AnyReply) -> None:
        """Apply the request to the model, and compare the replies."""
        model = self.model
        match request, reply:
            case NewTasks(), NewTasksReply():
                assert reply.outcomes == [model.push(request.project, each) for each in request.tasks if each]
            case Done(), DoneReply():
                self.compare_done(request, reply)
            case Hello(), _:
                model.hello(request)
            case Extend(), TokensReply():
                assert reply.counted == model.extend(request.leases[0].token, request.seconds)
            case Release(), TokensReply():
                assert reply.counted == model.release(request.session, request.leases[0].token)
            case TaskCancel(), TasksReply():
                assert reply.outcomes == [self.model_cancel(request.project, each) for each in request.taskids]
            case TaskRetry(), TasksReply():
                assert reply.outcomes == [self.model_retry(request.project, each) for each in request.taskids]
            case ProjectDo(), _:
                assert isinstance(reply, ErrorReply) != self.model_act(request.project, request.action, request.seconds)
            case GroupDo(), _:
                names = [name for name in model.group() if self.model_act(name, request.action)]
                assert isinstance(reply, OperationReply) or not model.group()
                assert not isinstance(reply, OperationReply) or reply.operation.matched == len(names)
            case ProjectSet(), ProjectReply():
                self.model_set(request.project, request.settings)
            case ProjectUnset(), _:
                assert isinstance(reply, ErrorReply) != self.model_unset(request.project, request.keys)
            case ProjectHold(), _:
                assert isinstance(reply, ErrorReply) != (request.project in model.projects)
                if request.project in model.projects:
                    model.hold(request.project, request.session, request.seconds)
            case Bulk(), OperationReply():
                model.bulk(request)
                self.started.append((reply.operation.id, model.operations[-1]))
            case OperationUndo(), _:
                operation = next(each for number, each in self.started if number == request.id)
                assert isinstance(reply, OperationReply) == model.undo(operation), reply
                if isinstance(reply, OperationReply):
                    self.started.append((reply.operation.id, model.operations[-1]))
            case Bulk(), ErrorReply():
                assert not model.group() if request.group else request.project not in model.projects
            case _:
                raise AssertionError(f"{request} was answered with {reply}")

    def compare_done(self, request: Done, reply: DoneReply) -> None:
        for i, item in enumerate(request.tasks):
            assert item is not None
            depth, job = self.model.below(item)
            assert reply.outcomes[i] == self.model.finish(request.session, item)
            if reply.outcomes[i] == "done" and item.new:
                assert reply.new[i] == [self.model.push(item.project, each, depth, job) for each in item.new if each]

    def note_answers(self, replies: list[AnyReply]) -> None:
        self.answers += [(reply.n, reply.finished if isinstance(reply, WaitReply) else None) for reply in replies]

    def model_wait(self, request: ProjectWait, reply: AnyReply | None) -> None:
        if request.project in self.model.projects:
            self.model.wait(request.project, request.session, request.n, request.seconds)
        else:
            assert isinstance(reply, ErrorReply)
            self.model.answers.append((request.n, None))

    def model_cancel(self, project: str, taskid: str) -> str:
        known = self.model.projects[project].tasks.get(taskid)
        if known is None:
            return "unknown"
        if not known.is_live:
            return "ignored"
        self.model.end(project, known)
        return "done"

    def model_retry(self, project: str, taskid: str) -> str:
        known = self.model.projects[project].tasks.get(taskid)
        if known is None:
            return "unknown"
        if known.state in ("ready", "processing"):
            return "ignored"
        if known.bare:
            return "bare"
        self.model.revive(project, known)
        return "done"

    def model_act(self, name: str, action: str, seconds: float | None = None) -> bool:
        model = self.model
        if action == "start":
            model.make_projects(name)
        if name not in model.projects:
            return False
        if action not in ("clear", "reset", "delete"):
            return model.act(name, action, seconds)
        getattr(model, action)(name)
        return True

    def model_set(self, name: str, settings: dict[str, Any]) -> None:
        self.model.make_projects(name)
        overrides = dict(self.model.projects[name].overrides)
        for key, value in settings.items():
            under = overrides.get(key)
            overrides[key] = {**under, **value} if isinstance(under, dict) and isinstance(value, dict) else value
        self.model.use(name, overrides)

    def model_unset(self, name: str, keys: list[str]) -> bool:
        if name not in self.model.projects:
            return False
        overrides = dict(self.model.projects[name].overrides) if keys else {}
        for key in keys:
            table, _, part = key.partition(".")
            if table not in overrides or (part and part not in overrides[table]):
                return False
            overrides[table] = {k: v for k, v in overrides[table].items() if k != part} if part else None
            if not overrides[table]:
                del overrides[table]
        self.model.use(name, overrides)
        return True

    def check_sent_again(self, hello: Hello, last: int) -> None:
        """Check that messages that the fetcher has not seen come again, one by one, without gaps."""
        again = {
            said.message.number: [each.token for each in said.message.tasks]
            for said in self.world.said
            if isinstance(said.message, Select) and said.peer == hello.session.encode()
        }
        for missing in range(hello.seen + 1, last + 1):
            leased = [task.token for _, task, lease in self.model.leases(hello.session) if lease.number == missing]
            assert sorted(again[missing]) == sorted(leased)

    def pass_seconds(self, seconds: int) -> None:
        """Pass time; the scheduler sleeps through it as far as it can, and wakes at a multiple of 1/64 s.

        Four fifths of a lease are no such multiple, as all other times are, which are exact for that.
        """
        end = self.world.elapsed + seconds
        while self.world.elapsed < end:
            self.model.age_freshness()
            wake_at = min(end, self.world.next_wake())
            self.world.elapsed = max(self.world.elapsed, ceil(wake_at * 64) / 64)
            self.take_turn()
            self.settle()

    def take_over_levels(self) -> None:
        """Drop the tokens, and no more, that a bucket gained after its last write, when the clock starts again."""
        state = self.world.scheduler._state
        real = [(self.model.projects[name].bucket, project.bucket) for name, project in state.projects.by_name.items()]
        real += [(self.model.shared[name], shared.bucket) for name, shared in state.shared.items()]
        for bucket, loaded in real:
            assert loaded.level <= bucket.level or bucket.rate == inf
            bucket.level = min(bucket.level, Fraction(loaded.level))

    def observe(self) -> None:
        """Apply the turn's own work to the model."""
        self.model.pass_time()
        self.model.step()
        numbers = {project.number: project.name for project in self.world.scheduler._state.projects.by_name.values()}
        for old in self.world.kept.old:
            self.model.drop(numbers[old.task.project], old.task.taskid, is_bare=old.task.bare)
        given: list[tuple[int, str, int, Assignment]] = []
        for said in self.world.said:
            if isinstance(said.message, Select):
                given += self.see(said.peer.decode(), said.message)
        for _, session, number, handed in sorted(given, key=itemgetter(0)):
            self.model.hand_out(session, number, handed)
            self.tokens.append(handed)
        self.let_expire()
        for number in self.world.kept.counters:
            self.model.save(numbers[number])
        self.model.end_turn()
        self.events += [(event.kind, event.project) for event in self.world.events]

    def see(self, session: str, message: Select) -> list[tuple[int, str, int, Assignment]]:
        """Return the tasks of a message, each with the number in its token, which gives the order over messages."""
        facts = self.model.sessions[session]
        if message.number <= facts.number:
            return []
        assert message.number == facts.number + 1, "a gap in the numbers"
        facts.number = message.number
        mask = self.world.scheduler._state.sessions[session].mask
        return [(handed.token ^ mask, session, message.number, handed) for handed in message.tasks]

    def let_expire(self) -> None:
        """Apply the ends of expired tasks."""
        state = self.world.scheduler._state
        for name, project in self.model.projects.items():
            for each in project.in_state("ready"):
                if self.model.has_expired(each):
                    ref = TaskRef(state.projects.by_name[name].number, each.new.taskid)
                    if self.world.ledger.find(Needs(tasks=[ref])).tasks[ref].state == CANCELLED:
                        self.model.let_expire(each)

    def settle(self) -> None:
        for _ in range(300):
            if self.world.next_wake() > self.world.elapsed:
                self.compare_what_was_told()
                return
            self.take_turn()
        raise AssertionError("the scheduler does not come to rest")

    def compare_what_was_told(self) -> None:
        """Compare the dispatches at the end of a moment: an expired lease may wait a turn for its task to be read."""
        assert sorted(self.events) == sorted(self.model.events)
        assert sorted(self.answers) == sorted(self.model.answers)
        for told in (self.events, self.answers, self.model.events, self.model.answers):
            told.clear()

    # ------------------------------------------------------------------------------------ after each rule

    def read(self, *requests: AnyRequest) -> list[Any]:
        """Send requests that change nothing, in a turn of their own."""
        return self.take_turn(*requests, is_repeat=True)

    @invariant()
    def nobody_waits_for_work_that_is_there(self) -> None:
        if hasattr(self, "world"):
            self.model.check_nobody_waits_for_work()

    @invariant()
    def it_wakes_in_time(self) -> None:
        if hasattr(self, "world"):
            assert self.world.next_wake() <= self.model.next_event_at() + 1e-6

    @invariant()
    def projects_are_shown_as_they_are(self) -> None:
        if not hasattr(self, "world"):
            return
        shows: list[AnyRequest] = [
            ProjectShow(session="viewer", n=next(self.reads), project=name) for name in self.model.projects
        ]
        whole: list[AnyRequest] = [
            StatusShow(session="viewer", n=next(self.reads)),
            Stats(session="viewer", n=next(self.reads)),
        ]
        *replies, status, stats = self.read(*shows, *whole)
        views = {reply.project.name: reply.project for reply in replies}
        for name, view in views.items():
            self.compare_view(name, view)
        self.compare_sums(status, stats)

    def compare_view(self, name: str, view: Project) -> None:
        model = self.model
        project = model.projects[name]
        assert (view.state, view.counts) == (project.state, model.counts(name))
        assert (view.unfinished, view.finished) == (project.unfinished, project.finished)
        assert view.totals == project.totals
        assert view.check_at == (0 if project.check_at is None else naive.WALL + project.check_at)
        assert view.paused_until == (0 if project.until is None else naive.WALL + project.until)
        assert view.held_by == sum(until > model.wall for until in project.holds.values())
        assert view.overrides == project.overrides
        entries = {each.entry: (each.ran, each.skipped, each.next_at - naive.WALL) for each in view.cron}
        assert entries == {entry: (each.ran, each.skipped, each.next_at) for entry, each in project.entries.items()}

    def compare_sums(self, status: StatusReply, stats: StatsReply) -> None:
        names = sorted(self.model.projects)
        assert [each.name for each in status.projects] == [each.name for each in stats.projects] == names
        for field in status.counts.__struct_fields__:
            assert getattr(status.counts, field) == sum(
                len(each.in_state(field)) for each in self.model.projects.values()
            )
        for field in status.totals.__struct_fields__:
            every = [getattr(each.totals, field) for each in self.model.projects.values()]
            assert getattr(status.totals, field) == sum(every)
        for each in stats.projects:
            assert each.totals == self.model.projects[each.name].totals
            windows = each.windows
            for field in each.totals.__struct_fields__:
                counted = [getattr(window, field) for window in (windows.minutes, windows.hour, windows.day)]
                assert 0 <= counted[0] <= counted[1] <= counted[2] <= getattr(each.totals, field)

    @rule(project=known_projects, state=st.sampled_from(STATES), limit=st.sampled_from([1, 2, 100]))
    def lists_are_in_order(self, project: str, state: Any, limit: int) -> None:
        if project not in self.model.projects:
            return
        listed: list[str] = []
        after = ""
        while after or not listed:
            ask = TaskList(session="viewer", n=next(self.reads), project=project, state=state, after=after, limit=limit)
            (reply,) = self.read(ask)
            assert isinstance(reply, TaskListReply)
            listed += [row.taskid for row in reply.tasks]
            after = reply.next
            if not after:
                break
        assert listed == self.model.listed(project, state)

    @rule(project=known_projects, job=st.sampled_from(["monday", "tuesday"]))
    def a_job_is_counted_by_state(self, project: str, job: str) -> None:
        if project in self.model.projects:
            (reply,) = self.read(JobCounts(session="viewer", n=next(self.reads), project=project, job=job))
            assert isinstance(reply, JobCountsReply)
            tasks = self.model.projects[project].tasks.values()
            counts = Counter(task.state for task in tasks if task.job == job)
            assert reply.counts == TaskCounts(**counts)

    @rule(project=known_projects, taskid=st.sampled_from([*TASKIDS, "on_finished"]))
    def a_task_is_shown_as_it_is(self, project: str, taskid: str) -> None:
        if project in self.model.projects:
            (reply,) = self.read(TaskShow(session="viewer", n=next(self.reads), project=project, taskid=taskid))
            known = self.model.projects[project].tasks.get(taskid)
            if known is None:
                assert isinstance(reply, ErrorReply)
            else:
                self.compare_task(known, reply)

    def compare_task(self, known: Task, reply: TaskReply) -> None:
        assert (reply.state, reply.priority, reply.retried) == (known.state, known.priority, known.retried)
        assert (reply.depth, reply.put_off, reply.job) == (known.depth, known.put_off, known.job)
        assert bool(reply.bare_since) == known.bare == (not reply.url)
        if known.state == "delayed":
            assert reply.exetime == naive.WALL + known.at
        elif not known.is_live:
            assert reply.finished_at == naive.WALL + known.at
        history = [(each.at - naive.WALL, each.outcome, each.seconds, each.error) for each in reply.history]
        assert history == [tuple(attempt) for attempt in known.history[:-11:-1]]

    @rule(project=projects, taskid=st.sampled_from([None, *TASKIDS]))
    def why_has_an_answer(self, project: str, taskid: str | None) -> None:
        (reply,) = self.read(Why(session="viewer", n=next(self.reads), project=project, taskid=taskid))
        assert isinstance(reply, WhyReply if project in self.model.projects else ErrorReply) or taskid

    @precondition(lambda self: self.started)
    @rule(data=st.data())
    def an_operation_has_ended(self, data: st.DataObject) -> None:
        number, operation = data.draw(st.sampled_from(self.started[-5:]))
        (reply,) = self.read(OperationShow(session="viewer", n=next(self.reads), id=number))
        assert isinstance(reply, OperationReply)
        assert reply.operation.ended_at
        assert operation.ended
        assert (reply.operation.seen, reply.operation.matched) == (operation.seen, operation.matched)


@pytest.fixture(scope="module", autouse=True)
def small_pages() -> Iterator[None]:
    """Make pages of operations so small that a few tasks fill them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "PAGE_TASKS", naive.PAGE_TASKS)
        patch.setattr(undo_steps, "STEP_ROWS", naive.PAGE_TASKS)
        patch.setattr(sweep, "SWEPT_TASKS", naive.SWEPT_TASKS)
        patch.setattr(retention, "OLD_TASKS", naive.OLD_TASKS)
        yield


TestSchedulerBesideModel = pytest.mark.timeout(300)(SchedulerBesideModel.TestCase)
TestSchedulerBesideModel.settings = settings(max_examples=100 * TIMES, stateful_step_count=50)


def test_slow_tasks_and_bursts_of_errors_are_events_when_the_model_says_so() -> None:
    it = SchedulerBesideModel()
    it.begin(head=4096)
    for _ in range(2):
        it.push("fast", [(taskid, {"force_update": True}) for taskid in TASKIDS])
        it.greet("f0", capacity=5, wants=None, deaf=False)
        it.pass_seconds(9)
        it.answer_everything({"ok": False, "error": "HTTP 500"})
        it.greet("f0", capacity=0, wants=None, deaf=False)
        it.pass_seconds(360)
        it.act("fast", "resume", [], [], apart=False, seconds=None)

    assert it.world.event_kinds("fast") == ["slow", "paused", "error-burst"] * 2
