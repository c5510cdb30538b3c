"""Answers to a key for ``news-*`` beside projects of others: none of them shows anything of these.

``neighbours(world, 3)`` gives these others three times as much of everything. All of it has "shop" in its name, and the
answers must be the same as with one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Raw

from taskqueue.access.checks import check_right
from taskqueue.core.moves.change_log import NAMES_MOST
from taskqueue.core.requests.watch import ROWS_A_TURN
from taskqueue.errors import Rejected
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.callers import EVERYBODY, Caller
from taskqueue.protocol.choices import RerunScope
from taskqueue.protocol.codec import encode
from taskqueue.protocol.daemon import DaemonHistory, DaemonShow, KeyList, StatusReply, StatusShow, Verify, WhoIs
from taskqueue.protocol.exports import ExportedParent, ExportedProject, ExportedTask, ProjectImport
from taskqueue.protocol.fetchers import (
    Extend,
    FetcherDo,
    FetcherReply,
    Fetchers,
    FetcherShow,
    FetchersReply,
    Hello,
    Hung,
    Note,
    NotedLease,
    Release,
)
from taskqueue.protocol.flows import FlowCancel, FlowList, FlowShow, FlowStage, FlowSubmit, FlowTasks, FlowTasksReply
from taskqueue.protocol.insight import (
    FailureList,
    FailuresReply,
    JobCounts,
    Log,
    Stats,
    StatsHistory,
    StatsReply,
    Watch,
    WatchReply,
    Why,
    WhyReply,
)
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from taskqueue.protocol.operations import (
    Bulk,
    OperationCancel,
    OperationList,
    OperationReply,
    OperationShow,
    OperationsReply,
    OperationUndo,
    Rerun,
)
from taskqueue.protocol.projects import (
    GroupDo,
    GroupSet,
    ProjectDo,
    ProjectHold,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
)
from taskqueue.protocol.slots import SlotList, SlotSet, SlotShow
from taskqueue.protocol.tasks import (
    Done,
    NewTasks,
    TaskCancel,
    TaskChildren,
    TaskList,
    TaskParents,
    TaskReprioritise,
    TaskRetry,
    TaskShow,
    TaskWait,
)
from taskqueue.protocol.values import Action, NewTask, TaskFilter, TaskOf
from taskqueue.settings.settings import Pace
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.test_dependencies import waiting

CALLER: Final = Caller("web1", "admin", 1.0, ("news-*",))
WHO: Final[dict[str, Any]] = {"session": "web1"}
PERSON: Final[dict[str, Any]] = {"session": "person"}

BY_HOST: Final[dict[str, Any]] = {"slot": {"by": "host", "delay": 60.0}}
PROJECTS: Final[dict[str, dict[str, Any]]] = {
    "news-a": {"group": "papers"},
    "news-b": {"group": "papers"} | BY_HOST,
    "news-c": {"group": "mixed"},
    "shop": {"group": "shops", "retries": 0} | BY_HOST,
    "shop-2": {"group": "mixed"},
    "shop-3": {},
}

PER_DAEMON: Final = {"id", "number", "of", "undone_by", "since", "next", "token", "n"}
"""Fields that are numbered for the daemon as a whole, so that others may be guessed from their gaps."""


def act(world: World, request: AnyRequest) -> list[AnyReply]:
    """Let everybody send a request; return all replies."""
    replies = world.turn(request)
    world.settle()
    return replies


def neighbours(world: World, count: int) -> None:
    """Make everything that a project may have of projects of others, ``count`` times, beside some of news."""
    world.push("news-a", task("ok"), task("bad", retries=0), task("ready", delay=60.0))
    papers = world.fetcher(capacity=2, projects=["news-a"], name="papers")
    papers.done("ok")
    papers.fail("bad", error="ValueError: bad", retry=False)
    papers.hello(capacity=0)
    world.advance(130)  # for minutes of the history, and "ready" is due
    papers.capacity = 1
    papers.hello()
    world.push("news-a", task("left"))
    world.push("news-b", task("slow"), task("slower"))
    world.push("news-c", task("c"))
    world.push("news-a", waiting("waits", TaskOf("shop", "shop-parent"), "left"))
    world.push("news-a", waiting("later", "waits"))
    world.push("shop", task("shop-doom", delay=900.0))
    world.push("news-a", waiting("doomed", TaskOf("shop", "shop-doom")))
    act(world, TaskCancel(**PERSON, n=world.n(), project="shop", taskids=["shop-doom"]))
    stage = FlowStage(
        **PERSON, n=world.n(), project="news-a", flow="f", first=0,
        tasks=[task("f1"), waiting("f2", "f1", TaskOf("shop", "shop-parent"))],
    )  # fmt: skip
    act(world, stage)
    act(world, FlowSubmit(**PERSON, n=world.n(), project="news-a", flow="f", count=2))
    for i in range(count):
        of_shop(world, i)
    act(world, Rerun(**PERSON, n=world.n(), project="news-a", taskid="ok", scope="downstream"))
    act(world, Bulk(**PERSON, n=world.n(), action="reprioritise", project="news-a", priority=3))
    act(world, Bulk(**PERSON, n=world.n(), action="reprioritise", group="mixed", priority=5))
    act(world, GroupDo(**PERSON, n=world.n(), action="pause", group="mixed"))
    act(world, GroupSet(**PERSON, n=world.n(), group="mixed", settings={"rate": 7.0}))
    world.caller = CALLER
    act(world, Bulk(session="editor", n=world.n(), action="reprioritise", group="papers", priority=2))
    world.caller = EVERYBODY


def of_shop(world: World, i: int) -> None:
    """Give projects of others one of everything."""
    names = [f"shop-{name}-{i}" for name in ("ok", "bad", "held", "last")]
    world.push("shop", *(task(name, url=f"http://{name}.example/shop") for name in names))
    world.push("shop", waiting(f"shop-child-{i}", TaskOf("news-a", "ok")))
    fetcher = world.fetcher(capacity=3, projects=["shop", "shop-2"], name=f"shop-fetcher-{i}")
    for taskid in list(fetcher.held)[:2]:
        fetcher.done(taskid, ok=False, error=f"ShopError: shop {i}", retry=False)
    notes = [NotedLease("shop", each.taskid, each.token, f"shop note {i}") for each in fetcher.held.values()]
    act(world, Note(session=fetcher.session, n=world.n(), notes=notes))
    hung = Hung(1, 5.0, "shop", "shop-hung", "http://shop/hung")
    world.push("shop-2", task(f"shop-2-{i}"))
    world.push("shop-3", task(f"shop-3-{i}"))
    fetcher.hello(capacity=5, slots=5, hung=hung, running=list(fetcher.holds))
    # Full, so that they never run a task of news: those who see the task would see their names.
    for name, projects in (("any", None), ("both", ["news-a", "shop"])):
        world.know(Fetcher(world, f"shop-{name}-{i}", 1, projects)).hello(hung=hung)
    act(world, FetcherDo(**PERSON, n=world.n(), fetcher=f"shop-away-{i}", action="drain"))
    stage = FlowStage(
        **PERSON, n=world.n(), project="shop", flow=f"shop-flow-{i}", first=0, tasks=[task(f"shop-f-{i}")]
    )
    act(world, stage)
    act(world, FlowSubmit(**PERSON, n=world.n(), project="shop", flow=f"shop-flow-{i}", count=1))
    act(world, Bulk(**PERSON, n=world.n(), action="retry", project="shop", filter=TaskFilter(url="*shop*")))
    act(world, Bulk(**PERSON, n=world.n(), action="cancel", group="shops", filter=TaskFilter(url="*none*")))
    act(world, Rerun(**PERSON, n=world.n(), project="shop", taskid=f"shop-ok-{i}", dry_run=True))
    act(world, SlotSet(**PERSON, n=world.n(), project="shop", slot=f"shop-{i}.example", delay=9.0))
    act(world, ProjectSet(**PERSON, n=world.n(), project=f"shop-old-{i}", settings={"rate": 5.0}))
    act(world, ProjectDo(**PERSON, n=world.n(), project=f"shop-old-{i}", action="delete"))
    act(world, ProjectHold(session=f"shop-{i}", n=world.n(), project="shop", seconds=1000.0))


def cases() -> Mapping[type[AnyRequest], Sequence[AnyRequest]]:
    """Requests of each type that name no project of others, those that change something last."""
    a: dict[str, Any] = {"project": "news-a"}
    b: dict[str, Any] = {"project": "news-b"}
    ok: dict[str, Any] = a | {"taskid": "ok"}
    waits: dict[str, Any] = a | {"taskid": "waits"}
    f: dict[str, Any] = a | {"flow": "f"}
    numbers = range(1, 20)
    actions: tuple[Action, ...] = get_args(get_type_hints(ProjectDo)["action"])
    return {
        StatusShow: [
            StatusShow(), StatusShow(sort="failed_5m"), StatusShow(sort="ready", limit=1), StatusShow(filter="o"),
            StatusShow(group="mixed"), StatusShow(group="shops"), StatusShow(after="news-b"), StatusShow(skip=2),
            StatusShow(projects=["news-a"]),
        ],
        DaemonShow: [DaemonShow(), DaemonShow(projects=["news-a"])],
        DaemonHistory: [DaemonHistory()],
        KeyList: [KeyList()],
        Verify: [Verify()],
        Fetchers: [
            Fetchers(), Fetchers(sort="hung"), Fetchers(filter="o"), Fetchers(group="mixed"), Fetchers(group="shops"),
            Fetchers(**a), Fetchers(projects=["news-a"], sort="holds"), Fetchers(limit=1),
        ],
        FetcherShow: [FetcherShow(fetcher="papers"), FetcherShow(fetcher="nowhere")],
        FlowList: [FlowList(), FlowList(after="news-a/f"), FlowList(**a)],
        FlowShow: [FlowShow(**f)],
        FlowTasks: [FlowTasks(**f)],
        Stats: [Stats(), Stats(limit=1), Stats(group="mixed"), Stats(group="shops"), Stats(after="news-b")],
        JobCounts: [JobCounts(**a, job="monday"), JobCounts(project="news-c", job="monday")],
        StatsHistory: [StatsHistory(), StatsHistory(every="hour"), StatsHistory(**a)],
        Watch: [Watch(seconds=0)],
        Why: [
            Why(), Why(after="news-a"), Why(**a), Why(**b), Why(project="news-c"), Why(**ok), Why(**waits),
            Why(project="news-b", taskid="slow"), Why(**a, taskid="f2"), Why(**a, taskid="doomed"),
        ],
        FailureList: [FailureList(), *(FailureList(by=by) for by in ("host", "fetcher", "project")), FailureList(**a)],
        Log: [Log(), Log(limit=1), Log(**a), Log(project="news-c")],
        OperationList: [OperationList()],
        OperationShow: [OperationShow(id=number) for number in numbers],
        ProjectShow: [ProjectShow(project=name) for name in ("news-a", "news-b", "news-c")],
        ProjectWait: [ProjectWait(**a, seconds=0)],
        SlotList: [SlotList(**b), SlotList(**b, all=True), SlotList(**a)],
        SlotShow: [SlotShow(**b, slot="example.org")],
        TaskShow: [TaskShow(**ok), TaskShow(**waits), TaskShow(**a, taskid="doomed")],
        TaskWait: [TaskWait(**ok, seconds=0)],
        TaskParents: [TaskParents(**waits), TaskParents(**a, taskid="f2")],
        TaskChildren: [TaskChildren(**ok), TaskChildren(**ok, limit=1)],
        TaskList: [TaskList(**a), TaskList(**b, state="ready")],
        # From here on things change.
        NewTasks: [NewTasks(**a, tasks=[task("new"), waiting("new-2", "waits")]),
                   NewTasks(**a, tasks=[waiting("left", "later")])],
        FlowStage: [FlowStage(**a, flow="g", first=0, tasks=[waiting("g", "waits")])],
        FlowSubmit: [FlowSubmit(**a, flow="g", count=1)],
        ProjectHold: [ProjectHold(**a, seconds=5.0)],
        ProjectImport: [
            ProjectImport(**a, export="x"), ProjectImport(project="news-d", export="x", begin=ExportedProject(1)),
            ProjectImport(
                project="news-d", export="x",
                tasks=[ExportedTask("d", "blocked", "http://d/", parents=[ExportedParent("ok", 0, "news-a")])],
            ),
            ProjectImport(
                project="news-e", export="x",
                begin=ExportedProject(1, settings=Raw(msgspec.msgpack.encode({"group": "mixed"}))),
            ),
        ],
        Done: [Done(tasks=[])],
        Extend: [Extend(leases=[])],
        Note: [Note(notes=[])],
        Release: [Release(leases=[])],
        Bulk: [
            Bulk(action="retry", **a), Bulk(action="cancel", group="mixed"), Bulk(action="cancel", group="shops"),
            Bulk(action="cancel", group="papers", dry_run=True),
        ],
        Rerun: [Rerun(**ok, scope="downstream"), Rerun(**waits, scope="upstream-failed")],
        OperationCancel: [OperationCancel(id=number) for number in numbers],
        OperationUndo: [OperationUndo(id=number) for number in numbers],
        TaskRetry: [TaskRetry(**a, taskids=["bad", "waits"])],
        TaskCancel: [TaskCancel(**a, taskids=["ready"])],
        TaskReprioritise: [TaskReprioritise(**a, taskids=["waits"], priority=4)],
        FetcherDo: [
            FetcherDo(fetcher=name, action=action) for name in ("papers", "away") for action in ("drain", "resume")
        ],
        SlotSet: [SlotSet(**b, slot="example.org", delay=8.0)],
        FlowCancel: [FlowCancel(**f)],
        ProjectSet: [ProjectSet(**a, settings={"rate": 5.0})],
        ProjectUnset: [ProjectUnset(**a, keys=["rate"])],
        GroupSet: [GroupSet(group=group, settings={"rate": 6.0}) for group in ("papers", "mixed", "shops")],
        Hello: [Hello(), Hello(capacity=1, projects=["news-b"], name="mine"), Hello(capacity=0, projects=[])],
        GroupDo: [
            *(GroupDo(action=action, group=group) for action in actions for group in ("mixed", "shops", "papers")),
            GroupDo(action="pause", all=True),
        ],
        ProjectDo: [ProjectDo(action=action, project="news-c") for action in actions],
    }  # fmt: skip


def sent(world: World) -> Iterator[tuple[AnyRequest, list[bytes]]]:
    """Send all cases as the key for ``news-*``; yield each with all messages that its session gets."""
    n = 10_000
    for requests in cases().values():
        for each in requests:
            n += 1
            request = msgspec.structs.replace(each, **WHO, n=n)
            try:
                check_right(CALLER, request)
            except Rejected as refused:
                yield request, [encode(ErrorReply(n=n, code=refused.code, reason=refused.reason))]
                continue
            world.caller = CALLER
            world.turn(request)
            heard = [encode(said.message) for said in world.said if said.session == "web1"]
            world.caller = EVERYBODY
            for _ in range(100):
                if heard and world.next_wake() > world.elapsed:
                    break
                world.turn()
                heard += [encode(said.message) for said in world.said if said.session == "web1"]
            yield request, heard


def plain(value: object) -> object:
    """The value without fields that are numbered for the daemon as a whole."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key not in PER_DAEMON}
    if isinstance(value, str):
        return re.sub(r"operation \d+", "operation", value)
    return [plain(each) for each in value] if isinstance(value, list) else value


