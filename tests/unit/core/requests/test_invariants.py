"""Check of the invariants: it finds each problem of a state, and says which."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from taskqueue.core.model.heads import Head
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import EndedLease, Session
from taskqueue.core.model.slot import Slot
from taskqueue.core.model.slot_queue import SlotQueue
from taskqueue.core.model.task import DELAYED, PROCESSING, READY, SUCCESS, Task
from taskqueue.core.requests.invariants import check
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.fields import Token
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import MakeWorld, World, task


@pytest.fixture
def state() -> State:
    """Make a state in which news has two ready tasks, two delayed ones, and one that a fetcher runs."""
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}, "shop": {}}))
    world.push("news", task("run"))
    world.fetcher(capacity=1)
    world.push("news", task("a"), task("b"), task("c", delay=60), task("d", delay=90))
    return world.scheduler._state


def wrong(state: State) -> list[str]:
    """Check the state between two turns."""
    return check(TurnState(state, state.last_now))


def news(state: State) -> Project:
    return state.projects.by_name["news"]


def one(state: State, taskid: str) -> Task:
    return news(state).queue.tasks[taskid]


def ready(state: State) -> Head:
    """Return the head of ready tasks of news, which has no slots."""
    head = news(state).queue.ready
    assert isinstance(head, Head)
    return head


def leave(head: Head, taskid: str) -> None:
    """Remove a task from a head without counting that."""
    head.entries = {key: each for key, each in head.entries.items() if each.taskid != taskid}


def disconnect(state: State) -> None:
    for session in state.sessions.values():
        state.connections.forget(session)


def fetcher(state: State) -> Session:
    return state.sessions["fetcher"]


def both(state: State) -> dict[int, EndedLease]:
    """Return the lease in force, as an ended one."""
    return {token: EndedLease(0, state.last_now.boot) for token in fetcher(state).leases}


def pretend(thing: object, **attributes: object) -> None:
    for name, value in attributes.items():
        assert hasattr(thing, name)
        setattr(thing, name, value)


DAMAGES: list[tuple[str, Callable[[State], object]]] = [
    ("the names of the projects are not in order", lambda state: state.projects.names.reverse()),
    ("1 tasks of ", lambda state: pretend(state.memory, leases=2)),
    ("deferred updates take 0 bytes, 7 are", lambda state: pretend(state.memory, deferred=7)),
    ("0 ended leases still take a place, 3 are", lambda state: pretend(state.memory, ended=3)),
    ("overrides of projects take ", lambda state: pretend(state.projects, overrides_bytes=-1)),
    ("fetchers name 0 projects, 4 are counted", lambda state: pretend(state.wishes, names=4)),
    ("is unknown at its connection", disconnect),
    ("connections count 0 leases, their sessions 1", disconnect),
    ("project news: is unknown by its number", lambda state: state.projects.by_number.pop(news(state).number)),
    ("bucket has 9 tokens, burst is 1", lambda state: pretend(news(state).bucket, level=9.0, burst=1)),
    ("its head of ready tasks has ", lambda state: state.memory.note(news(state).number, READY, 1)),
    ("1 tasks are leased, 5 are counted", lambda state: news(state).queue.counts.__setitem__(PROCESSING, 5)),
    ("a count is negative", lambda state: news(state).queue.counts.__setitem__(SUCCESS, -1)),
    ("5 tasks are in memory in 4 places", lambda state: leave(ready(state), "a")),
    ("99 of 5 live tasks count as unfinished", lambda state: pretend(news(state).queue, unfinished=99)),
    ("2 tasks are counted as unfinished, 5 are", lambda state: pretend(news(state).queue, unfinished=2)),
    (
        "2 tasks are in memory as ready, all there are, but 3",
        lambda state: news(state).queue.counts.__setitem__(READY, 3),
    ),
    (
        "2 tasks are in memory as delayed, but 1 are counted",
        lambda state: news(state).queue.counts.__setitem__(DELAYED, 1),
    ),
    ("the first ready task in memory does not have the lowest key", lambda state: ready(state).heap.sort(reverse=True)),
    ("a delayed task in memory is not below the floor", lambda state: pretend(news(state).queue.delayed, floor=0)),
    ("ready tasks in memory take ", lambda state: pretend(news(state).queue.ready, bytes=0)),
    ("task 'a' (ready) belongs to project number 77", lambda state: pretend(one(state, "a"), project=77)),
    ("task 'a' (ready) is changed, but not among", lambda state: pretend(one(state, "a"), touched=True)),
    ("task 'a' (ready) has another state or key than in the store", lambda state: pretend(one(state, "a"), kept_key=1)),
    ("task 'a' (ready) is not in its place", lambda state: pretend(one(state, "a"), priority=5)),
    ("task 'c' (delayed) is not in its place", lambda state: leave(news(state).queue.delayed, "c")),
    ("task 'a' (success) is in memory", lambda state: pretend(one(state, "a"), state=SUCCESS)),
    ("task 'a' (ready) has a lease", lambda state: pretend(one(state, "a"), lease=one(state, "run").lease)),
    (
        "task 'run' (processing) has a lease that its session does not know",
        lambda state: pretend(one(state, "run").lease, session="x"),
    ),
    ("task 'run' (processing) is not in its place", lambda state: news(state).queue.processing.leased.clear()),
    ("2 free, 1 running and 0 hung places are not", lambda state: pretend(fetcher(state), passed={1: None, 2: None})),
    ("1 free, 1 running and 0 hung places are not", lambda state: pretend(fetcher(state), leases={})),
    ("-1 free, 1 running and 0 hung places are not", lambda state: fetcher(state).ended.update(both(state))),
    ("has task 'run' under a token that is not its lease", lambda state: pretend(one(state, "run"), token=Token(1))),
    ("has task 'run' by the lease of another session", lambda state: pretend(one(state, "run").lease, session="x")),
    ("has task 'run' of an unknown project", lambda state: state.projects.by_number.clear()),
]


@pytest.mark.parametrize(("complaint", "damage"), DAMAGES, ids=[complaint for complaint, _ in DAMAGES])
def test_what_is_wrong_with_a_state_is_said(state: State, complaint: str, damage: Callable[[State], object]) -> None:
    assert wrong(state) == []

    damage(state)

    assert [problem for problem in wrong(state) if complaint in problem]


@pytest.fixture
def divided() -> State:
    """Make a state in which news has three slots: with a lease and a task, with a lease, with two ready tasks."""
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {"slot": {"by": "host", "max_processing": 1}}}))
    world.push("news", task("run", url="http://full/"), task("first", url="http://slow/"))
    world.fetcher(capacity=2)
    world.push("news", task("more", url="http://full/"), task("a", url="http://free/"), task("b", url="http://free/"))
    return world.scheduler._state


def slots(state: State) -> SlotQueue:
    queue = news(state).queue.ready
    assert isinstance(queue, SlotQueue)
    return queue


def slot(state: State, host: str) -> Slot:
    return slots(state).slots.by_name[host]


SLOT_DAMAGES: list[tuple[str, Callable[[State], object]]] = [
    ("3 tasks are in memory as ready, but 2 are counted", lambda state: news(state).queue.counts.__setitem__(READY, 2)),
    (
        "3 tasks are in memory as ready, all there are, but 4",
        lambda state: news(state).queue.counts.__setitem__(READY, 4),
    ),
    ("are counted in slots, which have others", lambda state: pretend(slots(state), bytes=7)),
    ("slots count 0 leases, there are 2, or others", lambda state: slots(state).slots.leases.clear()),
    ("slot 'free': is unknown by its name", lambda state: slots(state).slots.by_name.pop("free")),
    ("slot 'free': has a task of another slot", lambda state: pretend(slot(state, "free"), number=77)),
    ("slot 'free': counts 5 leases of 0", lambda state: pretend(slot(state, "free"), leases=5)),
    ("slot 'free': has tasks without an entry", lambda state: pretend(slot(state, "free"), entry=0)),
    ("slot 'free': is ready before its time", lambda state: pretend(slot(state, "free"), until=1 << 60)),
    ("slot 'free': is ready behind its best task", lambda state: pretend(slot(state, "free"), mark=1 << 127)),
    ("slot 'free': is not parked, although it is full", lambda state: pretend(slot(state, "free"), leases=1)),
    ("slot 'free': is parked without a reason", lambda state: pretend(slot(state, "free"), place="parked")),
    ("slot 'full': waits for another time than its own", lambda state: pretend(slot(state, "full"), place="waiting")),
]


@pytest.mark.parametrize(("complaint", "damage"), SLOT_DAMAGES, ids=[complaint for complaint, _ in SLOT_DAMAGES])
def test_what_is_wrong_with_slots_is_said(divided: State, complaint: str, damage: Callable[[State], object]) -> None:
    assert wrong(divided) == []

    damage(divided)

    assert [problem for problem in wrong(divided) if complaint in problem]


def test_a_check_that_nobody_runs_is_said(make_world: MakeWorld) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 30})
    world.push("news", task("a"))
    world.fetcher().fail("a")
    world.push("news", task("b"))
    world.advance(30)

    state = world.scheduler._state
    pretend(news(state).pause, out=8)

    assert wrong(state) == ["project news: 8 checks are counted as processing, 2 are"]


def test_a_scheduler_that_finds_something_wrong_is_corrupt(world: World) -> None:
    world.scheduler._state.projects.overrides_bytes += 1

    with pytest.raises(Corrupt, match="overrides of projects take"):
        world.scheduler.verify()
