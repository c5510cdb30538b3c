"""Imports of a project from exports, step by step, and their law.

I1   an import counts each part that is there, and no other; the project has each of its tasks, in its state, unless it
     had it already; it is paused until all are there, and not longer

The importer deletes the project and imports it anew, with steps of any size that overlap, are left unfinished, and are
begun again; meanwhile tasks are pushed to it. Nothing is dispatched meanwhile: law C1.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.cast import Fetcher
from tests.simulation.client import Client, Message, Told
from tests.simulation.tasks import draw_named, draw_task, name_of
from tests.simulation.truth import Name, Truth
from tests.simulation.world import Violation, World

if TYPE_CHECKING:
    from tests.simulation.laws import Round

PROJECT: Final = "back"
MEAN_SECONDS: Final = 12.0
POOL: Final = 30
STATES: Final = ("ready", "ready", "delayed", "processing", "success", "failed", "cancelled")
FOLLOWS_FROM_NAME: Final = ("timeout", "auto_recrawl", "age")
"""Fields of a schedule that the judge knows from the taskid; ``age`` belongs to ``auto_recrawl``."""
SETTINGS: Final = {"rate": inf, "order": "arrival"}


def draw_export(rng: Random, wall: float) -> list[Message]:
    """Draw the tasks of an export."""
    numbers = rng.sample(range(POOL), rng.randrange(1, 14))
    return [_drawn(rng, name_of(PROJECT, number), wall) for number in numbers]


def _drawn(rng: Random, taskid: str, wall: float) -> Message:
    task = draw_named(rng, PROJECT, taskid, wall)
    state = rng.choice(STATES)
    said: Message = {"taskid": taskid, "state": state, "url": f"http://{PROJECT}/{taskid}", "retried": rng.randrange(2)}
    said |= {"priority": rng.randrange(3)} | ({"body": task["body"]} if "body" in task else {})
    schedule = {key: value for key, value in task.get("schedule", {}).items() if key in FOLLOWS_FROM_NAME}
    said |= {"schedule": schedule} if schedule else {}
    if state == "delayed":
        said |= {"exetime": wall + rng.randrange(-20, 100), "held_back": rng.random() < 0.5}
    if state in ("success", "failed", "cancelled"):
        said["ended_at"] = wall - rng.randrange(1000)
    return said


class Importer:
    """Operator who imports the project again and again; in calm, finishes the last import."""

    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._rng = world.rng("importer")
        self._told = told
        self._lives = 0
        self._export: list[Message] = []
        self._name = ""
        self._is_done = True
        self._live()
        self._wait()

    def _live(self) -> None:
        self._lives += 1
        self._client = Client(self._world, f"importer.{self._lives}", self._told)

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, MEAN_SECONDS), self._act)

    def _act(self) -> None:
        rng = self._rng
        if self._world.is_calm and self._is_done:
            self._client.ask("project-show", self._drop_unfinished, project=PROJECT)
            self._wait()
            return
        if not self._is_done and rng.random() < 0.3 and not self._world.is_calm:
            self._client.die()
            self._live()
        if self._is_done or (rng.random() < 0.1 and not self._world.is_calm):
            self._client.ask("project-do", self._begin_anew, project=PROJECT, action="delete")
        elif not self._client.pending:
            self._begin()
        if rng.random() < 0.5 and not self._world.is_calm:
            wall = self._world.machine.now().wall
            self._client.ask("new-task", project=PROJECT, tasks=[draw_task(rng, PROJECT, POOL, wall)])
        self._wait()

    def _begin_anew(self, reply: Message) -> None:
        if self._world.is_calm:
            return
        self._is_done = False
        self._export = draw_export(self._rng, self._world.machine.now().wall)
        self._name = f"export {self._rng.randrange(10**9)}"
        self._begin()

    def _drop_unfinished(self, reply: Message) -> None:
        """Delete the project if a late message of a former life has begun an import that is never finished."""
        if reply["type"] != "error" and reply["project"]["state"] == "paused":
            self._client.ask("project-do", project=PROJECT, action="delete")

    def _begin(self) -> None:
        begin = {"parts": len(self._export), "state": "running", "settings": SETTINGS}
        self._client.ask("project-import", self._go_on, project=PROJECT, export=self._name, begin=begin)

    def _go_on(self, reply: Message) -> None:
        if reply["type"] != "import-reply" or reply["parts"] != len(self._export):
            self._is_done = reply["type"] == "error"
            return
        if reply["brought"] == reply["parts"]:
            self._is_done = True
            return
        first = max(0, reply["brought"] - self._rng.randrange(3))
        end = min(len(self._export), reply["brought"] + self._rng.randrange(1, 5))
        self._client.ask(
            "project-import",
            self._go_on,
            project=PROJECT,
            export=self._name,
            first=first,
            tasks=self._export[first:end],
        )


class Imports:
    """Judge of imports."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._came: list[Name] = []

    def begin(self) -> None:
        """Begin a turn."""
        self._came.clear()

    def stepped(self, request: Message, reply: Message) -> Iterable[tuple[Name, Message]]:
        """Record the answer to a step; yield the parts that were not there before."""
        project = request["project"]
        before, _ = self._truth.imports.get(project, (0, 0)) if request.get("begin") is None else (reply["brought"], 0)
        if reply["brought"] < before:
            raise Violation("I1", project, f"{before} parts were there, now it says {reply['brought']}")
        self._truth.journal.put(self._truth.imports, project, (reply["brought"], reply["parts"]))
        first = request.get("first", 0)
        for index in range(before, reply["brought"]):
            item = request["tasks"][index - first]
            self._came.append(Name(project, item["taskid"]))
            yield self._came[-1], item

    def dropped(self, project: str) -> None:
        """Record that a project was deleted."""
        self._truth.journal.drop(self._truth.imports, project)
        self._came = [name for name in self._came if name.project != project]

    def written(self, turn: Round) -> None:
        """Judge the records of projects, and that what came is there."""
        for name in self._came:
            if name not in self._truth.tasks:
                raise Violation("I1", name.taskid, "it has been imported, and is not there")
        for record in turn.kept.projects:
            if record.number in turn.kept.dropped_projects:
                continue
            brought, parts = self._truth.imports.get(record.name, (0, 0))
            unfinished = record.importing
            if (unfinished is None) != (brought == parts):
                raise Violation("I1", record.name, f"it has {brought} of {parts} parts, and its record {unfinished}")
            if unfinished is not None and (unfinished.brought, record.state) != (brought, "paused"):
                raise Violation("I1", record.name, f"it has {brought} parts, and is {record.state} with {unfinished}")


class BackFetcher(Fetcher):
    """Fetcher for this project."""

    def __init__(self, world: World, name: str, told: Told) -> None:
        super().__init__(world, name, told, POOL)
        self._wants = [PROJECT]


def move_in(world: World, told: Told) -> None:
    """Add the importer, and fetchers of the project, to the world."""
    Importer(world, told)
    for number in range(2):
        BackFetcher(world, f"reader of {PROJECT} {number}", told)


def ends_live(item: Message) -> bool:
    """Whether a task of an export is to be run."""
    return str(item["state"]) in ("ready", "delayed", "processing", "blocked")
