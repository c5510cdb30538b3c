"""Shared buckets: one limit for several projects, and their shares."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectSet
from taskqueue.settings.settings import CoreConfig, Layer, Pace
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import never_comes

SHARING: dict[str, Any] = {"bucket": "site"}


def sharing(projects: Mapping[str, Layer]) -> dict[str, Layer]:
    """Make sections of these projects, or of news and shop, which share a bucket."""
    return {name: {**SHARING, **layer} for name, layer in (projects or {"news": {}, "shop": {}}).items()}


def sharers(make_world: MakeWorld, rate: float = 1.0, burst: float = 1.0, **projects: dict[str, Any]) -> World:
    """Make a world in which news and shop (or those given) share a bucket, with more tasks than its tokens."""
    layers = sharing(projects)
    world = make_world(projects=layers, buckets={"site": Pace(rate, burst)})
    stock(world, *layers)
    return world


def stock(world: World, *projects: str, tasks: int = 150) -> None:
    for project in projects:
        world.push(project, *[task(f"{project}-{world.n()}") for _ in range(tasks)])


def crew(world: World, *projects: str, capacity: int = 1000) -> Fetcher:
    """Make a fetcher of these projects, or of all."""
    name = "-".join(projects) or "any"
    return world.fetcher(capacity=capacity, projects=list(projects) or None, name=name)


def pass_time(world: World, seconds: float, *fetchers: Fetcher) -> None:
    """Let time pass while the fetchers are heard."""
    end = world.elapsed + seconds
    while world.elapsed < end:
        for fetcher in fetchers:
            fetcher.hello()
        world.advance(min(30.0, end - world.elapsed))


def by_project(*fetchers: Fetcher) -> dict[str, int]:
    """Count the tasks of each project that the fetchers got."""
    counts: dict[str, int] = {}
    for fetcher in fetchers:
        for taskid in fetcher.taken:
            project = taskid.partition("-")[0]
            counts[project] = counts.get(project, 0) + 1
    return counts


def reload(world: World, buckets: dict[str, Pace], **projects: dict[str, Any]) -> None:
    """Apply another config."""
    config = world.config
    world.configure(
        CoreConfig(defaults=config.defaults, projects=sharing(projects), buckets=buckets, head_tasks=config.head_tasks)
    )


def test_projects_with_the_same_bucket_have_its_rate_and_burst_together(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=0.5, burst=4)
    fetcher = crew(world)
    assert len(fetcher.taken) == 4

    for seconds in range(2, 60, 2):
        pass_time(world, 2, fetcher)
        assert len(fetcher.taken) == 4 + seconds / 2
    assert by_project(fetcher)["news"] == pytest.approx(by_project(fetcher)["shop"], abs=1)


def test_projects_without_the_bucket_are_not_limited_by_it(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": SHARING, "shop": {}}, buckets={"site": Pace(1, 1)})
    stock(world, "news", "shop")

    assert by_project(crew(world)) == {"news": 1, "shop": 150}


def test_its_own_rate_is_unlimited_beside_a_bucket_unless_its_own_section_says_one(make_world: MakeWorld) -> None:
    world = make_world(
        {"rate": 1.0, "burst": 1}, projects={"news": SHARING, "shop": SHARING | {"rate": 2.0}}, buckets={"site": Pace()}
    )

    assert world.project("news").settings["rate"] == inf
    assert world.project("shop").settings["rate"] == 2.0
    assert world.set("news", rate=3.0).settings["rate"] == 3.0


def test_a_rate_of_its_own_holds_beside_the_bucket(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=1, burst=1, news={"rate": 0.1, "burst": 1}, shop={})
    fetcher = crew(world)
    pass_time(world, 60, fetcher)

    counts = by_project(fetcher)
    assert sum(counts.values()) == 61
    assert counts["news"] == pytest.approx(7, abs=1)


def test_those_who_wait_get_tokens_in_proportion_to_their_weights(make_world: MakeWorld) -> None:
    world = sharers(make_world, news={"weight": 3}, shop={"weight": 1}, wiki={"weight": 0.5})
    fetcher = crew(world)
    pass_time(world, 180, fetcher)

    counts = by_project(fetcher)
    assert counts == {
        "news": pytest.approx(120, abs=2),
        "shop": pytest.approx(40, abs=2),
        "wiki": pytest.approx(20, abs=2),
    }


def test_nobody_gets_more_by_being_busy(make_world: MakeWorld) -> None:
    world = sharers(make_world)
    fetcher = crew(world)
    for second in range(100):
        world.elapsed += 1.0
        # The first request after each new token is about the shop.
        stock(world, "shop", tasks=1)
        if second % 20 == 0:
            fetcher.hello()

    counts = by_project(fetcher)
    assert counts["news"] == pytest.approx(counts["shop"], abs=1)


def test_nobody_gets_more_by_coming_at_the_right_moment(make_world: MakeWorld) -> None:
    world = make_world(projects=sharing({}), buckets={"site": Pace(1, 1)})
    stock(world, "news")
    fetcher = crew(world)
    for second in range(100):
        world.elapsed += 1.0
        stock(world, "shop", tasks=1)
        if second % 20 == 0:
            fetcher.hello()

    counts = by_project(fetcher)
    assert counts["news"] == pytest.approx(counts["shop"], abs=2)


def test_bursts_are_divided_by_weight_too(make_world: MakeWorld) -> None:
    layers = sharing({"news": {"weight": 3}, "shop": {}})
    world = make_world(projects=layers, buckets={"site": Pace(0.1, 40)}, head_tasks=100)
    stock(world, "news", "shop")

    assert by_project(crew(world)) == {"news": pytest.approx(30, abs=4), "shop": pytest.approx(10, abs=4)}


def test_a_project_that_wanted_nothing_for_a_while_gains_nothing_by_that(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": SHARING, "shop": SHARING}, buckets={"site": Pace(1, 1)})
    stock(world, "news")
    fetcher = crew(world)
    pass_time(world, 60, fetcher)

    stock(world, "shop")
    pass_time(world, 40, fetcher)
    assert by_project(fetcher)["shop"] == pytest.approx(20, abs=1)


def test_one_whose_fetchers_are_full_does_not_starve_another(make_world: MakeWorld) -> None:
    names = ["full1", "full2", "full3", "full4", "shop"]
    world = make_world(projects=sharing({name: {} for name in names}), buckets={"site": Pace(1, 1)})
    stock(world, *names)
    full = [crew(world, name, capacity=1) for name in names[:4]]
    pass_time(world, 10, *full)
    free = crew(world, "shop")
    before = world.elapsed
    world.advance(50)

    assert by_project(*full) == dict.fromkeys(names[:4], 1)
    assert len(free.taken) == pytest.approx(world.elapsed - before, abs=1)


def test_those_whose_fetchers_have_become_full_while_they_waited_do_not_hold_up_another(
    make_world: MakeWorld,
) -> None:
    names = ["full1", "full2", "full3", "full4", "shop"]
    world = make_world(projects=sharing({name: {} for name in names}), buckets={"site": Pace(1, 1)})
    stock(world, *names)
    for name in names[:4]:
        crew(world, name).hello(capacity=0)
    free = crew(world, "shop")
    assert free.taken == []

    world.advance(1.1)
    assert len(free.taken) == 1


def test_without_any_fetcher_of_one_the_others_go_on(make_world: MakeWorld) -> None:
    world = sharers(make_world)
    fetcher = crew(world, "shop")
    pass_time(world, 60, fetcher)

    assert by_project(fetcher) == {"shop": 61}


def test_one_that_is_paused_while_it_waits_does_not_hold_up_the_others(make_world: MakeWorld) -> None:
    world = sharers(make_world)
    fetcher = crew(world)
    world.do("pause", "news")
    news = by_project(fetcher).get("news", 0)
    pass_time(world, 60, fetcher)

    assert by_project(fetcher) == {"shop": 61 - news} | ({"news": news} if news else {})


def test_one_that_is_deleted_while_it_waits_does_not_hold_up_the_others(make_world: MakeWorld) -> None:
    world = sharers(make_world)
    fetcher = crew(world)
    world.do("delete", "news")
    pass_time(world, 60, fetcher)

    assert sum(by_project(fetcher).values()) == 61


def test_a_project_without_end_does_not_keep_tokens_from_those_who_wait(make_world: MakeWorld) -> None:
    world = make_world(
        projects={"news": SHARING, "shop": SHARING, "wiki": {}}, buckets={"site": Pace(1, 3)}, turn_tasks=2
    )
    stock(world, "news", "shop")
    stock(world, "wiki", tasks=400)
    fetcher = crew(world, capacity=4)
    for _ in range(60):
        world.advance(1)
        for taskid in list(fetcher.held):
            fetcher.done(taskid)

    counts = by_project(fetcher)
    assert counts["news"] + counts["shop"] == pytest.approx(60, abs=4)


@pytest.mark.parametrize("clean", [False, True])
def test_a_restart_of_the_daemon_gives_no_shared_tokens_away(make_world: MakeWorld, clean: bool) -> None:
    world = sharers(make_world, rate=0.1, burst=5)
    fetcher = crew(world)
    assert len(fetcher.taken) == 5
    pass_time(world, 25, fetcher)
    assert len(fetcher.taken) == 7

    world.restart(clean=clean)
    fetcher.hello()
    assert len(fetcher.taken) == 7
    pass_time(world, 4.9, fetcher)
    assert len(fetcher.taken) == 7
    pass_time(world, 0.2, fetcher)
    assert len(fetcher.taken) == 8


def test_after_a_power_cut_a_shared_bucket_is_empty(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=0.1, burst=5)

    world.reboot()
    fetcher = crew(world)
    assert fetcher.taken == []
    pass_time(world, 10.1, fetcher)
    assert len(fetcher.taken) == 1


def test_after_a_power_cut_a_shared_bucket_is_empty_also_if_nothing_is_known_of_it(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=0.1, burst=5)
    assert len(crew(world).taken) == 5

    world.reboot(lose_unsynced=True)
    stock(world, "news")
    fetcher = crew(world)
    assert fetcher.taken == []
    pass_time(world, 10.1, fetcher)
    assert len(fetcher.taken) == 1


def test_after_an_orderly_stop_a_shared_bucket_is_as_full_as_it_was(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=0.1, burst=5)

    world.reboot(clean=True)
    assert len(crew(world).taken) == 5


def test_another_rate_in_the_config_applies_from_that_moment_on(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=0.01, burst=3)
    fetcher = crew(world)
    pass_time(world, 50, fetcher)
    assert len(fetcher.taken) == 3

    reload(world, {"site": Pace(1.0, 3)})
    pass_time(world, 0.4, fetcher)
    assert len(fetcher.taken) == 3
    world.restart()
    fetcher.hello()
    assert len(fetcher.taken) == 3
    pass_time(world, 0.2, fetcher)
    assert len(fetcher.taken) == 4
    pass_time(world, 10, fetcher)
    assert len(fetcher.taken) == 14


def test_a_bucket_that_the_config_has_no_more_hands_out_nothing_until_it_is_back(make_world: MakeWorld) -> None:
    world = sharers(make_world)
    reload(world, {})
    fetcher = crew(world)
    assert fetcher.taken == []
    pass_time(world, 100, fetcher)
    assert fetcher.taken == []

    reload(world, {"site": Pace(1, 1)})
    pass_time(world, 10, fetcher)
    assert len(fetcher.taken) == pytest.approx(10, abs=1)


def test_a_project_that_leaves_its_bucket_is_not_limited_by_it_any_more(make_world: MakeWorld) -> None:
    world = sharers(make_world)
    fetcher = crew(world)
    pass_time(world, 10, fetcher)

    world.set("news", bucket="")
    assert by_project(fetcher)["news"] == 150
    pass_time(world, 10, fetcher)
    assert len(fetcher.taken) <= 150 + 21


def test_a_project_that_comes_from_another_bucket_waits_no_longer_than_the_others(make_world: MakeWorld) -> None:
    world = make_world(
        projects={"news": {"bucket": "fast"}, "shop": SHARING}, buckets={"fast": Pace(9, 9), "site": Pace(1, 1)}
    )
    stock(world, "news", tasks=300)
    stock(world, "shop")
    fetcher = crew(world)
    pass_time(world, 20, fetcher)
    before = by_project(fetcher)["news"]

    world.set("news", bucket="site")
    pass_time(world, 40, fetcher)
    assert by_project(fetcher)["news"] - before == pytest.approx(20, abs=1)


def test_a_bucket_that_the_config_does_not_have_is_refused(world: World) -> None:
    request = ProjectSet(session="person", n=world.n(), project="news", settings={"bucket": "nowhere"})

    reply = world.ask(ErrorReply, request)
    assert "[buckets.NAME]" in reply.reason
    assert "nowhere" in reply.reason


def test_a_bucket_with_a_rate_of_zero_hands_out_nothing(make_world: MakeWorld) -> None:
    world = sharers(make_world, rate=0, burst=5)

    assert never_comes(world, world.fetcher())