def answers_of(world: World) -> dict[str, list[object]]:
    """Answers to all cases by type of request, without what is numbered for the daemon as a whole."""
    answers: dict[str, list[object]] = {}
    for request, heard in sent(world):
        decoded = [plain(msgspec.msgpack.decode(each)) for each in heard]
        # Which numbers of operations are those of others depends on how many they have begun.
        if not isinstance(request, OperationShow | OperationCancel | OperationUndo) or "error" not in repr(decoded):
            answers.setdefault(type(request).__name__, []).append(decoded)
    return answers


@pytest.fixture
def busy(make_world: MakeWorld) -> World:
    """A world with neighbours."""
    world = make_world(projects=PROJECTS)
    neighbours(world, 1)
    return world


def ask(world: World, request: AnyRequest, caller: Caller = CALLER) -> Any:
    """The reply to a request, to the key for ``news-*``."""
    world.caller = caller
    n = world.n()
    world.turn(msgspec.structs.replace(request, session=f"session of {caller.name}", n=n))
    world.caller = EVERYBODY
    world.settle()
    return next(reply for reply in world.inbox if reply.n == n)


def test_each_type_of_request_is_among_the_cases() -> None:
    assert set(cases()) == set(REQUESTS) - {WhoIs}  # the access file answers it, not the core


