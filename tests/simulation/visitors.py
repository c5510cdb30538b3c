"""Profile with visitors: producers that push pages of a few hosts to projects that are divided into slots.

Visitors have generators and projects of their own, so worlds without them don't change. A taskid is ``v0.07n``: the
page of a host, which follows from its number.
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import Final

from taskqueue.settings.settings import CoreConfig, Layer
from tests.simulation.cast import MOST_PENDING, Fetcher
from tests.simulation.client import Client, Message, Told
from tests.simulation.world import World

PROJECTS: Final = ("v0", "v1")
MOST_TASKS: Final = (inf, 4.0, 7.0)
"""Values of ``slot.max_tasks``; a host has eight or nine pages."""

PAGES: Final = 60
HOSTS: Final = 7
MEAN_SECONDS: Final = 6.0
CALM_SECONDS: Final = 100.0
"""Seconds after which all earlier requests have been answered."""

_PACES: Final[tuple[dict[str, float], ...]] = (
    {"delay": 0.5, "max_processing": 1.0},
    {"delay": 4.0, "max_processing": 1.0},
    {"delay": 20.0, "max_processing": 1.0},
    {"delay": 2.0, "max_processing": 3.0},
    {"rate": 0.5, "burst": 3.0, "max_processing": 4.0},
)


def host_of(taskid: str) -> str:
    """Return the host of a task's page; tasks of other profiles have a host named like their project."""
    return f"host{int(taskid[3:-1]) % HOSTS}.example" if taskid.endswith("n") else taskid.partition(".")[0]


def draw_page(rng: Random, project: str) -> Message:
    """Draw a page: one of a few, so that many are already known."""
    taskid = f"{project}.{rng.randrange(PAGES):02}n"
    schedule: Message = {}
    if rng.random() < 0.5:
        schedule["priority"] = rng.randrange(-2, 6)
    if rng.random() < 0.2:
        schedule["delay"] = float(rng.randrange(60))
    if rng.random() < 0.3:
        schedule["force_update"] = True
    page: Message = {"taskid": taskid, "url": f"http://{host_of(taskid)}/{taskid}"}
    return page | ({"schedule": schedule} if schedule else {})


class Visitor:
    """Producer of batches of pages, who clears, pauses, retries and cancels now and then; in calm, lets all run."""

    def __init__(self, world: World, number: int, told: Told) -> None:
        self._world = world
        self._rng = world.rng(f"visitor{number}")
        self._client = Client(world, f"visitor{number}", told)
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, MEAN_SECONDS), self._act)

    def _act(self) -> None:
        rng, project = self._rng, self._rng.choice(PROJECTS)
        if self._world.is_calm:
            self._world.clock.after(CALM_SECONDS, self._start)
            return
        luck = rng.random()
        if luck < 0.8 and len(self._client.pending) < MOST_PENDING:
            tasks = [draw_page(rng, project) for _ in range(rng.choice((1, 2, 5, 12)))]
            self._client.ask("new-task", project=project, tasks=tasks)
        elif luck < 0.95:
            taskids = [draw_page(rng, project)["taskid"] for _ in range(3)]
            self._client.ask(rng.choice(("task-retry", "task-cancel")), project=project, taskids=taskids)
        elif luck < 0.98:
            self._client.ask("project-do", project=project, action="pause")
            seconds = rng.uniform(5, 60)
            self._world.clock.after(seconds, lambda: self._client.ask("project-do", project=project, action="resume"))
        else:
            self._client.ask("project-do", project=project, action="clear")
        self._wait()

    def _start(self) -> None:
        for each in PROJECTS:
            self._client.ask("project-do", project=each, action="start")


class PageFetcher(Fetcher):
    """Fetcher for these projects, whose follow-ups are pages, too."""

    def __init__(self, world: World, name: str, told: Told) -> None:
        super().__init__(world, name, told, PAGES)
        self._wants = list(PROJECTS)

    def _follow_ups(self, task: Message) -> list[Message]:
        if task["project"] not in PROJECTS:
            return super()._follow_ups(task)
        return [draw_page(self._rng, task["project"]) for _ in range(self._rng.randrange(1, 3))]


def pace_of(world: World, project: str) -> dict[str, float]:
    """Draw the slot settings of a project, for the life of the world."""
    return world.rng(f"slots {project}").choice(_PACES)


def most_tasks(world: World, project: str) -> float:
    """Draw ``slot.max_tasks`` of a project, for the life of the world."""
    return world.rng(f"slot tasks {project}").choice(MOST_TASKS)


def with_slots(world: World, config: CoreConfig) -> CoreConfig:
    """Add the visitors' projects to the config."""
    fields = {key: getattr(config, key) for key in config.__struct_fields__}
    slotted: dict[str, Layer] = {
        project: {
            "rate": inf,
            "slot": {"by": "host", "max_tasks": most_tasks(world, project), **pace_of(world, project)},
        }
        for project in PROJECTS
    }
    return CoreConfig(**{**fields, "projects": config.projects | slotted})


def move_in(world: World, told: Told) -> None:
    """Add the visitors to the world."""
    for number in range(2):
        Visitor(world, number, told)
        PageFetcher(world, f"reader{number}", told)
