"""Random graphs of tasks that wait for others, on the real scheduler, beside a naive model and beside plain laws.

Events are drawn from a seed. Every turn may be the last one before a kill -9.
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from taskqueue.core.model.edges import UNSATISFIED, TaskRef
from taskqueue.core.model.task import BLOCKED, CANCELLED, FAILED, STATE_NAMES, SUCCESS
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import Bulk, OperationUndo
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import NewTasksReply, TaskCancel, TaskRetry
from taskqueue.protocol.values import NewTask, TaskFilter, TaskOf
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.records import layout
from taskqueue.store.records.edges import decode_mark, task_key, tasks_of
from tests.nightly import TIMES
from tests.properties.graph_model import LIVE, Graph, Name
from tests.unit.core.conftest import World, task

PROJECTS: Final = ("news", "shop")
NAMES: Final = [Name(project, f"{project[0]}{number}") for number in range(6) for project in PROJECTS]
"""Tasks, each of which waits only for earlier ones here, so there is no cycle; they are pushed in any order."""

POLICIES: Final = ("fail", "run", "wait", "only")
RUNNING: Final = ("fail", "run", "wait")
"""Policies with which a task runs if all of its parents succeed."""
SEEDS: Final = st.integers(0, 1 << 32)
CALM_SECONDS: Final = (*[5] * 60, *[86_400] * 3)
"""Steps in seconds, within which every task ends: a second failure is retried after an hour, later ones after more."""

_WORDS: Final = {**dict(enumerate(STATE_NAMES)), 1: "waiting", 2: "waiting"}


class Play:
    """World drawn from a seed, a fetcher, and the events so far, to be shown with a failure."""

    def __init__(self, seed: int, **defaults: Any) -> None:
        self.rng = Random(seed)
        config = CoreConfig(
            defaults={"rate": inf, "fail_pause_num": 0} | defaults,
            projects={project: {} for project in PROJECTS},
            head_tasks=self.rng.choice((2, 4096)),
            turn_tasks=self.rng.choice((2, 3, 5, 2048)),
        )
        self.world = World(config)
        self.fetcher = self.world.fetcher(self.rng.choice((1, 3, 100)))
        self.happened: list[object] = []
        self._heeded = 0

    def hear(self, request: AnyRequest) -> Any:
        """Repeat a request until it is answered, while the process may die after each turn; return the answer."""
        self.happened.append(request)
        while not (replies := [reply for reply in self.world.turn(request) if reply.n == request.n]):
            self.die_perhaps()
        self.die_perhaps()
        return replies[0]

    def die_perhaps(self) -> None:
        if self.rng.random() < 0.3:
            self.world.crash()

    def settle(self) -> None:
        """Take all pending turns, any of which may be the last one of its process."""
        while self.world.next_wake() <= self.world.elapsed:
            self.world.turn()
            self.die_perhaps()

    def push(self, project: str, items: list[NewTask]) -> list[str]:
        reply = self.hear(self.world.new_tasks(project, *items))
        assert isinstance(reply, NewTasksReply)
        return list(reply.outcomes)

    def ask_about(self, kind: type[TaskCancel | TaskRetry], name: Name) -> None:
        self.hear(kind(session="person", n=self.world.n(), project=name.project, taskids=[name.taskid]))

    def act(self, action: Any, project: str) -> None:
        self.hear(ProjectDo(session="person", n=self.world.n(), project=project, action=action))

    def cancel_and_undo(self, project: str, states: list[Any], seconds: float) -> None:
        """Cancel tasks in these states, and undo that some seconds later, whether it has ended by then or not."""
        wanted = TaskFilter(states=states)
        begun = self.hear(
            Bulk(session="person", n=self.world.n(), action="cancel", project=project, filter=wanted)
        ).operation
        if seconds:
            self.settle()
            self.world.advance(seconds)
        self.hear(OperationUndo(session="person", n=self.world.n(), id=begun.id))

    def handed(self) -> list[str]:
        """Return the tasks that the fetcher got since the last call."""
        before, self._heeded = self._heeded, len(self.fetcher.taken)
        return self.fetcher.taken[before:]

    def report(self, outcomes: dict[str, dict[str, Any]]) -> list[str]:
        """Report on leased tasks in one message; return the reports that counted."""
        reports = [self.fetcher.finished(taskid, **outcome) for taskid, outcome in outcomes.items()]
        return list(self.hear(self.fetcher.answers(*reports)).outcomes)

    def draw_parents(self, name: Name, most: int = 3) -> list[Name]:
        before = NAMES[: NAMES.index(name)]
        return self.rng.sample(before, min(len(before), self.rng.choice((0, 1, 1, 2, most))))


def item(name: Name, parents: list[Name], policy: str, **schedule: Any) -> NewTask:
    """Return a task as its producer describes it."""
    named = tuple(parent.taskid if parent.project == name.project else TaskOf(*parent) for parent in parents)
    return replace(task(name.taskid, **schedule), depends_on=named, on_parent_failure=policy)


def name_of(taskid: str) -> Name:
    return Name("news" if taskid.startswith("n") else "shop", taskid)


# ---------------------------------------------------------------------------------------- order


@settings(max_examples=30 * TIMES)
@given(seed=SEEDS)
def test_every_task_of_a_graph_runs_once_and_after_all_that_it_waits_for_whatever_dies_when(seed: int) -> None:
    play = Play(seed)
    rng = play.rng
    graph = {name: play.draw_parents(name, 5) for name in NAMES}
    to_push = rng.sample(NAMES, len(NAMES))
    ran: list[str] = []

    while len(ran) < len(NAMES):
        if to_push and rng.random() < 0.5:
            project = to_push[0].project
            batch = [name for name in to_push[: rng.randint(1, 5)] if name.project == project]
            to_push = [name for name in to_push if name not in batch]
            play.push(project, [item(name, graph[name], rng.choice(RUNNING)) for name in batch])
        if not to_push or rng.random() < 0.3:
            play.settle()
        play.fetcher.hello()
        if play.fetcher.held:
            done = rng.sample(sorted(play.fetcher.held), rng.randint(1, len(play.fetcher.held)))
            ran += done
            assert play.report({taskid: {} for taskid in done}) == ["done"] * len(done)
    play.settle()

    place = {name_of(taskid): at for at, taskid in enumerate(play.fetcher.taken)}
    assert sorted(play.fetcher.taken) == sorted(name.taskid for name in NAMES)
    assert all(place[parent] < place[name] for name in NAMES for parent in graph[name])
    assert {each.state for each in play.world.known()} == {SUCCESS}


# ---------------------------------------------------------------------------------------- beside the model


@settings(max_examples=20 * TIMES)
@given(seed=SEEDS)
def test_whatever_happens_to_a_graph_it_is_as_the_naive_model_says(seed: int) -> None:
    play, graph = Play(seed), Graph()

    for _ in range(40):
        _happen(play, graph)
        graph.tell()
        play.settle()
        _take(play, graph)
        assert _states(play.world) == graph.states(), play.happened[-3:]


def _happen(play: Play, graph: Graph) -> None:
    luck, name = play.rng.random(), play.rng.choice(NAMES)
    if luck < 0.45 or not graph.nodes:
        _push(play, graph, name.project)
    elif luck < 0.85:
        _report(play, graph)
    elif luck < 0.91 and name in graph.nodes and graph.nodes[name].state != "processing":
        play.ask_about(TaskRetry, name)
        graph.retried(name)
    elif luck < 0.97 and name in graph.nodes and graph.nodes[name].state in LIVE:
        play.ask_about(TaskCancel, name)
        graph.cancelled(name)
    elif luck > 0.98:
        play.act("clear", name.project)
        graph.cleared(name.project)


def _push(play: Play, graph: Graph, project: str) -> None:
    rng = play.rng
    names = [rng.choice([name for name in NAMES if name.project == project]) for _ in range(rng.randint(1, 4))]
    drawn = [(name, play.draw_parents(name), rng.choice(POLICIES)) for name in names]
    items = [item(*each, force_update=rng.random() < 0.3) for each in drawn]
    for (name, parents, policy), outcome in zip(drawn, play.push(project, items), strict=True):
        graph.pushed(name, outcome, parents, policy)


def _report(play: Play, graph: Graph) -> None:
    rng, held = play.rng, sorted(play.fetcher.held)
    reports: dict[str, dict[str, Any]] = {}
    for taskid in rng.sample(held, rng.randint(0, len(held))):
        reports[taskid], state = rng.choice(
            (
                ({}, "success"),
                ({}, "success"),
                ({"ok": False, "retry": False}, "failed"),
                ({"ok": False, "retry_after": 0.0}, "waiting"),
            )
        )
        graph.ended(name_of(taskid), state)
    if reports:
        assert play.report(reports) == ["done"] * len(reports)


def _take(play: Play, graph: Graph) -> None:
    play.fetcher.hello()
    play.settle()
    for taskid in play.handed():
        graph.handed(name_of(taskid))
    held = play.fetcher.held
    for taskid in [each for each in held if not _is_processing(graph, name_of(each))]:
        del held[taskid]


def _is_processing(graph: Graph, name: Name) -> bool:
    return name in graph.nodes and graph.nodes[name].state == "processing"


def _states(world: World) -> dict[Name, tuple[str, int]]:
    return {
        name_of(each.taskid): (_WORDS[each.state], each.links.missing if each.links is not None else 0)
        for each in (*world.known(), *world.leased())
    }


# ---------------------------------------------------------------------------------------- undos


@settings(max_examples=30 * TIMES)
@given(seed=SEEDS)
def test_an_undone_cancel_leaves_a_graph_as_it_was_whatever_dies_when(seed: int) -> None:
    play = Play(seed)
    rng, world = play.rng, play.world
    for name in rng.sample(NAMES, len(NAMES)):
        play.push(name.project, [item(name, play.draw_parents(name), rng.choice(("wait", "only")))])
    for taskid in rng.sample(sorted(play.fetcher.held), rng.randint(0, len(play.fetcher.held))):
        play.report({taskid: rng.choice(({}, {"ok": False, "retry": False}))})
        play.settle()
    play.fetcher.hello(capacity=0)
    if play.fetcher.held:
        play.fetcher.release(*play.fetcher.held)
    play.settle()
    world.advance(1)
    before = _states(world)

    play.cancel_and_undo(rng.choice(PROJECTS), rng.choice((["ready"], ["blocked"], ["ready", "blocked"])), 1)
    play.settle()

    assert _states(world) == before, play.happened


# ---------------------------------------------------------------------------------------- beside plain laws


@settings(max_examples=20 * TIMES)
@given(seed=SEEDS, forgets=st.booleans())
def test_nothing_is_left_over_whatever_happens_while_ends_are_still_being_told(seed: int, forgets: bool) -> None:
    keeps = {"keep": {"success": 5, "failed": 5, "cancelled": 5, "then": "forget"}}
    play = Play(seed, **(keeps if forgets else {}))

    for _ in range(40):
        _disturb(play)
    _come_to_an_end(play)

    left = {TaskRef(each.project, each.taskid): each for each in play.world.known()}
    families = play.world.disk.families
    marks = families[layout.PARENTS].values
    assert not families[layout.PROPAGATIONS].keys
    for key in families[layout.PARENTS].keys:
        (child, parent), (state, number) = tasks_of(key), decode_mark(marks[key])
        links = left[child].links if child in left else None
        assert links is not None, f"{child} is gone, its edge is left"
        assert links.number == number, f"a void edge of {child} is left"
        assert state != UNSATISFIED or parent not in left or left[parent].state != SUCCESS, f"{child} ← {parent}"
    waiting = {key[: len(task_key(*tasks_of(key)[0]))] for key in families[layout.CHILDREN].keys}
    awaited = [key for key, value in families[layout.IDS].values.items() if value == b"\x80"]
    assert all(task_key(layout.project_of(key), key[4:].decode()) in waiting for key in awaited)
    stuck = [each.taskid for each in left.values() if each.state not in (SUCCESS, FAILED, CANCELLED, BLOCKED)]
    assert not stuck
    assert all(each.links is not None and each.links.missing for each in left.values() if each.state == BLOCKED)


def _disturb(play: Play) -> None:
    """Do something at random, while all work under way goes on."""
    rng, luck, name = play.rng, play.rng.random(), play.rng.choice(NAMES)
    if luck < 0.4:
        names = [each for each in rng.choices(NAMES, k=4) if each.project == name.project]
        play.push(name.project, [_draw(play, each) for each in names])
    elif luck < 0.75:
        play.fetcher.hello()
        held = sorted(play.fetcher.held)
        how: tuple[dict[str, Any], ...] = ({}, {}, {}, {"ok": False, "retry": False}, {"ok": False})
        if held:
            play.report({taskid: rng.choice(how) for taskid in rng.sample(held, rng.randint(1, min(3, len(held))))})
    elif luck < 0.82:
        play.ask_about(TaskRetry, name)
    elif luck < 0.89:
        play.ask_about(TaskCancel, name)
    elif luck < 0.92:
        action = rng.choice(("clear", "clear", "reset", "delete"))
        play.act(action, name.project)
        if action == "delete":
            play.act("start", name.project)
    elif luck < 0.94:
        states = rng.choice(([], ["ready"], ["blocked"], ["processing", "delayed"]))
        play.cancel_and_undo(name.project, states, rng.choice((0, 1)))
    elif luck < 0.97:
        play.world.advance(rng.choice((1, 5, 30)))
    else:
        play.settle()


def _draw(play: Play, name: Name) -> NewTask:
    rng = play.rng
    luck, schedule = rng.random(), {"force_update": rng.random() < 0.3}
    if luck < 0.1:
        return item(name, play.draw_parents(name), rng.choice(POLICIES), delay=rng.choice((1, 10)), **schedule)
    if luck < 0.15:
        return item(name, [], "fail", cancel=True, force_update=True)
    return item(name, play.draw_parents(name), rng.choice(POLICIES), **schedule)


def _come_to_an_end(play: Play) -> None:
    """Let another fetcher do everything that can be done; the first one stays silent."""
    heir = play.world.fetcher(1000, name="heir")
    for seconds in CALM_SECONDS:
        play.world.advance(seconds)
        heir.hello()
        for taskid in list(heir.held):
            play.world.turn(heir.answers(heir.finished(taskid)))
    play.world.settle()