def test_no_answer_shows_anything_of_other_projects(busy: World) -> None:
    for request, heard in sent(busy):
        own_words = getattr(request, "group", "") or "no words"
        assert heard, request
        assert not any(b"shop" in each.replace(own_words.encode(), b"") for each in heard), (request, heard)


def test_no_answer_depends_on_how_much_others_have(make_world: MakeWorld) -> None:
    few, many = (make_world(projects=PROJECTS) for _ in range(2))
    neighbours(few, 1)
    neighbours(many, 3)

    assert answers_of(few) == answers_of(many)


# ------------------------------------------------------------------------------------------------ sums and lists


def test_sums_are_over_the_projects_that_the_key_reaches(busy: World) -> None:
    status: StatusReply = ask(busy, StatusShow())
    watched: WatchReply = ask(busy, Watch(seconds=0))
    stats: StatsReply = ask(busy, Stats())

    assert [each.name for each in status.projects] == ["news-a", "news-b", "news-c"]
    assert status.found == watched.found == len(stats.projects) == 3
    for field in ("ready", "delayed", "success", "failed", "blocked"):
        assert getattr(status.counts, field) == sum(getattr(each.counts, field) for each in status.projects)
    assert status.totals.new == sum(each.totals.new for each in stats.projects) > 0
    assert (watched.counts, watched.totals) == (status.counts, status.totals)
    assert ask(busy, StatusShow(), EVERYBODY).counts.ready > status.counts.ready


