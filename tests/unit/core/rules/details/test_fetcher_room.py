"""Room of a fetcher: tasks that it may get, after any end of its earlier leases."""

from __future__ import annotations

from collections.abc import Callable
from sys import getsizeof

import pytest

from taskqueue.protocol.fetchers import Extend, Hello, LeaseRef, Release, TokensReply, Welcome
from taskqueue.protocol.fields import Token
from taskqueue.protocol.tasks import Done, DoneReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

TIMEOUT = 5.0


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world({"processing_timeout": TIMEOUT})


def report_elsewhere(world: World, fetcher: Fetcher) -> None:
    world.ask(DoneReply, Done(session="other", n=world.n(), tasks=[fetcher.finished("a")]))


def release_elsewhere(world: World, fetcher: Fetcher) -> None:
    world.ask(TokensReply, Release(session="other", n=world.n(), leases=fetcher.leases("a")))


ENDS: dict[str, Callable[[World, Fetcher], object]] = {
    "its time": lambda world, fetcher: world.advance(TIMEOUT + 1),
    "task cancel": lambda world, fetcher: world.push("news", task("a", force_update=True, cancel=True)),
    "project clear": lambda world, fetcher: world.do("clear"),
    "project reset": lambda world, fetcher: world.do("reset"),
    "project delete": lambda world, fetcher: world.do("delete"),
    "a done from elsewhere": report_elsewhere,
    "a release from elsewhere": release_elsewhere,
}


@pytest.fixture(params=ENDS)
def busy(request: pytest.FixtureRequest, world: World) -> Fetcher:
    """Make a fetcher with one place, whose only lease the daemon has ended in one of its ways."""
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    token = fetcher.tokens("a")
    ENDS[request.param](world, fetcher)
    world.push("shop", task("s"))
    fetcher.ended.clear()
    assert fetcher.taken == ["a"]
    fetcher.working = token
    return fetcher


def test_whatever_ends_a_lease_its_fetcher_gets_nothing_in_its_place_while_it_works(
    world: World, busy: Fetcher
) -> None:
    for _ in range(3):
        world.advance(20)
        busy.hello(holds=[], running=busy.working)

    assert busy.taken == ["a"]


def test_a_fetcher_that_works_no_more_has_room_after_its_next_hello(world: World, busy: Fetcher) -> None:
    busy.hello(holds=[], running=[])

    assert len(busy.taken) == 2


def test_a_report_of_what_has_ended_makes_room_at_once(world: World, busy: Fetcher) -> None:
    busy.forge("a", busy.working[0], ok=False)

    assert len(busy.taken) == 2


def test_what_had_ended_before_its_fetcher_passed_it_on_takes_no_room(world: World, busy: Fetcher) -> None:
    busy.hello(holds=busy.working, passed=busy.working)

    assert len(busy.taken) == 2


def test_a_fetcher_that_falls_silent_has_all_its_room_when_it_comes_back(world: World, busy: Fetcher) -> None:
    world.advance(61)
    busy.hello(holds=[])

    assert len(busy.taken) == 2


