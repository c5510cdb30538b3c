"""Failed attempts: the record of each, and the drop of the oldest when there are too many or too old ones."""

from __future__ import annotations

import pytest

from taskqueue.core.model.attempt_records import Failure, KeptFailure
from taskqueue.core.model.failure_log import FAILURES_MOST, FAILURES_SECONDS
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import time_key
from taskqueue.core.steps.failures import OLD_FAILURES
from taskqueue.store.records import layout
from taskqueue.store.records.insight import failure_place
from tests.unit.core.conftest import WALL, World, task

DAY = 86_400.0


def kept(world: World) -> list[KeptFailure]:
    """Read the failures on the disk."""
    entries = world.disk.families[layout.FAILURES].scan(b"", layout.LAST_KEY, 10**6)
    return [KeptFailure(failure_place(key), layout.decode_failure(value)) for key, value in entries]


def kept_failures(world: World) -> list[Failure]:
    return [failure for _, failure in kept(world)]


def put(world: World, *keys: int) -> None:
    """Write failures at these keys to the store, and restart the scheduler."""
    world.ledger.commit(WriteSet(failures=[KeptFailure(key, Failure(1, "t", "a.org", "f", "no")) for key in keys]))
    world.crash()


def fail(world: World, taskid: str, **outcome: object) -> None:
    world.push("news", task(taskid))
    world.fetcher(name=f"fetcher-{taskid}").fail(taskid, **outcome)


# ------------------------------------------------------------------------------------------------ what is put


def test_a_failed_attempt_is_kept_with_its_time_host_fetcher_and_last_line(world: World) -> None:
    world.push("news", task("a", url="http://user@Site.org:81/a?b"))
    world.advance(5)
    fetcher = world.fetcher(name="host:1")

    fetcher.fail("a", error="Traceback\nValueError: no title")

    [(key, failure)] = kept(world)
    assert failure == Failure(1, "a", "site.org:81", "host:1", "ValueError: no title")
    assert key == time_key(WALL + 5, 1)


@pytest.mark.parametrize("outcome", [{}, {"retry": False}, {"retry_after": 5.0}])
def test_each_failed_attempt_counts_whatever_becomes_of_the_task(world: World, outcome: dict[str, object]) -> None:
    fail(world, "a", **outcome)

    assert len(kept(world)) == 1


def test_a_timeout_is_a_failed_attempt(world: World) -> None:
    world.push("news", task("a", timeout=10.0))
    world.fetcher().hello(capacity=0)

    world.advance(10)

    assert [failure.error for failure in kept_failures(world)] == ["timeout"]


def test_a_success_puts_nothing(world: World) -> None:
    world.push("news", task("a"))

    world.fetcher().done("a")

    assert kept(world) == []
    assert world.kept.failures == []


def test_what_was_given_back_has_not_failed(world: World) -> None:
    world.push("news", task("a"))

    world.fetcher().release("a")

    assert kept(world) == []


def test_failures_are_numbered_on_across_restarts(world: World) -> None:
    fail(world, "a")
    world.restart()
    fail(world, "b")
    world.crash()
    fail(world, "c")

    assert [(key & 0xFF, failure.taskid) for key, failure in kept(world)] == [(1, "a"), (2, "b"), (3, "c")]


# ------------------------------------------------------------------------------------------------ what goes


def test_a_week_later_it_goes_by_itself(world: World) -> None:
    fail(world, "a", retry=False)
    world.advance(DAY)
    fail(world, "b", retry=False)

    world.advance(FAILURES_SECONDS - DAY - 1)
    assert [failure.taskid for failure in kept_failures(world)] == ["a", "b"]
    world.advance(2)

    assert [failure.taskid for failure in kept_failures(world)] == ["b"]
    world.advance(DAY)
    assert kept(world) == []


def test_it_goes_too_if_the_daemon_was_down_meanwhile(world: World) -> None:
    fail(world, "a", retry=False)
    world.elapsed += FAILURES_SECONDS + DAY

    world.restart()

    assert kept(world) == []


def test_a_turn_drops_a_bounded_number_of_failures(world: World) -> None:
    put(world, *(time_key(WALL - FAILURES_SECONDS - DAY, n) for n in range(1, 2 * OLD_FAILURES + 10)))

    counts = [len(kept(world))]
    while counts[-1]:
        world.turn()
        counts.append(len(kept(world)))

    assert counts == [2 * OLD_FAILURES + 9, OLD_FAILURES + 9, 9, 0]


def test_beyond_a_million_the_first_ones_go(world: World) -> None:
    put(world, *(time_key(WALL - 50, n) for n in range(1, 5)), time_key(WALL - 1, FAILURES_MOST + 2000))

    world.settle()

    assert [key & 0xFFFFFFFF for key, _ in kept(world)] == [FAILURES_MOST + 2000]


def test_what_fails_while_others_go_stays_whatever_the_clock_shows(world: World) -> None:
    """The clock was put back by more than a week, so the new failure is before the dropped ones."""
    put(world, *(time_key(WALL - 50, n) for n in range(1, 5)), time_key(WALL - 1, FAILURES_MOST + 2000))
    world.wall_step = -8 * DAY
    world.turn(world.new_tasks("news", task("a")))
    fail(world, "b", retry=False)

    world.settle()

    assert "b" in [failure.taskid for failure in kept_failures(world)]
    world.restart()
    world.wall_step = 0.0
    world.advance(FAILURES_SECONDS)
    assert "b" not in [failure.taskid for failure in kept_failures(world)]


def test_failures_outlive_a_clear_of_their_project(world: World) -> None:
    fail(world, "a")

    world.do("clear")

    assert len(kept(world)) == 1