@pytest.mark.parametrize("patterns", [("news-a",), ("news-*",), ("news-*", "shop", "shop-2"), ("nothing",)])
def test_sums_are_right_however_many_projects_a_key_reaches_and_whatever_becomes_of_them(
    busy: World, patterns: tuple[str, ...]
) -> None:
    caller = Caller("web2", "admin", 1.0, patterns)
    for change in (
        None,
        ProjectDo(project="news-c", action="delete"),
        ProjectDo(project="news-new", action="start"),
        ProjectDo(project="news-a", action="reset"),
        ProjectDo(project="shop-3", action="delete"),
    ):
        if change is not None:
            ask(busy, change, EVERYBODY)
            busy.push("news-b", task(f"after-{change.action}-{change.project}"))
        status: StatusReply = ask(busy, StatusShow(), caller)
        watched: WatchReply = ask(busy, Watch(seconds=0), caller)
        rows = [each for each in ask(busy, StatusShow(), EVERYBODY).projects if caller.reaches(each.name)]

        assert [each.name for each in status.projects] == [each.name for each in rows]
        assert status.found == watched.found == len(rows)
        for sums, part in ((status.counts, "counts"), (status.totals, "totals")):
            columns = zip(*(msgspec.structs.astuple(getattr(each, part)) for each in rows), strict=True)
            assert msgspec.structs.astuple(sums) == (tuple(map(sum, columns)) or (0,) * len(sums.__struct_fields__))
        assert (watched.counts, watched.totals) == (status.counts, status.totals)


def test_a_key_without_any_project_has_sums_of_zero(busy: World) -> None:
    status: StatusReply = ask(busy, StatusShow(), Caller("web2", "admin", 1.0, ("nothing",)))

    assert (status.projects, status.fetchers, status.found) == ([], [], 0)
    assert not any(msgspec.structs.astuple(status.counts) + msgspec.structs.astuple(status.totals))


