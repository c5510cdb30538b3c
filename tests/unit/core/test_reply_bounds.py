"""Bounds of replies: no message of the daemon is longer than the lowest ``max_message``, for any request.

most    replies made as long as request and daemon allow, through the scheduler
limits  replies made by hand of the longest values of their fields, which bound them for any request
pages   replies cut where a message is full, which the tests of their requests prove
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Raw, Struct
from msgspec.structs import replace

from taskqueue.core.model.operation import NAMES_SHOWN
from taskqueue.core.moves.change_log import DETAIL_CHARS
from taskqueue.core.moves.undo_rows import NO_ROOM
from taskqueue.core.steps import history
from taskqueue.core.steps.rerun import LAYERS_SHOWN
from taskqueue.core.steps.undo import NAMES_MOST
from taskqueue.errors import MAX_REASON_CHARS
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.codec import encode
from taskqueue.protocol.daemon import (
    KEYS_MOST,
    DaemonHistoryReply,
    DaemonPoint,
    DaemonReply,
    Histogram,
    KeyListReply,
    KeyUse,
    StatusReply,
    StatusShow,
    StoreLevel,
    VerifyReply,
    WhoReply,
)
from taskqueue.protocol.exports import ImportReply
from taskqueue.protocol.fetchers import (
    FetcherReply,
    Fetchers,
    FetcherShow,
    FetchersReply,
    Hello,
    HelloWanted,
    Note,
    NotedLease,
    NoteReply,
    Select,
    TokensReply,
    Welcome,
)
from taskqueue.protocol.fields import MAX_BATCH, MAX_CAPACITY, MAX_NOTE_BYTES, MAX_SLOT_CHARS, MAX_URL_CHARS, Setting
from taskqueue.protocol.flows import Flow, FlowReply, FlowsReply, FlowStage, FlowStaged, FlowTasks, FlowTasksReply
from taskqueue.protocol.insight import (
    FailureList,
    FailuresReply,
    HistoryPoint,
    HistoryReply,
    JobCountsReply,
    LogReply,
    ProjectStats,
    StatsReply,
    WatchReply,
    WhyReply,
    Window,
    Windows,
)
from taskqueue.protocol.message_room import room_in
from taskqueue.protocol.messages import OUTGOING, AnyOutgoing, Flaw, Flaws
from taskqueue.protocol.operations import OperationReply, OperationsReply
from taskqueue.protocol.projects import GroupReply, ProjectReply, ProjectSet, ProjectShow, WaitReply
from taskqueue.protocol.slots import Slot, SlotList, SlotListReply, SlotReply
from taskqueue.protocol.tasks import (
    Child,
    Done,
    DoneReply,
    NewTasks,
    NewTasksReply,
    TaskCancel,
    TaskChildrenReply,
    TaskListReply,
    TaskParentsReply,
    TaskReply,
    TaskRow,
    TasksReply,
    TaskWaitReply,
)
from taskqueue.protocol.values import (
    EventTotals,
    NewTask,
    Operation,
    RerunLayer,
    RerunProgress,
    Schedule,
    TaskCounts,
    TaskFilter,
    UndoProgress,
)
from taskqueue.server.config import MESSAGE_BYTES_LEAST as LEAST
from taskqueue.settings.settings import CoreConfig, Layer
from taskqueue.settings.slots import SlotChoice
from tests.unit.core.conftest import World, packed, task

INT: Final = 2**63 - 1
FLOAT: Final = 1.7e308
NAME: Final = "n" * 64
WIDE: Final = "\U0001f600"
"""Character of four bytes."""
TASKID: Final = "t" * 128

LONG_FLAW: Final = WIDE * MAX_REASON_CHARS


def world_of(projects: int = 1, **config: Any) -> World:
    names = ["news", *(f"{'p' * 60}{number:04}" for number in range(projects - 1))]
    return World(
        CoreConfig(
            defaults={"rate": float("inf")}, projects={name: {} for name in names},
            max_message=LEAST, **config,
        )
    )  # fmt: skip


def longest(reply: AnyReply) -> AnyReply:
    """Check that the reply fits into LEAST bytes, and return it."""
    assert len(encode(reply)) <= LEAST, f"{type(reply).__name__}: {len(encode(reply))}"
    return reply


# ---------------------------------------------------------------------------------------- most


def test_reasons_of_rejected_tasks_leave_out_those_that_do_not_fit() -> None:
    world = world_of()
    known = task("a")
    world.push("news", known)
    world.fetcher()
    request = NewTasks(session="p", n=1, project="news", tasks=[known, *[None] * (MAX_BATCH - 1)], states=True)
    request.tasks[1:5000] = [known] * 4999

    reply = world.ask(NewTasksReply, request, {(index,): Flaw(LONG_FLAW) for index in range(5000, MAX_BATCH)})

    longest(reply)
    assert reply.states == ["processing"] * 5000 + [""] * 5000
    request = NewTasks(session="p", n=2, project="news", tasks=[None] * MAX_BATCH)

    reply = world.ask(NewTasksReply, request, {(index,): Flaw(LONG_FLAW) for index in range(MAX_BATCH)})

    longest(reply)
    assert reply.outcomes == ["rejected"] * MAX_BATCH
    assert [error.index for error in reply.errors] == list(range(len(reply.errors)))
    assert len(reply.errors) > 200


def test_reasons_of_rejected_reports_leave_out_those_that_do_not_fit() -> None:
    world = world_of()

    reply = world.ask(
        DoneReply,
        Done(session="f", n=1, tasks=[None] * MAX_BATCH),
        {(index,): Flaw(LONG_FLAW) for index in range(MAX_BATCH)},
    )

    longest(reply)
    assert reply.outcomes == ["rejected"] * MAX_BATCH
    assert len(reply.errors) > 200


def test_reasons_of_rejected_links_leave_out_those_that_do_not_fit() -> None:
    world = world_of()
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    reports = [fetcher.finished(taskid, new=[None] * MAX_BATCH) for taskid in ("a", "b")]

    flaws: Flaws = {(place, index): Flaw(LONG_FLAW) for place in range(2) for index in range(MAX_BATCH)}
    reply = world.ask(DoneReply, fetcher.answers(*reports), flaws)

    longest(reply)
    assert reply.outcomes == ["done", "done"]
    assert list(map(len, reply.new)) == [MAX_BATCH, MAX_BATCH]
    assert len(reply.errors) > 100


def test_reasons_of_a_stage_leave_out_those_that_do_not_fit() -> None:
    world = world_of()
    tasks = [NewTask(f"{index:0128}", "http://a/", depends_on=(f"{index:0128}",)) for index in range(3000)]

    reply = world.ask(FlowStaged, FlowStage(session="p", n=1, project="news", flow="f", first=0, tasks=tasks))

    longest(reply)
    assert len(reply.errors) > 200


def test_a_welcome_names_as_many_ended_leases_as_fit_and_the_others_when_it_is_asked_again() -> None:
    world = world_of()
    holds = [INT - index for index in range(MAX_CAPACITY)]

    first = world.ask(Welcome, Hello(session="f", n=1, capacity=1, holds=holds))
    longest(first)
    second = world.ask(Welcome, Hello(session="f", n=2, capacity=1, holds=holds[len(first.ended) :]))

    assert len(first.ended) > MAX_CAPACITY // 2
    assert [*first.ended, *second.ended] == holds


def test_a_status_has_the_projects_that_fit_and_then_the_fetchers() -> None:
    world = world_of(projects=20)
    say_hello(world, 600)
    for name in world.config.projects:
        world.answer(ProjectSet(session="p", n=world.n(), project=name, settings={"fetch": {"a": "x" * 65_000}}))

    reply = world.ask(StatusReply, StatusShow(session="p", n=1))

    longest(reply)
    assert 0 < len(reply.projects) < 20
    assert 0 < len(reply.fetchers) < 600


def say_hello(world: World, fetchers: int) -> None:
    """Add ``fetchers`` fetchers whose views are as long as possible."""
    names = list(world.config.projects)
    for number in range(fetchers):
        world.answer(Hello(session=f"f{number}", n=1, capacity=1, name=WIDE * 32, projects=names))


def test_a_project_of_which_everything_is_said_is_shown_in_one_message() -> None:
    large = {"fetch": {"a": "x" * 64_000}, "on_finished": {"body": "y" * 64_000}}
    names: dict[str, Layer] = {f"{'p' * 60}{number:04}": {} for number in range(20)}
    world = World(CoreConfig(defaults={"rate": 1.0, **large}, projects=names | {"news": large}, max_message=LEAST))
    world.answer(ProjectSet(session="p", n=1, project="news", settings={"fetch": {"b": "x" * 65_000}}))
    say_hello(world, 600)

    assert world.ask(ProjectReply, ProjectShow(session="p", n=2, project="news")).project is not None
    longest(world.answer(ProjectShow(session="p", n=3, project="news")))
    longest(world.answer(StatusShow(session="p", n=4, filter="news")))


def test_a_page_of_fetchers_ends_where_a_message_is_full() -> None:
    world = world_of(projects=30)
    say_hello(world, 600)

    for request in (Fetchers(session="p", n=1, limit=500), FetcherShow(session="p", n=2, fetcher=WIDE * 32)):
        reply = longest(world.answer(request))
        assert isinstance(reply, FetchersReply | FetcherReply)
        assert reply.fetchers


def test_a_task_with_all_that_it_may_have_is_shown_in_one_message() -> None:
    world = world_of()
    schedule = Schedule(itag=WIDE * 256, slot=WIDE * 253, retries=5, age=1e9, timeout=1e7, expires_at=1e11)
    schedule = replace(schedule, job="j" * 64)
    url = "http://a/" + WIDE * 100
    most = largest_taken(world, url, schedule)
    assert world.push("news", NewTask(TASKID, url, schedule, Raw(packed("x" * most)))) == ["new"]

    longest(world.show(TASKID))
    fetcher = world.fetcher(name=WIDE * 32)
    assert fetcher.taken == [TASKID]
    assert len(encode(fetcher.messages[-1])) <= LEAST
    longest(world.show(TASKID))
    noted = NotedLease("news", TASKID, fetcher.held[TASKID].token, "x" * MAX_NOTE_BYTES)
    world.answer(Note(session=fetcher.session, n=world.n(), notes=[noted]))
    longest(world.show(TASKID))
    fetcher.fail(TASKID, error=WIDE * 2048)
    longest(world.show(TASKID))


def largest_taken(world: World, url: str, schedule: Schedule) -> int:
    """Find the longest text that is taken as a body, by bisection."""
    low, high = 0, LEAST
    while low < high:
        middle = (low + high + 1) // 2
        item = NewTask("probe", url, schedule, Raw(packed("x" * middle)))
        if world.push("news", item) == ["rejected"]:
            high = middle - 1
        else:
            low = middle
            world.answer(TaskCancel(session="p", n=world.n(), project="news", taskids=["probe"]))
    return low


# ---------------------------------------------------------------------------------------- limits


def full(kind: type[Struct], **fields: Any) -> Any:
    """Make a value with the longest fields: numbers, and names of 64 characters."""
    made: dict[str, Any] = {}
    annotated = {
        name: said for base in reversed(kind.__mro__) for name, said in vars(base).get("__annotations__", {}).items()
    }
    for name in kind.__struct_fields__:
        known = annotated.get(name, "int")
        made[name] = fields.get(name, FLOAT if "float" in known else NAME if known == "str" else INT)
    return kind(**made)


def at_limits() -> Iterator[AnyOutgoing]:
    """Yield replies with as many of the longest values as their requests can ask for."""
    counts, totals = full(TaskCounts), full(EventTotals)
    window = full(Window)
    windows = Windows(*[window] * len(Windows.__struct_fields__))
    flow = Flow(NAME, NAME, "cancelled", INT, counts, INT, FLOAT, FLOAT)
    yield TasksReply(n=INT, outcomes=["unknown"] * MAX_BATCH)
    yield TokensReply(n=INT, counted=INT, stale=[INT] * MAX_BATCH)
    yield NoteReply(n=INT, outcomes=["too-soon"] * MAX_BATCH)
    yield StatsReply(n=INT, projects=[ProjectStats(NAME, totals, windows)] * 100, more=True)
    yield JobCountsReply(n=INT, counts=counts, next=TASKID)
    yield HistoryReply(n=INT, points=[full(HistoryPoint)] * 256, next=FLOAT)
    page = room_in(LEAST) // history.MINUTE_BYTES
    yield DaemonHistoryReply(n=INT, points=[full(DaemonPoint)] * page, next=FLOAT)
    yield WhoReply(n=INT, name=NAME, role="producer", projects=["p" * 64] * 100, created_at=FLOAT)
    yield KeyListReply(n=INT, keys=[full(KeyUse)] * KEYS_MOST, next=NAME)
    yield WaitReply(n=INT, finished=True, unfinished=INT, times=INT)
    yield TaskWaitReply(n=INT, state="cancelled")
    yield TaskChildrenReply(n=INT, children=[Child(NAME, TASKID, "processing", waits=True)] * 500, next="f" * 500)
    yield ImportReply(n=INT, brought=INT, parts=INT, known=INT)
    yield FlowReply(n=INT, flow=flow)
    yield FlowsReply(n=INT, flows=[flow] * 500, more=True)
    yield VerifyReply(n=INT, problems=["x" * 4 * 1024] * 100)
    yield ErrorReply(n=INT, code=NAME, reason=LONG_FLAW)
    yield HelloWanted(epoch=INT)
    row = TaskRow(TASKID, WIDE * MAX_URL_CHARS, INT, FLOAT, INT, FLOAT)
    slot = full(Slot, name=WIDE * MAX_SLOT_CHARS, place="waiting", auto=True, more=True)
    choice: dict[str, Setting] = dict.fromkeys(SlotChoice.__struct_fields__, FLOAT)
    yield SlotReply(n=INT, slot=slot, chosen=choice, sources=dict.fromkeys(choice, WIDE * 256), tasks=[row] * 5)
    layers = [RerunLayer(INT, [TASKID])] * LAYERS_SHOWN
    wanted = TaskFilter(["success"] * 6, WIDE * 256, WIDE * 256, before=FLOAT, since=FLOAT, ignore_case=True)
    wanted = replace(wanted, job="j" * 64)
    operation = Operation(INT, "reprioritise", [NAME] * NAMES_SHOWN, True, INT, INT, INT, FLOAT, FLOAT, NAME)
    operation = replace(operation, filter=wanted, rerun=RerunProgress(TASKID, "upstream-failed", INT, layers, INT))
    yield GroupReply(n=INT, projects=INT, changed=WIDE * DETAIL_CHARS)
    names = [f"{NAME}/{TASKID}"] * NAMES_MOST
    wide = [WIDE * 128] * NAMES_MOST
    counts = TaskCounts(*[INT] * 7)
    undo = UndoProgress(INT, "reprioritise", counts, INT, INT, INT, INT, names, INT, names, INT, wide)
    yield OperationReply(n=INT, operation=replace(operation, undo=undo, no_undo=NO_ROOM, rows=INT, undone_by=INT))
    histogram = Histogram([FLOAT] * 100, [INT] * 101, FLOAT)
    figures = {f"{NAME}{number}": FLOAT for number in range(100)}
    histograms = dict.fromkeys(list(figures)[:10], histogram)
    levels = [StoreLevel(INT, INT, INT)] * 10
    yield full(
        DaemonReply, n=INT, database=NAME * 100, levels=levels, shell=figures, histograms=histograms, projects_stand=[]
    )
    yield WhyReply(n=INT, sentence=WIDE * 16_384)


@pytest.mark.parametrize("reply", [*at_limits()], ids=lambda reply: type(reply).__name__)
def test_a_reply_at_the_limits_of_its_fields_fits(reply: AnyReply) -> None:
    longest(reply)


# ---------------------------------------------------------------------------------------- pages


def test_a_page_of_failures_ends_where_a_message_is_full() -> None:
    world = World(CoreConfig(defaults={"rate": float("inf"), "retries": 0}, projects={"news": {}}, max_message=LEAST))
    world.push("news", *[task(f"{number:03}") for number in range(200)])
    fetcher = world.fetcher(capacity=200, name=WIDE * 32)
    for taskid in list(fetcher.held):
        fetcher.fail(taskid, error=taskid + WIDE * 2000)

    world.turn(FailureList(session="p", n=world.n(), by="error", limit=1000))
    world.settle()

    (page,) = [each for each in world.inbox if isinstance(each, FailuresReply)]
    longest(page)
    assert page.groups


def test_the_tasks_of_a_flow_end_where_a_message_is_full() -> None:
    world = world_of()
    tasks = [NewTask(f"{WIDE * 25}{number:03}", "http://a/" + WIDE * 8000) for number in range(100)]
    for first in range(0, 100, 10):
        request = FlowStage(session="p", n=world.n(), project="news", flow="f", first=first, tasks=tasks[first:][:10])
        assert world.ask(FlowStaged, request).errors == []

    page = world.ask(FlowTasksReply, FlowTasks(session="p", n=world.n(), project="news", flow="f", limit=100))

    longest(page)
    assert page.next == len(page.tasks) > 5


def test_a_page_of_slots_ends_where_a_message_is_full() -> None:
    world = World(CoreConfig(
        defaults={"rate": float("inf"), "slot": {"by": "named"}}, projects={"news": {}}, max_message=LEAST,
        head_tasks=4096,
    ))  # fmt: skip
    world.push("news", *[task(f"{number}", slot=f"{WIDE * 249}{number:04}") for number in range(600)])

    world.turn(SlotList(session="p", n=77, project="news", limit=1000))
    world.settle()

    (page,) = [each for each in world.inbox if isinstance(each, SlotListReply)]
    longest(page)
    assert len(page.slots) > 100


PAGES: Final[dict[Any, str]] = {
    TaskParentsReply: "core/requests/test_task_parents.py: test_a_page_has_as_many_as_fit_into_a_message",
    TaskListReply: "core/requests/test_task_list.py: test_a_page_fits_into_a_message_however_small_that_may_be",
    OperationsReply: "core/rules/test_operations.py: test_a_list_of_operations_fits_into_a_message",
    LogReply: "core/moves/test_change_log.py: test_a_page_fits_into_a_message",
    WatchReply: "core/rules/test_watch.py: test_a_reply_fits_into_a_message",
    Select: "core/test_bounds.py: test_what_is_sent_again_with_a_fetch_that_has_grown_still_fits_into_a_message",
}
"""Replies that a test elsewhere bounds, and the test."""

HERE: Final = {
    NewTasksReply, DoneReply, FlowStaged, Welcome, StatusReply, FetchersReply, FetcherReply, TaskReply, FailuresReply,
    FlowTasksReply, SlotListReply, ProjectReply,
}  # fmt: skip
"""Replies that tests here make as long as possible."""


def test_every_message_of_the_daemon_is_bounded_by_one_of_these_tests() -> None:
    shown = [*PAGES, *HERE, *(type(reply) for reply in at_limits())]

    assert sorted(kind.__name__ for kind in shown) == sorted(kind.__name__ for kind in OUTGOING)


@pytest.mark.parametrize("where", PAGES.values())
def test_the_tests_elsewhere_are_there(where: str) -> None:
    path, name = where.split(": ")

    assert f"def {name}(" in (Path(__file__).parents[1] / path).read_text()
