"""Waiting requests: their bound, and their replies when everything that they wait for comes at once."""

from __future__ import annotations

from taskqueue.core.model.waiters import WAITS_MOST, WAITS_OF_SESSION
from taskqueue.core.moves.answer_waiters import ANSWERED_A_TURN
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.projects import ProjectDo, ProjectWait, WaitReply
from tests.unit.core.conftest import MakeWorld, World, task


def wait(world: World, session: str, project: str = "news", seconds: float = 30.0) -> ProjectWait:
    return ProjectWait(session=session, n=world.n(), project=project, seconds=seconds)


def crowd(world: World) -> None:
    """Add as many waiters for the end of the project news as there may be in all."""
    world.push("news", task("a"))
    assert world.turn(*(wait(world, f"s{number}") for number in range(WAITS_MOST))) == []


def is_full(reply: AnyReply) -> bool:
    return isinstance(reply, ErrorReply) and reply.code == "full"


def test_beyond_ten_thousand_that_wait_one_more_is_refused(make_world: MakeWorld) -> None:
    world = make_world({})
    crowd(world)

    assert is_full(world.answer(wait(world, "late")))
    assert isinstance(world.answer(wait(world, "late", seconds=0)), WaitReply)
    assert world.turn(wait(world, "s7")) == [], "a newer request takes the place of the one before"
    assert is_full(world.answer(wait(world, "late")))


def test_those_who_waited_for_one_moment_are_told_over_several_turns(make_world: MakeWorld) -> None:
    world = make_world({})
    crowd(world)
    fetcher = world.fetcher()

    told = [reply for reply in world.turn(fetcher.answers(fetcher.finished("a"))) if isinstance(reply, WaitReply)]
    turns = [len(told)]
    while world.next_wake() <= world.elapsed:
        turns.append(len(world.turn()))
    assert max(turns) <= ANSWERED_A_TURN
    assert sum(turns) == WAITS_MOST
    world.push("news", task("b"))
    assert world.turn(wait(world, "late")) == [], "there is room for others then"


def test_those_whose_time_is_over_are_told_over_several_turns(make_world: MakeWorld) -> None:
    world = make_world({})
    crowd(world)
    world.inbox.clear()

    world.advance(31)
    told = [reply for reply in world.inbox if isinstance(reply, WaitReply)]
    assert len(told) == WAITS_MOST
    assert not any(reply.finished for reply in told)
    assert world.wakes >= WAITS_MOST // ANSWERED_A_TURN


def test_a_session_has_a_thousand_requests_that_wait_and_no_more(make_world: MakeWorld) -> None:
    world = make_world({})
    names = [f"p{number}" for number in range(WAITS_OF_SESSION + 1)]
    world.turn(*(ProjectDo(session="person", n=world.n(), project=name, action="start") for name in names))
    world.turn(*(world.new_tasks(name, task("a")) for name in names))

    replies = world.turn(*(wait(world, "script", name) for name in names))
    assert [is_full(reply) for reply in replies] == [True]
    assert world.turn(wait(world, "other", names[0])) == []
