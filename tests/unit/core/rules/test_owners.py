"""A session belongs to the owner of the key that spoke in it first; a lease belongs to its token."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.callers import EVERYBODY, Caller
from taskqueue.protocol.daemon import Verify
from taskqueue.protocol.fetchers import Extend, Fetchers, FetchersReply, Hello, Release, TokensReply
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.flows import FlowStaged
from taskqueue.protocol.insight import FailureList, Log, LogReply, Watch, WatchReply
from taskqueue.protocol.messages import AnyRequest, Incoming
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.slots import SlotList
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply, TaskWait, TaskWaitReply
from taskqueue.protocol.values import TaskReport
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.test_dependencies import waiting
from tests.unit.core.rules.test_flows import stage_of, submission, submit

SILENCE: Final = 61.0

OURS: Final = Caller("ours", "admin", 1.0)
THEIRS: Final = Caller("theirs", "admin", 2.0)
ANEW: Final = Caller("ours", "admin", 3.0)
"""A name that was revoked and authorised anew."""


def push(session: str, n: int, *taskids: str) -> NewTasks:
    return NewTasks(session=session, n=n, project="news", tasks=[task(each) for each in taskids])


def reply_to(world: World, caller: Caller, request: AnyRequest) -> str:
    """Return the error code of the answer to this caller; empty: it was none."""
    world.caller = caller
    reply = world.answer(request)
    return reply.code if isinstance(reply, ErrorReply) else ""


@pytest.fixture
def ours(world: World) -> Fetcher:
    """Make a fetcher with our key that holds the tasks a and b."""
    world.caller = OURS
    world.push("news", task("a"), task("b"))
    return world.fetcher(capacity=2)


@pytest.mark.parametrize("stranger", [THEIRS, ANEW], ids=["another", "authorised-anew"])
def test_another_key_gets_no_answer_of_a_session_not_even_a_kept_one(world: World, stranger: Caller) -> None:
    first = push("s", 1, "a")
    assert reply_to(world, OURS, first) == ""

    for request in (first, push("s", 2, "b"), Hello(session="s", n=3), Verify(session="s", n=4)):
        assert reply_to(world, stranger, request) == "not-yours"
    world.caller = OURS

    assert world.ask(NewTasksReply, first).outcomes == ["new"]
    assert world.counts().ready == 1


def test_a_refusal_for_another_key_goes_to_its_sender_and_the_session_stays_where_it_is(
    world: World, ours: Fetcher
) -> None:
    incoming = Incoming(Peer(b"elsewhere"), ours.answers(), caller=THEIRS)
    turn = world.scheduler.begin(world.now, [incoming])
    (refusal,) = turn.decide(world.ledger.find(turn.needs)).outgoing
    ours.finish_all()
    world.push("news", task("c"))

    assert refusal.peer == b"elsewhere"
    assert list(ours.held) == ["c"]


def test_another_key_does_not_keep_a_silent_fetcher_alive(world: World, ours: Fetcher) -> None:
    for _ in range(4):
        world.advance(SILENCE / 4)
        assert reply_to(world, THEIRS, Hello(session=ours.session, n=world.n(), capacity=2)) == "not-yours"

    world.caller = OURS
    assert world.show("a").state == "ready"


def test_a_session_without_an_owner_takes_the_first_key_that_speaks(world: World) -> None:
    assert reply_to(world, EVERYBODY, push("s", 1, "a")) == ""
    world.restart()

    assert reply_to(world, OURS, push("s", 1, "a")) == ""
    world.restart()
    assert reply_to(world, THEIRS, push("s", 1, "a")) == "not-yours"


def test_a_session_has_its_owner_after_a_restart(world: World) -> None:
    assert reply_to(world, OURS, push("s", 1, "a")) == ""
    world.advance(3000)
    assert reply_to(world, OURS, push("s", 2, "b")) == ""
    world.restart()

    assert reply_to(world, THEIRS, push("s", 2, "b")) == "not-yours"
    assert reply_to(world, OURS, push("s", 2, "b")) == ""


@pytest.mark.parametrize("turns", [1, 20])
def test_many_sessions_of_a_key_make_the_daemon_forget_no_outcome_of_another_key(
    make_world: MakeWorld, turns: int
) -> None:
    world = make_world(max_sessions=6)
    others = [push(f"theirs {n}", 1, f"theirs-{n}") for n in range(2)]
    assert {reply_to(world, THEIRS, each) for each in others} == {""}
    own = [push(f"ours {n}", 1, f"ours-{n}") for n in range(20)]
    world.caller = OURS
    for turn in range(turns):
        world.advance(1)
        world.turn(*own[turn * 20 // turns : (turn + 1) * 20 // turns])
    world.advance(1)
    world.turn()

    assert len(world.scheduler._state.sessions) == 6
    world.restart()
    world.caller = THEIRS
    assert [world.ask(NewTasksReply, each).outcomes for each in others] == 2 * [["new"]]
    world.caller = OURS
    assert world.ask(NewTasksReply, own[-1]).outcomes == ["new"]
    assert world.ask(NewTasksReply, own[0]).outcomes == ["ignored"]


def test_a_key_may_have_as_many_sessions_as_each_other_and_loses_those_silent_for_longest(
    make_world: MakeWorld,
) -> None:
    world = make_world(max_sessions=6)
    for caller, count in ((OURS, 3), (THEIRS, 3), (ANEW, 4)):
        for n in range(count):
            world.advance(1)
            assert reply_to(world, caller, push(f"{caller.owner} {n}", 1, f"{caller.owner} {n}")) == ""

    kept = {OURS: (1, 2), THEIRS: (1, 2), ANEW: (2, 3)}
    left = {f"{caller.owner} {n}" for caller, numbers in kept.items() for n in numbers}
    assert set(world.scheduler._state.sessions) == left


def test_fetchers_of_a_key_take_the_room_of_its_own_sessions_first(make_world: MakeWorld) -> None:
    world = make_world(max_sessions=4)
    assert reply_to(world, THEIRS, push("theirs", 1, "a")) == ""
    world.caller = OURS
    for n in range(3):
        world.fetcher(name=f"fetcher {n}")
        world.advance(1)
        assert reply_to(world, OURS, push(f"ours {n}", 1, f"b{n}")) == ""
        world.advance(1)

    assert reply_to(world, THEIRS, push("theirs", 1, "a")) == ""
    assert world.ask(NewTasksReply, push("theirs", 1, "a")).outcomes == ["new"]


def test_a_fetcher_that_has_reported_nothing_yet_has_its_owner_after_a_restart(world: World, ours: Fetcher) -> None:
    world.restart()

    assert reply_to(world, THEIRS, Hello(session=ours.session, n=world.n())) == "not-yours"
    world.caller = OURS
    ours.hello()
    assert ours.done("a") == "done"


def test_a_daemon_without_keys_lets_every_client_speak_in_every_session_whose_owner_stays(world: World) -> None:
    assert reply_to(world, OURS, push("s", 1, "a")) == ""
    world.advance(3000)
    assert reply_to(world, EVERYBODY, push("s", 2, "b")) == ""
    world.restart()

    assert reply_to(world, THEIRS, push("s", 3, "c")) == "not-yours"
    assert reply_to(world, OURS, push("s", 3, "c")) == ""


def test_a_lease_belongs_to_its_token_whatever_key_reports_extends_or_releases_it(world: World, ours: Fetcher) -> None:
    world.push("news", task("c"))
    ours.hello(capacity=3)
    world.caller = THEIRS

    report = TaskReport("news", "a", ours.held["a"].token)
    done = world.ask(DoneReply, Done(session="processor", n=world.n(), tasks=[report]))
    extended = world.ask(TokensReply, Extend(session="processor", n=world.n(), leases=ours.leases("b"), seconds=5.0))
    released = world.ask(TokensReply, Release(session="processor", n=world.n(), leases=ours.leases("c")))

    assert (done.outcomes, extended.counted, released.counted) == (["done"], 1, 1)
    assert world.show("a").state == "success"


def test_all_sessions_of_an_owner_whose_key_is_revoked_give_their_tasks_back_and_none_is_blamed(
    world: World, ours: Fetcher
) -> None:
    world.push("news", task("c"), task("d"))
    world.caller = THEIRS
    kept = world.fetcher(capacity=1, name="kept")
    world.caller = ANEW
    anew = world.fetcher(capacity=1, name="anew")
    world.restart()

    world.turn(cut=[OURS.owner])
    world.settle()

    assert {taskid: world.show(taskid).state for taskid in "abcd"} == {
        "a": "ready", "b": "ready", "c": "processing", "d": "processing",
    }  # fmt: skip
    assert {(world.show(taskid).crashes, len(world.show(taskid).history)) for taskid in "ab"} == {(0, 0)}
    assert (kept.taken, anew.taken) == (["c"], ["d"])


@pytest.mark.parametrize("kind", [Watch, TaskWait])
def test_what_an_owner_waits_for_is_not_told_once_it_may_do_less(world: World, kind: type[Watch | TaskWait]) -> None:
    world.caller = OURS
    world.push("news", task("a"))
    first = world.ask(WatchReply, Watch(session="x", n=world.n()))
    asked: Watch | TaskWait = Watch(session="x", n=world.n(), since=first.since, seconds=30.0)
    if kind is TaskWait:
        asked = TaskWait(session="x", n=world.n(), project="news", taskid="a", seconds=30.0)
    assert world.turn(asked) == []

    world.turn(cut=[OURS.owner])
    again = replace(asked, n=world.n(), session="y")
    world.turn(again)
    world.caller = EVERYBODY
    world.fetcher(capacity=1).done("a")
    world.advance(31)

    told = {each.n: each for each in world.inbox if each.n in (asked.n, again.n)}
    refused = told[asked.n]
    assert isinstance(refused, ErrorReply)
    assert refused.code == "forbidden"
    assert isinstance(told[again.n], WatchReply | TaskWaitReply)
    assert world.scheduler._state.sessions["x"].waits == 0


@pytest.mark.parametrize("asked", [FailureList(session="x", n=1), SlotList(session="x", n=1, project="news", all=True)])
def test_what_an_owner_has_counted_is_not_told_once_it_may_do_less(
    make_world: MakeWorld, asked: FailureList | SlotList
) -> None:
    world = make_world({"slot": {"by": "host"}})
    world.caller = OURS
    assert world.turn(asked) == []

    (refused,) = world.turn(cut=[OURS.owner])

    assert isinstance(refused, ErrorReply)
    assert (refused.n, refused.code) == (1, "forbidden")
    assert world.turn(replace(asked, session="y")) == []
    assert not any(isinstance(each, ErrorReply) for each in world.turn())


@pytest.mark.parametrize("turns", [0, 1], ids=["searching", "searched"])
def test_what_an_owner_has_pushed_is_not_done_after_a_search_once_it_may_do_less(world: World, turns: int) -> None:
    world.caller = OURS
    world.push("news", waiting("a", "b"), waiting("b", "c"))
    pushed, later = world.new_tasks("news", waiting("c", "a"), task("d")), world.new_tasks("news", task("e"))
    assert world.turn(pushed, later) == []
    for _ in range(turns):
        assert world.turn() == []

    refused = world.turn(cut=[OURS.owner])
    world.settle()

    assert [(each.n, each.code) for each in refused if isinstance(each, ErrorReply)] == [
        (pushed.n, "forbidden"), (later.n, "forbidden"),
    ]  # fmt: skip
    assert len(world.known()) == 2
    assert world.turn(pushed) == []
    world.settle()
    assert [each.outcomes for each in world.inbox if isinstance(each, NewTasksReply)][-1] == ["rejected", "new"]


def test_a_flow_that_an_owner_has_submitted_is_not_accepted_once_it_may_do_less(world: World) -> None:
    world.caller = OURS
    world.ask(FlowStaged, stage_of(world, task("a")))
    asked = submission(world, 1)
    assert world.turn(asked) == []
    world.turn(cut=[OURS.owner])
    world.settle()

    (refused,) = [each for each in world.inbox if each.n == asked.n]
    assert isinstance(refused, ErrorReply)
    assert refused.code == "forbidden"
    assert world.known() == []
    assert submit(world, 1).state == "unrolling"


def test_the_key_comes_first_in_the_log_and_what_its_client_says_of_itself_behind_it(world: World) -> None:
    world.push("news")
    for caller, said in ((OURS, "anna@web1"), (OURS, ""), (EVERYBODY, "anna@web1"), (OURS, "a" * 128)):
        world.caller = caller
        world.answer(ProjectDo(session=f"person {world.n()}", n=world.n(), project="news", action="pause", actor=said))

    world.caller = EVERYBODY
    entries = world.ask(LogReply, Log(session="reader", n=world.n())).entries
    longest, *others = [entry.actor for entry in entries]
    assert others == ["anna@web1", "ours", "ours (said: anna@web1)"]
    assert (len(longest), longest[:13], longest[-3:]) == (128, "ours (said: a", "a…)")


def test_a_refused_stranger_leaves_no_trace_among_the_fetchers(world: World, ours: Fetcher) -> None:
    world.advance(30)
    reply_to(world, THEIRS, Hello(session=ours.session, n=world.n(), capacity=9, name="stranger"))

    (shown,) = world.ask(FetchersReply, Fetchers(session="x", n=world.n())).fetchers
    assert (shown.name, shown.capacity, shown.silent_seconds) == ("fetcher", 2, 30)
