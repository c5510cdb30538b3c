"""Limits of tasks, depth, time, hours and concurrency; and settings that are sent with tasks."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import MAX_SLOT_CHARS
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.tasks import DoneReply, TaskReply
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import DAY, FORCE, HOUR, MINUTE, rest

MIDNIGHT = WALL // DAY * DAY + DAY - WALL
"""Seconds from the beginning of a world to the next midnight in UTC."""


def sleeper(world: World, capacity: int = 100, name: str = "fetcher") -> Fetcher:
    """Make a fetcher that has not said hello yet."""
    return world.know(Fetcher(world, name, capacity, None))


def refused_limit(world: World, **settings: float) -> str | None:
    """Return the reason why the project news can't have these settings; None if it can."""
    reply = world.answer(ProjectSet(session="person", n=world.n(), project="news", settings={**settings}))
    return reply.reason if isinstance(reply, ErrorReply) else None


def follow_up(fetcher: Fetcher, parent: str, *taskids: str, **schedule: Any) -> list[str]:
    """Let the parent succeed with these follow-ups; return their outcomes."""
    item = fetcher.finished(parent, new=[task(taskid, **schedule) for taskid in taskids])
    return list(fetcher.world.ask(DoneReply, fetcher.answers(item)).new[0])


# ------------------------------------------------------------------------------------------------ max_tasks


def test_at_max_tasks_new_ones_are_rejected_whether_the_others_live_or_are_over(make_world: MakeWorld) -> None:
    world = make_world({"max_tasks": 3})
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    fetcher.done("a")

    assert world.push("news", task("c"), task("d")) == ["new", "rejected"]
    fetcher.done("b")
    fetcher.done("c")
    assert world.push("news", task("d")) == ["rejected"]
    assert world.push("shop", task("d")) == ["new"]


def test_max_tasks_applies_to_follow_ups_too(make_world: MakeWorld) -> None:
    world = make_world({"max_tasks": 2})
    fetcher = world.fetcher()
    world.push("news", task("a"))

    item = fetcher.finished("a", new=[task("b"), task("c")])
    reply = world.ask(DoneReply, fetcher.answers(item))
    assert reply.outcomes == ["done"]
    assert reply.new == [["new", "rejected"]]
    assert "max_tasks is 2" in reply.errors[0].reason


def test_at_max_tasks_a_known_task_may_be_merged_replaced_or_restarted(make_world: MakeWorld) -> None:
    world = make_world({"max_tasks": 2})
    world.push("news", task("a"))
    world.fetcher().done("a")
    world.push("news", task("b", delay=50))

    assert world.push("news", task("b", delay=20)) == ["merged"]
    assert world.push("news", task("b", **FORCE)) == ["replaced"]
    assert world.push("news", task("a", **FORCE)) == ["restarted"]
    assert world.push("news", task("c", **FORCE)) == ["rejected"]


# ------------------------------------------------------------------------------------------------ max_depth


def test_follow_ups_deeper_than_max_depth_are_ignored(make_world: MakeWorld) -> None:
    world = make_world({"max_depth": 2})
    fetcher = world.fetcher()
    world.push("news", task("0"))

    assert follow_up(fetcher, "0", "1") == ["new"]
    world.restart()
    fetcher.hello()
    assert follow_up(fetcher, "1", "2") == ["new"]
    assert follow_up(fetcher, "2", "3") == ["ignored"]
    assert [world.show(taskid).depth for taskid in "012"] == [0, 1, 2]


def test_a_task_that_is_pushed_by_itself_has_depth_0(make_world: MakeWorld) -> None:
    world = make_world({"max_depth": 0})
    fetcher = world.fetcher()

    assert world.push("news", task("a")) == ["new"]
    assert follow_up(fetcher, "a", "b") == ["ignored"]
    assert world.push("news", task("b")) == ["new"]


def test_a_follow_up_that_is_known_keeps_its_depth(make_world: MakeWorld) -> None:
    world = make_world({"max_depth": 2})
    fetcher = sleeper(world)
    world.push("news", task("b", delay=500), task("a"))
    fetcher.hello()

    assert follow_up(fetcher, "a", "b", priority=3) == ["merged"]
    assert world.show("b").depth == 0


