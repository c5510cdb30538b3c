"""Producers that stage flows in batches of any size, submit most of them, and sometimes cancel one."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.simulation.client import Client, Message, Told
from tests.simulation.world import World

MEAN_SECONDS: Final = 20.0
MOST_PENDING: Final = 3


def plan(rng: Random, project: str, number: int, outside: list[str]) -> list[Message]:
    """Draw the tasks of a flow, parents first; now and then one waits for a task outside."""
    tasks: list[Message] = []
    for place in range(rng.randrange(2, 9)):
        before = [task["taskid"] for task in tasks]
        parents = sorted(set(rng.choices(before, k=rng.randrange(3)))) if before else []
        if rng.random() < 0.04:
            parents.append(rng.choice(outside))
        task: Message = {"taskid": f"{project}.{number}.{place}f", "url": f"http://{project}/flow/{number}/{place}"}
        if parents:
            task |= {"depends_on": parents, "on_parent_failure": rng.choice(("fail", "run", "wait", "only"))}
        if rng.random() < 0.3:
            task["schedule"] = {"retries": rng.randrange(2)}
        tasks.append(task)
    return tasks


class Planner:
    """Producer that stages and submits flows, one after the other; some have known tasks."""

    def __init__(self, world: World, told: Told, project: str, outside: list[str]) -> None:
        self._world = world
        self._rng = world.rng(f"planner of {project}")
        self._client = Client(world, f"planner-{project}", told)
        self._project = project
        self._outside = outside
        self._number = 0
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, MEAN_SECONDS), self._begin)

    def _begin(self) -> None:
        if self._world.is_calm:
            return
        if len(self._client.pending) < MOST_PENDING:
            self._number += 1
            of = self._number - 1 if self._number > 1 and self._rng.random() < 0.15 else self._number
            self._stage(f"f{self._number}", plan(self._rng, self._project, of, self._outside), 0)
        self._wait()

    def _stage(self, flow: str, tasks: list[Message], first: int) -> None:
        if first == len(tasks):
            self._submit(flow, len(tasks))
            return
        batch = tasks[first : first + self._rng.randrange(1, len(tasks) + 1)]

        def go_on(reply: Message) -> None:
            if reply["type"] == "flow-staged" and not reply.get("errors"):
                self._stage(flow, tasks, reply["staged"])

        self._client.ask("flow-stage", go_on, project=self._project, flow=flow, first=first, tasks=batch)

    def _submit(self, flow: str, count: int) -> None:
        luck = self._rng.random()
        if luck < 0.9:
            self._client.ask("flow-submit", project=self._project, flow=flow, count=count, reuse=False)
        if luck > 0.7:
            cancel = lambda: self._client.ask("flow-cancel", project=self._project, flow=flow)  # noqa: E731
            self._world.clock.after(self._rng.uniform(0, 60), cancel)
