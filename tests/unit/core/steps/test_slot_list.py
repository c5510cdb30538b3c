"""Lists of a project's slots, and the view of one."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.steps.slot_list import LOOKS_A_TURN, SCANS_MOST
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectDo, ProjectReply, ProjectSet, ProjectShow
from taskqueue.protocol.slots import SlotDivision, SlotList, SlotListReply, SlotReply, SlotShow
from tests.unit.core.conftest import WALL, MakeWorld, World, task


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Make a world whose projects are divided by host, with ten seconds between the tasks of each."""
    return make_world({"slot": {"by": "host", "delay": 10.0}})


def push(world: World, host: str, *taskids: str, **schedule: Any) -> None:
    world.push("news", *[task(taskid, url=f"http://{host}/{taskid}", **schedule) for taskid in taskids])


def request(world: World, session: str = "person", **fields: Any) -> SlotList:
    return SlotList(session=session, n=world.n(), project="news", **fields)


def listed(world: World, **fields: Any) -> SlotListReply:
    """List the slots in memory."""
    return world.ask(SlotListReply, request(world, **fields))


def all_of(world: World, **fields: Any) -> SlotListReply:
    """List all slots; the reply comes some turns later."""
    asked = request(world, all=True, **fields)
    world.turn(asked)
    world.settle()
    [reply] = [each for each in world.inbox if each.n == asked.n]
    assert isinstance(reply, SlotListReply)
    return reply


def names(reply: SlotListReply) -> list[str]:
    return [slot.name for slot in reply.slots]


def shown(world: World, name: str, project: str = "news") -> SlotReply:
    return world.ask(SlotReply, SlotShow(session="person", n=world.n(), project=project, slot=name))


# ------------------------------------------------------------------------------------------------ in memory


def test_slots_in_memory_are_listed_at_once_with_their_places(world: World) -> None:
    push(world, "a.org", "a1", "a2")
    push(world, "b.org", "b1")
    world.advance(60)
    fetcher = world.fetcher(capacity=1)

    reply = listed(world, by="name")

    assert (reply.by, reply.count, names(reply)) == ("host", 2, ["a.org", "b.org"])
    assert fetcher.holds
    busy, free = reply.slots
    assert (busy.place, busy.processing, busy.max_processing, busy.delay) == ("parked", 1, 1, 10)
    assert busy.until == pytest.approx(WALL + 70)
    assert (free.place, free.processing, free.until, free.ready) == ("ready", 0, 0, 1)


def test_the_largest_backlog_or_the_longest_delay_comes_first_or_they_come_by_name(world: World) -> None:
    world.set(slot={"patterns": {"b.org": {"delay": 20}}})
    push(world, "b.org", "b1")
    push(world, "a.org", "a1")
    push(world, "c.org", "c1", "c2")

    assert names(listed(world, by="backlog"))[0] == "c.org"
    assert names(listed(world, by="delay"))[0] == "b.org"
    assert names(listed(world, by="name", limit=2)) == ["a.org", "b.org"]


def test_tasks_that_nothing_tells_apart_are_a_slot_without_a_name_and_without_a_pace(world: World) -> None:
    world.push("news", task("x", url="data:,x"))

    [slot] = listed(world).slots

    assert (slot.name, slot.place, slot.delay, slot.max_processing) == ("", "ready", 0, inf)


def test_a_project_that_is_not_divided_has_no_slots(make_world: MakeWorld) -> None:
    world = make_world()

    assert world.ask(ErrorReply, request(world)).code == "state"
    assert world.ask(ErrorReply, SlotShow(session="person", n=1000, project="news", slot="a.org")).code == "state"


# ------------------------------------------------------------------------------------------------ all


def test_all_slots_are_listed_by_their_whole_backlog_those_in_the_store_only_too(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 10.0}}, slots_in_memory=1)
    for number in range(40):
        push(world, f"h{number}.org", *[f"t{number}-{each}" for each in range(1 + (number == 7) * 9)])
    world.restart()

    reply = all_of(world, by="backlog", limit=3)

    assert reply.count == 40
    assert (reply.slots[0].name, reply.slots[0].ready, reply.slots[0].more) == ("h7.org", 10, False)
    assert [slot.ready for slot in reply.slots] == [10, 1, 1]


