"""Who changed what is kept in the commit of the change, and can be read page by page."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.admin import change_log
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.core.tasks import needs
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.replies import LogReply, ProjectReply
from taskqueue.protocol.requests import (
    Bulk,
    GroupDo,
    Incoming,
    Log,
    ProjectDo,
    ProjectSet,
    ProjectUnset,
    TaskCancel,
    TaskFilter,
    TaskRetry,
)
from taskqueue.protocol.views import LogEntry
from taskqueue.store import batch
from taskqueue.store.records import layout
from tests.unit.core.conftest import WALL, MakeWorld, World, task

ANNA: dict[str, Any] = {"session": "person", "actor": "anna@web1"}


def page(world: World, **asked: Any) -> LogReply:
    return world.ask(LogReply, Log(session="person", n=world.n(), **asked))


def told(world: World, **asked: Any) -> list[tuple[str, str, int]]:
    """What, of which project, and how many tasks; the newest first."""
    return [(entry.what, entry.project, entry.count) for entry in page(world, **asked).entries]


@pytest.mark.parametrize(
    ("action", "count"), [("clear", 2), ("reset", 3), ("delete", 3), ("pause", 0), ("stop", 0), ("start", 0)]
)
def test_what_is_done_with_a_project_is_told_with_the_number_of_tasks_that_it_drops(
    world: World, action: Any, count: int
) -> None:
    world.push("news", task("over"), task("live"), task("other"))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("over")
    fetcher.hello(capacity=0)

    world.answer(ProjectDo(project="news", action=action, n=world.n(), **ANNA))

    assert page(world).entries == [
        LogEntry(1, WALL, f"project {action}", "anna@web1", project="news", count=count),
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
    world.answer(ProjectDo(session="nobody", n=world.n(), project="news", action="resume"))

    assert [entry.actor for entry in page(world).entries] == [world.pseudonym("nobody"), "web1:4711"]


def test_settings_are_told_but_not_what_their_tables_hold(world: World) -> None:
    settings: dict[str, Any] = {"rate": 5.0, "retry_delay": [30, 60], "fetch": {"proxy": "http://me:secret@proxy"}}

    world.answer(ProjectSet(project="news", settings=settings, n=world.n(), **ANNA))
    world.answer(ProjectUnset(project="news", keys=["rate", "fetch.proxy"], n=world.n(), **ANNA))

    assert [(entry.what, entry.detail) for entry in page(world).entries] == [
        ("project unset", "rate fetch.proxy"),
        ("project set", "rate=5.0 retry_delay=30,60 fetch.proxy"),
    ]


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
    assert (retried.what, retried.count, retried.detail) == ("task retry", 1, "t6")
    assert (cancelled.what, cancelled.count, cancelled.detail) == ("task cancel", 7, "t0 t1 t2 t3 t4")


def test_a_bulk_operation_is_told_when_it_begins_and_with_its_count_when_it_is_through_with_a_project(
    world: World,
) -> None:
    for name in ("news", "shop"):
        world.set(name, group="papers")
        world.push(name, task("a"), task("b"))
    chosen = TaskFilter(states=["ready"], url="*/a")

    world.answer(Bulk(action="cancel", group="papers", filter=chosen, n=world.n(), **ANNA))
    world.restart()

    entries = page(world, limit=3).entries
    assert [(entry.what, entry.project, entry.group, entry.count, entry.actor) for entry in entries] == [
        ("task cancel", "shop", "papers", 1, "anna@web1"),
        ("task cancel", "news", "papers", 1, "anna@web1"),
        ("task cancel", "", "papers", 0, "anna@web1"),
    ]
    assert entries[2].detail.endswith("begins: state=ready url=*/a")


def test_a_dry_run_is_not_told(world: World) -> None:
    world.push("news", task("a"))

    world.answer(Bulk(action="cancel", project="news", dry_run=True, n=world.n(), **ANNA))

    assert page(world).entries == []


def test_an_action_on_a_group_is_told_of_each_project_for_which_it_made_sense(world: World) -> None:
    for name in ("news", "shop"):
        world.set(name, group="papers")
        world.push(name, task("a"))
    world.do("stop", "shop")

    world.answer(GroupDo(group="papers", action="pause", n=world.n(), **ANNA))

    entry = page(world).entries[0]
    assert (entry.what, entry.project, entry.group, entry.actor) == ("project pause", "news", "papers", "anna@web1")
    assert page(world, limit=2).entries[1].what == "project stop"


def test_a_reload_of_the_config_is_told_with_the_settings_that_it_changed(world: World) -> None:
    turn = world.scheduler.begin(world.now, [])
    found = world.ledger.find(turn.needs)
    config = CoreConfig(projects={"news": {"rate": 3.0}, "shop": {}})
    reloaded = ["projects.news.rate", "server.log_level"]

    world.ledger.commit(turn.decide(found, config, reloaded=reloaded).writes)

    entry = page(world).entries[0]
    assert (entry.what, entry.actor, entry.detail) == (
        "config reload",
        "SIGHUP",
        "projects.news.rate, server.log_level",
    )


def test_the_log_can_be_asked_for_by_project_and_from_a_time_on(world: World) -> None:
    world.do("pause", "news")
    world.advance(60)
    world.do("pause", "shop")
    world.do("delete", "news")

    assert told(world, project="news") == [("project delete", "news", 0), ("project pause", "news", 0)]
    assert told(world, since=WALL + 1) == [("project delete", "news", 0), ("project pause", "shop", 0)]


def test_pages_together_have_each_entry_once_across_a_restart(make_world: MakeWorld, monkeypatch: Any) -> None:
    monkeypatch.setattr(change_log, "LOOKED_AT", 3)
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
    for module in (needs, change_log, batch):
        monkeypatch.setattr(module, "LOG_MOST", 3)
    world = make_world()

    for _ in range(5):
        world.do("pause")

    assert len(world.disk.families[layout.LOG].values) == 3
    assert [entry.number for entry in page(world).entries] == [5, 4, 3]


def test_a_page_fits_into_a_message(make_world: MakeWorld) -> None:
    world = make_world(max_message=32 << 10)
    for _ in range(300):
        world.answer(ProjectUnset(project="news", keys=[], n=world.n(), session="p", actor="n" * 128))

    found = page(world, limit=500)

    assert 0 < len(found.entries) < 300
    assert page(world, before=found.next, limit=1).entries[0].number == found.entries[-1].number - 1


def test_cron_jobs_are_told_as_such_by_their_names(world: World) -> None:
    job = {"every": "1h", "task": {"url": "http://site/"}}

    world.answer(ProjectSet(project="news", settings={"cron": {"hourly": job}}, n=world.n(), **ANNA))
    world.answer(ProjectUnset(project="news", keys=["cron.hourly"], n=world.n(), **ANNA))

    assert [(entry.what, entry.detail) for entry in page(world).entries] == [
        ("cron remove", "cron.hourly"),
        ("cron set", "cron.hourly"),
    ]
