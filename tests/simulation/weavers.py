"""Profile with weavers: producers and operators that push and change tasks with parents.

Weavers have generators and projects of their own, so worlds without them don't change. A taskid is ``g0.07n``: the
parents of a task have smaller numbers, but now and then a weaver tries another one, which may close a cycle.
"""

from __future__ import annotations

from random import Random
from typing import Final

from taskqueue.settings.settings import CoreConfig, Layer
from tests.simulation.cast import MOST_PENDING, Fetcher
from tests.simulation.client import Client, Message, Told
from tests.simulation.planners import Planner
from tests.simulation.tasks import GRAPH_ENTRY, ORDERS
from tests.simulation.world import World

PROJECTS: Final = ("g0", "g1")
MEAN_SECONDS: Final = 8.0
CALM_SECONDS: Final = 100.0
"""Seconds after which all earlier requests have been answered."""

SIZES: Final = (6, 12, 30)
"""Numbers of tasks of the projects."""

_KEEPS: Final[tuple[Layer, ...]] = (
    {},
    {},
    {"keep": {"success": 60.0, "failed": 60.0, "cancelled": 0.0}},
    {"keep": {"success": 60.0, "failed": 30.0, "cancelled": 0.0, "then": "forget"}},
)


def taskid_of(project: str, number: int) -> str:
    """Make the taskid of a number; it ends with a letter, so that rules for other profiles' tasks don't apply."""
    return f"{project}.{number:02}n"


def weave(rng: Random, project: str, size: int) -> Message:
    """Draw a task with up to three parents."""
    number = rng.randrange(size)
    below = size if rng.random() < 0.03 else number
    parents: list[str | list[str]] = []
    for _ in range(rng.choice((0, 1, 1, 2, 3)) if below else 0):
        of, parent = rng.choice((project, project, *PROJECTS)), rng.randrange(below)
        parents.append(taskid_of(of, parent) if of == project else [of, taskid_of(of, parent)])
    task: Message = {"taskid": taskid_of(project, number), "url": f"http://{project}/{number}"}
    if parents:
        task |= {"depends_on": parents, "on_parent_failure": rng.choice(("fail", "fail", "run", "wait", "only"))}
    if schedule := _schedule(rng):
        task["schedule"] = schedule
    return task


def _schedule(rng: Random) -> Message:
    schedule: Message = {}
    if rng.random() < 0.12:
        schedule["force_update"] = True
    if rng.random() < 0.1:
        schedule["delay"] = float(rng.randrange(60))
    if rng.random() < 0.3:
        schedule["retries"] = rng.randrange(2)
    return schedule


class Weaver:
    """Producer of batches of dependent tasks, in any order."""

    def __init__(self, world: World, number: int, told: Told, size: int) -> None:
        self._world = world
        self._rng = world.rng(f"weaver{number}")
        self._client = Client(world, f"weaver{number}", told)
        self._size = size
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, MEAN_SECONDS), self._push)

    def _push(self) -> None:
        if self._world.is_calm:
            return
        if len(self._client.pending) < MOST_PENDING:
            project = self._rng.choice(PROJECTS)
            tasks = [weave(self._rng, project, self._size) for _ in range(self._rng.choice((1, 2, 5)))]
            self._client.ask("new-task", project=project, tasks=tasks)
        self._wait()


class GraphFetcher(Fetcher):
    """Fetcher whose follow-ups have parents, too."""

    def __init__(self, world: World, name: str, told: Told, size: int) -> None:
        super().__init__(world, name, told, size)
        self._wants = list(PROJECTS)

    def _follow_ups(self, task: Message) -> list[Message]:
        if task["project"] not in PROJECTS:
            return super()._follow_ups(task)
        return [weave(self._rng, task["project"], self._pool) for _ in range(self._rng.randrange(1, 3))]


class Meddler:
    """Operator who reruns, retries, cancels, clears and pauses; in calm, lets all run."""

    def __init__(self, world: World, told: Told, size: int) -> None:
        self._world = world
        self._rng = world.rng("meddler")
        self._client = Client(world, "meddler", told)
        self._size = size
        self._clears = self._rng.random() < 0.5
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, 2 * MEAN_SECONDS), self._act)

    def _act(self) -> None:
        rng, project = self._rng, self._rng.choice(PROJECTS)
        if self._world.is_calm:
            self._world.clock.after(CALM_SECONDS, self._start)
            return
        luck = rng.random()
        if luck < 0.2:
            scope = rng.choice(("task", "downstream", "downstream", "upstream-failed", "only-failed"))
            self._client.ask(
                "rerun",
                self._cancel_perhaps,
                project=project,
                taskid=self._names(project)[0],
                scope=scope,
                dry_run=rng.random() < 0.1,
            )
        elif luck < 0.5:
            self._client.ask("task-retry", project=project, taskids=self._names(project))
        elif luck < 0.85:
            self._client.ask("task-cancel", project=project, taskids=self._names(project))
        elif luck < 0.93 or not self._clears:
            self._client.ask("project-do", project=project, action="pause")
            seconds = rng.uniform(5, 60)
            self._world.clock.after(seconds, lambda: self._client.ask("project-do", project=project, action="resume"))
        else:
            self._client.ask("project-do", project=project, action="clear")
        self._wait()

    def _start(self) -> None:
        for each in PROJECTS:
            self._client.ask("project-do", project=each, action="start")

    def _cancel_perhaps(self, reply: Message) -> None:
        if reply["type"] != "error" and self._rng.random() < 0.15:
            number = reply["operation"]["id"]
            self._world.clock.after(self._rng.uniform(0, 10), lambda: self._client.ask("operation-cancel", id=number))

    def _names(self, project: str) -> list[str]:
        numbers = [self._rng.randrange(self._size) for _ in range(self._rng.randrange(1, 4))]
        return [taskid_of(project, number) for number in numbers]