def test_a_deferred_update_keeps_the_depth_of_its_task(make_world: MakeWorld) -> None:
    world = make_world({"max_depth": 1})
    fetcher = world.fetcher()
    world.push("news", task("a"), task("c"))
    assert follow_up(fetcher, "a", "b") == ["new"]

    assert follow_up(fetcher, "c", "b", **FORCE) == ["deferred"]
    fetcher.done("b")
    assert world.show("b").depth == 1
    assert follow_up(fetcher, "b", "d") == ["ignored"]


# ------------------------------------------------------------------------------------------------ expires_at


def test_a_task_after_its_expires_at_is_never_handed_out_and_ends_as_cancelled(world: World) -> None:
    world.push("news", task("a", expires_at=world.now.wall + 60), task("b"))
    world.advance(60)

    assert world.fetcher().taken == ["b"]
    shown = world.show("a")
    assert shown.state == "cancelled"
    assert [attempt.outcome for attempt in shown.history] == ["expired"]
    assert shown.error == "expired before it was dispatched"


def test_a_task_before_its_expires_at_is_handed_out(world: World) -> None:
    world.push("news", task("a", expires_at=world.now.wall + 60))
    world.advance(59)

    assert world.fetcher().taken == ["a"]


def test_an_expired_task_costs_no_token(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.01, "burst": 1})
    world.push("news", *[task(f"x{i}", expires_at=world.now.wall + 1) for i in range(9)], task("a"))
    world.advance(1)

    assert world.fetcher().taken == ["a"]
    assert world.counts().cancelled == 9
    assert world.project().totals.selected == 1


def test_many_expired_tasks_are_ended_a_part_in_each_turn(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=10)
    world.push("news", *[task(f"x{i}", expires_at=world.now.wall + 1) for i in range(95)], task("a"))
    world.advance(1)

    assert world.fetcher().taken == ["a"]
    assert world.counts().cancelled == 95


