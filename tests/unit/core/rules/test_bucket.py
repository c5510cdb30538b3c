"""Pace of a project: it gains a token every 1/rate seconds, has at most burst, and spends one per dispatch."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectSet
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import DAY, bring, never_comes


def crowd(world: World, tasks: int = 50) -> Fetcher:
    """Make a fetcher that takes everything, and more tasks than it will get."""
    world.push("news", *[task(f"t{i}") for i in range(tasks)])
    return world.fetcher()


def gained(world: World, fetcher: Fetcher, seconds: float) -> int:
    """Count the tasks that the fetcher gets in the next ``seconds``, while it is heard."""
    taken, end = len(fetcher.taken), world.elapsed + seconds
    while world.elapsed < end:
        fetcher.hello()
        world.advance(min(30.0, end - world.elapsed))
    return len(fetcher.taken) - taken


def test_a_new_project_may_hand_out_its_burst_at_once_and_then_its_rate(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.5, "burst": 4})
    fetcher = crowd(world)
    assert len(fetcher.taken) == 4

    assert [gained(world, fetcher, 2) for _ in range(5)] == [1, 1, 1, 1, 1]


def test_a_project_that_its_settings_make_begins_with_the_burst_that_they_say(make_world: MakeWorld) -> None:
    world = make_world({"rate": 1.0, "burst": 3.0})
    world.set("made", rate=1.0, burst=40.0)
    world.push("made", *[task(f"t{i}") for i in range(50)])

    fetcher = world.fetcher()

    assert len(fetcher.taken) == 40


def test_a_project_that_is_deleted_and_made_anew_has_a_full_bucket(make_world: MakeWorld) -> None:
    world = make_world({"rate": 1.0, "burst": 5.0})
    fetcher = crowd(world)
    assert len(fetcher.taken) == 5

    world.do("delete")
    world.do("start")
    world.push("news", *[task(f"again{i}") for i in range(9)])
    fetcher.hello()
    assert len(fetcher.taken) == 10


def test_after_a_quiet_time_it_may_hand_out_no_more_than_its_burst(make_world: MakeWorld) -> None:
    world = make_world({"rate": 1, "burst": 4})
    crowd(world, 4)
    world.advance(DAY)

    world.push("news", *[task(f"u{i}") for i in range(9)])
    fetcher = world.fetcher(name="another")
    assert len(fetcher.taken) == 4


@pytest.mark.parametrize(("rate", "burst"), [(0.2, 1), (1, 1), (3, 2), (10, 10)])
def test_no_window_has_more_than_burst_and_rate_times_its_length(
    make_world: MakeWorld, rate: float, burst: float
) -> None:
    world = make_world({"rate": rate, "burst": burst})
    fetcher = crowd(world, 60)
    times = [world.elapsed] * len(fetcher.taken)
    while len(times) < 50:
        times += [world.elapsed] * gained(world, fetcher, 0.7)

    # A task was dispatched at most 0.7 seconds before its time was recorded.
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + rate * (times[last] - begin + 0.7) + 1e-6


def test_a_retry_costs_a_token_like_any_hand_out(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 1})
    fetcher = bring(world, "processing")

    fetcher.fail("a", retry_after=0.0)
    assert gained(world, fetcher, 9) == 0
    assert gained(world, fetcher, 1) == 1


def test_a_task_that_came_back_unstarted_does_not_return_its_token(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 1})
    fetcher = bring(world, "processing")

    fetcher.release("a")
    assert gained(world, fetcher, 9) == 0
    assert gained(world, fetcher, 1) == 1


def test_a_rate_of_inf_is_unlimited(make_world: MakeWorld) -> None:
    world = make_world({"rate": inf, "burst": 1})

    assert len(crowd(world).taken) == 50


def test_a_rate_of_zero_hands_out_nothing_and_takes_tasks(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0, "burst": 9})
    fetcher = world.fetcher()

    assert world.push("news", task("a")) == ["new"]
    assert never_comes(world, fetcher)


def test_a_new_rate_applies_from_that_moment_on(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.01, "burst": 3})
    fetcher = crowd(world)
    assert gained(world, fetcher, 50) == 0

    world.set(rate=1.0)
    assert gained(world, fetcher, 0.4) == 0
    assert gained(world, fetcher, 0.1) == 1
    world.set(rate=0.01)
    assert gained(world, fetcher, 99) == 0
    assert gained(world, fetcher, 1) == 1


def test_a_burst_below_one_is_refused(world: World) -> None:
    request = ProjectSet(session="person", n=world.n(), project="news", settings={"burst": 0.5})

    assert "burst" in world.ask(ErrorReply, request).reason


@pytest.mark.parametrize("clean", [False, True])
def test_a_restart_of_the_daemon_gives_no_tokens_away(make_world: MakeWorld, clean: bool) -> None:
    world = make_world({"rate": 0.1, "burst": 5})
    fetcher = crowd(world)
    world.advance(25)
    taken = len(fetcher.taken)

    world.restart(clean=clean)
    fetcher.hello()
    assert len(fetcher.taken) == taken == 7
    assert gained(world, fetcher, 4) == 0
    assert gained(world, fetcher, 1) == 1


def test_after_a_power_cut_a_project_starts_without_tokens(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 5})

    world.reboot()
    fetcher = crowd(world)
    assert fetcher.taken == []
    assert gained(world, fetcher, 10) == 1


def test_after_an_orderly_stop_a_project_has_the_tokens_that_it_had(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 5})

    world.reboot(clean=True)
    assert len(crowd(world).taken) == 5