class Waverer:
    """Operator who cancels tasks by a filter and undoes that, and now and then cancels the undo."""

    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._rng = world.rng("waverer")
        self._client = Client(world, "waverer", told)
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, 12 * MEAN_SECONDS), self._cancel)

    def _cancel(self) -> None:
        if self._world.is_calm:
            return
        project = self._rng.choice(PROJECTS)
        states = self._rng.choice(((), ("ready", "delayed"), ("ready", "processing"), ("blocked",)))
        wanted: Message = {"states": list(states)} if states else {}
        self._client.ask("bulk", self._undo_later, project=project, filter=wanted, action="cancel", dry_run=False)
        self._wait()

    def _undo_later(self, reply: Message) -> None:
        if reply["type"] != "error":
            self._undo_after(self._rng.choice((0.5, 5.0, 40.0)) * self._rng.random(), reply["operation"]["id"])

    def _undo_after(self, seconds: float, operation: int) -> None:
        self._world.clock.after(
            seconds,
            lambda: self._client.ask("operation-undo", lambda reply: self._stop(reply, operation), id=operation),
        )

    def _stop(self, reply: Message, operation: int) -> None:
        """Cancel an undo perhaps, and perhaps undo the rest."""
        if reply["type"] == "error" or self._rng.random() < 0.6:
            return
        self._client.ask("operation-cancel", id=reply["operation"]["id"])
        if self._rng.random() < 0.5:
            self._undo_after(self._rng.uniform(1, 20), operation)


class Timekeeper:
    """Operator who sets cron entries with graphs, and in calm takes them back."""

    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._rng = world.rng("timekeeper")
        self._client = Client(world, "timekeeper", told)
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, 8 * MEAN_SECONDS), self._set)

    def _set(self) -> None:
        if self._world.is_calm:
            self._world.clock.after(CALM_SECONDS, self._take_back)
            return
        rng, project = self._rng, self._rng.choice(PROJECTS)
        entry: Message = {
            "every": rng.choice(("2s", "7s", "20s", "60s")),
            "missed": rng.choice(("skip", "once")),
            "overlap": rng.choice(("skip", "wait", "wait", "both")),
            "after_failure": rng.choice(("run", "run", "skip")),
            "keep_flows": rng.choice((1, 3, 10)),
            "tasks": self._graph(),
        }
        self._client.ask("project-set", project=project, settings={"cron": {GRAPH_ENTRY: entry}})
        self._wait()

    def _graph(self) -> Message:
        """Draw up to six tasks, in any order; names end with a letter, see ``taskid_of``."""
        rng, names = self._rng, [f"{place}n" for place in range(self._rng.randrange(1, 7))]
        tasks: Message = {}
        for place, name in enumerate(names):
            parents = sorted(set(rng.choices(names[:place], k=rng.randrange(3)))) if place else []
            # Few that wait for a later success: a flow of such tasks may last until an operator retries a parent.
            policy = "wait" if rng.random() < 0.03 else rng.choice(("fail", "fail", "run"))
            tasks[name] = {"retries": int(rng.random() < 0.1), "after": parents, "on_parent_failure": policy}
        rng.shuffle(names)
        return {name: tasks[name] for name in names}

    def _take_back(self) -> None:
        for project in PROJECTS:
            self._client.ask("project-unset", project=project, keys=[])


def with_graphs(world: World, config: CoreConfig) -> CoreConfig:
    """Add the weavers' projects to the config."""
    keeps = world.rng("graphs keep").choice(_KEEPS)
    fields = {key: getattr(config, key) for key in config.__struct_fields__}
    order = world.rng("graphs order").choice(ORDERS)
    projects = config.projects | {project: {"rate": float("inf"), "order": order, **keeps} for project in PROJECTS}
    return CoreConfig(**{**fields, "projects": projects})


def move_in(world: World, told: Told) -> None:
    """Add the weavers to the world."""
    size = world.rng("graphs").choice(SIZES)
    for number in range(2):
        Weaver(world, number, told, size)
        GraphFetcher(world, f"knitter{number}", told, size)
    Meddler(world, told, size)
    Timekeeper(world, told)
    Waverer(world, told)
    for project in PROJECTS:
        Planner(world, told, project, [taskid_of(project, number) for number in range(size)])