def test_what_the_fetcher_has_not_seen_yet_takes_room_until_it_has(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    fetcher.deaf = True
    world.push("news", task("a"))
    world.push("news", task("a", force_update=True, cancel=True))
    fetcher.deaf = False
    world.push("shop", task("s"))

    fetcher.hello(seen=0, holds=[])
    assert "s" not in fetcher.taken
    fetcher.hello()
    assert fetcher.taken == ["s"]


def test_a_welcome_names_what_is_held_but_not_in_force(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher(capacity=2)
    tokens = fetcher.tokens("a", "b")
    world.push("news", task("a", force_update=True, cancel=True))

    hello = Hello(session="fetcher", n=world.n(), capacity=2, holds=[*tokens, 12345], seen=1)
    assert world.ask(Welcome, hello).ended == [tokens[0], 12345]


def test_what_is_run_without_a_lease_takes_room_after_a_restart_too(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    token = fetcher.tokens("a")
    world.advance(TIMEOUT + 1)

    world.restart()
    fetcher.hello(holds=[], running=token)
    assert fetcher.taken == ["a"]
    fetcher.hello(holds=[])
    assert fetcher.taken == ["a", "a"]


def test_what_is_run_but_not_held_goes_back_and_takes_room_all_the_same(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)

    fetcher.hello(holds=[], running=fetcher.tokens("a"))
    assert world.show("a").state == "ready"
    assert fetcher.taken == ["a"]


# ---------------------------------------------------------------------------------------- passed on


def test_a_task_that_was_passed_on_takes_no_room_of_its_fetcher(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c"))
    fetcher = world.fetcher(capacity=1)

    fetcher.hello(passed=fetcher.tokens("a"))
    assert fetcher.taken == ["a", "b"]
    world.push("news", task("a", force_update=True, cancel=True))
    fetcher.hello()
    assert fetcher.taken == ["a", "b"]


def test_any_session_may_report_prolong_and_hand_back_a_task(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c"))
    fetcher = world.fetcher()
    leases = fetcher.leases("a", "b")

    assert world.ask(TokensReply, Extend(session="p", n=world.n(), leases=leases, seconds=50.0)).counted == 2
    assert world.show("a").lease_seconds == 50.0
    assert world.ask(TokensReply, Release(session="p", n=world.n(), leases=leases[:1])).counted == 1
    fetcher.hello(passed=fetcher.tokens("b"))
    report = Done(session="p", n=world.n(), tasks=[fetcher.finished("b", new=[task("d")])])
    assert world.ask(DoneReply, report).outcomes == ["done"]
    assert world.show("b").state == "success"
    assert "d" in fetcher.taken


def test_a_task_that_was_passed_on_comes_back_when_its_fetcher_falls_silent(make_world: MakeWorld) -> None:
    world = make_world({"processing_timeout": 600})
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.hello(passed=fetcher.tokens("a"))

    world.advance(61)
    assert world.show("a").state == "ready"


# ---------------------------------------------------------------------------------------- rest


def hand_back_all(world: World, fetcher: Fetcher) -> int:
    """Count how often the fetcher gets its task within a minute, if it hands it back each time."""
    before = len(fetcher.taken)
    for _ in range(600):
        if "a" in fetcher.held:
            fetcher.release("a")
        world.advance(0.1)
    return len(fetcher.taken) - before


def test_who_hands_back_what_it_stated_room_for_is_asked_less_and_less_often(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)

    assert hand_back_all(world, fetcher) == 11


def test_others_get_at_once_what_a_resting_fetcher_hands_back(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    other = world.fetcher(capacity=1, name="other")

    fetcher.release("a")
    assert other.taken == ["a"]


def test_a_report_that_counts_ends_the_rest(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher(capacity=2)

    fetcher.release("a")
    assert fetcher.taken == ["a", "b"]
    fetcher.done("b")
    assert fetcher.taken == ["a", "b", "a"]


def resting(world: World) -> Fetcher:
    """Make a fetcher that rests because it has handed back "b", and still runs "late", whose lease has expired."""
    world.push("news", task("late"))
    fetcher = world.fetcher(capacity=1)
    world.do("pause")
    world.advance(TIMEOUT + 1)
    world.push("shop", task("b"))
    fetcher.hello(capacity=2)
    fetcher.release("b")
    return fetcher


def test_a_success_that_counts_although_its_time_was_over_ends_the_rest_too(world: World) -> None:
    fetcher = resting(world)
    assert fetcher.taken == ["late", "b"]

    assert fetcher.done("late") == "done"
    assert fetcher.taken == ["late", "b", "b"]


def test_a_report_that_changes_nothing_does_not_end_the_rest(world: World) -> None:
    fetcher = resting(world)

    assert fetcher.fail("late") == "stale"
    assert fetcher.taken == ["late", "b"]


def test_who_lowers_its_capacity_before_it_hands_back_need_not_rest(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c"))
    fetcher = world.fetcher(capacity=3)

    fetcher.hello(capacity=1)
    fetcher.release("b", "c")
    fetcher.hello(capacity=3)
    assert fetcher.taken == ["a", "b", "c", "b", "c"]


def test_what_all_fetchers_say_to_run_without_leases_is_kept_up_to_as_many_as_may_be_leased(
    make_world: MakeWorld,
) -> None:
    world = make_world(max_leases=10)
    world.fetcher(capacity=100, name="one").hello(running=range(1, 8))
    world.fetcher(capacity=100, name="two").hello(running=range(101, 200))
    world.fetcher(capacity=100, name="three").hello(running=range(201, 300))
    state = world.scheduler._state
    assert [len(session.ended) for session in state.sessions.values()] == [7, 3, 0]
    assert getsizeof(state.sessions["three"].ended) <= getsizeof({})

    world.advance(61)
    assert state.memory.ended == 0


def test_leases_that_run_out_beyond_that_take_no_room(make_world: MakeWorld) -> None:
    world = make_world(max_leases=4)
    liar = world.fetcher(capacity=1, name="liar")
    liar.hello(running=range(1, 4))
    fetcher = world.fetcher(capacity=2)
    world.push("news", task("a", timeout=1), task("b", timeout=1))
    world.advance(1.5)

    assert world.scheduler._state.memory.ended == 4
    assert len(fetcher.taken) == 3


def test_who_hands_back_what_has_ended_has_room_at_once(world: World, busy: Fetcher) -> None:
    lease = LeaseRef("news", "a", Token(busy.working[0]))
    world.ask(TokensReply, Release(session=busy.session, n=world.n(), leases=[lease]))

    assert len(busy.taken) == 2
