"""Who knows the id of a session can speak in it, so nobody is told one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.replies import FetchersReply
from taskqueue.core.requests import (
    AnyRequest,
    Bulk,
    Failures,
    Fetchers,
    Log,
    OperationList,
    ProjectDo,
    ProjectHold,
    ProjectShow,
    Stats,
    StatsHistory,
    Status,
    TaskList,
    TaskShow,
    Verify,
    Why,
)
from taskqueue.core.scheduler import Scheduler
from taskqueue.store.ledger import Ledger
from taskqueue.store.memory import Disk, MemoryStore
from taskqueue.wire import encode
from tests.unit.core.conftest import MakeWorld, World, task

ID = "0123456789abcdef0123456789abcdef"
"""Of a fetcher that has no name."""


@pytest.fixture
def watched(make_world: MakeWorld) -> World:
    """A world in which the session ID has done all that is told of afterwards."""
    world = make_world()
    world.push("news", task("held"), task("failed", retries=0), task("done"), task("silent"), task("late", timeout=1))
    fetcher = world.fetcher(capacity=5, name=ID)
    fetcher.hello(name="")
    fetcher.done("done")
    fetcher.fail("failed", error="boom")
    world.advance(1)
    world.answer(ProjectHold(session=ID, n=world.n(), project="news", seconds=100))
    world.answer(ProjectDo(session=ID, n=world.n(), project="shop", action="pause"))
    world.answer(Bulk(session=ID, n=world.n(), action="cancel", project="shop"))
    return world


def questions(world: World) -> Iterator[AnyRequest]:
    """Everything that anybody can ask."""
    for taskid in ("held", "failed", "done", "silent", "late"):
        yield TaskShow(session="x", n=world.n(), project="news", taskid=taskid)
        yield Why(session="x", n=world.n(), project="news", taskid=taskid)
    for state in ("ready", "processing", "failed", "success"):
        yield TaskList(session="x", n=world.n(), project="news", state=state)
    for by in ("error", "host", "fetcher", "project"):
        yield Failures(session="x", n=world.n(), by=by)
    yield Why(session="x", n=world.n(), project="news")
    yield ProjectShow(session="x", n=world.n(), project="news")
    for kind in (Status, Fetchers, Stats, StatsHistory, Log, OperationList, Verify):
        yield kind(session="x", n=world.n())


def test_no_answer_has_the_id_of_a_session(watched: World) -> None:
    for silence in (0, 61):
        watched.advance(silence)
        asked = list(questions(watched))
        before = len(watched.inbox)
        watched.turn(*asked)
        watched.settle()
        told = [encode(reply) for reply in watched.inbox[before:]]

        assert len(told) == len(asked)
        assert not [each for each in told if ID.encode() in each]
        assert [each for each in told if watched.pseudonym(ID).encode() in each]
    assert ID not in repr(watched.happened)
    assert ID not in repr(watched.kept.log)


def test_no_part_of_an_id_is_found_by_a_filter(watched: World) -> None:
    def found(part: str) -> int:
        return watched.ask(FetchersReply, Fetchers(session="x", n=watched.n(), filter=part)).found

    assert found(ID[:4]) == 0
    assert found(watched.pseudonym(ID)[:4]) == 1


def test_a_pseudonym_stays_with_its_session_over_restarts(watched: World) -> None:
    before = watched.show("held").session
    watched.restart()

    assert watched.show("held").session == before == watched.pseudonym(ID)


def test_each_store_gives_its_own_pseudonyms(world: World) -> None:
    loaded = Ledger(MemoryStore(Disk())).begin("boot")
    other = Scheduler(loaded, world.config, Calendar(), world.now)

    assert other.pseudonym(ID) != world.pseudonym(ID)
