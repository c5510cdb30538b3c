"""Limit of new tasks in a slot: ``slot.max_tasks``."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.slots import SlotList, SlotListReply, SlotReply, SlotSet, SlotShow
from taskqueue.protocol.tasks import DoneReply, NewTasksReply
from taskqueue.protocol.values import NewTask
from tests.unit.core.conftest import MakeWorld, World, laid_over, task
from tests.unit.core.rules.conftest import CANCEL, FORCE
from tests.unit.core.rules.test_flows import flow


def limited(make_world: MakeWorld, most: float = 2, **settings: Any) -> World:
    return make_world(laid_over({"slot": {"by": "host", "delay": 0.0, "max_tasks": most}}, settings))


def pages(*names: str, **schedule: Any) -> list[NewTask]:
    """Make tasks such as a1, a page of a.org."""
    return [task(name, url=f"http://{name[0]}.org/{name}", **schedule) for name in names]


def push(world: World, *names: str, **schedule: Any) -> list[str]:
    return world.push("news", *pages(*names, **schedule))


def show(world: World, slot: str = "a.org") -> SlotReply:
    return world.ask(SlotReply, SlotShow(session="person", n=world.n(), project="news", slot=slot))


def say(world: World, slot: str = "a.org", **said: Any) -> SlotReply:
    return world.ask(SlotReply, SlotSet(session="person", n=world.n(), project="news", slot=slot, **said))


def why(world: World, taskid: str | None = None) -> str:
    return world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid=taskid)).sentence


def test_a_slot_takes_so_many_new_tasks_and_rejects_the_others(make_world: MakeWorld) -> None:
    world = limited(make_world)

    assert push(world, "a1", "b1", "a2", "a3", "b2") == ["new", "new", "new", "rejected", "new"]
    assert push(world, "a4", "c1") == ["rejected", "new"]
    reply = world.ask(NewTasksReply, world.new_tasks("news", *pages("a5")))
    (error,) = reply.errors
    reason = 'slot: "a.org" is full: it has had 2 tasks of 2 (slot.max_tasks)'
    assert (error.code, error.reason) == ("slot-full", reason)


@pytest.mark.parametrize("slots", [1, 32_768])
@pytest.mark.parametrize("again", [True, False])
def test_what_became_of_the_tasks_does_not_matter(make_world: MakeWorld, slots: int, again: bool) -> None:
    settings = {"slot": {"by": "host", "delay": 0.0, "max_tasks": 2}, "keep": {"then": "forget", "success": 10.0}}
    world = make_world(settings, slots_in_memory=slots)
    fetcher = world.fetcher()
    push(world, "a1", "b1")
    fetcher.finish_all()
    world.advance(3600)
    fetcher.hello()
    push(world, "a2", **CANCEL)
    push(world, "a2")
    push(world, "a2", **CANCEL)
    if again:
        world.restart()

    assert push(world, "a3", "b2", "b3") == ["rejected", "new", "rejected"]
    assert show(world).slot.taken == 2


def test_restarts_and_changes_of_tasks_do_not_count(make_world: MakeWorld) -> None:
    world = limited(make_world)
    fetcher = world.fetcher()
    push(world, "a1")
    for _ in range(3):
        fetcher.finish_all()
        assert push(world, "a1", **FORCE) == ["restarted"]
        assert push(world, "a1", **FORCE) == ["deferred"]
    assert show(world).slot.taken == 1

    assert push(world, "a2", "a3", "a1") == ["new", "rejected", "ignored"]
    assert push(world, "a2", priority=5) == ["merged" if "a2" not in fetcher.held else "ignored"]


def test_follow_ups_are_rejected_too(make_world: MakeWorld) -> None:
    world = limited(make_world)
    fetcher = world.fetcher()
    push(world, "a1")

    item = fetcher.finished("a1", new=pages("a2", "a3", "b1"))
    reply = world.ask(DoneReply, fetcher.answers(item))

    assert reply.new == [["new", "rejected", "new"]]
    assert [(error.index, error.parent, error.code) for error in reply.errors] == [(1, 0, "slot-full")]


def test_people_are_told_once_of_each_slot_that_is_full(make_world: MakeWorld) -> None:
    world = limited(make_world)
    push(world, "a1", "a2")
    assert world.happened == []

    for n in range(3, 9):
        push(world, f"a{n}", f"b{n}")
        world.restart()

    assert [(event.kind, event.project) for event in world.happened] == [("slot-full", "news")] * 2
    assert world.happened[0].reason == 'new tasks of slot "a.org" are rejected: it has had 2 of 2 (slot.max_tasks)'


def test_people_are_told_again_when_a_slot_reaches_a_limit_that_was_raised(make_world: MakeWorld) -> None:
    world = limited(make_world)
    push(world, "a1", "a2", "a3")
    say(world, max_tasks=3)

    push(world, "a4")
    push(world, "a5")

    assert [event.reason for event in world.happened] == [
        f'new tasks of slot "a.org" are rejected: it has had {had} of {had} (slot.max_tasks)' for had in (2, 3)
    ]


def test_what_was_rejected_for_another_reason_does_not_count(make_world: MakeWorld) -> None:
    settings = {"slot": {"by": "host", "max_tasks": 2}}
    world = make_world(settings, max_message=1 << 16)
    body = b"x" * (1 << 17)

    assert world.push("news", task("a1", body, url="http://a.org/1"), *pages("a2", "a3", "a4")) == [
        "rejected", "new", "new", "rejected",
    ]  # fmt: skip


def test_clearing_the_project_counts_anew(make_world: MakeWorld) -> None:
    world = limited(make_world)
    fetcher = world.fetcher()
    push(world, "a1", "a2")
    fetcher.finish_all()

    for _ in range(2):
        world.do("clear")
        assert push(world, "a3", "a4", "a5") in (["new", "new", "rejected"], ["ignored", "ignored", "new"])
        fetcher.finish_all()
    world.restart()
    assert push(world, "a6", "a7") == ["new", "rejected"]
    world.do("reset")
    assert push(world, "a1", "a2", "a3") == ["new", "new", "rejected"]


def test_another_division_counts_anew(make_world: MakeWorld) -> None:
    world = limited(make_world)
    push(world, "a1", "a2")

    world.set(slot={"by": "domain"})
    assert push(world, "a3", "a4", "a5") == ["new", "new", "rejected"]
    world.set(slot={"by": "none"})
    assert push(world, "a6", "a7", "a8") == ["new"] * 3


def test_a_limit_counts_from_when_it_is_said(make_world: MakeWorld) -> None:
    world = limited(make_world, inf)
    push(world, "a1", "a2")
    assert (show(world).slot.taken, show(world).slot.max_tasks) == (0, None)

    world.set(slot={"max_tasks": 1})
    assert push(world, "a3", "a4") == ["new", "rejected"]
    world.set(slot={"max_tasks": 3})
    assert push(world, "a4", "a5", "a6") == ["new", "new", "rejected"]
    world.set(slot={"max_tasks": 2})
    assert push(world, "a7", "b1") == ["rejected", "new"]
    world.set(slot={"max_tasks": inf})
    assert push(world, "a7") == ["new"]


@pytest.mark.parametrize("slots", [1, 32_768])
def test_some_slots_may_take_more_or_fewer(make_world: MakeWorld, slots: int) -> None:
    patterns = {"b.*": {"max_tasks": 1}, "c.org": {"max_tasks": inf}}
    world = make_world({"slot": {"by": "host", "max_tasks": 2, "patterns": patterns}}, slots_in_memory=slots)
    say(world, "d.org", max_tasks=3)

    for host, most in {"a": 2, "b": 1, "c": 6, "d": 3}.items():
        assert push(world, *[f"{host}{n}" for n in range(6)]) == ["new"] * most + ["rejected"] * (6 - most)


@pytest.mark.parametrize("again", [True, False])
def test_a_person_may_limit_one_slot_of_a_project_without_a_limit(make_world: MakeWorld, again: bool) -> None:
    world = limited(make_world, inf)

    reply = say(world, max_tasks=1)
    assert (reply.chosen, reply.sources["max_tasks"], reply.slot.max_tasks) == ({"max_tasks": 1.0}, "person", 1.0)
    if again:
        world.restart()
    assert push(world, "a1", "a2", "b1", "b2") == ["new", "rejected", "new", "new"]
    say(world, unset=("max_tasks",))
    assert push(world, "a2", "a3") == ["new", "new"]
    refusal = world.answer(SlotSet(session="person", n=world.n(), project="news", slot="a.org", max_tasks=1.5))
    assert isinstance(refusal, ErrorReply)
    assert refusal.reason == "max_tasks: expected a whole number of at least 1 or inf, not 1.5"


def test_tasks_without_a_host_and_those_of_other_projects_are_not_limited(make_world: MakeWorld) -> None:
    world = limited(make_world, 1)

    assert world.push("news", *[task(f"t{n}", url="data:,x") for n in range(3)]) == ["new"] * 3
    assert world.push("news", *pages("a1")) == world.push("shop", *pages("a1")) == ["new"]


def test_slots_and_why_say_how_many_there_have_been(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 0.0, "max_tasks": 2}}, turn_tasks=1)
    push(world, "a1", "a2", "a3", "b1")

    listed = world.ask(SlotListReply, SlotList(session="person", n=world.n(), project="news", by="name")).slots
    assert [(slot.name, slot.taken, slot.max_tasks) for slot in listed] == [("a.org", 2, 2.0), ("b.org", 1, 2.0)]
    assert show(world).sources["max_tasks"] == "project"
    assert "or was rejected because its slot had reached slot.max_tasks" in why(world, "a3")


def test_why_of_a_project_tells_that_slots_are_full(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "max_processing": 9, "max_tasks": 2}}, turn_tasks=1)
    world.fetcher(capacity=9)

    world.turn(world.new_tasks("news", *pages("a1", "a2", "a3", "b1", "c1")))

    assert why(world).endswith(
        "is dispatching tasks; 3 slots ready, 1 slot without room for new tasks (slot.max_tasks)"
    )


def test_tasks_of_the_project_itself_are_neither_rejected_nor_counted(make_world: MakeWorld) -> None:
    world = limited(make_world, 1, on_finished={"url": "http://a.org/end"})
    fetcher = world.fetcher()

    for n in range(3):
        assert push(world, f"a{n}") == ["new" if n == 0 else "rejected"]
        push(world, f"{'bcd'[n]}{n}")
        fetcher.hello()
        fetcher.finish_all()
        world.settle()
        fetcher.hello()
        fetcher.finish_all()

    assert fetcher.taken.count("on_finished") == 3
    assert show(world).slot.taken == 1


def test_tasks_of_flows_are_neither_rejected_nor_counted(make_world: MakeWorld) -> None:
    world = limited(make_world, 1)

    assert flow(world, *pages("a1", "a2", "a3")).tasks == 3

    assert push(world, "a4", "a5") == ["new", "rejected"]
