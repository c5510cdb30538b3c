"""Import of a project from an export, step by step, while the daemon runs.

``Export.of(world)`` exports the project news as ``taskqueue store export`` does; ``export.begin`` and ``export.bring``
take steps of an import of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from msgspec import Raw
from msgspec.msgpack import decode, encode
from msgspec.structs import replace

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.callers import Caller
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.exports import (
    PARTS_MOST,
    ExportedParent,
    ExportedPoint,
    ExportedProject,
    ExportedTask,
    ExportedUpdate,
    ImportReply,
    ProjectImport,
)
from taskqueue.protocol.flows import FlowStage
from taskqueue.protocol.insight import HistoryReply, Log, LogReply, StatsHistory, Why, WhyReply
from taskqueue.protocol.message_room import room_beside
from taskqueue.protocol.operations import Bulk, OperationReply, OperationShow, Rerun
from taskqueue.protocol.projects import GroupDo, ProjectDo
from taskqueue.protocol.values import (
    Attempt,
    CronRecord,
    EventTotals,
    PageFacts,
    PauseRecord,
    Schedule,
    TaskCounts,
    TaskOf,
)
from taskqueue.store.tools.export_format import MESSAGEPACK, VERSION, overrides_of, packed_task
from taskqueue.store.tools.exporter import IN_ORDER, export_lines
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import MakeWorld, Waiting, World, packed, task
from tests.unit.core.rules.conftest import DAY, HOUR
from tests.unit.core.rules.test_cron import FIRST
from tests.unit.core.rules.test_cron_graphs import EVERY, flow_at, names
from tests.unit.core.rules.test_cron_graphs import begin as begin_graph
from tests.unit.core.rules.test_dependencies import cancel, retry, run, state_of, waiting, waits, why
from tests.unit.core.rules.test_flows import begin_making, flow, show_now, stage, submission, submitted


class Export:
    """Export of a project, and steps that import it.

    Attributes:
        name: text that identifies it.
    """

    def __init__(
        self,
        tasks: Sequence[ExportedTask] = (),
        points: Sequence[ExportedPoint] = (),
        every: Any = "hour",
        name: str = "monday",
        **project: Any,
    ) -> None:
        self.tasks = list(tasks)
        self.points = list(points)
        self.every = every
        self.name = name
        self.project = ExportedProject(len(self.tasks) + len(self.points), **project)

    @staticmethod
    def of(world: World, project: str = "news") -> Export:
        """Export a project; of its history only the hours."""
        store = MemoryStore(world.disk)
        (record,) = [each for each in project_records(store) if each.name == project]
        first, *parts, _ = export_lines(store, [record], IN_ORDER, MESSAGEPACK, history="projects")
        (line,) = MESSAGEPACK.decode_first(first).projects
        tasks = [packed_task(MESSAGEPACK.decode_task(each), MESSAGEPACK) for each in parts if not _is_slice(each)]
        slices = [MESSAGEPACK.decode_slice(each) for each in parts if _is_slice(each)]
        points = [ExportedPoint(each.at, each.projects[project]) for each in slices if each.history == "hour"]
        settings = Raw(encode(overrides_of(line, MESSAGEPACK, VERSION)))
        made = Export(tasks, points)
        made.project = ExportedProject(
            made.parts, line.state, settings, line.totals, line.pause, line.cron, line.finished, line.newest
        )
        return made

    @property
    def parts(self) -> int:
        return len(self.tasks) + len(self.points)

    def begin(self, world: World, project: str = "news") -> ImportReply:
        return world.ask(ImportReply, self.beginning(world, project))

    def beginning(self, world: World, project: str = "news") -> ProjectImport:
        return ProjectImport(session="ops", n=world.n(), project=project, export=self.name, begin=self.project)

    def step(self, world: World, first: int, end: int, project: str = "news") -> ProjectImport:
        """Make a step that brings the parts from ``first`` to below ``end``."""
        count = len(self.tasks)
        points = self.points[max(0, first - count) : max(0, end - count)]
        return ProjectImport(
            session="ops", n=world.n(), project=project, export=self.name, first=first, tasks=self.tasks[first:end],
            every=self.every, points=points,
        )  # fmt: skip

    def bring(self, world: World, first: int = 0, end: int | None = None, project: str = "news") -> ImportReply:
        """Bring parts, by default all, in one step."""
        return world.ask(ImportReply, self.step(world, first, self.parts if end is None else end, project))

    def restore(self, world: World, project: str = "news") -> None:
        """Import all of it, two parts a step."""
        self.begin(world, project)
        for first in range(0, self.parts, 2):
            self.bring(world, first, min(first + 2, self.parts), project)


def _is_slice(part: bytes) -> bool:
    return part.startswith(MESSAGEPACK.history)


def refusal(world: World, request: Any) -> str:
    reply = world.answer(request)
    assert isinstance(reply, ErrorReply), reply
    return f"{reply.code}: {reply.reason}"


def exported(taskid: str, state: Any = "ready", **fields: Any) -> ExportedTask:
    return ExportedTask(taskid, state, f"http://example.org/{taskid}", **fields)


def delete(world: World, project: str = "news") -> None:
    world.do("delete", project)


def order(world: World, project: str = "news") -> list[str]:
    """Run all ready tasks one by one; return them in the order in which they were dispatched."""
    fetcher = world.fetcher(capacity=1, projects=[project])
    fetcher.finish_all()
    return fetcher.taken


ALL = ("ready", "later", "running", "blocked", "ok", "bad", "off", "again")


@pytest.fixture
def full(world: World) -> World:
    """World with a task of the project news in each state."""
    world.set(rate=100.0, burst=5.0, retry_delay=[HOUR], cron={"nightly": {"every": "1d", "task": {"url": "data:,n"}}})
    world.push("news", task("ok", body=[1], itag="v1"), task("bad", retries=0), task("again", priority=3))
    fetcher = world.fetcher(capacity=3)
    fetcher.done("ok", result=packed({"title": "x"}))
    fetcher.fail("bad", error="503")
    fetcher.fail("again")
    fetcher.capacity = 0
    fetcher.hello()
    world.push("news", task("running", body="r"), task("ready", priority=7), task("later", delay=2 * DAY), task("off"))
    cancel(world, "off")
    waits(world, "blocked", "ready", "ok", "unknown", on_failure="run")
    fetcher.capacity = 1
    world.set(rate=0.0)
    world.advance(2 * HOUR)
    return world


def facts(world: World, taskid: str, project: str = "news") -> Any:
    """All that is shown of a task, but for its project."""
    return replace(world.show(taskid, project), n=0, project="")


def test_an_imported_project_has_all_its_tasks_as_they_were(full: World) -> None:
    before = {taskid: facts(full, taskid) for taskid in ALL}
    shown, known = full.project(), len(full.known())
    export = Export.of(full)
    delete(full)

    export.restore(full)

    assert {taskid: facts(full, taskid) for taskid in ALL} == before
    assert len(full.known()) == known
    after = full.project()
    for field in ("state", "counts", "totals", "overrides", "unfinished", "finished"):
        assert getattr(after, field) == getattr(shown, field), field


def test_until_it_is_whole_an_imported_project_dispatches_nothing_and_says_so(world: World) -> None:
    export = Export([exported(each) for each in "abc"])
    delete(world)
    fetcher = world.fetcher(projects=["news"])

    assert export.begin(world) == ImportReply(n=world.inbox[-1].n, brought=0, parts=3)
    assert export.bring(world, 0, 2).brought == 2
    world.advance(DAY)

    assert (world.project().state, fetcher.taken) == ("paused", [])
    assert world.project().reason.startswith("2 of 3 parts of its import are there; repeat it with taskqueue project")
    why = world.ask(WhyReply, Why(session="person", n=world.n(), project="news")).sentence
    assert "is paused until it is whole: 2 of 3 parts" in why
    assert world.wait(0.0).finished is False
    fetcher.hello()
    export.bring(world, 2)
    assert (world.project().state, world.project().reason) == ("running", "")
    assert sorted(fetcher.taken) == ["a", "b", "c"]


def test_an_interrupted_import_goes_on_after_a_kill_where_it_was(world: World) -> None:
    export = Export([exported(each) for each in "abcd"])
    delete(world)
    export.begin(world)
    export.bring(world, 0, 2)

    world.restart()

    assert world.project().state == "paused"
    assert export.begin(world).brought == 2
    export.bring(world, 2)
    assert (world.project().state, order(world)) == ("running", ["a", "b", "c", "d"])


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_kill_at_any_step_of_an_import_changes_nothing_in_the_end(full: World, *, is_committed: bool) -> None:
    before, shown = {taskid: facts(full, taskid) for taskid in ALL}, full.project()
    export = Export.of(full)
    ends = [*range(2, export.parts, 2), export.parts]
    steps = [export.beginning(full, "back"), *(export.step(full, max(0, end - 2), end, "back") for end in ends)]

    for step in steps:
        if is_committed:  # and its answer is lost
            full.turn(step)
        else:
            turn = full.scheduler.begin(full.now, full.heard(step))
            turn.decide(full.ledger.find(turn.needs))
        full.crash()
        full.ask(ImportReply, step)

    assert {taskid: facts(full, taskid, "back") for taskid in ALL} == before
    assert (full.project("back").state, full.project("back").counts) == (shown.state, shown.counts)


def test_a_step_that_is_repeated_or_overlaps_with_others_brings_each_part_once(world: World) -> None:
    export = Export([exported(each) for each in "abcd"])
    delete(world)
    export.begin(world)
    step = export.step(world, 0, 2)

    replies = [world.ask(ImportReply, each) for each in (step, step, replace(step, n=world.n()))]
    assert [(each.brought, each.known) for each in replies] == [(2, 0)] * 3
    cancel(world, "a")
    assert export.bring(world, 0, 3).brought == 3
    assert world.counts() == TaskCounts(ready=2, cancelled=1)
    export.bring(world, 1, 4)
    assert (world.project().state, world.counts()) == ("running", TaskCounts(ready=3, cancelled=1))


def test_all_steps_of_an_import_may_come_in_one_turn_even_with_the_deletion_before(full: World) -> None:
    full.push("shop", task("s"))
    full.push("shop", waiting("t", "s"))
    before, count = {taskid: facts(full, taskid) for taskid in ALL}, full.counts()
    export = Export.of(full)
    steps = [export.step(full, first, min(first + 2, export.parts)) for first in range(0, export.parts, 2)]
    deletion = ProjectDo(session="person", n=full.n(), project="news", action="delete")

    replies = full.turn(deletion, export.beginning(full), *steps)
    full.settle()

    assert [each for each in replies if isinstance(each, ErrorReply)] == []
    assert ({taskid: facts(full, taskid) for taskid in ALL}, full.counts()) == (before, count)


def test_a_step_that_leaves_parts_out_or_goes_past_the_last_one_is_refused(world: World) -> None:
    export = Export([exported(each) for each in "abcd"])
    delete(world)
    export.begin(world)
    export.bring(world, 0, 1)

    assert refusal(world, export.step(world, 2, 4)).startswith("state: first: 1 parts are there")
    longer = replace(export.step(world, 1, 4), tasks=[exported(each) for each in "bcde"])
    assert refusal(world, longer).startswith("state: first: the export has 4 parts, and this step goes to 5")
    both = replace(export.beginning(world), tasks=export.tasks)
    assert refusal(world, both).startswith("malformed: begin: ")
    assert world.counts() == TaskCounts(ready=1)


def test_an_import_into_a_known_project_or_beside_another_one_is_refused(world: World) -> None:
    export = Export([exported("a")])
    assert refusal(world, export.beginning(world)).startswith('state: project: there is a "news" already, and it is w')
    assert refusal(world, export.step(world, 0, 1)).startswith('state: project: there is a "news" already')
    delete(world)
    assert refusal(world, export.step(world, 0, 1)).startswith(
        'unknown-project: project: "news" is unknown; its import'
    )

    export.begin(world)

    other = Export([exported("a")], name="tuesday")
    assert refusal(world, other.beginning(world)).startswith(
        'state: export: "news" has the unfinished import of another'
    )
    assert refusal(world, other.step(world, 0, 1)).startswith("state: export: ")
    export.bring(world)
    assert refusal(world, export.step(world, 0, 1)).startswith('state: project: there is a "news" already')


@pytest.mark.parametrize("action", ["pause", "resume", "stop", "start", "clear", "reset"])
def test_only_delete_acts_on_a_project_that_is_being_imported(world: World, action: Any) -> None:
    export = Export([exported(each) for each in "ab"], settings=Raw(encode({"group": "papers"})))
    delete(world)
    export.begin(world)
    export.bring(world, 0, 1)

    request = ProjectDo(session="person", n=world.n(), project="news", action=action)
    assert refusal(world, request).startswith('state: project: "news" is not whole yet: 1 of 2 parts')
    of_group = GroupDo(session="person", n=world.n(), group="papers", action=action)
    assert world.ask(OperationReply, of_group).operation.matched == 0
    assert (world.project().state, world.counts()) == ("paused", TaskCounts(ready=1))
    delete(world)
    assert not [each for each in world.known() if each.project not in world.scheduler._state.projects.by_number]
    assert export.begin(world).brought == 0


def test_named_tasks_of_an_import_that_are_there_can_be_changed_as_those_of_a_paused_project(world: World) -> None:
    export = Export([exported("a", "failed"), *map(exported, "bcd")])
    delete(world)
    export.begin(world)
    export.bring(world, 0, 3)

    retry(world, "a")
    cancel(world, "b")
    world.push("news", task("c", priority=5, force_update=True))

    assert (world.project().state, world.counts()) == ("paused", TaskCounts(ready=2, cancelled=1))
    world.restart()
    export.bring(world, 2)
    assert (world.project().state, order(world)) == ("running", ["c", "a", "d"])


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("action", ["cancel", "retry", "reprioritise", "reschedule"])
def test_a_bulk_operation_on_a_project_that_is_being_imported_is_refused(
    world: World, action: Any, *, dry_run: bool
) -> None:
    export = Export([exported(each) for each in "ab"], settings=Raw(encode({"group": "papers"})))
    world.set("shop", group="papers")
    delete(world)
    export.begin(world)
    export.bring(world, 0, 1)
    said: dict[str, Any] = {"session": "ops", "priority": 1, "delay": HOUR, "dry_run": dry_run}

    of_project = Bulk(n=world.n(), project="news", action=action, **said)
    assert refusal(world, of_project).startswith('state: project: "news" is not whole yet: 1 of 2 parts of its import')
    of_group = Bulk(n=world.n(), group="papers", action=action, **said)
    assert refusal(world, of_group).startswith('state: project: "news" is not whole yet: 1 of 2 parts of its import')
    assert world.counts() == TaskCounts(ready=1)
    export.bring(world)
    assert not isinstance(world.answer(replace(of_group, n=world.n())), ErrorReply)


def test_a_rerun_in_a_project_that_is_being_imported_is_refused(world: World) -> None:
    export = Export([exported("a", "success"), exported("b", "success", parents=[ExportedParent("a", 1)])])
    delete(world)
    export.begin(world)
    export.bring(world, 0, 1)
    rerun = Rerun(session="ops", n=world.n(), project="news", taskid="a", scope="downstream")

    assert refusal(world, rerun).startswith('state: project: "news" is not whole yet: 1 of 2 parts of its import')
    export.bring(world)
    assert not isinstance(world.answer(replace(rerun, n=world.n())), ErrorReply)
    world.settle()
    assert world.counts() == TaskCounts(ready=1, blocked=1)


def test_a_project_comes_back_in_the_state_in_which_it_was_exported(world: World) -> None:
    pause = PauseRecord(failures=10, check_at=world.now.wall + HOUR, reason="10 failures in a row")
    for state in ("stopped", "paused", "running"):
        delete(world)
        said = Export([exported("a")], state=state, pause=pause if state == "paused" else None, finished=4)

        said.restore(world)

        assert (world.project().state, world.project().finished) == (state, 4)
    delete(world)
    Export([exported("a")], state="paused", pause=pause).restore(world)
    assert world.project().reason == "10 failures in a row"
    world.advance(HOUR)
    assert world.project().state == "checking"


@pytest.mark.parametrize("pause", [None, PauseRecord(phase=3, failed_checks=9)])
def test_a_project_that_checks_goes_on_with_its_checks_whatever_its_export_says(
    world: World, pause: PauseRecord | None
) -> None:
    delete(world)
    settings = Raw(encode({"rate": 100, "burst": 100}))
    Export([exported(taskid) for taskid in "abcdef"], state="checking", pause=pause, settings=settings).restore(world)
    world.advance(1)

    world.fetcher(name="silent").hello(capacity=0)
    world.advance(61)

    fetcher = world.fetcher()
    assert fetcher.held
    fetcher.done(next(iter(fetcher.held)))
    assert world.project().state == "running"


def test_an_empty_export_makes_an_empty_project_at_once(world: World) -> None:
    delete(world)

    Export().begin(world)

    assert (world.project().state, world.counts()) == ("running", TaskCounts())


# ------------------------------------------------------------------------------------------------ tasks


def test_imported_tasks_keep_their_order_and_get_seqs_and_tokens_of_their_own(make_world: MakeWorld) -> None:
    world = make_world()
    world.push("news", *(task(each, priority=int(each in "ce")) for each in "abcdef"))
    export = Export.of(world)
    before = {each.seq for each in world.known()}
    world.do("stop")
    world.do("delete")

    export.begin(world)
    world.push("news", task("z"), task("y", priority=1))
    for first in range(0, export.parts, 2):
        export.bring(world, first, min(first + 2, export.parts))

    seqs = [each.seq for each in world.known()]
    assert len(set(seqs)) == len(seqs)
    assert before.isdisjoint(seqs)
    assert order(world) == ["c", "e", "y", "a", "b", "d", "f", "z"]


def test_an_imported_project_that_goes_by_newest_keeps_its_order(make_world: MakeWorld) -> None:
    world = make_world()
    world.set(order="newest")
    world.push("news", *(task(each, priority=int(each in "ce")) for each in "abcdef"))
    export = Export.of(world)
    delete(world)

    export.begin(world)
    export.bring(world, 0, 2)
    world.push("news", task("z"))
    world.restart()
    export.bring(world, 2)

    assert order(world) == ["e", "c", "z", "f", "d", "b", "a"]


def test_what_was_processing_comes_back_ready_with_what_was_deferred(world: World) -> None:
    deferred = ExportedUpdate("http://new.example/", Schedule(priority=9, itag="v2", force_update=True), packed("new"))
    tasks = [
        exported("a", "processing", retried=2, exetime=5.0, body=packed("old")),
        exported("b", "processing", retried=2, deferred=deferred),
        exported("c", "ready"),
    ]
    delete(world)

    Export(tasks).restore(world)

    assert (world.show("a").state, world.show("a").retried, bytes(world.show("a").body)) == (
        "ready", 2, bytes(packed("old")),
    )  # fmt: skip
    b = world.show("b")
    assert (b.state, b.retried, b.priority, b.url) == ("ready", 0, 9, "http://new.example/")
    assert order(world) == ["b", "a", "c"]


def test_a_task_that_was_pushed_meanwhile_stays_as_it_is(world: World) -> None:
    export = Export([exported("a", "success", ended_at=5.0), exported("b")])
    delete(world)
    export.begin(world)
    world.push("news", task("a", priority=4))

    reply = export.bring(world)

    assert (reply.brought, reply.known) == (2, 1)
    assert (world.show("a").state, world.show("a").priority) == ("ready", 4)
    assert order(world) == ["a", "b"]


def test_an_imported_success_does_not_run_again_and_a_bare_one_stays_bare(world: World) -> None:
    tasks = [
        exported("a", "success", ended_at=5.0, itag="v1", pushed_at=77),
        ExportedTask("b", "failed", bare=True, exetime=9.0, ended_at=5.0),
    ]
    delete(world)

    Export(tasks).restore(world)

    assert world.push("news", task("a"), task("b"), task("a", itag="v2")) == ["ignored", "ignored", "restarted"]
    assert (world.show("b").state, world.show("b").bare_since, world.show("a").pushed_at) == ("failed", 9.0, 77.0)


def test_the_last_ten_attempts_of_a_task_come_back_and_further_ones_follow_them(world: World) -> None:
    world.set(retry_delay=[1.0], fail_pause_num=0)
    world.push("news", task("a", retries=99), task("b", retries=99), task("c"))
    fetcher = world.fetcher(capacity=3)
    fetcher.done("c")
    for number in range(13):
        fetcher.fail("a", error=f"failure {number}")
        fetcher.fail("b", error=f"Traceback\nError: {number}\n at the end", kind="the kind")
        world.advance(2)
    fetcher.done("b")
    before = {each: facts(world, each) for each in "abc"}
    assert [len(before[each].history) for each in "abc"] == [10, 10, 1]
    fetcher.capacity = 0
    fetcher.fail("a", error="last")
    before = {each: facts(world, each) for each in "abc"}
    export = Export.of(world)
    delete(world)

    export.restore(world)

    assert {each: facts(world, each) for each in "abc"} == before
    world.restart()
    assert {each: facts(world, each) for each in "abc"} == before
    world.push("news", task("b", force_update=True))
    fetcher = world.fetcher(capacity=2)
    world.advance(2)
    fetcher.fail("a", error="again")
    fetcher.fail("b", error="again")
    after = {each: world.show(each).history for each in "ab"}
    assert [after[each][0].error for each in "ab"] == ["again", "again"]
    assert [after[each][1:] for each in "ab"] == [before[each].history[:9] for each in "ab"]


def test_facts_about_a_page_that_do_not_fit_beside_the_body_are_left_out(make_world: MakeWorld) -> None:
    world = make_world(max_message=1 << 19)
    url, long = "http://example.org/a", "\U0001f577" * 256
    room = room_beside(url, Schedule(), 1 << 19)
    page = PageFacts(60.0, long, long, long)
    tasks = [
        ExportedTask(taskid, "ready", url, body=Raw(encode("x" * (size - 5))), page=page)
        for taskid, size in (("a", room), ("b", 100_000))
    ]
    delete(world)

    Export(tasks).restore(world)

    fetcher = world.fetcher(projects=["news"])
    assert [(each, fetcher.held[each].etag) for each in "ab"] == [("a", ""), ("b", long)]
    assert max(len(encode(message)) for message in fetcher.messages) <= 1 << 19


def test_an_error_of_an_export_is_cut_as_that_of_a_report(world: World) -> None:
    delete(world)

    attempt = Attempt(5.0, "failed", "f", 1.0, "é" * 2048)
    Export([exported("a", "failed", ended_at=5.0, attempts=[attempt])]).restore(world)

    (attempt,) = world.show("a").history
    assert 1900 < len(attempt.error.encode()) <= 2048
    assert "characters left out" in attempt.error


def test_no_limit_on_the_number_of_tasks_keeps_a_task_from_being_imported(world: World) -> None:
    delete(world)

    Export([exported(each) for each in "abc"], settings=Raw(encode({"max_queue": 1, "max_tasks": 1}))).restore(world)

    assert world.counts() == TaskCounts(ready=3)


@pytest.mark.parametrize(
    ("flawed", "reason"),
    [
        (exported("x" * 128 + "é"), "malformed: tasks[1]: taskid: expected at most 128 bytes"),
        (ExportedTask("x", "ready"), "malformed: tasks[1]: there is no url"),
        (exported("x", bare=True), "malformed: tasks[1]: a task that is ready can't be bare"),
        (exported("x", body=packed("x" * 9_000_000)), "too-large: tasks[1].body: "),
        (exported("x", result=packed("x" * 70_000)), "malformed: tasks[1]: result: 70,005 bytes"),
        (
            exported("x", parents=[ExportedParent("y", 0, "no")]),
            "unknown-project: tasks[1].parents: there is no project",
        ),
        (exported("x", attempts=[Attempt(1.0, "failed")] * 11), "malformed: tasks[1]: attempts: 11; at most 10 are"),
        (exported("x", attempts=[Attempt(-1.0, "failed")]), "malformed: tasks[1]: attempts: expected times from 0 to"),
        (exported("x", attempts=[Attempt(1.0, "failed", "f" * 129)]), "malformed: tasks[1]: attempts: expected times"),
        (exported("x", "success", attempts=[Attempt(1.0, "success", "f", inf)]), "malformed: tasks[1]: attempts: exp"),
        (exported("x", attempts=[Attempt(1.0, "failed", "f", 1.0, "x" * 9_999)]), "malformed: tasks[1]: attempts: exp"),
        (
            ExportedTask("x", "failed", bare=True, attempts=[Attempt(1.0, "failed")]),
            "malformed: tasks[1]: a bare task can't have attempts",
        ),
        (exported("x", "blocked", parents=[ExportedParent("x")]), "malformed: tasks[1].parents: x would wait for its"),
        (exported("x", parents=[ExportedParent("x", 1, "news")]), "malformed: tasks[1].parents: x would wait for its"),
        (
            exported("x", body=packed("x" * 8_380_000), deferred=ExportedUpdate("http://b/")),
            "malformed: tasks[1]: deferred: a task that is ready can't have an update",
        ),
    ],
)
def test_a_step_with_a_task_that_cannot_be_taken_is_refused_as_a_whole(
    world: World, flawed: ExportedTask, reason: str
) -> None:
    export = Export([exported("a"), flawed])
    delete(world)
    export.begin(world)

    assert refusal(world, export.step(world, 0, 2)).startswith(reason)
    assert (world.counts(), world.project().state) == (TaskCounts(), "paused")


@pytest.mark.parametrize(
    ("project", "reason"),
    [
        ({"settings": Raw(encode({"rate": -1}))}, "setting: rate must be "),
        ({"settings": Raw(encode({"bucket": "none"}))}, "setting: bucket: "),
        ({"settings": Raw(encode([1]))}, "malformed: begin.settings: expected map, got array"),
        ({"settings": Raw(encode({"user_agent": "x" * 70_000}))}, "setting: begin.settings: 70017 bytes"),
        ({"totals": EventTotals(new=-1)}, "malformed: begin.totals.new: "),
        ({"totals": EventTotals(success=2**43)}, "malformed: begin.totals.success: expected a number from 0 to 8,796,"),
        ({"pause": PauseRecord(reason="x" * 301)}, "malformed: begin.pause.reason: 301 is too long; at most 300"),
        ({"cron": {"c": CronRecord(1.0, "x" * 129)}}, "malformed: begin.cron.c.taskid: 129 is too long; at most 128"),
        ({"cron": {"c": CronRecord(1.0, waiting=[1.0] * 11)}}, "malformed: begin.cron.c.waiting: 11 is too long"),
        ({"cron": {"c": CronRecord(1.0, problem="x" * 301)}}, "malformed: begin.cron.c.problem: 301 is too long"),
        (
            {"cron": {"c": CronRecord(1.0, waiting=[1.0, 1e11])}},
            "malformed: begin.cron.c.waiting: expected a number from 0 to 99,999,999,999",
        ),
        ({"cron": {"x" * 140_000: CronRecord(1.0)}}, "too-large: begin: pause and cron"),
    ],
)
def test_a_project_that_cannot_be_is_not_begun(world: World, project: dict[str, Any], reason: str) -> None:
    delete(world)

    said = refusal(world, Export([exported("a")], **project).beginning(world))

    assert said.startswith(reason), said
    assert "news" not in world.scheduler._state.projects.by_name


@pytest.mark.parametrize("newest", [False, True])
def test_an_import_uses_up_no_numbers_of_the_daemon_however_many_parts_it_has(world: World, *, newest: bool) -> None:
    large = Export([exported("first")])
    large.project = ExportedProject(PARTS_MOST, newest=newest)
    world.push("shop", task("before"))
    delete(world)

    for _ in range(3):
        large.begin(world)
        large.bring(world)
        world.push("news", task("meanwhile"))
        seqs = {each.taskid: each.seq for each in world.known()}
        delete(world)

    assert 0 < seqs["meanwhile"] - seqs["before"] < 100
    assert 0 < seqs["first"] < seqs["before"]


# ------------------------------------------------------------------------------------------------ dependencies


def test_dependencies_within_an_imported_project_hold_whatever_their_order(world: World) -> None:
    waits(world, "child", "parent", "first")
    waits(world, "grandchild", "child")
    world.push("news", task("parent"), task("first", delay=HOUR))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("parent")
    export = Export.of(world)
    for tasks in (export.tasks, export.tasks[::-1]):
        delete(world)
        again = Export(tasks)
        again.restore(world)

        assert {each: state_of(world, each) for each in ("first", "child", "grandchild", "parent")} == {
            "first": "delayed", "child": "blocked", "grandchild": "blocked", "parent": "success",
        }  # fmt: skip
    world.advance(HOUR)
    for each in ("first", "child", "grandchild"):
        run(fetcher, each)
    assert world.counts() == TaskCounts(success=4)


def test_a_parent_that_fails_or_has_failed_reaches_its_imported_children(world: World) -> None:
    tasks = [
        exported("child", "blocked", parents=[ExportedParent("bad")]),
        exported("runs", "blocked", parents=[ExportedParent("bad")], on_parent_failure="run"),
        exported("waits", "blocked", parents=[ExportedParent("bad")], on_parent_failure="wait"),
        exported("gone", "blocked", parents=[ExportedParent("x", 0, "")]),
        exported("overlooked", "ready", parents=[ExportedParent("bad", 2), ExportedParent("x", 2, "")]),
        exported("bad", "failed", ended_at=5.0),
    ]
    for order_of_tasks in (tasks, tasks[::-1]):
        delete(world)

        Export(order_of_tasks).restore(world)

        assert {each.taskid: state_of(world, each.taskid) for each in tasks} == {
            "child": "failed", "runs": "ready", "waits": "blocked", "gone": "failed", "overlooked": "ready",
            "bad": "failed",
        }  # fmt: skip


def test_a_cycle_in_an_edited_export_blocks_its_own_tasks_only(world: World) -> None:
    delete(world)
    parents = {"a": "b", "b": "a", "c": "b", "d": ""}
    tasks = [
        exported(taskid, "blocked" if parent else "ready", parents=[ExportedParent(parent)] if parent else [])
        for taskid, parent in parents.items()
    ]

    Export(tasks).restore(world)

    assert order(world) == ["d"]
    rerun = Rerun(session="ops", n=world.n(), project="news", taskid="a", scope="downstream")
    begun = world.ask(OperationReply, rerun).operation
    ended = world.ask(OperationReply, OperationShow(session="ops", n=world.n(), id=begun.id)).operation
    assert ended.ended_at > 0
    assert world.counts() == TaskCounts(blocked=3, success=1)
    delete(world)


def test_why_names_the_tasks_of_a_cycle_that_a_task_waits_for_or_is_in_and_how_to_end_it(world: World) -> None:
    delete(world)
    waits_for = {"a": ["x", "b"], "b": ["c"], "c": ["a", "done"], "d": ["x", "c"], "e": ["x"], "f": ["e"]}
    tasks = [exported(child, "blocked", parents=list(map(ExportedParent, waits_for[child]))) for child in waits_for]
    Export([*tasks, exported("x", "delayed", exetime=world.now.wall + DAY), exported("done", "success")]).restore(world)

    said = {child: why(world, child) for child in waits_for}

    advice = "cancel one of them, or push it with force_update and other parents"
    assert said["a"] == (
        f'task "a" is blocked for ever, as these wait for each other: a → b → c → a; {advice}'
    )  # fmt: skip
    assert "for ever, as these wait for each other: c → a → b → c; " in said["d"]
    assert said["f"] == 'task "f" is blocked, waiting for 1 task: "e" (blocked)'
    cancel(world, "c")
    world.settle()
    assert {each: state_of(world, each) for each in "abcd"} == dict.fromkeys("abd", "failed") | {"c": "cancelled"}


def test_why_finds_no_cycle_where_an_edge_is_satisfied_or_void(world: World) -> None:
    delete(world)
    tasks = [
        exported("a", "blocked", parents=[ExportedParent("b")]),
        exported("b", "blocked", parents=[ExportedParent("a")]),
        exported("c", "blocked", parents=[ExportedParent("d", 1), ExportedParent("x")]),
        exported("d", "blocked", parents=[ExportedParent("c")]),
    ]
    Export(tasks).restore(world)
    push = world.new_tasks("news", waiting("a", "x", force_update=True))

    *_, of_turn = world.turn(push, Why(session="person", n=world.n(), project="news", taskid="b"))

    assert isinstance(of_turn, WhyReply)
    assert of_turn.sentence == 'task "b" is blocked, waiting for 1 task: "a" (blocked)'
    assert why(world, "a") == 'task "a" is blocked, waiting for 1 task: "x" (unknown: not pushed yet)'
    assert why(world, "d") == 'task "d" is blocked, waiting for 1 task: "c" (blocked)'


def test_what_runs_only_after_a_failure_comes_back_as_it_was(world: World) -> None:
    fetcher = world.fetcher(capacity=2)
    world.push("news", task("good"), task("bad", retries=0))
    fetcher.done("good")
    fetcher.fail("bad")
    fetcher.capacity = 0
    fetcher.hello()
    waits(world, "dropped", "good", on_failure="only")
    waits(world, "below", "dropped")
    waits(world, "needed", "good", "bad", on_failure="only")
    world.push("news", task("to-come", delay=HOUR))
    waits(world, "undecided", "good", "to-come", on_failure="only")
    world.settle()
    names = ("good", "bad", "dropped", "below", "needed", "to-come", "undecided")
    before = {each: facts(world, each) for each in names}
    assert [before[each].state for each in names[2:]] == ["cancelled", "cancelled", "ready", "delayed", "blocked"]
    export = Export.of(world)
    assert [each.taskid for each in export.tasks if each.dropped] == ["dropped", "below"]

    for tasks in (export.tasks, export.tasks[::-1]):
        delete(world)
        Export(tasks).restore(world)
        world.settle()

        assert {each: facts(world, each) for each in names} == before
        assert {each.taskid: each for each in Export.of(world).tasks} == {each.taskid: each for each in export.tasks}
    world.advance(HOUR)
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()
    world.settle()
    assert (sorted(fetcher.taken), state_of(world, "undecided")) == (["needed", "to-come"], "cancelled")
    retry(world, "dropped")
    for each in ("dropped", "below"):
        run(fetcher, each)


def test_an_import_drops_what_is_not_needed_any_more(world: World) -> None:
    world.push("shop", task("good"), task("bad", retries=0))
    waits(world, "unneeded", TaskOf("shop", "good"), on_failure="only")
    waits(world, "needed", TaskOf("shop", "good"), TaskOf("shop", "bad"), on_failure="only")
    export = Export.of(world)
    delete(world)
    fetcher = world.fetcher(capacity=2, projects=["shop"])
    fetcher.done("good")
    fetcher.fail("bad")

    export.restore(world)
    world.settle()

    shown = world.show("unneeded")
    assert (shown.state, shown.error) == ("cancelled", "upstream: no parent has failed")
    assert (state_of(world, "needed"), world.counts()) == ("ready", TaskCounts(ready=1, cancelled=1))


def test_imported_tasks_keep_their_jobs_and_the_runs_that_are_left_to_them(world: World) -> None:
    recurring: dict[str, Any] = {"age": HOUR, "auto_recrawl": True}
    world.push("news", task("again", repeat=3, job="monday", **recurring), task("over", repeat=0, job="monday"))
    fetcher = world.fetcher(capacity=2)
    fetcher.finish_all()
    fetcher.capacity = 1
    fetcher.hello()
    world.push("news", task("held", job="monday"))
    world.push("news", task("held", job="tuesday", force_update=True))
    world.push("news", task("other", repeat=2, **recurring))
    names = ("again", "over", "other")
    before = {each: facts(world, each) for each in names}
    assert before["again"].schedule.repeat == 2
    tasks = [*Export.of(world).tasks, ExportedTask("bare", "success", bare=True, job="monday", ended_at=5.0)]
    fetcher.capacity = 0
    fetcher.hello()
    delete(world)

    Export(tasks).restore(world)

    assert {each: facts(world, each) for each in names} == before
    jobs = {each: world.show(each).job for each in (*names, "held", "bare")}
    assert jobs == {"again": "monday", "over": "monday", "other": "", "held": "tuesday", "bare": "monday"}
    world.restart()
    assert {each: world.show(each).job for each in jobs} == jobs
    fetcher = world.fetcher(capacity=1)
    for _ in range(5):
        fetcher.hello()
        fetcher.finish_all()
        world.advance(2 * HOUR)
    assert (fetcher.taken.count("again"), fetcher.taken.count("other")) == (3, 3)


def test_an_imported_task_waits_for_tasks_of_other_projects_as_it_did(world: World) -> None:
    world.push("shop", task("known"), task("over"))
    fetcher = world.fetcher(capacity=2, projects=["shop"])
    fetcher.done("over")
    tasks = [
        exported("a", "blocked", parents=[ExportedParent("known", 0, "shop")]),
        exported("b", "blocked", parents=[ExportedParent("over", 0, "shop")]),
        exported("c", "blocked", parents=[ExportedParent("to-come", 0, "shop")]),
    ]
    delete(world)

    Export(tasks).restore(world)

    assert [state_of(world, each) for each in "abc"] == ["blocked", "ready", "blocked"]
    fetcher.done("known")
    world.push("shop", task("to-come"))
    fetcher.done("to-come")
    assert [state_of(world, each) for each in "abc"] == ["ready"] * 3


def test_a_project_that_is_deleted_and_imported_while_a_flow_is_made_has_failed_for_it(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(taskid) for taskid in "abcdef"), waiting("g", TaskOf("shop", "x")))
    world.turn(ProjectDo(session="person", n=world.n(), project="shop", action="delete"))
    export = Export([exported("x", "blocked", parents=[ExportedParent("g", 0, "news")])])
    world.turn(export.beginning(world, "shop"))
    assert show_now(world).unrolled < 6
    world.settle()

    assert world.show("g").state == "failed"
    export.bring(world, project="shop")
    assert world.show("x", "shop").state == "failed"


def test_no_task_is_imported_that_waits_for_one_that_a_flow_which_waits_itself_is_to_make(
    make_world: MakeWorld,
) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(taskid) for taskid in "abcdef"), waiting("g", TaskOf("shop", "x")))
    export = Export([exported("x", "blocked", parents=[ExportedParent("g", 0, "news")])])
    deletion = ProjectDo(session="person", n=world.n(), project="shop", action="delete")

    *_, refused = world.turn(deletion, export.beginning(world, "shop"), export.step(world, 0, 1, "shop"))

    assert isinstance(refused, ErrorReply)
    assert refused.reason.startswith('tasks[0].parents: g is still to be made by flow "f", which waits for other tasks')
    assert show_now(world).unrolled < 6
    world.settle()
    assert world.show("g").state == "failed"
    assert export.bring(world, project="shop").brought == 1


def test_a_flow_is_refused_if_a_task_is_imported_during_its_check_that_waits_for_it(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    first = waiting("q", TaskOf("shop", "x"))
    count = stage(world, first, *(task(taskid) for taskid in "abcdef"))
    submission_of_all = submission(world, count)
    export = Export([exported("x", "blocked", parents=[ExportedParent("q", 0, "news")])])
    deletion = ProjectDo(session="person", n=world.n(), project="shop", action="delete")

    world.turn(submission_of_all)
    for _ in range(2):
        world.turn()
    replies = world.turn(deletion, export.beginning(world, "shop"), export.step(world, 0, 1, "shop"))
    assert [each for each in replies if isinstance(each, ErrorReply)] == []
    assert show_now(world).state == "staged"
    world.settle()

    said = Waiting(world, submission_of_all.n).answer
    assert isinstance(said, ErrorReply)
    assert said.reason.startswith("other tasks wait for q already")
    assert (world.counts(), world.counts("shop")) == (TaskCounts(), TaskCounts(blocked=1))


def test_nothing_can_be_pushed_that_waits_for_a_project_that_is_being_imported(world: World) -> None:
    export = Export([exported("a", parents=[ExportedParent("x", 0, "shop")])])
    delete(world)
    export.begin(world)

    assert world.push("shop", waiting("x", TaskOf("news", "a"))) == ["rejected"]
    assert world.push("news", waiting("x", "a"), task("y")) == ["rejected", "new"]
    staged = FlowStage(session="p", n=world.n(), project="news", flow="f", first=0, tasks=[task("f")])
    assert refusal(world, staged).startswith("state: project: ")
    export.bring(world)
    assert world.push("shop", waiting("z", TaskOf("news", "a"))) == ["new"]


def test_a_flow_that_was_staged_before_an_import_is_refused_if_it_waits_for_that(world: World) -> None:
    stage(world, waiting("q", TaskOf("shop", "x")))
    export = Export([exported("x", "blocked", parents=[ExportedParent("q", 0, "news")])])
    delete(world, "shop")
    export.begin(world, "shop")

    said = submitted(world, 1)

    assert isinstance(said, ErrorReply)
    assert said.reason.startswith('depends_on: project "shop" is being imported; submit it again when all of that')
    assert world.counts() == TaskCounts()
    export.bring(world, project="shop")
    flow(world, waiting("r", TaskOf("shop", "x")))
    assert state_of(world, "r") == "blocked"


# ------------------------------------------------------------------------------------------------ beside the tasks


def history(world: World, project: str | None) -> list[tuple[float, int]]:
    request = StatsHistory(session="person", n=world.n(), project=project, every="hour")
    return [(point.at, point.new) for point in world.ask(HistoryReply, request).points]


def test_the_history_of_an_imported_project_comes_back_and_the_sums_stay(world: World) -> None:
    for count in (3, 2, 1):
        world.push("news", *(task(f"{count}-{each}") for each in range(count)))
        world.push("shop", task(f"{count}"))
        world.advance(HOUR)
    own, sums = history(world, "news"), history(world, None)
    export = Export.of(world)
    delete(world)
    world.advance(HOUR)

    export.restore(world)

    assert [new for _, new in own] == [3, 2, 1]
    assert (history(world, "news"), history(world, None)) == (own, sums)
    world.restart()
    assert (history(world, "news"), history(world, None)) == (own, sums)


def test_points_that_the_daemon_has_nothing_of_are_added_and_older_ones_left_out(world: World) -> None:
    hour = int(world.now.wall // HOUR)
    events = (1, 0, 0, 0, 0, 0)
    hours = [hour - 100 * 24, hour - 5, hour, hour + 5]
    points = [ExportedPoint(each * 3600, events) for each in hours]
    delete(world)

    Export(points=points).restore(world)

    assert history(world, "news") == history(world, None) == [((hour - 5) * HOUR, 1)]


def test_points_of_the_history_come_in_the_order_of_their_times_so_that_none_counts_twice(world: World) -> None:
    hour = int(world.now.wall // HOUR)
    events = (1, 0, 0, 0, 0, 0)
    points = [ExportedPoint((hour - back) * 3600, events) for back in (5, 4)]
    export = Export(points=[*points, ExportedPoint((hour - 4) * 3600 + 60, events)])
    delete(world)
    export.begin(world)
    export.bring(world, 0, 2)

    world.restart()
    assert refusal(world, export.step(world, 2, 3)).startswith("malformed: points[0].at: expected a later hour than")
    export.bring(world, 0, 2)
    back = Export(points=points[::-1])
    back.begin(world, "back")
    assert refusal(world, back.step(world, 0, 2, "back")).startswith("malformed: points[1].at: expected a later hour")
    assert history(world, "news") == [((hour - 5) * HOUR, 1), ((hour - 4) * HOUR, 1)]


def test_the_totals_of_an_imported_project_are_no_events_of_this_minute(world: World) -> None:
    delete(world)
    totals = world.scheduler._state.grand_totals
    before = totals.events()

    Export([exported("a")], totals=EventTotals(new=500, success=400)).restore(world)

    assert totals.events() == before
    assert (world.project().totals, totals.totals()) == (EventTotals(new=500, success=400),) * 2
    world.advance(HOUR)
    assert history(world, "news") == []


@pytest.mark.parametrize("patterns", ["*", "m*"])
def test_totals_that_add_up_to_more_than_a_message_can_say_are_shown_as_the_largest_number(
    world: World, monkeypatch: pytest.MonkeyPatch, patterns: str
) -> None:
    monkeypatch.setattr("taskqueue.core.model.exported_task.TOTALS_MOST", 2**63)  # an older store may have such
    for name in ("m1", "m2", "m3"):
        Export(totals=EventTotals(new=2**63, success=1)).begin(world, name)
    world.restart()

    world.caller = Caller("ops", "admin", patterns=[patterns])

    reply = world.ask(StatusReply, StatusShow(session="person", n=world.n()))

    assert decode(encode(reply))["totals"] == {"new": 2**63 - 1, "success": 3}


def test_cron_entries_of_an_imported_project_go_on(full: World) -> None:
    export = Export.of(full)
    (before,) = full.project().cron
    delete(full)

    export.restore(full)

    (after,) = full.project().cron
    assert (after.entry, after.next_at, after.ran) == (before.entry, before.next_at, before.ran)
    full.advance(2 * DAY)
    (later,) = full.project().cron
    assert later.ran + later.skipped == before.ran + before.skipped + 2


def test_a_graph_by_the_clock_of_an_imported_project_has_no_earlier_flow(world: World) -> None:
    begin_graph(world, overlap="skip")
    world.advance(FIRST)
    assert names(world) == [flow_at(0)]
    export = Export.of(world)
    delete(world)

    export.restore(world)
    assert names(world) == []
    world.advance(EVERY)

    assert names(world) == [flow_at(1)]
    assert world.counts() == TaskCounts(ready=2, blocked=2)


def test_an_import_is_in_the_log_when_it_begins_and_when_it_ends(world: World) -> None:
    delete(world)
    export = Export([exported(each) for each in "abc"])
    export.restore(world)

    entries = world.ask(LogReply, Log(session="person", n=world.n(), project="news")).entries
    said = sorted((each.number, each.count, each.detail) for each in entries if each.what == "project import")

    assert [(count, detail) for _, count, detail in said] == [
        (0, "began with 3 parts of export monday"),
        (3, "all of it is there; running"),
    ]


def test_an_import_enters_the_slots_of_a_divided_project(make_world: MakeWorld) -> None:
    world = make_world()
    delete(world)
    settings = Raw(encode({"slot": {"by": "host", "max_processing": 1}}))
    tasks = [ExportedTask(each, "ready", f"http://{each[0]}.example/{each}") for each in ("a1", "a2", "b1", "b2")]

    Export(tasks, settings=settings).restore(world)

    fetcher = world.fetcher(projects=["news"])
    assert sorted(fetcher.held) == ["a1", "b1"]
    fetcher.finish_all()
    world.advance(5)  # past the delays of the slots
    assert sorted(fetcher.taken) == ["a1", "a2", "b1", "b2"]
