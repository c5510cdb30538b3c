"""Memory of all projects together: bounded, however many tasks wait, and without losses."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.model.session import REST_SECONDS
from taskqueue.core.model.task import READY, TASK_BYTES
from taskqueue.core.requests.fetchers import RESENT_MOST
from taskqueue.errors import Corrupt
from taskqueue.protocol.fetchers import Extend, Hello, Release
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.settings.settings import CoreConfig, Layer
from tests.unit.core.conftest import World, task

MEMORY = 1 << 17
PROJECTS: dict[str, Layer] = {f"p{number:02}": {} for number in range(10)}


def world(**config: Any) -> World:
    said: dict[str, Any] = {"defaults": {"rate": inf}, "projects": PROJECTS, "queue_bytes": MEMORY} | config
    return World(CoreConfig(**said))


def held(world: World) -> int:
    """Return the bytes of all heads, read from the state."""
    queues = [project.queue for project in world.scheduler._state.projects.by_name.values()]
    return sum(queue.ready.bytes + queue.delayed.bytes for queue in queues)


def fill(world: World, each: int, body: int) -> None:
    for name in PROJECTS:
        world.push(name, *[task(f"{name}-{number}", body="x" * body) for number in range(each)])


def test_the_heads_of_all_projects_together_stay_within_memory_bytes_and_every_task_is_handed_out() -> None:
    it = world()
    fill(it, 40, 300)
    assert held(it) <= MEMORY < 10 * 40 * (TASK_BYTES + 300)

    fetcher = it.fetcher(capacity=100_000)
    it.settle()
    fetcher.finish_all()
    assert sorted(fetcher.taken) == sorted(f"{name}-{number}" for name in PROJECTS for number in range(40))
    assert held(it) == 0


def test_a_project_that_is_alone_may_hold_more_and_gives_it_back_when_others_come() -> None:
    it = world(head_bytes=MEMORY)
    it.push("p00", *[task(f"a{number}") for number in range(300)])
    alone = it.scheduler._state.projects.by_name["p00"].queue.ready.bytes
    assert alone > MEMORY // 4

    fill(it, 40, 300)
    assert held(it) <= MEMORY
    assert it.scheduler._state.projects.by_name["p00"].queue.ready.bytes <= MEMORY // 10


@pytest.mark.parametrize("rate", [inf, 10.0])
def test_a_body_larger_than_its_share_is_read_when_its_turn_comes(rate: float) -> None:
    it = world(defaults={"rate": rate, "burst": 1})
    fill(it, 3, 30_000)
    assert held(it) <= MEMORY

    fetcher = it.fetcher(capacity=1000)
    it.advance(10)
    fetcher.finish_all()
    assert sorted(fetcher.taken) == sorted(f"{name}-{number}" for name in PROJECTS for number in range(3))


def test_bodies_that_nobody_takes_do_not_keep_the_daemon_awake() -> None:
    it = world()
    fill(it, 3, 30_000)

    it.settle()
    assert it.next_wake() > it.elapsed


def test_a_smaller_memory_after_a_reload_is_kept_to() -> None:
    it = world()
    fill(it, 40, 300)

    it.configure(CoreConfig(defaults={"rate": inf}, projects=PROJECTS, queue_bytes=MEMORY // 4))
    for name in PROJECTS:
        it.push(name, task("one more"))
    assert held(it) <= MEMORY // 4


def test_bodies_of_what_is_handed_out_are_dropped_when_there_are_many_and_sent_again_whole() -> None:
    it = world()
    fill(it, 30, 2000)
    fetcher = it.fetcher(capacity=100_000)
    it.settle()
    assert len(fetcher.taken) == 10 * 30
    it.turn()
    memory = it.scheduler._state.memory
    assert memory.leased - memory.leases * TASK_BYTES <= MEMORY // 2 < 10 * 30 * 2000

    it.turn(Release(session=fetcher.session, n=it.n(), leases=fetcher.leases(*fetcher.held)))
    it.advance(2 * REST_SECONDS)
    assert len(fetcher.taken) == 2 * 10 * 30


def test_no_more_than_max_leases_are_handed_out_at_once() -> None:
    it = world(max_leases=5)
    fill(it, 1, 10)
    fetcher = it.fetcher(capacity=2)
    other = it.fetcher(capacity=1000, name="other")
    it.settle()
    assert len(fetcher.taken) + len(other.taken) == 5
    assert it.next_wake() > it.elapsed

    assert "as many as limits.max_leases allows" in it.ask(WhyReply, Why(session="x", n=it.n(), project="p09")).sentence
    other.finish_all()
    fetcher.finish_all()
    assert len(fetcher.taken) + len(other.taken) == 10


def test_leases_that_were_handed_out_in_earlier_turns_count_against_max_leases() -> None:
    it = world(max_leases=5)
    fill(it, 1, 3)
    fetchers = [it.fetcher(capacity=2, name=name) for name in ("one", "two", "three")]
    it.settle()

    it.push("p00", *[task(f"later{n}") for n in range(10)])

    assert [len(each.taken) for each in fetchers] == [2, 2, 1]


def test_a_deleted_project_holds_nothing() -> None:
    it = world()
    fill(it, 10, 10)

    for name in PROJECTS:
        it.do("stop", name)
        it.do("delete", name)
    assert it.scheduler._state.memory.heads == 0
    assert it.scheduler._state.memory.share(MEMORY) == MEMORY


def test_what_is_counted_is_what_is_held() -> None:
    it = world(head_tasks=8)
    fill(it, 30, 500)
    fetcher = it.fetcher(capacity=50)
    it.settle()

    memory = it.scheduler._state.memory
    assert memory.heads == held(it)
    assert memory.leases == len(fetcher.held) == 50
    assert it.scheduler._state.projects.by_number[1].queue.head(READY).bytes > 0


def test_a_task_larger_than_its_share_has_its_turn_beside_others_when_fetchers_are_full() -> None:
    it = World(CoreConfig(defaults={"rate": inf}, projects={"large": {}, "small": {}}, head_bytes=16_384))
    it.push("large", *[task(f"large-{number}", body="x" * 30_000) for number in range(3)])
    it.push("small", *[task(f"small-{number}") for number in range(60)])

    fetcher = it.fetcher(capacity=1)
    for _ in range(40):
        fetcher.finish_all()
    assert [taskid for taskid in fetcher.taken[:40] if taskid.startswith("large")] == ["large-0", "large-1", "large-2"]


@pytest.mark.parametrize("setting", [{"rate": 1.0, "burst": 1.0}, {"rate": inf}])
def test_a_task_without_its_body_behind_one_that_went_out_comes_next(setting: dict[str, float]) -> None:
    it = World(CoreConfig(defaults=dict(setting), projects={"news": {}, "shop": {}}, head_bytes=16_384))
    it.push("news", task("large", body="x" * 30_000))
    it.turn()
    it.push("news", *[task(f"small-{number}", priority=5) for number in range(4)])
    it.push("shop", *[task(f"other-{number}") for number in range(4)])

    fetcher = it.fetcher(capacity=100)
    it.advance(10)
    assert "large" in fetcher.taken


def test_bodies_that_were_read_again_for_what_is_handed_out_are_dropped_again() -> None:
    it = world()
    fill(it, 4, 20_000)
    fetcher = it.fetcher(capacity=1000)
    it.settle()
    assert len(fetcher.held) == 40

    it.turn(Extend(session=fetcher.session, n=it.n(), leases=fetcher.leases(*fetcher.held)))
    it.turn()
    memory = it.scheduler._state.memory
    assert memory.leased == memory.leases * TASK_BYTES


def test_a_fetcher_that_has_seen_nothing_has_no_more_read_than_is_sent_again() -> None:
    it = world(select_bytes=1)
    fill(it, 30, 20_000)
    fetcher = it.fetcher(capacity=1000)
    it.settle()

    unseen = Hello(session=fetcher.session, n=it.n(), capacity=1000, seen=0, holds=[])
    it.turn(unseen)
    assert len(it.needs.specs) == RESENT_MOST


def test_bodies_that_wait_for_their_turn_are_held_within_a_bound() -> None:
    it = world()
    fill(it, 2, 100_000)
    it.push("p00", *[task(f"small-{number}", priority=9) for number in range(100)])
    fetcher = it.fetcher(capacity=10)
    it.turn()
    assert set(fetcher.held) == {f"small-{number}" for number in range(10)}
    assert held(it) <= MEMORY + 100_000

    for _ in range(60):
        fetcher.finish_all()
    assert len(fetcher.taken) == 10 * 2 + 100


@pytest.mark.parametrize("field", ["leases", "leased"])
def test_verify_finds_memory_that_is_counted_wrongly(field: str) -> None:
    it = world()
    fill(it, 1, 10)
    memory = it.scheduler._state.memory
    it.scheduler.verify()

    setattr(memory, field, getattr(memory, field) + 1)
    with pytest.raises(Corrupt, match="are counted"):
        it.scheduler.verify()


@pytest.mark.parametrize("ends", ["handed out", "deleted"])
def test_what_has_had_its_turn_is_awaited_no_more(ends: str) -> None:
    it = World(CoreConfig(defaults={"rate": inf}, projects={"large": {}, "small": {}}, head_bytes=16_384))
    it.push("large", task("large", body="x" * 30_000))
    it.push("small", *[task(f"small-{number}") for number in range(20)])
    fetcher = it.fetcher(capacity=1)
    assert it.scheduler._state.hollow.awaited

    if ends == "handed out":
        fetcher.finish_all()
    else:
        it.do("delete", "large")
    assert not it.scheduler._state.hollow.awaited
