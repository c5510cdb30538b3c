"""Draining: fetchers of a name get no new tasks, finish those they have, and learn it from their welcome."""

from __future__ import annotations

from typing import Any

from taskqueue.core.requests.fetchers import DRAINED_MOST
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.fetchers import (
    FetcherDo,
    FetcherReply,
    Fetchers,
    FetcherShow,
    FetchersReply,
    Hello,
    HelloWanted,
    Welcome,
)
from taskqueue.protocol.insight import Log, LogReply, Why, WhyReply
from tests.unit.core.conftest import Fetcher, World, task


def ask(world: World, action: Any, name: str = "w1", by: str = "anna") -> FetcherDo:
    return FetcherDo(session="person", n=world.n(), actor=by, fetcher=name, action=action)


def drain(world: World, name: str = "w1") -> FetcherReply:
    return world.ask(FetcherReply, ask(world, "drain", name))


def resume(world: World, name: str = "w1") -> FetcherReply:
    return world.ask(FetcherReply, ask(world, "resume", name))


def show(world: World, name: str = "w1") -> FetcherReply:
    return world.ask(FetcherReply, FetcherShow(session="person", n=world.n(), fetcher=name))


def push(world: World, *names: str) -> None:
    world.push("news", *map(task, names))


def another(world: World, session: str, name: str = "w1", capacity: int = 100) -> Fetcher:
    """Make a fetcher of that name in a session of its own, not heard yet."""
    fetcher = world.know(Fetcher(world, session, capacity, None))
    fetcher.hello(name=name)
    return fetcher


def said(world: World, fetcher: Fetcher) -> Welcome:
    """Say hello, and return the welcome."""
    hello = Hello(session=fetcher.session, n=world.n(), capacity=100, name="w1", seen=fetcher.seen, holds=fetcher.holds)
    return world.ask(Welcome, hello)


def why(world: World) -> str:
    return world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid="a")).sentence


def wanted(world: World) -> list[str]:
    """List the sessions that the last turn asked for a hello."""
    return [each.session for each in world.said if isinstance(each.message, HelloWanted)]


# ---------------------------------------------------------------------------------------- who gets nothing


def test_who_drains_gets_no_new_task_and_others_get_them(world: World) -> None:
    draining, other = world.fetcher(name="w1"), world.fetcher(name="w2", capacity=1)
    drain(world)

    push(world, "a", "b")
    assert (draining.taken, other.taken) == ([], ["a"])


def test_a_task_that_is_pushed_in_the_turn_of_the_drain_is_not_handed_out(world: World) -> None:
    fetcher = world.fetcher(name="w1")

    world.turn(world.new_tasks("news", task("a")), ask(world, "drain"))
    world.settle()
    assert fetcher.taken == []


def test_all_sessions_of_the_name_drain(world: World) -> None:
    fetchers = [another(world, session) for session in ("s1", "s2", "s3")]
    assert drain(world).found == 3

    push(world, "a")
    assert [fetcher.taken for fetcher in fetchers] == [[], [], []]


def test_who_comes_later_under_the_name_drains_too(world: World) -> None:
    drain(world)
    push(world, "a")

    assert another(world, "s1").taken == []
    assert said(world, another(world, "s2")).draining


def test_who_takes_another_name_drains_no_more_and_who_takes_a_drained_one_does(world: World) -> None:
    fetcher = world.fetcher(name="w1")
    drain(world)
    push(world, "a")

    fetcher.hello(name="w2")
    assert fetcher.taken == ["a"]
    fetcher.hello(name="w1")
    push(world, "b")
    assert fetcher.taken == ["a"]


def test_who_has_no_name_drains_by_its_pseudonym(world: World) -> None:
    fetcher = another(world, "s1", name="")
    drain(world, world.pseudonym("s1"))

    push(world, "a")
    assert fetcher.taken == []


def test_a_name_stays_drained_across_restarts_and_reboots(world: World) -> None:
    fetcher = world.fetcher(name="w1")
    drain(world)
    push(world, "a")

    for start in (world.restart, world.reboot):
        start(clean=True)
        start(clean=False)
        fetcher.hello()
        assert fetcher.taken == []
        assert show(world).draining


# ---------------------------------------------------------------------------------------- what is held


def test_what_is_held_is_finished(world: World) -> None:
    push(world, "a", "b")
    fetcher = world.fetcher(name="w1")
    drain(world)

    fetcher.hello()
    assert fetcher.extend("a").counted == 1
    assert [fetcher.done("a"), fetcher.fail("b", retry=False)] == ["done", "done"]
    assert (world.counts().success, world.counts().failed) == (1, 1)


def test_what_was_sent_and_has_not_arrived_is_sent_again_to_who_drains(world: World) -> None:
    fetcher = world.fetcher(name="w1")
    fetcher.deaf = True
    push(world, "a")
    drain(world)

    fetcher.deaf = False
    fetcher.hello()
    assert fetcher.done("a") == "done"


def test_what_is_handed_back_uses_up_no_retry_and_goes_to_others(world: World) -> None:
    push(world, "a")
    fetcher = world.fetcher(name="w1")
    other = world.fetcher(name="w2")
    drain(world)

    fetcher.release("a")
    assert other.taken == ["a"]
    assert world.show("a").retried == 0


def test_who_hands_back_in_a_drain_has_no_rest_after_it(world: World) -> None:
    push(world, "a")
    fetcher = world.fetcher(name="w1")
    drain(world)
    fetcher.release("a")

    resume(world)
    fetcher.hello()
    assert fetcher.taken == ["a", "a"]


