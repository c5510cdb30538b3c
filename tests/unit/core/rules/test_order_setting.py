"""The setting ``order``: the order of ready tasks of one priority."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.operations import Bulk
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.values import Fetched, Recrawl
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import rest

DELAYS = {"three": 3.0, "one": 1.0, "four": 4.0, "two": 2.0}
"""Delays of tasks by taskid, in the order of their push."""

ORDERS = {"arrival": "newest", "newest": "due"}
"""Other orders, by order, for which ready tasks are sorted anew."""


def busy_worker(world: World) -> Fetcher:
    """Make a fetcher with one place, which is taken by the task "busy"."""
    world.push("news", task("busy"))
    return world.fetcher(capacity=1)


def push_delayed(world: World) -> None:
    world.push("news", *(task(name, delay=delay) for name, delay in DELAYS.items()))


def rest_of(fetcher: Fetcher) -> list[str]:
    """Finish all tasks one by one; return those after the first."""
    fetcher.finish_all()
    return fetcher.taken[1:]


@pytest.fixture
def newest(make_world: MakeWorld) -> World:
    """Make a world whose projects go by newest."""
    return make_world({"order": "newest"})


@pytest.fixture
def due(make_world: MakeWorld) -> World:
    """Make a world whose projects go by due time."""
    return make_world({"order": "due"})


def test_by_arrival_the_first_pushed_goes_first_whenever_it_was_due(world: World) -> None:
    fetcher = busy_worker(world)
    push_delayed(world)
    world.advance(5)

    assert rest_of(fetcher) == ["three", "one", "four", "two"]


def test_by_due_time_the_first_that_was_due_goes_first(due: World) -> None:
    fetcher = busy_worker(due)
    push_delayed(due)
    due.advance(5)

    assert rest_of(fetcher) == ["one", "two", "three", "four"]


def test_by_due_time_they_keep_their_order_if_all_came_due_while_the_daemon_was_away(due: World) -> None:
    push_delayed(due)
    due.elapsed += 5
    due.crash()
    due.settle()
    due.restart()

    assert due.fetcher().taken == ["one", "two", "three", "four"]


def test_by_due_time_a_higher_priority_goes_first(due: World) -> None:
    fetcher = busy_worker(due)
    push_delayed(due)
    due.push("news", task("urgent", delay=4.5, priority=1))
    due.advance(5)

    assert rest_of(fetcher)[0] == "urgent"


def test_by_due_time_a_task_pushed_without_a_time_is_due_when_it_is_pushed(due: World) -> None:
    fetcher = busy_worker(due)
    push_delayed(due)
    due.advance(2.5)
    due.push("news", task("now"))
    due.advance(2.5)

    assert rest_of(fetcher) == ["one", "two", "now", "three", "four"]


@pytest.mark.parametrize(("order", "expected"), [("arrival", ["a", "b"]), ("due", ["b", "a"])])
def test_by_due_time_a_retry_goes_behind_what_was_pushed_since(
    make_world: MakeWorld, order: str, expected: list[str]
) -> None:
    world = make_world({"order": order, "retry_delay": [10]})
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    rest(fetcher)
    fetcher.fail("a")
    world.push("news", task("b"))
    world.advance(10)

    fetcher.hello()

    assert rest_of(fetcher) == expected


@pytest.mark.parametrize(("order", "expected"), [("arrival", ["child", "x"]), ("due", ["x", "child"])])
def test_by_due_time_a_task_whose_parents_have_succeeded_goes_behind_what_was_ready(
    make_world: MakeWorld, order: str, expected: list[str]
) -> None:
    world = make_world({"order": order})
    fetcher = busy_worker(world)
    world.push("news", replace(task("child"), depends_on=("busy",)), task("x"))
    rest(fetcher)
    fetcher.done("busy")

    fetcher.hello()

    assert rest_of(fetcher) == expected


def test_by_due_time_a_merge_a_new_priority_and_a_release_keep_the_place(due: World) -> None:
    fetcher = busy_worker(due)
    due.push("news", task("hurried", delay=100), task("raised", priority=-1), task("x"))
    due.push("news", task("hurried"), task("raised", priority=0))
    fetcher.done("busy")
    rest(fetcher)
    fetcher.release("hurried")

    other = due.fetcher(capacity=1, name="other")
    other.finish_all()

    assert other.taken == ["hurried", "raised", "x"]


def test_by_due_time_tasks_keep_their_places_while_an_operation_is_under_way(due: World) -> None:
    fetcher = busy_worker(due)
    due.push("news", task("first", delay=1), task("second"))
    due.do("stop", "shop")
    due.elapsed += 1

    due.turn(Bulk(session="person", n=due.n(), project="news", action="reprioritise", priority=3))
    due.settle()

    assert {due.show(name).priority for name in ("first", "second")} == {3}
    assert rest_of(fetcher) == ["first", "second"]


def test_by_due_time_each_slot_goes_so(make_world: MakeWorld) -> None:
    world = make_world({"order": "due", "slot": {"by": "host", "delay": 0.0}})
    world.push("news", task("busy", url="http://a.example/"))
    fetcher = world.fetcher(capacity=1)
    for host in "ab":
        tasks = (task(name + host, url=f"http://{host}.example/{name}", delay=delay) for name, delay in DELAYS.items())
        world.push("news", *tasks)
    world.advance(5)
    taken = rest_of(fetcher)

    for host in "ab":
        assert [name for name in taken if name.endswith(host)] == [
            f"{n}{host}" for n in ("one", "two", "three", "four")
        ]


def test_by_due_time_what_has_been_due_for_longest_is_crawled_again_first(due: World) -> None:
    due.push("news", task("monthly", recrawl=Recrawl(30, 30)), task("hourly", recrawl=Recrawl(1, 1)))
    fetcher = due.fetcher(capacity=2)
    fetcher.done("monthly")
    fetcher.done("hourly")
    fetcher.hello(capacity=0)
    due.advance(40)

    fetcher.hello(capacity=1)

    assert fetcher.taken[2:] == ["hourly"]


def test_another_order_counts_for_what_becomes_ready_from_then_on(world: World) -> None:
    fetcher = busy_worker(world)
    push_delayed(world)
    world.advance(1.5)  # the first one is ready

    world.set(order="due")
    world.advance(5)

    assert rest_of(fetcher) == ["one", "two", "three", "four"]


def test_the_order_by_due_time_holds_for_bodies_that_are_not_in_memory() -> None:
    defaults: dict[str, Any] = {"rate": float("inf"), "order": "due"}
    world = World(CoreConfig(defaults=defaults, projects={"news": {}}, head_bytes=1000))
    fetcher = busy_worker(world)
    world.push("news", *(task(name, delay=delay, body="x" * 9000) for name, delay in DELAYS.items()))
    world.advance(2.5)
    world.restart()
    fetcher.hello()
    world.advance(2.5)

    assert rest_of(fetcher) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("turn_tasks", [1, 4, 4096])
def test_by_due_time_many_tasks_keep_their_order_however_few_a_turn_promotes(
    make_world: MakeWorld, turn_tasks: int
) -> None:
    world = make_world({"order": "due"}, turn_tasks=turn_tasks)
    fetcher = busy_worker(world)
    world.push("news", *(task(f"{n:02}", delay=30.0 - n) for n in range(30)))
    world.elapsed += 31
    world.settle()

    assert rest_of(fetcher) == [f"{n:02}" for n in reversed(range(30))]


def test_by_newest_the_last_pushed_goes_first_whenever_it_was_due(newest: World) -> None:
    fetcher = busy_worker(newest)
    push_delayed(newest)
    newest.advance(5)

    assert rest_of(fetcher) == ["two", "four", "one", "three"]


def test_by_newest_tasks_are_a_stack(newest: World) -> None:
    fetcher = busy_worker(newest)
    newest.push("news", *(task(name) for name in "abc"))
    fetcher.done("busy")
    newest.push("news", *(task(name) for name in "de"))
    newest.restart()
    fetcher.hello()
    fetcher.finish_all()

    assert fetcher.taken == ["busy", "c", "e", "d", "b", "a"]


def test_by_newest_a_higher_priority_goes_first(newest: World) -> None:
    newest.push("news", task("a", priority=1), task("b", priority=1), task("c"))

    assert newest.fetcher().taken == ["b", "a", "c"]


def test_by_newest_a_retry_a_merge_a_new_priority_and_a_release_keep_the_place(newest: World) -> None:
    newest.set(retry_delay=[10])
    newest.push("news", *(task(name) for name in "abc"))
    fetcher = newest.fetcher(capacity=1)
    rest(fetcher)
    fetcher.fail("c")
    newest.push("news", task("d"), task("a", priority=1))
    newest.turn(Bulk(session="person", n=newest.n(), project="news", action="reprioritise", priority=0))
    newest.settle()
    newest.advance(10)
    fetcher.hello()
    rest(fetcher)
    fetcher.release("d")

    other = newest.fetcher(capacity=1, name="other")
    other.finish_all()

    assert other.taken == ["d", "c", "b", "a"]


def test_by_newest_a_restart_of_a_finished_task_makes_it_the_newest(newest: World) -> None:
    fetcher = busy_worker(newest)
    fetcher.done("busy")
    rest(fetcher)
    newest.push("news", task("a"), task("busy", force_update=True), task("b"))

    assert newest.fetcher(name="other").taken == ["b", "busy", "a"]


def test_by_newest_a_task_whose_fetcher_fell_silent_keeps_its_place(newest: World) -> None:
    newest.push("news", *(task(name) for name in "abc"))
    newest.fetcher(capacity=1, name="silent")
    newest.push("news", task("d"))
    newest.advance(100)

    assert newest.fetcher().taken == ["d", "c", "b", "a"]


def test_by_newest_a_throttled_task_keeps_its_place(make_world: MakeWorld) -> None:
    world = make_world({"order": "newest", "slot": {"by": "host"}})
    world.push("news", *(task(name) for name in "ab"))
    fetcher = world.fetcher(capacity=1)
    fetcher.fail("b", fetched=Fetched(status_code=429))
    world.advance(600)
    fetcher.hello()

    assert fetcher.taken == ["b", "b"]


def test_by_newest_the_best_slot_is_that_of_the_newest_task(make_world: MakeWorld) -> None:
    world = make_world({"order": "newest", "slot": {"by": "host", "delay": 0.0}})
    pages = [f"http://{host}.example/{n}" for n in range(3) for host in "ab"]
    world.push("news", *(task(page, url=page) for page in pages))
    world.restart()
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()

    assert fetcher.taken == pages[::-1]


MANY = 300
"""Ready tasks that are sorted in more than one turn."""


@pytest.mark.parametrize("slot", [{}, {"by": "host", "delay": 0.0}])
@pytest.mark.parametrize("start", ["arrival", "newest"])
def test_another_order_sorts_ready_tasks_anew_in_bounded_steps_that_survive_a_crash(
    make_world: MakeWorld, start: str, slot: dict[str, Any]
) -> None:
    world = make_world({"order": start, "slot": slot})
    pages = [f"http://{'ab'[n % 2]}.example/{n:03}" for n in range(MANY)]
    world.push("news", *(task(page, url=page, priority=n % 3) for n, page in enumerate(pages)))
    request = ProjectSet(session="person", n=world.n(), project="news", settings={"order": ORDERS[start]})
    world.turn(request)
    world.turn()
    moved = [move for move in world.kept.moves if move[0].project]
    assert 0 < len(moved) <= 256
    world.crash()
    world.settle()
    world.push("news", task("last", priority=9))

    sign = -1 if ORDERS[start] == "newest" else 1
    expected = sorted(range(MANY), key=lambda n: (-(n % 3), sign * n))
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()
    assert fetcher.taken == ["last", *(pages[n] for n in expected)]


@pytest.mark.parametrize("start", ["arrival", "newest"])
def test_while_tasks_are_sorted_anew_others_come_and_go(make_world: MakeWorld, start: str) -> None:
    world = make_world({"order": start}, turn_tasks=4)
    world.push("news", *(task(f"{n:03}") for n in range(MANY)))
    world.turn(ProjectSet(session="person", n=world.n(), project="news", settings={"order": ORDERS[start]}))
    fetcher = world.know(Fetcher(world, "fetcher", 3, None))
    world.turn(Hello(session="fetcher", n=world.n(), capacity=3))
    world.turn(world.new_tasks("news", task("new"), task("150", priority=5)))
    world.turn(world.new_tasks("news", task("149", force_update=True, cancel=True)))
    world.settle()
    fetcher.finish_all()

    assert sorted(fetcher.taken) == sorted([*(f"{n:03}" for n in range(MANY) if n != 149), "new"])
    rest_taken = [name for name in fetcher.taken[4:] if name not in ("150", "new")]
    assert rest_taken == sorted(rest_taken, reverse=start == "arrival")


def test_a_project_that_is_divided_while_its_tasks_are_sorted_anew_goes_by_its_order(world: World) -> None:
    world.push("news", *(task(f"{n:03}") for n in range(MANY)))
    world.turn(ProjectSet(session="person", n=world.n(), project="news", settings={"order": "newest"}))
    world.turn()
    world.turn(
        ProjectSet(session="person", n=world.n(), project="news", settings={"slot": {"by": "host", "delay": 0.0}})
    )
    world.settle()
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()

    assert fetcher.taken == [f"{n:03}" for n in reversed(range(MANY))]


def test_a_project_that_is_cleared_or_has_nothing_ready_needs_no_sorting(world: World) -> None:
    world.push("news", *(task(f"{n:03}") for n in range(MANY)))
    world.turn(ProjectSet(session="person", n=world.n(), project="news", settings={"order": "newest"}))
    world.do("clear")
    world.push("news", task("a"), task("b"))
    world.set("shop", order="newest")
    world.push("shop", task("c"), task("d"))

    assert world.fetcher(capacity=1, projects=["news"], name="one").taken == ["b"]
    assert world.fetcher(capacity=1, projects=["shop"], name="other").taken == ["d"]