def test_a_fetcher_is_shown_to_keys_that_reach_all_projects_that_it_wants_or_has_tasks_of(busy: World) -> None:
    everyones = {each.name for each in ask(busy, Fetchers(), EVERYBODY).fetchers}
    seen: FetchersReply = ask(busy, Fetchers())
    others: FetchersReply = ask(busy, Fetchers(), Caller("web2", "admin", 1.0, ("shop*",)))

    assert everyones == {"papers", "shop-fetcher-0", "shop-any-0", "shop-both-0"}
    assert (
        [each.name for each in seen.fetchers] == [each.name for each in ask(busy, StatusShow()).fetchers] == ["papers"]
    )
    assert (seen.found, seen.capacity, seen.holds, seen.hung, seen.beyond, seen.away) == (1, 1, 1, 0, 0, [])
    assert [each.name for each in others.fetchers] == ["shop-fetcher-0"]
    assert (others.capacity, others.away) == (others.fetchers[0].capacity, [])


@pytest.mark.parametrize("how", ["leased", "ended", "hung"])
def test_a_fetcher_that_still_has_a_task_of_another_project_is_not_shown(busy: World, how: str) -> None:
    mover = busy.fetcher(capacity=1, projects=["shop"], name="mover", priority=9)
    busy.push("shop", task("shop-more", url="http://more.example/"))
    facts: dict[str, Any] = {"projects": ["news-b"], "running": [each.token for each in mover.held.values()]}
    if how != "leased":
        act(busy, TaskCancel(**PERSON, n=busy.n(), project="shop", taskids=["shop-more"]))
    if how == "hung":
        facts = {"projects": ["news-b"], "holds": [], "hung": Hung(1, 5.0, "shop", "shop-more", "http://more.example/")}
    mover.hello(**facts)

    assert ask(busy, FetcherShow(fetcher="mover")).code == "unknown-fetcher"
    mover.hello(projects=["news-b"], holds=[])
    assert ask(busy, FetcherShow(fetcher="mover")).found == 1


def test_an_entry_of_several_projects_names_those_of_the_key_only_and_counts_nothing(busy: World) -> None:
    entries = [each for each in ask(busy, Log(limit=500)).entries if each.projects == ["news-c"]]
    everyones = {
        each.what: each for each in ask(busy, Log(), EVERYBODY).entries if each.group == "mixed" and each.projects
    }

    assert everyones["project set"].projects == ["news-c", "shop-2"]
    assert everyones["project set"].detail
    assert {each.what for each in entries} == set(everyones)
    assert [(each.group, each.count, each.detail) for each in entries] == [("", 0, "")] * 3
    assert everyones["task reprioritise"].count > 0


def test_the_part_of_a_large_change_that_names_only_projects_of_the_key_tells_nothing_of_the_rest(
    make_world: MakeWorld,
) -> None:
    members = [f"news-{i:03}" for i in range(NAMES_MOST)]
    shop: dict[str, Any] = {"shop": {"group": "g", "rate": 0.123}}
    world = make_world(projects={name: {"group": "g"} for name in members} | shop)
    ask(world, GroupSet(group="g", settings={"rate": 5.0}), EVERYBODY)
    ask(world, GroupDo(group="g", action="clear"), EVERYBODY)
    world.restart()
    seller = Caller("web2", "viewer", 1.0, ("shop",))

    for caller, names in ((CALLER, members), (seller, ["shop"])):
        entries = ask(world, Log(), caller).entries
        assert [(each.what, each.projects) for each in entries] == [("project clear", names), ("project set", names)]
        assert [(each.group, each.count, each.detail) for each in entries] == [("", 0, "")] * 2


def test_a_change_of_projects_of_the_key_only_is_told_in_full(busy: World) -> None:
    ask(busy, GroupSet(group="papers", settings={"rate": 5.0}), EVERYBODY)
    ask(busy, GroupDo(group="papers", action="clear"), EVERYBODY)
    busy.restart()

    assert ask(busy, Log(limit=2)).entries == ask(busy, Log(limit=2), EVERYBODY).entries
    assert [each.group for each in ask(busy, Log(limit=2)).entries] == ["papers", "papers"]


def test_entries_that_name_no_project_are_for_keys_of_all_projects(busy: World) -> None:
    assert "fetcher drain" in {each.what for each in ask(busy, Log(limit=500), EVERYBODY).entries}
    assert "fetcher drain" not in {each.what for each in ask(busy, Log(limit=500)).entries}


def test_failures_of_all_projects_are_those_of_the_key(busy: World) -> None:
    found: FailuresReply = ask(busy, FailureList(by="project"))

    assert (found.failures, [each.name for each in found.groups]) == (1, ["news-a"])
    assert ask(busy, FailureList(), EVERYBODY).failures == 3


def test_why_tells_the_parents_of_others_apart_without_their_names(busy: World) -> None:
    (project, taskid), reached = ("news-a", "waits"), ask(busy, Why(project="news-a", taskid="waits"))
    everyones: WhyReply = ask(busy, Why(project=project, taskid=taskid), EVERYBODY)

    assert reached.sentence.endswith('waiting for 2 tasks: "left" (ready), 1 task of other projects')
    assert "shop-parent" in everyones.sentence


def test_why_names_no_fetcher_of_others_and_none_of_their_places(busy: World) -> None:
    reached: WhyReply = ask(busy, Why(project="news-a"))
    everyones: WhyReply = ask(busy, Why(project="news-a"), EVERYBODY)

    assert "hung" in everyones.sentence
    assert reached.sentence.endswith("all fetchers that ask for them are full")