def test_who_drains_and_falls_silent_gives_back_what_it_holds(world: World) -> None:
    push(world, "a")
    world.fetcher(name="w1")
    drain(world)

    world.advance(61)
    assert world.fetcher(name="w2").taken == ["a"]


# ---------------------------------------------------------------------------------------- how it is told


def test_who_drains_is_asked_for_a_hello_at_once_and_its_welcome_says_so(world: World) -> None:
    fetcher = world.fetcher(name="w1")
    world.fetcher(name="w2")
    assert not said(world, fetcher).draining

    world.turn(ask(world, "drain"))
    assert wanted(world) == ["w1"]
    assert said(world, fetcher).draining


def test_who_is_resumed_is_asked_for_a_hello_at_once_and_gets_tasks_with_its_welcome(world: World) -> None:
    fetcher = world.fetcher(name="w1")
    drain(world)
    push(world, "a")

    world.turn(ask(world, "resume"))
    assert (wanted(world), fetcher.taken) == (["w1"], [])
    assert not said(world, fetcher).draining
    assert fetcher.taken == ["a"]


def test_who_is_drained_again_before_it_has_said_hello_goes_on_to_drain(world: World) -> None:
    fetcher = world.fetcher(name="w1")
    drain(world)
    resume(world)
    drain(world)
    push(world, "a")

    assert said(world, fetcher).draining
    assert fetcher.taken == []


def test_what_changes_nothing_is_told_nobody(world: World) -> None:
    world.fetcher(name="w1")

    world.turn(ask(world, "resume"))
    assert wanted(world) == []
    drain(world)
    world.turn(ask(world, "drain"))
    assert wanted(world) == []


def test_nobody_hears_of_it_before_it_is_on_the_disk(world: World) -> None:
    world.fetcher(name="w1")

    world.turn(ask(world, "drain"))
    assert [each.after_sync for each in world.said] == [True, True]


# ---------------------------------------------------------------------------------------- what people see


def test_it_is_shown_with_what_it_still_holds(world: World) -> None:
    push(world, "a", "b", "c")
    world.fetcher(name="w1", capacity=2)
    assert [view.draining for view in show(world).fetchers] == [False]

    reply = drain(world)
    assert (reply.draining, reply.found, reply.capacity, reply.holds) == (True, 1, 2, 2)
    assert [(view.draining, view.holds) for view in show(world).fetchers] == [(True, 2)]
    listed = world.ask(FetchersReply, Fetchers(session="person", n=world.n())).fetchers
    in_status = world.ask(StatusReply, StatusShow(session="person", n=world.n())).fetchers
    assert [view.draining for view in (*listed, *in_status)] == [True, True]


def test_a_name_that_nobody_has_can_be_drained_and_the_answer_says_so(world: World) -> None:
    reply = drain(world, "w9")

    assert (reply.draining, reply.found) == (True, 0)
    assert show(world, "w9").draining


def test_drained_names_that_nobody_has_are_listed(world: World) -> None:
    world.fetcher(name="w1")
    drain(world, "w1")
    drain(world, "gone")

    assert world.ask(FetchersReply, Fetchers(session="person", n=world.n())).away == ["gone"]


def test_a_name_that_nobody_has_and_that_is_not_drained_is_unknown(world: World) -> None:
    world.fetcher(name="w2")

    for request in (ask(world, "resume"), FetcherShow(session="person", n=world.n(), fetcher="w1")):
        refused = world.ask(ErrorReply, request)
        assert (refused.code, '"w1"' in refused.reason) == ("unknown-fetcher", True)


def test_the_log_says_who_drained_and_resumed_whom(world: World) -> None:
    drain(world)
    resume(world)

    entries = world.ask(LogReply, Log(session="person", n=world.n())).entries
    assert [(entry.what, entry.actor, entry.detail) for entry in entries] == [
        ("fetcher resume", "anna", "w1 (was drained)"),
        ("fetcher drain", "anna", "w1 (was not drained)"),
    ]


def test_why_says_that_all_who_could_take_a_task_are_draining(world: World) -> None:
    world.fetcher(name="w1", projects=["news"])
    world.fetcher(name="w2", projects=["shop"])
    drain(world)
    push(world, "a")

    assert why(world).endswith(
        "has tasks to dispatch, but all fetchers that ask for them are draining: w1; resume with: "
        "taskqueue fetcher resume w1"
    )


def test_why_says_that_some_are_full_and_others_draining(world: World) -> None:
    push(world, "busy")
    world.fetcher(name="w2", capacity=1)
    world.fetcher(name="w1", capacity=5)
    drain(world)
    push(world, "a")

    assert why(world).endswith("all fetchers that ask for them are full (1 of 1 places), 1 draining")


# ---------------------------------------------------------------------------------------- its limits


def test_so_many_names_are_drained_at_most(world: World) -> None:
    for number in range(DRAINED_MOST):
        world.turn(ask(world, "drain", f"w{number}"))

    assert drain(world, "w7").draining
    assert world.ask(ErrorReply, ask(world, "drain", "one-more")).code == "full"
    resume(world, "w7")
    assert drain(world, "one-more").draining


def test_a_repeat_is_answered_and_not_done_again(world: World) -> None:
    world.fetcher(name="w1")
    first = ask(world, "drain")
    world.answer(first)
    resume(world)

    assert world.ask(FetcherReply, first).draining
    assert not show(world).draining
