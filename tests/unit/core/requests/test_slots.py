"""Settings of one slot by an operator."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.model.back_off import back_off_seconds
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.insight import Log, LogReply
from taskqueue.protocol.slots import SlotReply, SlotSet, SlotShow
from taskqueue.protocol.values import Fetched, NewTask
from tests.unit.core.conftest import Fetcher, MakeWorld, World, laid_over, task
from tests.unit.core.rules.conftest import comes_after


def page(taskid: str, host: str = "a.org", **schedule: Any) -> NewTask:
    return task(taskid, url=f"http://{host}/{taskid}", **schedule)


def divided(make_world: MakeWorld, **settings: Any) -> World:
    return make_world(laid_over({"slot": {"by": "host", "delay": 10.0}}, settings))


def asked(world: World, slot: str = "a.org", project: str = "news", **said: Any) -> SlotSet:
    return SlotSet(session="person", n=world.n(), actor="anna", project=project, slot=slot, **said)


def say(world: World, slot: str = "a.org", **said: Any) -> SlotReply:
    return world.ask(SlotReply, asked(world, slot, **said))


def refused(world: World, slot: str = "a.org", **said: Any) -> str:
    return world.ask(ErrorReply, asked(world, slot, **said)).reason


def show(world: World, slot: str = "a.org") -> SlotReply:
    return world.ask(SlotReply, SlotShow(session="person", n=world.n(), project="news", slot=slot))


def busy(world: World, tasks: int = 5) -> Fetcher:
    """Make a fetcher with the first task of the slot a.org, which has more."""
    world.push("news", *[page(f"t{number}") for number in range(tasks)])
    return world.fetcher(capacity=1)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_slot_has_the_delay_that_a_person_says_also_one_that_has_had_no_task(
    make_world: MakeWorld, known: bool, again: bool
) -> None:
    world = divided(make_world)
    if known:
        world.push("news", page("x"))
        world.fetcher().finish_all()
        world.advance(100)
    reply = say(world, delay=25.0)
    assert (reply.slot.delay, reply.chosen, reply.sources["delay"]) == (25.0, {"delay": 25.0}, "person")
    if again:
        world.restart()
        world.advance(30)
    fetcher = busy(world)

    fetcher.done("t0")
    assert comes_after(world, fetcher, 25.0)


def test_a_longer_delay_counts_from_the_last_hand_out_and_a_shorter_one_at_once(make_world: MakeWorld) -> None:
    world = divided(make_world)
    fetcher = busy(world)
    fetcher.done("t0")
    world.advance(4)

    say(world, delay=30.0)
    assert comes_after(world, fetcher, 26.0)
    fetcher.done("t1")
    world.advance(4)
    say(world, delay=5.0)
    assert comes_after(world, fetcher, 1.0)


@pytest.mark.parametrize("kept", [{"delay": 1e6}, {"block_until": inf}])
def test_what_only_the_store_has_is_heeded_at_once(make_world: MakeWorld, kept: dict[str, Any]) -> None:
    world = divided(make_world)
    say(world, **kept)
    fetcher = busy(world)
    world.push("news", page("b", "b.org"))
    fetcher.finish_all()
    world.restart()
    fetcher.hello()
    assert len(fetcher.held) == 0

    say(world, delay=2.0, unset=("block_until",))
    world.advance(2.1)
    assert len(fetcher.held) == 1


def test_what_was_handed_out_before_a_restart_ahead_of_its_time_keeps_its_distance(make_world: MakeWorld) -> None:
    world = divided(make_world, slot={"delay": 0.5, "max_processing": 3})
    world.push("news", *[page(each) for each in "abcdef"])
    fetcher = world.fetcher(capacity=2)
    assert [each.not_before for each in fetcher.held.values()] == [0.0, 0.5]
    world.restart()

    say(world, unset=("block_until",))
    fetcher.capacity = 3
    fetcher.hello()
    begun = world.elapsed
    while len(fetcher.taken) < 3:
        world.advance(0.1)
    assert world.elapsed - begun + fetcher.held[fetcher.taken[-1]].not_before >= 1.0


def test_a_delay_and_a_rate_replace_each_other(make_world: MakeWorld) -> None:
    world = divided(make_world)

    assert say(world, rate=2.0, burst=5.0).slot.burst == 5.0
    assert say(world, delay=4.0).chosen == {"delay": 4.0, "burst": 5.0}
    assert say(world, rate=inf).chosen == {"rate": inf, "burst": 5.0}
    assert say(world, unset=("rate", "burst")).chosen == {}
    assert say(world, delay="auto").slot.auto


def test_more_tasks_at_once_may_be_had_at_once(make_world: MakeWorld) -> None:
    world = divided(make_world, slot={"delay": 0.0})
    world.push("news", *[page(each) for each in "abc"])
    fetcher = world.fetcher(capacity=5)
    assert fetcher.taken == ["a"]

    say(world, max_processing=2.0)
    assert fetcher.taken == ["a", "b"]


@pytest.mark.parametrize("again", [True, False])
def test_a_slot_is_blocked_until_a_time_and_unblocked_by_unsetting_it(make_world: MakeWorld, again: bool) -> None:
    world = divided(make_world)
    say(world, block_until=world.now.wall + 500.0)
    assert show(world).slot.blocked_until == pytest.approx(world.now.wall + 500.0)
    world.push("news", page("a"), page("b"))
    fetcher = world.fetcher(capacity=1)
    if again:
        world.restart()
    assert comes_after(world, fetcher, 500.0)
    fetcher.done("a")

    say(world, block_until=inf)
    for _ in range(100):
        fetcher.hello()
        world.advance(50)
    assert not fetcher.held
    say(world, unset=("block_until",))
    assert fetcher.held


def test_a_block_by_a_person_is_not_shortened_by_its_host(make_world: MakeWorld) -> None:
    world = divided(make_world)
    fetcher = busy(world)
    say(world, block_until=world.now.wall + 500.0)

    fetcher.done("t0", retry_after=20.0)
    assert comes_after(world, fetcher, 500.0)


def test_another_delay_ends_no_block_early_after_the_clock_was_put_forward(make_world: MakeWorld) -> None:
    world = divided(make_world)
    fetcher = busy(world)
    say(world, block_until=world.now.wall + 500.0)
    world.wall_step = 3600.0

    say(world, delay=2.0)
    fetcher.done("t0")
    world.advance(499.0)
    assert not fetcher.held
    assert comes_after(world, fetcher, 1.001)


def test_to_unset_a_block_forgives_all_that_the_slot_waits_for(make_world: MakeWorld) -> None:
    world = divided(make_world, slot={"delay": 0.0})
    fetcher = busy(world)
    fetcher.fail("t0", fetched=Fetched(status_code=429))
    assert not fetcher.held

    say(world, unset=("block_until",))
    fetcher.fail("t1", fetched=Fetched(status_code=429))
    assert comes_after(world, fetcher, round(back_off_seconds("a.org", 0) + 0.5))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "set or unset at least one of"),
        ({"delay": 1.0, "rate": 1.0}, "set delay or rate, not both"),
        ({"block_until": 1.8e12}, "block_until: expected unix seconds of at most 1e11, or inf, not milliseconds"),
        ({"delay": 1.0, "unset": ("delay",)}, "set and unset at once"),
        ({"max_processing": 1.5}, "whole number"),
        ({"delay": 1.0, "project": "other"}, "other"),
    ],
)
def test_what_contradicts_itself_is_refused(make_world: MakeWorld, said: dict[str, Any], words: str) -> None:
    world = divided(make_world)

    assert words in refused(world, **said)


def test_a_project_without_slots_has_none_to_set(world: World) -> None:
    assert "is not divided into slots" in refused(world, delay=1.0)


@pytest.mark.parametrize(
    ("by", "name", "right"),
    [
        ("host", "A.org", "a.org"), ("host", "http://a.org:80/x", "a.org"), ("domain", "www.a.org", "a.org"),
        ("host", "https://b.org:444", "b.org:444"), ("host", "b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("domain", "www.bücher.example", "xn--bcher-kva.example"), ("host", "[0::1]", "[::1]"),
    ],
)  # fmt: skip
def test_a_name_in_which_no_url_is_gets_a_hint(make_world: MakeWorld, by: str, name: str, right: str) -> None:
    world = divided(make_world, slot={"by": by})

    assert f'"{right}"' in refused(world, name, delay=1.0)


@pytest.mark.parametrize(
    ("by", "name"), [("named", "A Shop.org"), ("named", "Bücher.org"), ("host", "a shop"), ("host", "a.org:8080")]
)
def test_any_name_that_a_task_may_give_can_be_set(make_world: MakeWorld, by: str, name: str) -> None:
    world = divided(make_world, slot={"by": by})

    assert say(world, name, delay=3.0).slot.delay == 3.0


@pytest.mark.parametrize("by", ["host", "domain"])
def test_a_host_may_be_spelled_otherwise_than_its_slot(make_world: MakeWorld, by: str) -> None:
    world = divided(make_world, slot={"by": by})

    assert say(world, "Bücher.example", delay=3.0).slot.name == "xn--bcher-kva.example"
    world.push("news", page("a", "b%C3%BCcher.example"))
    assert show(world, "bücher.example").slot.delay == 3.0
    assert show(world, "xn--bcher-kva.example").chosen == {"delay": 3.0}


def test_a_slot_that_tasks_name_can_be_set_however_it_is_spelled(make_world: MakeWorld) -> None:
    world = divided(make_world)
    world.push("news", page("a", slot="A.org"))

    assert say(world, "A.org", delay=3.0).slot.delay == 3.0


def test_several_things_said_of_one_slot_in_one_turn_all_count(make_world: MakeWorld) -> None:
    world = divided(make_world)

    world.turn(asked(world, delay=3.0), asked(world, max_processing=4.0), world.new_tasks("news", page("a")))
    world.settle()
    assert show(world).chosen == {"delay": 3.0, "max_processing": 4.0}
    world.restart()
    world.turn(asked(world, delay=5.0), asked(world, unset=("max_processing",)))
    world.settle()
    assert show(world).chosen == {"delay": 5.0}


def test_it_is_logged(make_world: MakeWorld) -> None:
    world = divided(make_world)
    say(world, delay=3.0, unset=("burst",))

    (entry,) = world.ask(LogReply, Log(session="person", n=world.n(), limit=1)).entries
    assert (entry.what, entry.actor, entry.project) == ("slot set", "anna", "news")
    assert entry.detail == "a.org delay=3 (was 10) burst=1 (was 1)"


def test_it_goes_over_to_the_next_division(make_world: MakeWorld) -> None:
    world = divided(make_world)
    say(world, delay=33.0)

    world.set(slot={"by": "domain"})
    world.advance(60)  # gaps begin again
    fetcher = busy(world)
    fetcher.done("t0")
    assert comes_after(world, fetcher, 33.0)