def test_expires_at_does_not_end_a_lease(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a", expires_at=world.now.wall + 10))
    world.advance(20)
    assert world.counts().processing == 1

    assert fetcher.done("a") == "done"
    assert world.show("a").state == "success"


def test_a_retry_after_its_expires_at_is_not_handed_out(make_world: MakeWorld) -> None:
    world = make_world({"retry_delay": [20]})
    fetcher = world.fetcher()
    world.push("news", task("a", expires_at=world.now.wall + 10))
    fetcher.fail("a")

    world.advance(20)
    assert fetcher.taken == ["a"]
    assert world.show("a").state == "cancelled"


def test_the_answer_of_an_expired_task_is_stale(make_world: MakeWorld) -> None:
    world = make_world({"processing_timeout": 5})
    fetcher = world.fetcher(capacity=1)
    world.push("news", task("a", expires_at=world.now.wall + 3))
    world.advance(6)
    fetcher.hello()
    fetcher.hello()
    assert world.show("a").state == "cancelled"

    assert fetcher.done("a") == "stale"


# ------------------------------------------------------------------------------------------------ active hours


def test_outside_of_its_active_hours_a_project_hands_out_nothing_and_takes_tasks(make_world: MakeWorld) -> None:
    world = make_world({"active": "00:00-06:00 UTC"})
    fetcher = world.fetcher()

    assert world.push("news", task("a"), task("b")) == ["new", "new"]
    assert fetcher.taken == []


def test_a_project_opens_at_the_minute(make_world: MakeWorld) -> None:
    world = make_world({"active": "00:00-06:00 UTC"})
    fetcher = sleeper(world)
    world.push("news", task("a"))
    world.advance(MIDNIGHT - 1)
    fetcher.hello()
    assert fetcher.taken == []

    world.advance(1)
    assert fetcher.taken == ["a"]


def test_a_project_closes_at_the_minute_and_answers_count(make_world: MakeWorld) -> None:
    world = make_world({"active": "00:00-06:00 UTC"})
    fetcher = sleeper(world, 1)
    world.advance(MIDNIGHT + 6 * HOUR - 1)
    world.push("news", task("a"), task("b"))
    fetcher.hello()
    assert fetcher.taken == ["a"]

    world.advance(1)
    assert fetcher.done("a") == "done"
    assert fetcher.taken == ["a"]


@pytest.mark.parametrize("reboot", [False, True])
def test_active_hours_outlive_the_daemon(make_world: MakeWorld, reboot: bool) -> None:
    world = make_world()
    world.set(active="00:00-06:00 UTC")
    world.push("news", task("a"))
    world.advance(MIDNIGHT - MINUTE)

    world.reboot() if reboot else world.restart()
    fetcher = world.fetcher()
    world.advance(59)
    assert fetcher.taken == []
    fetcher.hello()
    world.advance(1)
    assert fetcher.taken == ["a"]


def test_active_hours_are_those_that_the_clock_shows_when_it_has_been_put_back(make_world: MakeWorld) -> None:
    world = make_world({"active": "22:00-06:00 UTC"})
    fetcher = world.fetcher()
    world.advance(3 * HOUR)

    world.wall_step -= 6 * HOUR
    world.push("news", task("a"))
    fetcher.hello()
    assert fetcher.taken == []
    world.advance(2 * HOUR + 46 * MINUTE + 39)
    fetcher.hello()
    assert fetcher.taken == []
    world.advance(1)
    assert fetcher.taken == ["a"]


def test_a_clock_that_is_put_back_opens_a_project_that_is_active_then(make_world: MakeWorld) -> None:
    world = make_world({"active": "19:00-20:00 UTC"})
    fetcher = world.fetcher()
    world.push("news", task("a"))
    assert fetcher.taken == []

    world.wall_step -= 3 * HOUR
    world.settle()
    assert fetcher.taken == ["a"]


def test_active_hours_that_are_changed_count_at_once(make_world: MakeWorld) -> None:
    world = make_world({"active": "00:00-06:00 UTC"})
    fetcher = world.fetcher()
    world.push("news", task("a"))

    world.set(active="")
    assert fetcher.taken == ["a"]
    world.set(active="00:00-06:00 UTC")
    world.push("news", task("b"))
    assert fetcher.taken == ["a"]


@pytest.mark.parametrize("action", ["pause", "stop"])
def test_a_project_that_is_paused_when_it_opens_stays_so_and_costs_nothing(make_world: MakeWorld, action: str) -> None:
    world = make_world({"active": "00:00-06:00 UTC"})
    world.fetcher()
    world.push("news", task("a"))
    world.do(action)
    wakes = world.wakes

    world.advance(MIDNIGHT + HOUR)
    fetcher = world.fetcher(name="another")
    assert fetcher.taken == []
    assert world.wakes - wakes < 20
    world.do("resume" if action == "pause" else "start")
    assert fetcher.taken == ["a"]


# ------------------------------------------------------------------------------------------------ max_processing


def test_a_project_never_has_more_leases_than_max_processing(make_world: MakeWorld) -> None:
    world = make_world({"max_processing": 3})
    one, two = sleeper(world, 2, "one"), sleeper(world, 50, "two")
    world.push("news", *[task(f"t{i}") for i in range(9)])
    one.hello()
    two.hello()
    assert (len(one.held), len(two.held)) == (2, 1)

    one.done("t0")
    assert len(one.held) + len(two.held) == 3
    two.fail("t2", retry_after=0.0)
    assert len(one.held) + len(two.held) == 3
    assert world.counts().processing == 3


@pytest.mark.parametrize("reboot", [False, True])
def test_max_processing_counts_the_leases_of_before_a_restart(make_world: MakeWorld, reboot: bool) -> None:
    world = make_world({"max_processing": 3})
    one, two = sleeper(world, 2, "one"), sleeper(world, 50, "two")
    world.push("news", *[task(f"t{i}") for i in range(9)])
    one.hello()
    rest(one)

    world.reboot() if reboot else world.restart()
    two.hello()
    assert len(two.held) == 1


def test_a_higher_max_processing_hands_out_at_once_and_a_lower_one_waits(make_world: MakeWorld) -> None:
    world = make_world({"max_processing": 1})
    fetcher = world.fetcher()
    world.push("news", *[task(f"t{i}") for i in range(9)])
    assert fetcher.taken == ["t0"]

    world.set(max_processing=3)
    assert fetcher.taken == ["t0", "t1", "t2"]
    world.set(max_processing=2)
    fetcher.done("t0")
    assert fetcher.taken == ["t0", "t1", "t2"]
    fetcher.done("t1")
    assert fetcher.taken == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("limit", ["max_queue", "max_tasks", "max_depth", "max_processing"])
def test_half_a_task_is_no_limit(world: World, limit: str) -> None:
    least = 0 if limit == "max_depth" else 1
    reason = f"{limit} must be a whole number of at least {least} or inf, not 2.5"
    assert refused_limit(world, **{limit: 2.5}) == reason
    for whole in ({limit: 2.0}, {limit: inf}):
        assert refused_limit(world, **whole) is None


def test_a_project_at_its_max_processing_does_not_hold_up_others(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"max_processing": 1}, "shop": {}})
    world.push("news", *[task(f"n{i}") for i in range(9)])
    world.push("shop", *[task(f"s{i}") for i in range(9)])

    assert sorted(world.fetcher(capacity=6).taken) == ["n0", "s0", "s1", "s2", "s3", "s4"]


