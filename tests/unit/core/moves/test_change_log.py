"""Entries of ``taskqueue log`` are kept in the commit of the change, and can be read page by page."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.model import needs
from taskqueue.core.moves import change_log
from taskqueue.core.requests import insight, projects
from taskqueue.core.steps import bulk
from taskqueue.core.steps.operations import LOST_A_STEP
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import FetcherDo
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.insight import Log, LogReply
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.operations import Bulk, OperationCancel, OperationReply
from taskqueue.protocol.projects import GroupDo, GroupReply, GroupSet, ProjectDo, ProjectReply, ProjectSet, ProjectUnset
from taskqueue.protocol.slots import SlotReply, SlotSet
from taskqueue.protocol.tasks import TaskCancel, TaskReprioritise, TaskRetry
from taskqueue.protocol.values import Change, TaskFilter
from taskqueue.settings.settings import CoreConfig
from taskqueue.store import batch
from taskqueue.store.records import layout
from tests.unit.core.conftest import WALL, MakeWorld, World, task

ANNA: dict[str, Any] = {"session": "person", "actor": "anna@web1"}


def page(world: World, **asked: Any) -> LogReply:
    return world.ask(LogReply, Log(session="person", n=world.n(), **asked))


def told(world: World, **asked: Any) -> list[tuple[str, str, int]]:
    """Return change, project and number of tasks of each entry, the newest first."""
    return [(entry.what, entry.project, entry.count) for entry in page(world, **asked).entries]


@pytest.mark.parametrize(
    ("action", "count", "detail"),
    [
        ("clear", 2, ""),
        ("reset", 3, ""),
        ("delete", 3, ""),
        ("pause", 0, "was running"),
        ("stop", 0, "was running"),
        ("start", 0, "was running"),
    ],
)
def test_what_is_done_with_a_project_is_told_with_what_it_drops_or_the_state_that_it_ends(
    world: World, action: Any, count: int, detail: str
) -> None:
    world.push("news", task("over"), task("live"), task("other"))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("over")
    fetcher.hello(capacity=0)

    world.answer(ProjectDo(project="news", action=action, n=world.n(), **ANNA))

    assert page(world).entries == [
        Change(1, WALL, f"project {action}", "anna@web1", project="news", count=count, detail=detail),
    ]


def test_the_address_is_that_of_who_asked(world: World) -> None:
    request = ProjectDo(project="news", action="pause", n=world.n(), **ANNA)
    heard = [Incoming(Peer(b"p"), request, address="10.0.0.7")]

    turn = world.scheduler.begin(world.now, heard)
    world.ledger.commit(turn.decide(world.ledger.find(turn.needs)).writes)

    assert page(world).entries[0].address == "10.0.0.7"


def test_who_gives_no_name_is_known_by_that_of_its_session(world: World) -> None:
    world.fetcher(name="f1").hello(name="web1:4711")

    world.answer(ProjectDo(session="f1", n=world.n(), project="news", action="pause"))
    world.answer(ProjectDo(session="unnamed", n=world.n(), project="news", action="resume"))

    assert [entry.actor for entry in page(world).entries] == [world.pseudonym("unnamed"), "web1:4711"]


def test_settings_are_told_but_not_what_their_tables_hold(world: World) -> None:
    settings: dict[str, Any] = {"rate": 5.0, "retry_delay": [30, 60], "fetch": {"proxy": "http://me:secret@proxy"}}

    world.answer(ProjectSet(project="news", settings=settings, n=world.n(), **ANNA))
    world.answer(ProjectUnset(project="news", keys=["rate", "fetch.proxy"], n=world.n(), **ANNA))

    assert [(entry.what, entry.detail) for entry in page(world).entries] == [
        ("project unset", "rate=inf (was 5) -fetch.proxy"),
        ("project set", "rate=5 (was inf) retry_delay=30,60 (was 30,3600,21600,43200,86400) fetch.proxy"),
    ]


@pytest.mark.parametrize(
    ("before", "said", "detail"),
    [
        ({"rate": 20}, {"rate": 5.0}, "rate=5 (was 20)"),
        ({"rate": 20}, {"rate": 20}, "rate=20 (was 20)"),
        ({}, {"group": "papers"}, 'group=papers (was "")'),
        (
            {"active": "22:00-06:00 UTC"},
            {"active": "1:00-2:00 UTC"},
            'active="1:00-2:00 UTC" (was "22:00-06:00 UTC")',
        ),
        ({"slot": {"rate": 2}}, {"slot": {"delay": 5}}, "slot.delay=5 slot.rate=inf (was 2)"),
        (
            {"slot": {"patterns": {"*.org": {"delay": 2, "max_tasks": 9}}}},
            {"slot": {"patterns": {"*.org": {"delay": 5}}}},
            "slot.patterns.*.org.delay=5 (was 2) -slot.patterns.*.org.max_tasks (was 9)",
        ),
        (
            {"cron": {"daily": {"cron": "0 4 * * *", "task": {"body": "secret"}}}},
            {"cron": {"daily": {"cron": "0 5 * * *", "task": {"body": "secret"}}}},
            'cron.daily.task cron.daily.cron="0 5 * * *" (was "0 4 * * *")',
        ),
        ({"on_finished": {"body": "secret"}}, {"on_finished": None}, "-on_finished.body"),
    ],
)
def test_a_changed_setting_is_told_with_its_old_value(world: World, before: Any, said: Any, detail: str) -> None:
    world.set("news", **before)

    world.answer(ProjectSet(project="news", settings=said, n=world.n(), **ANNA))

    assert page(world).entries[0].detail == detail


def test_a_new_project_has_no_old_values(world: World) -> None:
    world.answer(ProjectSet(project="made", settings={"rate": 5}, n=world.n(), **ANNA))

    assert page(world).entries[0].detail == "rate=5"


def test_an_entry_is_bounded_however_long_the_values_are(world: World) -> None:
    patterns = {f"{'x' * 40}{number}.org": {"delay": 5} for number in range(50)}
    said: dict[str, Any] = {"rate": 5, "retry_delay": [12345.5] * 10, "slot": {"patterns": patterns}}

    world.answer(ProjectSet(project="news", settings=said, n=world.n(), **ANNA))

    entry = page(world).entries[0]
    assert "rate=5 (was inf)" in entry.detail
    assert "retry_delay=12345.5,12345.5" in entry.detail
    assert len(entry.detail) == change_log.DETAIL_CHARS


def test_what_is_said_of_a_slot_is_told_with_what_held_for_it_before(world: World) -> None:
    world.set("news", slot={"by": "host", "delay": 2, "patterns": {"a.org": {"max_processing": 4}}})

    for said in ({"rate": 0.5}, {"delay": 5.0, "max_processing": 2.0}, {"unset": ("delay",)}):
        request = SlotSet(project="news", slot="a.org", n=world.n(), **ANNA, **said)
        assert isinstance(world.answer(request), SlotReply)

    assert [entry.detail for entry in page(world).entries[:3]] == [
        "a.org delay=2 (was 5)",
        "a.org delay=5 max_processing=2 (was 4) -rate (was 0.5)",
        "a.org rate=0.5 -delay (was 2)",
    ]


def test_settings_of_a_group_are_told_in_one_entry_with_the_old_values_of_its_projects(world: World) -> None:
    for name, rate in (("news", 20), ("shop", 20), ("wiki", 7)):
        world.set(name, group="papers", rate=rate)
    number = page(world).entries[0].number

    reply = world.ask(GroupReply, GroupSet(group="papers", settings={"rate": 5}, n=world.n(), **ANNA))

    assert (reply.projects, reply.changed) == (3, "rate=5 (was 20, 7)")
    assert [world.project(name).settings["rate"] for name in ("news", "shop", "wiki")] == [5, 5, 5]
    entry = Change(number + 1, WALL, "project set", "anna@web1", group="papers", detail=reply.changed)
    entry.projects.extend(["news", "shop", "wiki"])
    assert page(world, project="wiki").entries[0] == page(world).entries[0] == entry


def test_settings_of_a_large_group_have_several_entries_so_that_a_page_is_read_fast(world: World) -> None:
    names = [f"p{number:03}" for number in range(130)]
    for name in names:
        world.set(name, group="papers")

    reply = world.ask(GroupReply, GroupSet(group="papers", settings={"rate": 5}, n=world.n(), **ANNA))

    later, sooner = page(world).entries[:2]
    assert (reply.projects, sooner.projects, later.projects) == (130, names[:128], names[128:])
    assert sooner.detail == later.detail == reply.changed


@pytest.mark.parametrize("first", ["pause", "stop"])
def test_what_a_group_was_is_told_of_those_that_it_was_done_to_only(world: World, first: str) -> None:
    for name in ("news", "shop"):
        world.set(name, group="papers")
    world.do(first, "shop")

    world.ask(OperationReply, GroupDo(group="papers", action="pause", seconds=600, n=world.n(), **ANNA))

    entry = page(world).entries[0]
    assert (entry.projects, entry.detail.partition(";")[0]) == (["news"], "for 600 s (was running)")


def test_of_tables_of_a_group_only_what_has_changed_is_told(world: World) -> None:
    hourly: dict[str, Any] = {"every": "1h", "task": {"taskid": "t", "url": "http://site/"}}
    world.set("news", group="papers", cron={"a": hourly})
    world.set("shop", group="papers", cron={"b": hourly})

    added = world.ask(GroupReply, GroupSet(group="papers", settings={"cron": {"c": hourly}}, n=world.n(), **ANNA))
    removed = world.ask(GroupReply, GroupSet(group="papers", settings={"cron": {"b": None}}, n=world.n(), **ANNA))

    assert added.changed == "cron.c.task cron.c.every=1h"
    assert removed.changed == "-cron.b.task -cron.b.every (was 1h)"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rate": "fast"}, '(project "news"; none of the group is changed)'),
        ({"rate": 5, "fetch": {"b": "y" * 40_000}}, '(project "shop"; none of the group is changed)'),
    ],
)
def test_settings_that_one_project_of_a_group_can_not_have_change_none(
    world: World, settings: Any, reason: str
) -> None:
    world.set("news", group="papers")
    world.set("shop", group="papers", fetch={"a": "x" * 40_000})
    number = page(world).entries[0].number

    refused = world.ask(ErrorReply, GroupSet(group="papers", settings=settings, n=world.n(), **ANNA))

    assert (refused.code, refused.reason.endswith(reason)) == ("setting", True)
    assert [world.project(name).settings["rate"] for name in ("news", "shop")] == [inf, inf]
    assert page(world).entries[0].number == number


def test_settings_of_a_group_count_together_for_the_memory_of_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("news", "shop"):
        world.set(name, group="papers")
    monkeypatch.setattr("taskqueue.core.moves.projects.MAX_OVERRIDES_MEMORY", 3000)
    said: dict[str, Any] = {"fetch": {"cookie": "x" * 1500}}

    refused = world.ask(ErrorReply, GroupSet(group="papers", settings=said, n=world.n(), **ANNA))

    assert (refused.code, '"shop"' in refused.reason) == ("full", True)
    assert world.project("news").settings["fetch"] == {}


def test_a_group_that_is_too_large_is_not_set_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "GROUP_SET_MOST", 1)
    for name in ("news", "shop"):
        world.set(name, group="papers")

    refused = world.ask(ErrorReply, GroupSet(group="papers", settings={"rate": 5}, n=world.n(), **ANNA))

    assert refused.reason.startswith('group: "papers" has 2 projects, but at most 1 can be set at once')


def test_what_was_refused_or_changed_nothing_is_not_told(world: World) -> None:
    world.answer(ProjectDo(project="unknown", action="delete", n=world.n(), **ANNA))
    world.answer(ProjectSet(project="news", settings={"rate": "fast"}, n=world.n(), **ANNA))
    world.answer(TaskCancel(project="news", taskids=["unknown"], n=world.n(), **ANNA))

    assert page(world).entries == []


def test_a_repeat_is_told_once(world: World) -> None:
    request = ProjectDo(project="news", action="pause", n=world.n(), **ANNA)

    world.answer(request)
    world.answer(request)

    assert told(world) == [("project pause", "news", 0)]


def test_tasks_that_were_changed_are_counted_and_the_first_are_named(world: World) -> None:
    world.push("news", *[task(f"t{n}") for n in range(7)])
    taskids = [f"t{n}" for n in range(7)]

    world.answer(TaskCancel(project="news", taskids=[*taskids, "unknown"], n=world.n(), **ANNA))
    world.answer(TaskRetry(project="news", taskids=["t6"], n=world.n(), **ANNA))

    retried, cancelled = page(world).entries
    assert (retried.what, retried.count, retried.detail) == ("task retry", 1, "t6 (was cancelled)")
    assert (cancelled.what, cancelled.count) == ("task cancel", 7)
    assert cancelled.detail == " ".join(f"t{n} (was ready)" for n in range(5))


def test_another_priority_is_told_with_those_before(world: World) -> None:
    world.push("news", task("a", priority=3), task("b"))

    world.answer(TaskReprioritise(project="news", taskids=["a", "b"], priority=7, n=world.n(), **ANNA))

    assert page(world).entries[0].detail == "priority=7 a (was 3) b (was 0)"


def test_a_fetcher_that_is_drained_is_told_with_whether_it_was(world: World) -> None:
    for _ in range(2):
        world.answer(FetcherDo(fetcher="mole", action="drain", n=world.n(), **ANNA))

    assert [entry.detail for entry in page(world).entries] == ["mole (was drained)", "mole (was not drained)"]


def test_a_bulk_operation_on_a_group_is_told_when_it_begins_and_in_one_entry_when_it_has_ended(world: World) -> None:
    for name in ("news", "shop"):
        world.set(name, group="papers")
        world.push(name, task("a"), task("b"))
    chosen = TaskFilter(states=["ready"], url="*/A", ignore_case=True)

    world.answer(Bulk(action="cancel", group="papers", filter=chosen, n=world.n(), **ANNA))
    world.restart()

    entries = page(world, limit=2).entries
    assert [(entry.what, entry.projects, entry.group, entry.count, entry.actor) for entry in entries] == [
        ("task cancel", ["news", "shop"], "papers", 2, "anna@web1"),
        ("task cancel", [], "papers", 0, "anna@web1"),
    ]
    assert entries[1].detail.endswith("begins: state=ready url=*/A ignore_case=yes")


def test_a_bulk_operation_that_is_ended_where_it_is_tells_what_it_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE_TASKS", 1)
    world.push("news", *[task(f"t{n}") for n in range(3)])
    (begun,) = world.turn(Bulk(action="cancel", project="news", n=world.n(), **ANNA))
    assert isinstance(begun, OperationReply)

    world.turn()
    world.answer(OperationCancel(id=begun.operation.id, n=world.n(), **ANNA))

    changed = world.counts("news").cancelled
    assert 0 < changed < 3
    assert told(world)[:2] == [("task cancel", "news", changed), ("operation cancel", "", 0)]


def test_a_dry_run_is_not_told(world: World) -> None:
    world.push("news", task("a"))

    world.answer(Bulk(action="cancel", project="news", dry_run=True, n=world.n(), **ANNA))

    assert page(world).entries == []


def test_an_action_on_a_group_is_told_in_one_entry_that_names_the_projects_for_which_it_made_sense(
    world: World,
) -> None:
    for name in ("news", "shop", "wiki"):
        world.set(name, group="papers")
    world.do("stop", "shop")
    world.do("pause", "wiki")

    world.answer(GroupDo(group="papers", action="pause", n=world.n(), **ANNA))

    entry = page(world).entries[0]
    assert (entry.what, entry.project, entry.group, entry.actor) == ("project pause", "", "papers", "anna@web1")
    assert entry.projects == ["news", "wiki"]
    assert entry.detail.startswith("was running, paused; operation ")
    assert told(world)[1:3] == [("project pause", "wiki", 0), ("project stop", "shop", 0)]
    assert page(world, project="news").entries[0].number == entry.number
    assert entry.number not in [each.number for each in page(world, project="shop").entries]


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
def test_a_large_group_is_told_once_it_is_through_across_a_restart(make_world: MakeWorld, action: Any) -> None:
    members = [f"p{number:02}" for number in range(2 * LOST_A_STEP + 1)]
    world = make_world(projects={name: {"group": "g"} for name in members})
    world.turn(*[world.new_tasks(name, task("t")) for name in members])

    world.turn(GroupDo(group="g", action=action, n=world.n(), **ANNA))
    world.restart()
    world.settle()

    (entry,) = page(world).entries
    assert (entry.what, entry.group, entry.count) == (f"project {action}", "g", len(members))
    assert (entry.projects, entry.actor) == (members, "anna@web1")


def test_an_entry_names_a_bounded_number_of_projects(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "NAMES_MOST", LOST_A_STEP)
    members = [f"p{number:02}" for number in range(2 * LOST_A_STEP + 1)]
    world = make_world(projects={name: {"group": "g"} for name in members})

    world.turn(GroupDo(group="g", action="clear", n=world.n(), **ANNA))
    world.settle()

    assert [len(entry.projects) for entry in page(world).entries] == [1, LOST_A_STEP, LOST_A_STEP]


def test_a_reload_of_the_config_is_told_with_the_settings_that_it_changed(world: World) -> None:
    turn = world.scheduler.begin(world.now, [])
    found = world.ledger.find(turn.needs)
    config = CoreConfig(projects={"news": {"rate": 3.0}, "shop": {}})
    reloaded = ["projects.news.rate", "daemon.log_level"]

    world.ledger.commit(turn.decide(found, config, reloaded=reloaded).writes)

    entry = page(world).entries[0]
    assert (entry.what, entry.actor, entry.detail) == (
        "config reload",
        "SIGHUP",
        "projects.news.rate, daemon.log_level",
    )


def test_the_log_can_be_asked_for_by_project_and_from_a_time_on(world: World) -> None:
    world.do("pause", "news")
    world.advance(60)
    world.do("pause", "shop")
    world.do("delete", "news")

    assert told(world, project="news") == [("project delete", "news", 0), ("project pause", "news", 0)]
    assert told(world, since=WALL + 1) == [("project delete", "news", 0), ("project pause", "shop", 0)]


def test_pages_together_have_each_entry_once_across_a_restart(make_world: MakeWorld, monkeypatch: Any) -> None:
    monkeypatch.setattr(insight, "LOOKED_AT", 3)
    world = make_world()
    for number in range(10):
        world.do("pause" if number % 2 else "resume", "shop" if number % 5 else "news")
    world.restart()
    world.do("pause", "shop")

    seen, before, more = [], 0, True
    while more:
        found = page(world, before=before, limit=2)
        seen += [entry.number for entry in found.entries]
        before, more = found.next, found.next > 0

    assert seen == list(range(11, 0, -1))
    assert [entry.number for entry in page(world, project="news", before=9).entries] == [6]


def test_entries_of_the_turn_itself_can_be_seen(world: World) -> None:
    pause = ProjectDo(project="news", action="pause", n=world.n(), **ANNA)

    replies = world.turn(pause, Log(session="person", n=world.n()))

    assert isinstance(replies[0], ProjectReply)
    assert isinstance(replies[1], LogReply)
    assert [entry.what for entry in replies[1].entries] == ["project pause"]


def test_no_more_entries_are_kept_than_there_may_be(make_world: MakeWorld, monkeypatch: Any) -> None:
    for module in (needs, insight, batch):
        monkeypatch.setattr(module, "LOG_MOST", 3)
    world = make_world()

    for _ in range(5):
        world.do("pause")

    assert len(world.disk.families[layout.LOG].values) == 3
    assert [entry.number for entry in page(world).entries] == [5, 4, 3]


def test_a_page_before_the_first_entry_that_is_kept_is_empty(make_world: MakeWorld, monkeypatch: Any) -> None:
    for module in (needs, insight, batch):
        monkeypatch.setattr(module, "LOG_MOST", 3)
    world = make_world()
    for _ in range(7):
        world.do("pause")

    pages = [page(world, before=before) for before in (1, 3, 5, 6)]

    assert [[entry.number for entry in found.entries] for found in pages] == [[], [], [], [5]]
    assert not any(found.next for found in pages)


def test_a_page_fits_into_a_message(make_world: MakeWorld) -> None:
    world = make_world(max_message=32 << 10)
    for _ in range(300):
        world.answer(ProjectUnset(project="news", keys=[], n=world.n(), session="p", actor="n" * 128))

    found = page(world, limit=500)

    assert 0 < len(found.entries) < 300
    assert page(world, before=found.next, limit=1).entries[0].number == found.entries[-1].number - 1


def test_cron_entries_are_told_as_such_by_their_names(world: World) -> None:
    entry = {"every": "1h", "task": {"url": "http://site/"}}

    world.answer(ProjectSet(project="news", settings={"cron": {"hourly": entry}}, n=world.n(), **ANNA))
    world.answer(ProjectUnset(project="news", keys=["cron.hourly"], n=world.n(), **ANNA))

    assert [(entry.what, entry.detail) for entry in page(world).entries] == [
        ("cron remove", "-cron.hourly.task -cron.hourly.every (was 1h)"),
        ("cron set", "cron.hourly.task cron.hourly.every=1h"),
    ]
