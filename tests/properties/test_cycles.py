"""Random graphs by random batches, beside a model that finds cycles by a plain depth first search.

The model gets the answers in their order: an item is rejected exactly if its edges would close a cycle with the edges
before it, whatever was pushed beside it, and whenever the daemon died.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from taskqueue.core.moves import cycles
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.records import layout
from taskqueue.store.records.edges import decode_mark, tasks_of
from tests.unit.core.conftest import World, task

TASKIDS = "abcdefghij"

Graph = dict[str, set[str]]
"""Parents by child."""


@st.composite
def items(draw: st.DrawFn) -> NewTask:
    taskid = draw(st.sampled_from(TASKIDS))
    parents = draw(st.lists(st.sampled_from(TASKIDS).filter(lambda each: each != taskid), max_size=3, unique=True))
    return replace(task(taskid, force_update=draw(st.booleans())), depends_on=tuple(parents))


batches = st.lists(items(), min_size=1, max_size=5)
turns = st.lists(st.tuples(st.integers(0, 2), batches), max_size=4)
"""Requests of a turn: session and items."""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(turns, st.booleans()), min_size=1, max_size=8), st.integers(1, 4))
def test_exactly_the_edges_that_would_close_a_cycle_are_refused(
    history: list[tuple[list[tuple[int, list[NewTask]]], bool]], edges_a_turn: int
) -> None:
    bounds = cycles.EDGES_A_TURN, cycles.READ_A_TURN
    cycles.EDGES_A_TURN, cycles.READ_A_TURN = 3 * edges_a_turn, edges_a_turn
    try:
        _play(history)
    finally:
        cycles.EDGES_A_TURN, cycles.READ_A_TURN = bounds


def _play(history: list[tuple[list[tuple[int, list[NewTask]]], bool]]) -> None:
    world = World(CoreConfig(projects={"news": {}}, defaults={"rate": 0}))
    model: Graph = {}
    unanswered: dict[int, NewTasks] = {}
    for requests, crashes in history:
        said = [world.new_tasks("news", *batch, session=f"s{session}") for session, batch in requests]
        unanswered |= {each.n: each for each in said}
        _check(world, model, unanswered, said)
        if crashes:
            world.crash()
            _check(world, model, unanswered, list(unanswered.values()))
    while unanswered:
        _check(world, model, unanswered, [])


def _check(world: World, model: Graph, unanswered: dict[int, NewTasks], requests: list[NewTasks]) -> None:
    """Take a turn; check its answers against the model, and that the disk has no cycle afterwards."""
    for reply in world.turn(*requests):
        assert isinstance(reply, NewTasksReply)
        request = unanswered.pop(reply.n)
        for item, outcome in zip(request.tasks, reply.outcomes, strict=True):
            assert item is not None
            _follow(model, item, outcome)
    assert not _has_cycle(_stored(world))


def _follow(model: Graph, item: NewTask, outcome: str) -> None:
    changed = model | {item.taskid: {str(parent) for parent in item.depends_on}}
    if item.taskid in model and not item.schedule.force_update:
        assert outcome in ("merged", "ignored"), item
    elif _has_cycle(changed):
        assert outcome == "rejected", (item, model)
    else:
        assert outcome == ("replaced" if item.taskid in model else "new"), (item, model)
        model |= changed


def _has_cycle(graph: Graph) -> bool:
    return any(task in _reached(graph, parent) for task, parents in graph.items() for parent in parents)


def _reached(graph: Graph, start: str) -> set[str]:
    met, left = {start}, [start]
    while left:
        for parent in graph.get(left.pop(), set()) - met:
            met.add(parent)
            left.append(parent)
    return met


def _stored(world: World) -> Graph:
    graph: Graph = {}
    for child, parent in _valid_edges(world):
        graph.setdefault(child, set()).add(parent)
    return graph


def _valid_edges(world: World) -> Iterator[tuple[str, str]]:
    numbers = {each.taskid: each.links.number for each in world.known() if each.links is not None}
    marks = world.disk.families[layout.PARENTS].values
    for key in marks:
        child, parent = tasks_of(key)
        if decode_mark(marks[key])[1] == numbers.get(child.taskid):
            yield child.taskid, parent.taskid