# ------------------------------------------------------------------------------------------------ fetch


def fetch_of(message: Select) -> dict[str, Any]:
    return {project: msgspec.msgpack.decode(bytes(packed)) for project, packed in message.fetch.items()}


def test_what_a_project_says_of_fetch_is_sent_once_beside_its_tasks(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"fetch": {"proxy": "p:1", "headers": {"A": "b"}}}, "shop": {}})
    fetcher = sleeper(world)
    world.push("news", task("a", body={"fetch": {"proxy": "own"}}), task("b"))
    world.push("shop", task("c"))
    fetcher.hello()

    (message,) = fetcher.messages
    assert len(message.tasks) == 3
    assert fetch_of(message) == {"news": {"proxy": "p:1", "headers": {"A": "b"}}}


def test_fetch_reaches_tasks_that_are_queued_already(world: World) -> None:
    world.push("news", task("a"))
    world.set(fetch={"proxy": "p:1"})
    fetcher = world.fetcher(capacity=1)
    assert fetch_of(fetcher.messages[-1]) == {"news": {"proxy": "p:1"}}

    world.push("news", task("b"))
    world.set(fetch={"proxy": "p:2"})
    fetcher.done("a")
    assert fetch_of(fetcher.messages[-1]) == {"news": {"proxy": "p:2"}}


def test_fetch_in_a_config_that_is_loaded_again_reaches_tasks_that_are_queued_already(world: World) -> None:
    world.push("news", task("a"))
    layer = {"fetch": {"proxy": "p:3"}}
    world.configure(CoreConfig(defaults={"rate": inf}, projects={"news": layer}, head_tasks=world.config.head_tasks))

    assert fetch_of(world.fetcher().messages[0]) == {"news": {"proxy": "p:3"}}


def test_fetch_is_sent_again_with_a_message_that_got_lost(world: World) -> None:
    world.set(fetch={"proxy": "p:1"})
    world.push("news", task("a"))
    fetcher = sleeper(world)
    fetcher.deaf = True
    fetcher.hello()
    world.set(fetch={"proxy": "p:2"})
    fetcher.deaf = False

    fetcher.hello()
    assert list(fetcher.held) == ["a"]
    assert fetch_of(fetcher.messages[0]) == {"news": {"proxy": "p:2"}}


def test_fetch_counts_towards_the_size_of_a_message(make_world: MakeWorld) -> None:
    projects = {f"p{i}": {"fetch": {"cookie": "x" * 3000}} for i in range(20)}
    world = make_world(projects=projects, select_bytes=10_000)
    fetcher = sleeper(world)
    for name in projects:
        world.push(name, task(name))
    fetcher.hello()

    assert sorted(fetcher.taken) == sorted(projects)
    assert max(len(msgspec.msgpack.encode(message)) for message in fetcher.messages) < 15_000


@pytest.mark.parametrize(
    ("url", "slot"),
    [("data:,{}", "𝔥" * MAX_SLOT_CHARS), ("http://host/" + "网" * 2000 + "{}", None)],
    ids=["long names of slots", "long urls"],
)
def test_no_message_to_a_fetcher_is_over_the_longest(make_world: MakeWorld, url: str, slot: str | None) -> None:
    most = 64 << 10
    unpaced = {"slot": {"by": "named", "delay": 0.0, "max_processing": inf}}
    world = make_world(unpaced, max_message=most, select_bytes=most)
    fetcher = sleeper(world, capacity=200)
    world.push("news", *[task(f"t{n}", url=url.format(n), slot=slot) for n in range(150)])
    fetcher.hello()

    assert len(fetcher.taken) == 150
    assert max(len(msgspec.msgpack.encode(message)) for message in fetcher.messages) <= most


def test_the_body_of_a_task_is_not_touched_by_fetch(world: World) -> None:
    world.set(fetch={"proxy": "p:1"})
    world.push("news", task("a", body={"fetch": {"proxy": "own"}}))

    shown: TaskReply = world.show("a")
    assert msgspec.msgpack.decode(bytes(shown.body)) == {"fetch": {"proxy": "own"}}
