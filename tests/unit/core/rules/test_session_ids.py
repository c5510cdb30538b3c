"""Ids of sessions are secret, because a client that knows one can speak in it; and a guessed id can do little."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.scheduler import Scheduler
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import encode
from taskqueue.protocol.daemon import DaemonHistory, DaemonShow, StatusShow, Verify, VerifyReply
from taskqueue.protocol.fetchers import FetcherDo, Fetchers, FetcherShow, FetchersReply, Hello
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.insight import FailureList, Log, Stats, StatsHistory, Why
from taskqueue.protocol.messages import AnyRequest, Incoming
from taskqueue.protocol.operations import Bulk, OperationList
from taskqueue.protocol.projects import ProjectDo, ProjectHold, ProjectShow
from taskqueue.protocol.tasks import NewTasks, TaskList, TaskShow
from taskqueue.store.ledger import Ledger
from tests.memory_store import Disk, MemoryStore
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

ID = "0123456789abcdef0123456789abcdef"
"""Session id of a fetcher without a name."""


@pytest.fixture
def watched(make_world: MakeWorld) -> World:
    """Make a world in which the session ID has done everything that replies show."""
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
    """Yield all requests for information."""
    for taskid in ("held", "failed", "done", "silent", "late"):
        yield TaskShow(session="x", n=world.n(), project="news", taskid=taskid)
        yield Why(session="x", n=world.n(), project="news", taskid=taskid)
    for state in ("ready", "processing", "failed", "success"):
        yield TaskList(session="x", n=world.n(), project="news", state=state)
    for by in ("error", "host", "fetcher", "project"):
        yield FailureList(session="x", n=world.n(), by=by)
    yield Why(session="x", n=world.n(), project="news")
    yield ProjectShow(session="x", n=world.n(), project="news")
    yield FetcherShow(session="x", n=world.n(), fetcher=world.pseudonym(ID))
    yield FetcherDo(session="x", n=world.n(), fetcher=world.pseudonym(ID), action="drain")
    for kind in (StatusShow, Fetchers, Stats, StatsHistory, DaemonShow, DaemonHistory, Log, OperationList, Verify):
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


# ---------------------------------------------------------------------------------------- numbers that jump


JUMP_MOST = 2**20
FAR = 2**63 - 1


@pytest.fixture
def victim(world: World) -> Fetcher:
    """Make a fetcher that has finished a task and wants more."""
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("a")
    return fetcher


def hello(n: int) -> Hello:
    return Hello(session="fetcher", n=n)


def push(n: int) -> NewTasks:
    return NewTasks(session="fetcher", n=n, project="news", tasks=[task("forged")])


@pytest.mark.parametrize("says", [hello, push])
def test_a_number_that_jumps_too_far_is_refused_and_leaves_the_session_as_it_was(
    world: World, victim: Fetcher, says: Callable[[int], AnyRequest]
) -> None:
    for n in (FAR, world.n() + JUMP_MOST + 1):
        assert world.ask(ErrorReply, says(n)).code == "too-far"
    victim.hello()
    world.push("news", task("b"))

    assert victim.done("b") == "done"
    assert world.counts().success == 2


@pytest.mark.parametrize("says", [hello, push])
def test_numbers_may_be_skipped(world: World, victim: Fetcher, says: Callable[[int], AnyRequest]) -> None:
    last = world.n()
    world.answer(Verify(session="fetcher", n=last))

    assert not isinstance(world.answer(says(last + JUMP_MOST)), ErrorReply)
    assert not isinstance(world.answer(says(last + 2 * JUMP_MOST)), ErrorReply)


@pytest.mark.parametrize("says", [hello, push])
def test_a_session_of_which_nothing_is_known_begins_with_any_number(
    world: World, says: Callable[[int], AnyRequest]
) -> None:
    assert not isinstance(world.answer(says(FAR - 1)), ErrorReply)
    assert not isinstance(world.answer(says(FAR)), ErrorReply)


def test_what_only_reads_is_answered_whatever_its_number_and_takes_none_along(world: World, victim: Fetcher) -> None:
    world.ask(VerifyReply, Verify(session="fetcher", n=FAR))

    assert world.ask(ErrorReply, push(FAR)).code == "too-far"
    victim.hello()


def test_what_is_kept_of_a_session_bounds_its_numbers_after_a_restart(world: World, victim: Fetcher) -> None:
    world.restart()

    assert world.ask(ErrorReply, hello(FAR)).code == "too-far"
    victim.hello()


def test_a_refusal_goes_to_whoever_sent_the_number_and_tasks_to_whom_they_went_before(
    world: World, victim: Fetcher
) -> None:
    attack = [Incoming(Peer(b"elsewhere"), hello(FAR))]
    turn = world.scheduler.begin(world.now, attack)
    (refusal,) = turn.decide(world.ledger.find(turn.needs)).outgoing
    world.push("news", task("b"))

    assert refusal.peer == b"elsewhere"
    assert list(victim.held) == ["b"]


def test_a_fetcher_in_whose_session_somebody_else_has_said_hello_is_told_so(world: World, victim: Fetcher) -> None:
    world.answer(hello(world.n() + 1000))

    assert world.ask(ErrorReply, Hello(session="fetcher", n=world.n(), capacity=1)).code == "too-old"