def test_a_task_that_failed_with_a_parent_of_others_says_so_without_its_name(busy: World) -> None:
    asked = TaskShow(project="news-a", taskid="doomed")

    assert ask(busy, asked).error == ask(busy, asked).history[0].error == "upstream: a task of another project"
    assert ask(busy, asked, EVERYBODY).error == "upstream: shop/shop-doom"


def test_a_flow_shows_no_parents_of_others(busy: World) -> None:
    tasks: FlowTasksReply = ask(busy, FlowTasks(project="news-a", flow="f"))

    assert [each.depends_on for each in tasks.tasks] == [[], [0]]
    assert [each.missing for each in tasks.tasks] == [0, 2]


# ------------------------------------------------------------------------------------------------ watching


def watch(world: World, since: str, caller: Caller = CALLER, session: str = "watcher") -> int:
    """Wait for changes; return the number of the request."""
    n = world.n()
    world.caller = caller
    world.turn(Watch(session=session, n=n, since=since, seconds=50.0))
    world.caller = EVERYBODY
    return n


def heard(world: World, n: int) -> WatchReply | None:
    """The reply to a request, if there is one."""
    replies = [each for each in world.inbox if each.n == n]
    assert not replies or isinstance(replies[0], WatchReply)
    return replies[0] if replies else None  # type: ignore[return-value]


def test_a_watcher_is_not_woken_by_changes_of_others_and_learns_of_its_own(busy: World) -> None:
    since = ask(busy, Watch(seconds=0)).since
    n = watch(busy, since)
    for i in range(3):
        busy.push("shop", task(f"shop-new-{i}"))
        busy.advance(1)
    act(busy, ProjectDo(**PERSON, n=busy.n(), project="shop-2", action="delete"))
    busy.advance(1)
    assert heard(busy, n) is None

    busy.push("news-b", task("b"))
    busy.advance(1)
    reply = heard(busy, n)

    assert reply is not None
    assert ([each.name for each in reply.projects], reply.gone, reply.anew) == (["news-b"], [], False)
    assert reply.since != since


def test_a_watcher_is_answered_at_the_end_of_its_time_though_only_others_changed(busy: World) -> None:
    n = watch(busy, ask(busy, Watch(seconds=0)).since)
    busy.push("shop", task("shop-new"))
    busy.advance(51)
    reply = heard(busy, n)

    assert reply is not None
    assert (reply.projects, reply.gone, reply.more) == ([], [], False)


def test_watchers_of_different_projects_get_their_own_news_in_one_turn(busy: World) -> None:
    shop = Caller("web2", "admin", 1.0, ("shop*",))
    since = ask(busy, Watch(seconds=0), EVERYBODY).since
    callers = {"a": CALLER, "b": shop, "c": EVERYBODY, "d": Caller("web3", "viewer", 1.0, ("news-*",))}
    asked = {name: watch(busy, since, caller, name) for name, caller in callers.items()}
    busy.push("shop", task("shop-new"))
    busy.push("news-b", task("b"))
    act(busy, ProjectDo(**PERSON, n=busy.n(), project="shop-2", action="delete"))
    busy.advance(1)

    told = {name: reply for name, n in asked.items() if (reply := heard(busy, n)) is not None}
    assert {name: [each.name for each in reply.projects] for name, reply in told.items()} == {
        "a": ["news-b"], "b": ["shop"], "c": ["shop", "news-b"], "d": ["news-b"],
    }  # fmt: skip
    assert {name: reply.gone for name, reply in told.items()} == {"a": [], "b": ["shop-2"], "c": ["shop-2"], "d": []}
    assert {name: reply.found for name, reply in told.items()} == {"a": 3, "b": 2, "c": 5, "d": 3}