@pytest.mark.parametrize("by", ["errors", "delay", "name"])
def test_all_slots_are_listed_in_another_order_with_what_they_have_ready(world: World, by: str) -> None:
    for number in range(LOOKS_A_TURN + 3):
        push(world, f"h{number:02}.org", f"t{number}", f"u{number}")

    reply = all_of(world, by=by)

    assert names(reply) == [f"h{number:02}.org" for number in range(LOOKS_A_TURN + 3)]
    assert {slot.ready for slot in reply.slots} == {2}


def test_the_list_of_all_is_made_in_bounded_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.core.steps.slot_list.PAGE_TASKS", 2)
    push(world, "a.org", *[f"a{number}" for number in range(5)])
    push(world, "b.org", *[f"b{number}" for number in range(4)])
    wakes = world.wakes

    reply = all_of(world)

    assert [(slot.name, slot.ready) for slot in reply.slots] == [("a.org", 5), ("b.org", 4)]
    assert world.wakes - wakes >= 5


def test_of_a_project_that_was_deleted_or_divided_otherwise_meanwhile_there_is_no_list(world: World) -> None:
    push(world, "a.org", "a1")
    world.turn(request(world, all=True))
    world.turn(ProjectDo(session="person", n=world.n(), project="news", action="delete"))
    world.settle()

    [refused] = [each for each in world.inbox if isinstance(each, ErrorReply)]
    assert refused.code == "state"


def test_a_repeat_of_a_request_that_is_under_way_changes_nothing(world: World) -> None:
    push(world, "a.org", "a1")
    asked = request(world, all=True)
    world.turn(asked)
    world.turn(asked)
    world.settle()

    assert len([each for each in world.inbox if each.n == asked.n]) == 1


def test_more_than_so_many_at_once_are_refused(world: World) -> None:
    asked = [request(world, session=f"s{number}", all=True) for number in range(SCANS_MOST + 1)]

    assert [each.code for each in world.turn(*asked) if isinstance(each, ErrorReply)] == ["full"]


# ------------------------------------------------------------------------------------------------ one


def test_a_slot_is_shown_with_its_pace_and_who_says_each_number_of_it(world: World) -> None:
    world.set(slot={"patterns": {"*.example.org": {"delay": 2.5}}})
    push(world, "a.example.org", "a1", "a2")

    reply = shown(world, "a.example.org")

    assert (reply.slot.delay, reply.slot.ready, reply.slot.more) == (2.5, 2, False)
    project = {"burst": "project", "max_processing": "project", "max_tasks": "project"}
    assert reply.sources == {"delay": "*.example.org"} | project
    assert reply.chosen == {}
    assert [row.taskid for row in reply.tasks] == ["a1", "a2"]


def test_a_slot_that_is_not_in_memory_is_looked_up_by_its_name(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 100.0}})
    push(world, "a.org", "a1")
    world.advance(100)
    fetcher = world.fetcher()
    fetcher.done("a1")
    world.restart()

    slot = shown(world, "a.org").slot

    assert (slot.place, slot.ready) == ("stored", 0)
    assert slot.until == pytest.approx(WALL + 200, abs=1)


def test_a_slot_that_never_had_a_task_is_unknown(world: World) -> None:
    refused = world.ask(ErrorReply, SlotShow(session="person", n=world.n(), project="news", slot="a.org"))

    assert refused.code == "unknown-slot"


def test_a_slot_of_a_former_division_is_unknown(world: World) -> None:
    push(world, "a.org", "a1")
    world.set(slot={"by": "named"})

    refused = world.ask(ErrorReply, SlotShow(session="person", n=world.n(), project="news", slot="a.org"))

    assert refused.code == "unknown-slot"


# ------------------------------------------------------------------------------------------------ the project


def test_a_project_tells_how_it_is_divided_and_whether_tasks_are_still_to_be_moved(make_world: MakeWorld) -> None:
    world = make_world()
    push(world, "a.org", "a1", "a2")
    push(world, "b.org", "b1")
    assert world.project().slots is None

    world.turn(ProjectSet(session="person", n=world.n(), project="news", settings={"slot": {"by": "host"}}))
    asked = ProjectShow(session="person", n=world.n(), project="news")
    [reply] = world.turn(asked)
    assert isinstance(reply, ProjectReply)
    assert reply.project is not None
    assert reply.project.slots == SlotDivision("host", moving=True)

    world.settle()
    assert world.project().slots == SlotDivision("host", waiting=2)
    world.advance(60)
    assert world.project().slots == SlotDivision("host", ready=2)
    world.set(slot={"by": "none"})
    assert world.project().slots == SlotDivision("none")
