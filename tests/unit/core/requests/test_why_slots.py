"""Why the slots of a divided project dispatch nothing, in one sentence."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.core.steps import slot_division
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.slots import SlotReply, SlotSet
from taskqueue.protocol.values import Fetched
from tests.unit.core.conftest import MakeWorld, World, task


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Make a world whose projects are divided by host, with ten seconds between the tasks of each."""
    return make_world({"slot": {"by": "host", "delay": 10.0}})


def why(world: World, taskid: str | None = None) -> str:
    """Ask for the sentence, without its subject."""
    told = world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid=taskid))
    return told.sentence.removeprefix('project "news" ').removeprefix(f'task "{taskid}" ')


def cause(world: World) -> str:
    return world.ask(WhyReply, Why(session="person", n=world.n(), project="news")).cause


def push(world: World, host: str, *taskids: str) -> None:
    world.push("news", *[task(taskid, url=f"http://{host}/{taskid}") for taskid in taskids])


def test_a_project_tells_which_slot_may_go_on_first_when_none_may_now(world: World) -> None:
    push(world, "a.org", "a1", "a2")
    world.advance(60)
    fetcher = world.fetcher()
    fetcher.done("a1")
    world.elapsed += 8.8

    assert why(world) == 'has no slot that may dispatch now; next: "a.org" may dispatch in 1.2 s'


def test_a_project_whose_next_slot_waits_for_its_pace_alone_moves_and_one_whose_slots_are_blocked_does_not(
    world: World,
) -> None:
    push(world, "a.org", "a1", "a2")
    world.advance(60)
    world.fetcher().done("a1")

    paced = cause(world)
    world.ask(
        SlotReply, SlotSet(session="person", n=world.n(), actor="anna", project="news", slot="a.org", block_until=inf)
    )

    assert (paced, cause(world)) == ("pace", "slots")


def test_a_project_whose_only_slot_backs_off_does_not_move(world: World) -> None:
    push(world, "a.org", "a1", "a2")
    world.advance(60)
    world.fetcher().fail("a1", fetched=Fetched(status_code=429))

    assert cause(world) == "slots"


def test_a_task_waits_for_its_slot_while_others_are_ready(world: World) -> None:
    push(world, "a.org", "a1", "a2", "a3")
    world.advance(60)
    fetcher = world.fetcher()
    fetcher.done("a1")
    fetcher.hello(capacity=0)
    push(world, "b.org", "b1")
    world.elapsed += 8.8

    assert why(world, "a2") == 'is ready, as are 2 others; its slot "a.org" may dispatch in 1.2 s; 1 slot ready'


def test_a_task_tells_how_many_of_its_slot_come_before_it(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 10.0}}, head_tasks=4096)
    push(world, "a.org", "a1", "a2", "a3")
    world.advance(60)
    world.fetcher().done("a1")

    assert why(world, "a3") == (
        'is ready, as is 1 other; its slot "a.org" may dispatch in 10 s, with 1 task before this one; 0 slots ready'
    )


def test_a_slot_is_full(world: World) -> None:
    push(world, "a.org", "a1", "a2")
    world.advance(60)
    world.fetcher()
    world.advance(10)

    assert why(world) == "has only full slots: 1 slot at max_processing"
    assert why(world, "a2") == 'is ready; its slot "a.org" is full: 1 task processing, its max_processing'


def test_a_project_that_hands_out_tells_how_its_slots_stand(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 10.0, "max_processing": 9}}, turn_tasks=1)
    world.fetcher(capacity=9)
    hosts = ["a.org", "a.org", "b.org", "c.org", "d.org"]
    world.turn(world.new_tasks("news", *[task(f"t{n}", url=f"http://{host}/{n}") for n, host in enumerate(hosts)]))

    assert why(world) == 'is dispatching tasks; 3 slots ready, 1 waiting (next: "a.org" may dispatch in 9 s)'


def test_slots_that_may_go_on_wait_for_a_fetcher_like_other_tasks(world: World) -> None:
    push(world, "a.org", "a1", "a2")
    world.advance(60)

    assert why(world) == "has tasks to dispatch, but no fetcher is connected"
    assert why(world, "a1").endswith('project "news" has tasks to dispatch, but no fetcher is connected')


def test_tasks_that_are_still_to_be_moved_say_so(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_division, "MOVED_TASKS", 1)
    world = make_world()
    push(world, "a.org", "a1", "a2", "a3")
    divide = ProjectSet(session="person", n=world.n(), project="news", settings={"slot": {"by": "host"}})
    world.turn(divide)

    [told] = world.turn(Why(session="person", n=world.n(), project="news", taskid="a3"))
    assert isinstance(told, WhyReply)
    assert told.sentence == 'task "a3" is ready, as are 2 others; it is still being moved to its slot'


def test_what_keeps_the_whole_project_is_told_before_its_slots(world: World) -> None:
    push(world, "a.org", "a1", "a2")
    world.do("stop")

    assert why(world).startswith("is stopped")
    assert "is stopped" in why(world, "a1")
