"""Feedback of reports to slots, and tasks whose hosts refused to answer."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.model.back_off import back_off_seconds
from taskqueue.protocol.values import Fetched, NewTask
from tests.unit.core.conftest import Fetcher, MakeWorld, World, laid_over, task
from tests.unit.core.rules.conftest import DAY, HOUR, MINUTE, comes_after, never_comes

THROTTLED = Fetched(status_code=429)
UNREACHED = Fetched(error_kind="connection")


def page(taskid: str, host: str = "a.org", **schedule: Any) -> NewTask:
    return task(taskid, url=f"http://{host}/{taskid}", **schedule)


def divided(make_world: MakeWorld, **settings: Any) -> World:
    """Make a world whose projects are divided by host, and dispatch to a host as fast as it answers."""
    defaults = laid_over({"slot": {"by": "host", "delay": 0.0}, "fail_pause_num": 3}, settings)
    return make_world(defaults, fetcher_timeout=2 * HOUR)


def wait_of(world: World, fetcher: Fetcher, most: float = 2 * DAY) -> float:
    """Return the seconds until the fetcher gets a task, while it is heard."""
    begun, taken = world.elapsed, len(fetcher.taken)
    fetcher.hello()
    while len(fetcher.taken) == taken and world.elapsed < begun + most:
        world.advance(min(HOUR, max(0.001, world.next_wake() - world.elapsed)))
        fetcher.hello()
    return world.elapsed - begun


# ---------------------------------------------------------------------------------------- Retry-After


@pytest.mark.parametrize(
    "report", [{"ok": False}, {"ok": False, "fetched": Fetched(status_code=503)}, {"fetched": THROTTLED}, {}]
)
def test_after_retry_after_nothing_of_the_slot_goes_before(make_world: MakeWorld, report: dict[str, Any]) -> None:
    world = divided(make_world)
    world.push("news", page("a"), page("b"), page("other", "b.org"))
    fetcher = world.fetcher(capacity=1)

    fetcher.done("a", retry_after=100.0, **report)
    assert fetcher.taken == ["a", "other"]
    fetcher.done("other")
    assert comes_after(world, fetcher, 100.0)


@pytest.mark.parametrize(("said", "waited"), [(0.0, 1.0), (0.3, 1.0), (DAY, DAY)])
def test_retry_after_counts_as_a_second_at_least(make_world: MakeWorld, said: float, waited: float) -> None:
    world = divided(make_world)
    world.push("news", page("a"), page("b"))
    fetcher = world.fetcher(capacity=1)

    fetcher.done("a", retry_after=said)
    assert wait_of(world, fetcher) == pytest.approx(waited, abs=1e-5)


@pytest.mark.parametrize("step", [0.0, HOUR])
def test_of_several_pauses_that_a_host_asks_for_the_longest_counts(make_world: MakeWorld, step: float) -> None:
    world = divided(make_world, slot={"max_processing": 3})
    world.push("news", *[page(each) for each in "abcd"])
    fetcher = world.fetcher(capacity=3)

    fetcher.done("a", retry_after=100.0)
    world.wall_step = step
    fetcher.done("b", retry_after=10.0)
    assert wait_of(world, fetcher) == pytest.approx(100.0, abs=1e-3)


# ---------------------------------------------------------------------------------------- back-off


@pytest.mark.parametrize("fetched", [THROTTLED, Fetched(status_code=503), UNREACHED])
def test_a_slot_backs_off_for_a_minute_and_then_twice_as_long_each_time(
    make_world: MakeWorld, fetched: Fetched
) -> None:
    world = divided(make_world, retry_delay=[1.0], retries=20)
    world.push("news", page("a"))
    fetcher = world.fetcher(capacity=1)

    waits = []
    for _ in range(13):
        fetcher.fail("a", fetched=fetched)
        waits.append(wait_of(world, fetcher))
    assert waits == pytest.approx([back_off_seconds("a.org", level) for level in range(13)], abs=1e-3)
    for level, wait in enumerate(waits[:10]):
        assert 0.9 <= wait / (60 * 2**level) <= 1.1
    assert waits[11:] == pytest.approx([DAY, DAY])


def test_hosts_back_off_for_different_times() -> None:
    assert len({back_off_seconds(f"h{number}.org", 0) for number in range(100)}) == 100


def test_a_back_off_is_forgiven_after_30_quiet_minutes(make_world: MakeWorld) -> None:
    world = divided(make_world)
    world.push("news", page("a"), page("b"))
    fetcher = world.fetcher(capacity=1)

    for level in (0, 1, 2):
        fetcher.fail(fetcher.taken[-1], fetched=THROTTLED)
        assert wait_of(world, fetcher) == pytest.approx(back_off_seconds("a.org", level))
    fetcher.done(fetcher.taken[-1])
    for _ in range(31):
        fetcher.hello()
        world.advance(MINUTE)
    world.push("news", page("c"))
    fetcher.hello()
    fetcher.fail(fetcher.taken[-1], fetched=THROTTLED)
    assert wait_of(world, fetcher) == pytest.approx(back_off_seconds("a.org", 0))


def test_a_success_forgives_nothing(make_world: MakeWorld) -> None:
    world = divided(make_world)
    world.push("news", page("a"), page("b"), page("c"))
    fetcher = world.fetcher(capacity=1)

    fetcher.fail("a", fetched=THROTTLED)
    wait_of(world, fetcher)
    fetcher.done("b", fetched=Fetched(status_code=200))
    fetcher.hello()
    fetcher.fail("c", fetched=THROTTLED)
    assert wait_of(world, fetcher) == pytest.approx(back_off_seconds("a.org", 1))


@pytest.mark.parametrize("goes_down", ["stays", "crash", "reboot", "clock"])
def test_what_was_handed_out_before_the_back_off_counts_once(make_world: MakeWorld, goes_down: str) -> None:
    world = divided(make_world, slot={"max_processing": 3})
    world.push("news", *[page(each) for each in "abcd"])
    fetcher = world.fetcher(capacity=3)

    fetcher.fail("a", fetched=THROTTLED)
    if goes_down == "crash":
        world.restart()
    elif goes_down == "reboot":
        world.reboot()
    elif goes_down == "clock":
        world.wall_step = 10.0
    fetcher.fail("b", fetched=THROTTLED)
    world.advance(30)
    fetcher.fail("c", fetched=THROTTLED)
    begun = world.elapsed
    wait_of(world, fetcher)
    assert world.elapsed - begun + 30 == pytest.approx(back_off_seconds("a.org", 0), abs=11)


def test_no_back_off_is_lost_when_the_report_finds_a_daemon_that_has_just_started(make_world: MakeWorld) -> None:
    world = divided(make_world)
    world.push("news", page("a"))
    fetcher = world.fetcher(capacity=1)
    world.crash()

    world.turn(fetcher.answers(fetcher.finished("a", ok=False, fetched=THROTTLED)))
    assert wait_of(world, fetcher) == pytest.approx(back_off_seconds("a.org", 0))


@pytest.mark.parametrize("again", ["crash", "restart", "reboot"])
def test_back_offs_and_blocks_are_kept_across_restarts(make_world: MakeWorld, again: str) -> None:
    world = divided(make_world)
    world.push("news", page("a"), page("b"), page("c", "b.org"), page("d", "b.org"))
    fetcher = world.fetcher(capacity=2)
    world.turn(
        fetcher.answers(fetcher.finished("a", ok=False, fetched=THROTTLED), fetcher.finished("c", retry_after=200.0))
    )

    world.reboot() if again == "reboot" else world.restart() if again == "restart" else world.crash()
    assert wait_of(world, fetcher) == pytest.approx(back_off_seconds("a.org", 0), abs=1e-3)
    fetcher.finish_all()
    assert fetcher.taken[-1] == "a"
    wait_of(world, fetcher)
    assert fetcher.taken[-1] == "d"
    assert world.elapsed == pytest.approx(200.0, abs=1e-3)


# ---------------------------------------------------------------------------------------- the task


@pytest.mark.parametrize("retry_after", [None, 100.0])
def test_a_throttled_task_is_ready_behind_its_equals_and_uses_no_retry(
    make_world: MakeWorld, retry_after: float | None
) -> None:
    world = divided(make_world)
    world.push("news", page("a", retries=0), page("b"), page("low", priority=-1))
    fetcher = world.fetcher(capacity=1)

    fetcher.fail("a", fetched=THROTTLED, retry_after=retry_after)
    assert world.show("a").state == "ready"
    wait_of(world, fetcher)
    fetcher.finish_all()
    assert fetcher.taken == ["a", "b", "a", "low"]
    assert world.project().totals.retried == 1


@pytest.mark.parametrize("retry_after", [None, 5.0])
def test_a_task_is_throttled_20_times_and_then_uses_its_retries(
    make_world: MakeWorld, retry_after: float | None
) -> None:
    world = divided(make_world, retries=2)
    world.push("news", page("a"))
    fetcher = world.fetcher(capacity=1)

    for _ in range(23):
        assert fetcher.fail("a", fetched=THROTTLED, retry_after=retry_after) == "done"
        wait_of(world, fetcher)
    assert len(fetcher.taken) == 23
    assert world.show("a").state == "failed"


@pytest.mark.parametrize("between", [{"fetched": Fetched(status_code=500)}, {}, {"retry_after": 1.0}])
def test_it_is_counted_anew_after_any_other_outcome(make_world: MakeWorld, between: dict[str, Any]) -> None:
    world = divided(make_world, retries=1)
    world.push("news", page("a"))
    fetcher = world.fetcher(capacity=1)

    for _ in range(20):
        fetcher.fail("a", fetched=THROTTLED, retry_after=1.0)
        wait_of(world, fetcher)
    fetcher.fail("a", **between)
    wait_of(world, fetcher)
    for _ in range(20):
        fetcher.fail("a", fetched=THROTTLED, retry_after=1.0)
        wait_of(world, fetcher)
    assert len(fetcher.taken) == 42
    assert world.show("a").state == "processing"


def test_how_often_a_task_was_throttled_is_kept_across_restarts(make_world: MakeWorld) -> None:
    world = divided(make_world, retries=0)
    world.push("news", page("a"))
    fetcher = world.fetcher(capacity=1)

    for _ in range(21):
        fetcher.fail("a", fetched=THROTTLED, retry_after=1.0)
        world.restart()
        wait_of(world, fetcher)
    assert world.show("a").state == "failed"


def test_a_host_that_cant_be_reached_uses_retries_so_that_it_comes_to_its_end(make_world: MakeWorld) -> None:
    world = divided(make_world, retries=3)
    world.push("news", page("a"))
    fetcher = world.fetcher(capacity=1)

    for _ in range(4):
        fetcher.fail("a", fetched=UNREACHED)
        wait_of(world, fetcher)
    assert len(fetcher.taken) == 4
    assert world.show("a").state == "failed"


def test_what_must_not_be_retried_is_over_and_its_slot_backs_off(make_world: MakeWorld) -> None:
    world = divided(make_world)
    world.push("news", page("a"), page("b"))
    fetcher = world.fetcher(capacity=1)

    fetcher.fail("a", retry=False, fetched=THROTTLED)
    assert world.show("a").state == "failed"
    assert wait_of(world, fetcher) == pytest.approx(back_off_seconds("a.org", 0))


# ---------------------------------------------------------------------------------------- the project


@pytest.mark.parametrize("fetched", [THROTTLED, UNREACHED])
def test_what_backs_off_a_slot_does_not_count_towards_the_automatic_pause(
    make_world: MakeWorld, fetched: Fetched
) -> None:
    world = divided(make_world)
    world.push("news", *[page(f"t{number}", f"h{number}.org") for number in range(10)])
    fetcher = world.fetcher(capacity=10)

    for number in range(10):
        fetcher.fail(f"t{number}", fetched=fetched)
    assert world.project().state == "running"


def test_other_failures_of_tasks_with_slots_do_count(make_world: MakeWorld) -> None:
    world = divided(make_world)
    world.push("news", *[page(f"t{number}", f"h{number}.org") for number in range(3)])
    fetcher = world.fetcher(capacity=10)

    for number, kind in enumerate(("timeout", "http", "other")):
        fetcher.fail(f"t{number}", fetched=Fetched(error_kind=kind))  # type: ignore[arg-type]
    assert world.project().state == "paused"


@pytest.mark.parametrize("fetched", [THROTTLED, UNREACHED])
def test_a_check_that_backs_off_its_slot_is_neutral(make_world: MakeWorld, fetched: Fetched) -> None:
    world = divided(make_world, pause_time=60.0)
    world.push("news", *[page(f"t{number}", f"h{number}.org") for number in range(20)])
    fetcher = world.fetcher(capacity=3)
    for number in range(3):
        fetcher.fail(f"t{number}", retry=True, error="x")
    assert world.project().state == "paused"
    fetcher.held.clear()
    fetcher.hello()

    world.advance(60)
    for _ in range(8):
        fetcher.hello()
        fetcher.fail(next(iter(fetcher.held)), fetched=fetched)
    assert world.project().state == "checking"
    fetcher.hello()
    fetcher.fail(next(iter(fetcher.held)), fetched=fetched)
    assert world.project().state == "running"


# ---------------------------------------------------------------------------------------- without a slot


@pytest.mark.parametrize("url", ["data:,a", ""])
def test_tasks_without_a_slot_fail_as_ever(make_world: MakeWorld, url: str) -> None:
    world = divided(make_world) if url else make_world({"fail_pause_num": 3})
    world.push("news", task("a", url=url, retries=1))
    fetcher = world.fetcher(capacity=1)

    fetcher.fail("a", fetched=THROTTLED)
    assert comes_after(world, fetcher, 30.0)
    fetcher.fail("a", retry_after=7.0, fetched=THROTTLED)
    assert comes_after(world, fetcher, 7.0)
    fetcher.fail("a", fetched=UNREACHED)
    assert never_comes(world, fetcher)
    assert world.show("a").state == "failed"