def test_a_new_watcher_gets_its_projects_on_one_page_among_thousands(make_world: MakeWorld) -> None:
    names: dict[str, Any] = {f"other-{i}": {} for i in range(3 * ROWS_A_TURN // 2)} | {"news-a": {}, "news-z": {}}
    world = make_world(projects=names)

    reply: WatchReply = ask(world, Watch(seconds=0))

    assert ([each.name for each in reply.projects], reply.more, reply.found) == (["news-a", "news-z"], False, 2)


# ------------------------------------------------------------------------------------------------ things


def operations(world: World, caller: Caller = CALLER) -> list[Any]:
    reply: OperationsReply = ask(world, OperationList(), caller)
    return reply.operations


def test_an_operation_with_a_project_of_others_is_unknown_as_if_it_were_not_there(busy: World) -> None:
    seen, all_ = ({each.number for each in operations(busy, caller)} for caller in (CALLER, EVERYBODY))
    hidden = min(all_ - seen)

    for kind in (OperationShow, OperationCancel, OperationUndo):
        there, not_there = ask(busy, kind(id=hidden)), ask(busy, kind(id=12_345))
        assert there.code == not_there.code == "unknown-operation"
        assert there.reason == not_there.reason.replace("12345", str(hidden))
    assert {each.action for each in operations(busy)} == {"reprioritise"}


def test_a_fetcher_of_others_is_unknown_as_if_it_were_not_there(busy: World) -> None:
    not_there: ErrorReply = ask(busy, FetcherShow(fetcher="X"))
    assert not_there.code == "unknown-fetcher"
    for name in ("shop-fetcher-0", "shop-any-0", "shop-both-0", "shop-away-0"):
        reply: ErrorReply = ask(busy, FetcherShow(fetcher=name))
        assert (reply.code, reply.reason) == (not_there.code, not_there.reason.replace("X", name))


def test_a_fetcher_is_not_hidden_by_one_of_others_that_takes_its_name(busy: World) -> None:
    before: FetcherReply = ask(busy, FetcherShow(fetcher="papers"))
    for session, projects in (("theirs", ["shop"]), ("anyone", None)):
        busy.know(Fetcher(busy, session, 3, projects)).hello(name="papers")
    others: FetcherReply = ask(busy, FetcherShow(fetcher="papers"), Caller("web2", "viewer", 1.0, ("shop*",)))
    everyones: FetcherReply = ask(busy, FetcherShow(fetcher="papers"), EVERYBODY)

    after: FetcherReply = ask(busy, FetcherShow(fetcher="papers"))
    assert [each.session for each in after.fetchers] == [each.session for each in before.fetchers]
    assert (after.found, after.capacity, after.holds) == (before.found, before.capacity, before.holds)
    assert (others.found, others.capacity, [each.projects for each in others.fetchers]) == (1, 3, [["shop"]])
    assert everyones.found == before.found + 2


def test_a_group_with_a_project_of_others_is_refused_and_one_of_others_alone_is_unknown(busy: World) -> None:
    for make in (
        lambda group: GroupSet(group=group, settings={"rate": 1.0}),
        lambda group: GroupDo(action="pause", group=group),
        lambda group: Bulk(action="cancel", group=group),
    ):
        mixed, others, nowhere = (ask(busy, make(group)) for group in ("mixed", "shops", "nowhere"))
        assert mixed.code == "forbidden"
        assert mixed.reason.startswith(
            'group: "mixed" has projects outside, and web1 reaches news-*; use a key for "*"'
        )
        assert others.code == nowhere.code == "unknown-group"
        assert others.reason == nowhere.reason.replace("nowhere", "shops")


@pytest.mark.parametrize(
    "request_",
    [
        ProjectSet(project="news-b", settings={}),
        ProjectSet(project="news-new", settings={}),
        GroupSet(group="papers", settings={}),
    ],
    ids=["known", "new", "group"],
)
def test_a_group_with_a_project_of_others_can_not_be_joined(busy: World, request_: ProjectSet | GroupSet) -> None:
    def join(group: str, caller: Caller = CALLER) -> Any:
        return ask(busy, msgspec.structs.replace(request_, settings={"group": group, "rate": 3.0}), caller)

    for group in ("shops", "mixed"):
        refused: ErrorReply = join(group)
        assert refused.code == "forbidden"
        assert refused.reason == f'group: "{group}" is not yours to join; an admin for all projects may'
    assert busy.project("news-b").settings["group"] == "papers"
    assert busy.project("news-b").settings["rate"] != 3.0
    assert "news-new" not in busy.scheduler._state.projects.by_name

    for group, caller in (("papers", CALLER), ("shops", EVERYBODY)):
        assert not isinstance(join(group, caller), ErrorReply)
    for group in ("fresh", ""):
        assert ask(busy, ProjectSet(project="news-b", settings={"group": group})).project.settings["group"] == group


def test_a_bucket_of_others_can_not_be_shared(make_world: MakeWorld) -> None:
    pace = Pace(rate=1.0, burst=1.0)
    projects: dict[str, Any] = {"shop": {"bucket": "shop"}, "news-a": {"group": "papers"}, "news-b": {"bucket": "news"}}
    world = make_world(projects=projects, buckets={"shop": pace, "news": pace, "spare": pace})
    requests = (ProjectSet(project="news-a", settings={}), GroupSet(group="papers", settings={}))

    for request in requests:
        refused: ErrorReply = ask(world, msgspec.structs.replace(request, settings={"bucket": "shop"}))
        assert refused.code == "forbidden"
        assert refused.reason == 'bucket: "shop" is not yours to join; an admin for all projects may'
        assert world.project("news-a").settings["bucket"] == ""
    for name, caller in (("news", CALLER), ("spare", CALLER), ("", CALLER), ("shop", EVERYBODY)):
        for request in requests:
            reply = ask(world, msgspec.structs.replace(request, settings={"bucket": name}), caller)
            assert not isinstance(reply, ErrorReply)


@pytest.mark.parametrize("kind", ["group", "bucket"])
def test_what_the_config_joins_to_others_is_not_joined_by_an_unset(make_world: MakeWorld, kind: str) -> None:
    pace = Pace(rate=1.0, burst=1.0)
    projects: dict[str, Any] = {"shop": {kind: "mixed"}, "news-a": {kind: "mixed"}, "news-b": {kind: "own"}}
    world = make_world(projects=projects, buckets={"mixed": pace, "own": pace})
    for name in ("news-a", "news-b"):
        ask(world, ProjectSet(project=name, settings={kind: "", "retries": 7}), EVERYBODY)

    for keys in ([kind], [kind, "retries"], []):
        refused: ErrorReply = ask(world, ProjectUnset(project="news-a", keys=keys))
        assert refused.code == "forbidden"
        assert refused.reason == f'{kind}: "mixed" is not yours to join; an admin for all projects may'
    assert (world.project("news-a").settings[kind], world.project("news-a").settings["retries"]) == ("", 7)
    assert ask(world, ProjectUnset(project="news-b", keys=[kind])).project.settings[kind] == "own"
    assert ask(world, ProjectUnset(project="news-a", keys=["retries"])).project.settings[kind] == ""
    assert ask(world, ProjectUnset(project="news-a", keys=[kind]), EVERYBODY).project.settings[kind] == "mixed"
    assert not isinstance(ask(world, ProjectUnset(project="news-a", keys=[])), ErrorReply)  # it is joined already


def test_a_rerun_stays_within_the_projects_of_its_key(busy: World) -> None:
    states = {each.taskid: each.state for each in busy.known() if each.taskid.startswith("shop")}

    reply: OperationReply = ask(busy, Rerun(project="news-a", taskid="ok", scope="downstream"))
    busy.settle()

    operation = ask(busy, OperationShow(id=reply.operation.id)).operation
    assert (operation.projects, operation.seen, operation.rerun.passed) == (["news-a"], 1, 0)
    assert {each.taskid: each.state for each in busy.known() if each.taskid.startswith("shop")} == states


def test_a_rerun_names_the_projects_that_it_reaches(busy: World) -> None:
    reply = ask(busy, Rerun(project="news-a", taskid="ok", scope="downstream", dry_run=True), EVERYBODY)

    assert ask(busy, OperationShow(id=reply.operation.id), EVERYBODY).operation.projects == ["news-a", "shop"]


@pytest.mark.parametrize("scope", ["downstream", "only-failed", "upstream-failed"])
def test_a_rerun_that_may_yet_reach_another_project_is_as_if_it_were_not_there(busy: World, scope: RerunScope) -> None:
    rerun = Rerun(**PERSON, n=busy.n(), project="news-a", taskid="ok", scope=scope)
    (begun,) = busy.turn(rerun)
    assert isinstance(begun, OperationReply)
    number = begun.operation.id
    assert (begun.operation.projects, begun.operation.ended_at) == (["news-a"], 0.0)

    busy.caller = CALLER
    requests = [
        OperationCancel(**WHO, n=busy.n(), id=number),
        OperationShow(**WHO, n=busy.n(), id=number, seconds=50.0),
        OperationList(**WHO, n=busy.n()),
    ]
    cancelled, waited, listed = busy.turn(*requests)
    busy.caller = EVERYBODY

    assert isinstance(cancelled, ErrorReply)
    assert isinstance(waited, ErrorReply)
    assert isinstance(listed, OperationsReply)
    assert cancelled.code == waited.code == "unknown-operation"
    assert number not in {each.id for each in listed.operations}


@pytest.mark.parametrize(("caller", "scope"), [(EVERYBODY, "task"), (CALLER, "downstream")], ids=["one", "own"])
def test_a_rerun_that_reaches_no_other_project_is_seen(busy: World, caller: Caller, scope: RerunScope) -> None:
    number = ask(busy, Rerun(project="news-a", taskid="ok", scope=scope), caller).operation.id

    assert ask(busy, OperationShow(id=number)).operation.rerun.scope == scope
    assert number in {each.id for each in operations(busy)}


def test_an_operation_of_many_projects_is_seen_by_keys_for_the_same_ones(make_world: MakeWorld) -> None:
    world = make_world(projects={f"news-{i:02}": {"group": "many"} for i in range(25)})
    ask(world, GroupDo(action="pause", group="many"), EVERYBODY)
    assert operations(world) == []

    ask(world, GroupDo(action="resume", group="many"))
    world.restart()

    assert [each.action for each in operations(world)] == ["resume"]
    assert operations(world, Caller("web2", "viewer", 1.0, ("news-*", "blog"))) == []


# ------------------------------------------------------------------------------------------------ reasons


def test_a_cycle_through_tasks_of_others_names_none_of_them(busy: World) -> None:
    busy.push("shop", waiting("shop-s", TaskOf("news-a", "y")))
    busy.push("news-a", waiting("x", TaskOf("shop", "shop-s")))
    item: NewTask = waiting("y", "x")

    reply = ask(busy, NewTasks(project="news-a", tasks=[item]))

    assert reply.outcomes == ["rejected"]
    assert reply.errors[0].reason == "depends_on: y → x → (a task outside) → y: it would wait for itself"


@pytest.mark.parametrize("caller", [CALLER, EVERYBODY], ids=["news", "all"])
def test_a_flow_is_refused_without_the_names_of_tasks_of_others(busy: World, caller: Caller) -> None:
    busy.push("news-a", waiting("waits-for-g", "g"))
    tasks = [waiting("g", TaskOf("shop", "shop-parent"))]
    act(busy, FlowStage(**PERSON, n=busy.n(), project="news-a", flow="g", first=0, tasks=tasks))

    reply = ask(busy, FlowSubmit(project="news-a", flow="g", count=1), caller)

    assert reply.code == "state"
    assert ("shop" in reply.reason) == (caller is EVERYBODY)
    assert ("a task of another project" in reply.reason) == (caller is CALLER)
