"""Choice of the fetcher, if several could take a task."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskqueue.core.moves.memory_limits import HEAVY_BYTES
from taskqueue.protocol.fetchers import Fetchers, FetchersReply, Hello, Release
from taskqueue.settings.settings import Layer
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import HOUR
from tests.unit.core.rules.test_crashes import SILENCE, names


def one_by_one(world: World, fetchers: list[Fetcher], count: int, project: str = "news") -> str:
    """Push ``count`` tasks, one after the other; return the names of their fetchers, in order."""
    got = ""
    for number in range(count):
        before = {fetcher.session: len(fetcher.taken) for fetcher in fetchers}
        world.push(project, task(f"{project}-{len(fetchers[0].world.inbox)}-{number}"))
        got += "".join(fetcher.session for fetcher in fetchers if len(fetcher.taken) > before[fetcher.session])
    return got


def line(world: World, capacity: int = 1, projects: list[str] | None = None, **priorities: int) -> list[Fetcher]:
    """Make fetchers that say hello in this order."""
    return [world.fetcher(capacity, projects, name, priority) for name, priority in priorities.items()]


def test_the_best_fetcher_is_served_first_and_among_equals_who_came_first(world: World) -> None:
    fetchers = line(world, A=0, B=0, C=5, D=1)

    assert one_by_one(world, fetchers, 4) == "CDAB"


def test_tasks_that_come_at_once_go_to_the_best_fetchers(world: World) -> None:
    a, b, c, d = line(world, A=0, B=0, C=5, D=1)

    world.push("news", *[task(name) for name in "wxyz"])
    assert [fetcher.taken for fetcher in (c, d, a, b)] == [["w"], ["x"], ["y"], ["z"]]


def test_fetchers_of_one_priority_take_turns(world: World) -> None:
    fetchers = line(world, capacity=3, A=7, B=7, C=7, D=0)

    assert one_by_one(world, fetchers, 10) == "ABCABCABCD"


def test_a_priority_may_be_less_than_0_which_it_is_if_a_fetcher_says_none(world: World) -> None:
    fetchers = line(world, A=-1, C=1)
    hello = Hello(session="B", n=world.n(), capacity=1)
    fetchers.append(world.know(Fetcher(world, "B", 1, None)))
    world.answer(hello)

    assert one_by_one(world, fetchers, 3) == "CBA"


def test_a_slow_machine_works_only_while_the_fast_one_has_no_free_place(world: World) -> None:
    fast, slow = world.fetcher(2, None, "fast", 10), world.fetcher(2, None, "slow", 0)
    world.push("news", task("a"), task("b"))
    assert (fast.taken, slow.taken) == (["a", "b"], [])

    world.push("news", task("c"))
    assert (fast.taken, slow.taken) == (["a", "b"], ["c"])

    fast.done("b")
    world.push("news", task("d"))
    assert (fast.taken, slow.taken) == (["a", "b", "d"], ["c"])


def test_a_newcomer_of_higher_priority_is_served_next_and_nobody_is_interrupted(world: World) -> None:
    slow = world.fetcher(2, None, "slow")
    world.push("news", *[task(name) for name in "abcd"])
    fast = world.fetcher(1, None, "fast", 1)
    assert (slow.taken, fast.taken, sorted(slow.held)) == (["a", "b"], ["c"], ["a", "b"])

    world.turn(slow.answers(slow.finished("a")), fast.answers(fast.finished("c")))
    world.settle()
    assert (slow.taken, fast.taken) == (["a", "b"], ["c", "d"])


def gone(world: World, fetcher: Fetcher) -> None:
    world.advance(SILENCE / 2)
    for other in ("A", "B"):
        world.answer(Hello(session=other, n=world.n(), capacity=1))
    world.advance(SILENCE / 2)


def takes_nothing(world: World, fetcher: Fetcher) -> None:
    fetcher.hello(capacity=0)


def full(world: World, fetcher: Fetcher) -> None:
    world.push("news", task("first"))
    assert fetcher.taken == ["first"]


def unreachable(world: World, fetcher: Fetcher) -> None:
    world.unreachable.append(fetcher.session.encode())
    world.push("news", task("lost"))


@pytest.mark.parametrize("leave", [gone, takes_nothing, full, unreachable])
def test_who_vanishes_or_has_no_free_place_leaves_the_line_at_once(
    world: World, leave: Callable[[World, Fetcher], None]
) -> None:
    a, b, best = line(world, A=0, B=0, C=5)

    leave(world, best)
    taken = list(best.taken)
    world.push("news", task("x"), task("y"))
    world.settle()

    assert len(a.taken) == len(b.taken) == 1
    assert best.taken == taken


def test_who_comes_back_is_the_last_of_its_equals(world: World) -> None:
    fetchers = line(world, A=0, B=0)
    fetchers[0].hello(capacity=0)
    fetchers[0].hello()

    assert one_by_one(world, fetchers, 2) == "BA"


def test_a_hello_that_says_the_same_priority_keeps_the_place_in_the_line(world: World) -> None:
    fetchers = line(world, A=3, B=3)
    fetchers[0].hello()

    assert one_by_one(world, fetchers, 2) == "AB"


def test_a_hello_that_says_another_priority_changes_the_place_in_the_line(world: World) -> None:
    fetchers = line(world, A=5, B=1, C=0, D=0)
    fetchers[0].hello(priority=0)
    fetchers[3].hello(priority=1)

    assert one_by_one(world, fetchers, 4) == "BDCA"


def test_a_hello_that_was_overtaken_by_a_later_one_changes_no_priority(world: World) -> None:
    fetchers = line(world, A=0, B=1)
    overtaken = Hello(session="A", n=world.n(), capacity=1, priority=9)
    fetchers[0].hello()
    world.answer(overtaken)

    assert one_by_one(world, fetchers, 2) == "BA"


WISHES: list[list[str] | None] = [None, ["news"], ["news", "shop"], ["news", "wiki"]]


@pytest.mark.parametrize("shift", range(4))
def test_each_task_goes_to_the_best_of_those_who_want_it_whatever_else_they_want(world: World, shift: int) -> None:
    fetchers = [
        world.fetcher(1, wishes, name, priority)
        for name, priority, wishes in zip("ABCD", (0, 3, 1, 2), WISHES[shift:] + WISHES[:shift], strict=True)
    ]

    assert one_by_one(world, fetchers, 4) == "BDCA"


def test_of_several_projects_tasks_each_goes_to_the_best_who_wants_it(world: World) -> None:
    anything = world.fetcher(1, None, "anything", 0)
    shopper = world.fetcher(9, ["shop"], "shopper", 5)
    world.turn(world.new_tasks("news", task("n")), world.new_tasks("shop", task("s1"), task("s2")))
    world.settle()

    assert (shopper.taken, anything.taken) == (["s1", "s2"], ["n"])


def test_sets_of_wishes_with_equally_good_fetchers_take_turns(world: World) -> None:
    fetchers = [
        world.fetcher(3, ["news"], "A", 2),
        world.fetcher(3, ["news", "shop"], "B", 2),
        world.fetcher(3, None, "C", 1),
    ]

    assert one_by_one(world, fetchers, 9) == "ABABABCCC"


def test_projects_keep_their_shares_whatever_the_priorities_of_fetchers(world: World) -> None:
    world.push("news", *[task(f"n{number}") for number in range(80)])
    world.push("shop", *[task(f"s{number}") for number in range(80)])
    fetchers = line(world, capacity=2, A=0, B=2, C=1)

    for _ in range(40):
        for fetcher in fetchers:
            fetcher.done(next(iter(fetcher.held)))
    for fetcher in fetchers:
        assert sum(taskid.startswith("n") for taskid in fetcher.taken) == pytest.approx(21, abs=4)


def test_fetchers_of_low_priority_wait_while_better_ones_with_other_wishes_take_all_that_the_daemon_can_give(
    make_world: MakeWorld,
) -> None:
    world = make_world(max_leases=4)
    better = [world.fetcher(100, ["news"], name, 1) for name in "ab"]
    low = world.fetcher(1, ["shop"], "low")
    world.turn(
        world.new_tasks("news", *[task(f"n{number}") for number in range(40)]), world.new_tasks("shop", task("s"))
    )
    world.settle()
    assert [len(fetcher.held) for fetcher in (*better, low)] == [2, 2, 0]

    for _ in range(18):
        for fetcher in better:
            fetcher.done(next(iter(fetcher.held)))
            assert low.taken == []
    better[0].done(next(iter(better[0].held)))
    better[1].done(next(iter(better[1].held)))
    assert low.taken == ["s"]


def test_a_project_that_has_tokens_again_is_no_worse_fetchers_before_a_better_one_is_asked(
    make_world: MakeWorld,
) -> None:
    projects: dict[str, Layer] = {"news": {"rate": 0.1, "burst": 1.0}, "shop": {}, "wiki": {"retry_delay": [1000.0]}}
    world = make_world(projects=projects, turn_tasks=2)
    world.fetcher(2, ["wiki"], "busy")
    world.push("wiki", task("w1", timeout=9), task("w2", timeout=9))
    low = world.fetcher(9, ["news"], "low", 0)
    best = world.fetcher(9, ["news", "shop"], "best", 1)
    # A turn dispatches at most two tasks: the fetcher that wants only news has no turn any more.
    world.turn(world.new_tasks("news", task("n1"), task("n2")), world.new_tasks("shop", task("s")))
    assert (sorted(best.taken), low.taken) == (["n1", "s"], [])

    # The next turn can only process the ends of two leases.
    world.elapsed += 11
    world.turn()
    world.settle()

    assert (best.taken[-1], low.taken) == ("n2", [])


def test_a_task_whose_body_was_read_while_its_project_had_no_tokens_goes_to_the_best(make_world: MakeWorld) -> None:
    projects: dict[str, Layer] = {
        "news": {"rate": 0.1, "burst": 2.0},
        "shop": {},
        "wiki": {"retry_delay": [1000.0]},
    }
    world = make_world(projects=projects, turn_tasks=2)
    world.fetcher(2, ["wiki"], "busy")
    world.push("wiki", task("w1", timeout=9), task("w2", timeout=9))
    first = world.fetcher(1, ["news"], "first", 0)
    world.push("news", task("large", body="x" * HEAVY_BYTES))
    low = world.fetcher(1, ["news", "shop"], "low", 0)
    world.push("shop", task("s"))
    best = world.fetcher(9, ["news"], "best", 1)
    first.hello(capacity=0)
    # The last token is for n; then the body of the other task is read again.
    returned = Release(session="first", n=world.n(), leases=first.leases("large"))
    world.turn(returned, world.new_tasks("news", task("n", priority=9)))
    world.settle()
    assert (best.taken, low.taken) == (["n"], ["s"])

    # The next turn can only process the ends of two leases.
    world.elapsed += 11
    world.turn(low.answers(low.finished("s")))
    world.settle()

    assert (best.taken, low.taken) == (["n", "large"], ["s"])


def test_a_fetcher_that_came_while_a_project_was_closed_gets_its_tasks_before_worse_ones(
    make_world: MakeWorld,
) -> None:
    projects: dict[str, Layer] = {"news": {"active": "22:00-23:00 UTC"}, "shop": {}, "wiki": {}}
    world = make_world(projects=projects, turn_tasks=1)
    low = world.fetcher(1, ["news", "shop"], "low", 0)
    world.push("shop", task("s"))
    world.push("news", task("n"))
    world.wall_step += HOUR
    world.do("pause", "wiki", seconds=1.0)
    best = world.fetcher(1, ["news"], "best", 1)
    assert (best.taken, low.taken) == ([], ["s"])

    # The next turn can only process the end of the pause.
    world.wall_step += 23 * HOUR
    world.turn(low.answers(low.finished("s")))
    world.settle()

    assert (best.taken, low.taken) == (["n"], ["s"])


def test_a_fetcher_whose_connection_may_have_no_more_is_passed_over_for_the_next_best(make_world: MakeWorld) -> None:
    world = make_world(max_leases=4)
    best, other = world.fetcher(4, None, "best", 9), world.fetcher(4, None, "other", 0)

    world.push("news", *[task(name) for name in "abcd"])
    assert (best.taken, other.taken) == (["a", "b"], ["c", "d"])

    other.done("c")
    best.done("a")
    world.push("news", task("e"))
    assert best.taken == ["a", "b", "e"]


# ---------------------------------------------------------------------------------------- what a fetcher may not have


def suspects(world: World, count: int) -> None:
    """Make ``count`` suspects of one crash in news."""
    world.push("news", *[task(name) for name in names(count)])
    world.fetcher(name="dying")
    world.advance(SILENCE)


def at_once(world: World, *fetchers: Fetcher, **slots: int) -> None:
    """Let all fetchers say hello in one turn, so that tasks go to all of them at once."""
    world.turn(*[_hello(world, fetcher, slots.get(fetcher.session)) for fetcher in fetchers])
    world.settle()


def _hello(world: World, fetcher: Fetcher, slots: int | None) -> Hello:
    return Hello(
        session=fetcher.session,
        n=world.n(),
        capacity=fetcher.capacity,
        projects=fetcher.projects,
        priority=fetcher.priority,
        slots=slots,
    )


def made(world: World, name: str, priority: int, capacity: int = 4, projects: list[str] | None = None) -> Fetcher:
    return world.know(Fetcher(world, name, capacity, projects, priority))


def test_a_suspect_that_better_fetchers_may_not_have_beside_theirs_goes_to_the_best_who_may(world: World) -> None:
    suspects(world, 4)
    a, b, c, d = made(world, "A", 0), made(world, "B", 5), made(world, "C", 3), made(world, "D", 3)
    at_once(world, a, b, c, d)

    assert [fetcher.taken for fetcher in (b, c, d, a)] == [["t00"], ["t01"], ["t02"], ["t03"]]


def test_suspects_wait_for_the_best_who_may_have_them_while_others_go_on(make_world: MakeWorld) -> None:
    world = make_world(head_tasks=64)
    suspects(world, 3)
    world.push("shop", *[task(f"s{number}") for number in range(4)])
    best, middle, last = made(world, "best", 5), made(world, "middle", 3, 2, ["shop", "news"]), made(world, "last", 0)
    at_once(world, last, middle, best)

    assert best.taken == ["t00", "s0", "s1", "s2"]
    assert sorted(middle.taken) == ["s3", "t01"]
    assert last.taken == ["t02"]


def test_who_was_passed_over_for_a_suspect_gets_the_next_task_that_it_may_have(make_world: MakeWorld) -> None:
    world = make_world(head_tasks=64)
    suspects(world, 2)
    best, last = made(world, "best", 5), made(world, "last", 0)
    at_once(world, last, best)
    assert (best.taken, last.taken) == (["t00"], ["t01"])

    world.push("news", task("x"))
    world.push("shop", task("y"))
    assert (best.taken, last.taken) == (["t00", "x", "y"], ["t01"])


def test_who_may_have_more_suspects_than_its_equals_gets_them_before_those_behind(make_world: MakeWorld) -> None:
    world = make_world(head_tasks=64)
    suspects(world, 23)
    world.push("shop", *[task(f"s{number:02}") for number in range(60)])
    few, too, many = made(world, "few", 5, 100), made(world, "too", 5, 100), made(world, "many", 5, 100)
    last = made(world, "last", 0, 100)
    at_once(world, few, too, many, last, few=4, too=4, many=80)

    taken = [sum(taskid.startswith("t") for taskid in fetcher.taken) for fetcher in (few, too, many, last)]
    assert taken == [1, 1, 20, 1]


def test_who_was_passed_over_for_a_suspect_takes_turns_with_its_equals_afterwards(make_world: MakeWorld) -> None:
    world = make_world(head_tasks=64)
    suspects(world, 2)
    best, last = made(world, "best", 5), made(world, "last", 0)
    at_once(world, last, best)
    another = world.fetcher(4, None, "another", 5)
    assert (best.taken, last.taken) == (["t00"], ["t01"])

    assert one_by_one(world, [best, another], 4, "shop") == "bestanotherbestanother"


# ---------------------------------------------------------------------------------------- what people see


def test_the_priority_of_a_fetcher_is_shown(world: World) -> None:
    line(world, A=-7)

    (shown,) = world.ask(FetchersReply, Fetchers(session="person", n=world.n())).fetchers
    assert (shown.name, shown.priority) == ("A", -7)


def test_a_fetcher_of_a_former_daemon_has_the_priority_that_its_next_hello_says(world: World) -> None:
    fetchers = line(world, A=0, B=5)
    world.restart()
    for fetcher in fetchers:
        fetcher.hello()

    assert one_by_one(world, fetchers, 2) == "BA"
