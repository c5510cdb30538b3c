"""Cast of the world: producers, fetchers, an operator, and their bad luck.

Each behaves as docs/reference/protocol.md asks, and, in bad weather, as processes do: it stalls, dies, comes back in
another session, answers late, twice or never. In calm all behave well, so that every task can end.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tests.simulation.client import Client, Message, Told
from tests.simulation.tasks import FETCHER_TIMEOUT, GROUP, PROJECTS, SHARED, draw_task
from tests.simulation.world import World

DOWN_SECONDS: Final = 150.0
MOST_PENDING: Final = 6
"""Unanswered requests of a producer, at most."""
REGRET_SECONDS: Final = 100.0


class Producer:
    """Producer of batches of tasks, often the same ones again, and now and then an item that can't be decoded."""

    def __init__(self, world: World, name: str, told: Told, pool: int, mean_seconds: float) -> None:
        self._world = world
        self._rng = world.rng(name)
        self._client = Client(world, name, told)
        self._pool = pool
        self._mean = mean_seconds
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, self._mean), self._push)

    def _push(self) -> None:
        if self._world.is_calm:
            return
        if len(self._client.pending) < MOST_PENDING:
            project = self._rng.choice(PROJECTS)
            self._client.ask("new-task", project=project, tasks=self._draw(project))
        self._wait()

    def _draw(self, project: str) -> list[Message]:
        rng, wall = self._rng, self._world.machine.now().wall
        tasks = [draw_task(rng, project, self._pool, wall) for _ in range(rng.choice((1, 1, 3, 8)))]
        if rng.random() < 0.05:
            tasks.insert(rng.randrange(len(tasks) + 1), {"taskid": "broken", "url": 7})
        return tasks


class Fetcher:
    """Fetcher that runs tasks up to its capacity; ``_plan`` lists its faults.

    Attributes:
        holds: by token, tasks that it has, and reports without a reply.
        running: tokens of tasks that it runs, even after the end of their leases.
    """

    def __init__(self, world: World, name: str, told: Told, pool: int) -> None:
        self._world = world
        self._name = name
        self._told = told
        self._rng = world.rng(name)
        self._parts_rng = world.rng(f"{name} parts")
        self._again_rng = world.rng(f"{name} again")
        self._pool = pool
        self._lives = 0
        self._wants = self._rng.choice((None, None, list(PROJECTS[:1]), list(PROJECTS[1:])))
        self._work_seconds = self._rng.choice((0.5, 4.0, 15.0))
        self._live()
        self._plan_bad_luck("die_every", self._die)
        self._plan_bad_luck("stall_every", self._stall)

    # ------------------------------------------------------------------------------------ life and death

    def _live(self) -> None:
        self._lives += 1
        self.holds: dict[int, Message] = {}
        self.running: dict[int, None] = {}
        self._seen = 0
        self._finished: list[Message] = []
        self._capacity = self._rng.choice((1, 2, 4, 8))
        self._client = Client(self._world, f"{self._name}.{self._lives}", self._told)
        self._client.on_select = self._select
        self._client.on_welcome = self._welcome
        self._client.on_hello_wanted = self._state
        self._beat(self._client)

    def _plan_bad_luck(self, kind: str, befall: Any) -> None:
        mean = getattr(self._world.weather, kind)
        if mean:
            self._world.clock.after(self._world.wait(self._rng, mean), lambda: self._befall(kind, befall))

    def _befall(self, kind: str, befall: Any) -> None:
        if not self._world.is_calm:
            befall()
            self._plan_bad_luck(kind, befall)

    def _die(self) -> None:
        if self._client.alive:
            self._world.trace.note(self._client.session, f"dies with {len(self.holds)} tasks")
            self._client.die()
            self._world.clock.after(self._rng.choice((1.0, 30.0, 100.0)), self._live)

    def _stall(self) -> None:
        client = self._client
        client.silent = True

        def wake() -> None:
            client.silent = False

        self._world.clock.after(self._rng.choice((10.0, FETCHER_TIMEOUT + 5.0, 150.0)), wake)

    # ------------------------------------------------------------------------------------ facts

    def _beat(self, client: Client) -> None:
        """Say hello every now and then, until this life ends."""
        if not client.alive:
            return
        if not self._world.is_calm and self._rng.random() < 0.05:
            self._capacity = self._rng.choice((0, 1, 3, 8))
        elif self._world.is_calm:
            self._capacity = max(2, self._capacity)
        self._state()
        self._world.clock.after(self._rng.uniform(8, 16), lambda: self._beat(client))

    def _state(self) -> None:
        wants = None if self._world.is_calm else self._wants
        facts = {"holds": list(self.holds), "running": list(self.running), "seen": self._seen}
        self._client.state(capacity=self._capacity, projects=wants, **facts, **self._facts())

    def _facts(self) -> Message:
        """Further fields of its hello."""
        return {}

    def _welcome(self, message: Message) -> None:
        self._let_go(message.get("ended", []))

    # ------------------------------------------------------------------------------------ work

    def _select(self, message: Message) -> None:
        if message["number"] > self._seen + 1:
            self._state()
        if message["number"] != self._seen + 1:
            return
        self._seen += 1
        for task in message["tasks"]:
            self.holds[task["token"]] = task
            self.running[task["token"]] = None
            self._plan(task)

    def _plan(self, task: Message) -> None:
        """Plan the fate of a task that has just arrived."""
        rng, token, client = self._rng, task["token"], self._client
        luck = 0.0 if self._world.is_calm else rng.random()
        seconds = rng.expovariate(1 / self._work_seconds)
        if luck > 0.97:  # released, not started
            self._later(client, seconds, lambda: self._release(token))
        elif luck > 0.94:  # never ends
            self._later(client, task["timeout"] + 30, lambda: self._abandon(token))
        elif luck > 0.90:  # reported too late
            self._later(client, task["timeout"] + rng.uniform(-2, 60), lambda: self._finish(task))
        else:
            self._later(client, min(seconds, task["timeout"]), lambda: self._finish(task))
        if luck > 0.80:
            self._later(client, 0.5 * task["timeout"], lambda: self._extend(token))
        if luck > 0.98 or 0.5 < luck < 0.52:  # reported twice
            self._later(client, rng.uniform(1, 200), lambda: self._answer([self._result(task)]))
        if luck and self._parts_rng.random() < 0.1:  # new tasks are sent ahead, some too late
            for _ in range(self._parts_rng.randrange(1, 4)):
                self._later(client, self._parts_rng.uniform(0, 1.5 * seconds), lambda: self._send_part(task))

    def _later(self, client: Client, seconds: float, action: Any) -> None:
        self._world.clock.after(seconds, lambda: action() if client.alive and client is self._client else None)

    def _finish(self, task: Message) -> None:
        self.running.pop(task["token"], None)
        self._finished.append(self._result(task))
        if len(self._finished) == 1:
            self._later(self._client, self._rng.choice((0.0, 1.0, 3.0)), self._flush)

    def _flush(self) -> None:
        finished, self._finished = self._finished, []
        self._answer(finished)

    def _answer(self, results: list[Message]) -> None:
        tokens = [result["token"] for result in results]
        self._client.ask("done", lambda reply: self._let_go(tokens), tasks=results)

    def _send_part(self, task: Message) -> None:
        token = task["token"]
        part: Message = {key: task[key] for key in ("project", "taskid", "token")}
        part |= {"part": True, "new": self._follow_ups(task)}

        def heed(reply: Message) -> None:
            if reply["type"] == "done-reply" and reply["outcomes"] == ["stale"]:
                self._let_go([token])

        self._client.ask("done", heed, tasks=[part])

    def _result(self, task: Message) -> Message:
        rng = self._rng
        result: Message = {key: task[key] for key in ("project", "taskid", "token")}
        luck = 0.0 if self._world.is_calm else rng.random()
        if luck > 0.8 or (self._is_down(task["project"]) and not self._world.is_calm):
            result.update(ok=False, error="HTTP 500")
        if luck > 0.95:
            result["retry_after"] = float(rng.randrange(120))
        elif luck > 0.92:
            result["retry"] = False
        if 0.5 < luck < 0.6 or 0.85 < luck < 0.87:
            result["new"] = self._follow_ups(task)
        if luck and not result.get("ok", True):
            self._differ(result, task)
        return result

    def _differ(self, result: Message, task: Message) -> None:
        """Let a failure bring new tasks now and then, and change the next attempt."""
        rng = self._again_rng
        if rng.random() < 0.2:
            result["new"] = self._follow_ups(task)
        if rng.random() < 0.3 and result.get("retry", True):
            again: Message = {"counts": rng.choice((None, True, False))}
            if rng.random() < 0.8:
                again["body"] = {"again": rng.randrange(1000), "note": "x" * rng.randrange(40)}
            if rng.random() < 0.4:
                again["priority"] = rng.randrange(-2, 6)
            result["again"] = again

    def _is_down(self, project: str) -> bool:
        """Whether the site fails now, as it does for some minutes now and then."""
        span = int(self._world.clock.now // DOWN_SECONDS)
        return self._world.rng(f"{project} down {span}").random() < 0.25

    def _follow_ups(self, task: Message) -> list[Message]:
        rng, wall = self._rng, self._world.machine.now().wall
        new = [draw_task(rng, task["project"], self._pool, wall) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.2:  # the page links to itself
            new.append({"taskid": task["taskid"], "url": task["url"], "schedule": {"priority": 1}})
        if rng.random() < 0.1:
            new.append({"taskid": "", "url": "a follow-up that can't be decoded"})
        return new

    def _let_go(self, tokens: list[int]) -> None:
        for token in tokens:
            self.holds.pop(token, None)

    def _abandon(self, token: int) -> None:
        self.running.pop(token, None)
        self.holds.pop(token, None)

    def _release(self, token: int) -> None:
        self.running.pop(token, None)
        if token in self.holds:
            self._client.ask("release", lambda reply: self._let_go([token]), leases=[self._lease(token)])

    def _extend(self, token: int) -> None:
        if token in self.holds:
            seconds = self._rng.choice((None, 5.0, 40.0, 400.0))
            self._client.ask("extend", leases=[self._lease(token)], seconds=seconds)

    def _lease(self, token: int) -> Message:
        return {key: self.holds[token][key] for key in ("project", "taskid", "token")}


class Operator:
    """Operator who changes rates, pauses, stops and deletes projects, cancels and retries tasks; in calm, tidies up."""

    def __init__(self, world: World, told: Told, pool: int, mean_seconds: float) -> None:
        self._world = world
        self._rng = world.rng("operator")
        self._undoing = world.rng("operator undoes")
        self._regretting = world.rng("operator regrets")
        self._client = Client(world, "operator", told)
        self._pool = pool
        self._mean = mean_seconds
        self._wait()
        self._regret_later()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, self._mean), self._act)

    def _act(self) -> None:
        if self._world.is_calm:
            return
        _ACTS[self._rng.randrange(len(_ACTS))](self, self._rng.choice(PROJECTS))
        self._wait()

    def _re_rate(self, project: str) -> None:
        rate = self._rng.choice((0.0, 0.2, 1.0, 5.0, float("inf")))
        burst = self._rng.choice((1.0, 2.0, 10.0))
        settings: Message = self._rng.choice(({"rate": rate}, {"burst": burst}, {"rate": rate, "burst": burst}))
        self._client.ask("project-set", project=project, settings=settings)

    def _crowd(self, project: str) -> None:
        self._client.ask("project-set", project=project, settings={"max_queue": 20.0})

    def _unset(self, project: str) -> None:
        self._client.ask("project-unset", project=project, keys=[])

    def _pause(self, project: str) -> None:
        if self._rng.random() < 0.5:
            self._client.ask("project-do", project=project, action="pause", seconds=self._rng.uniform(5, 120))
        else:
            self._there_and_back(project, "pause", "resume")

    def _stop(self, project: str) -> None:
        self._there_and_back(project, "stop", "start")

    def _there_and_back(self, project: str, there: str, back: str) -> None:
        self._client.ask("project-do", project=project, action=there)
        seconds = self._rng.uniform(5, 120)
        self._world.clock.after(seconds, lambda: self._client.ask("project-do", project=project, action=back))

    def _delete(self, project: str) -> None:
        if self._rng.random() < 0.3:
            self._client.ask("project-do", project=project, action="delete")
            self._world.clock.after(5.0, lambda: self._client.ask("project-do", project=project, action="start"))

    def _cancel(self, project: str) -> None:
        self._client.ask("task-cancel", project=project, taskids=self._names(project))

    def _retry(self, project: str) -> None:
        self._client.ask("task-retry", project=project, taskids=self._names(project))

    def _look(self, project: str) -> None:
        self._client.ask("status", limit=1)
        self._client.ask("project-show", project=project)
        self._client.ask("task-show", project=project, taskid=self._names(project)[0])
        self._client.ask("stats", limit=2)
        self._client.ask("why", project=project)
        self._client.ask("task-list", project=project, state=self._rng.choice(("ready", "delayed", "failed")), limit=3)
        self._client.ask("operation-list")
        self._client.ask("project-wait", project=project, seconds=5.0)

    def _hold(self, project: str) -> None:
        self._client.ask("project-hold", project=project, seconds=self._rng.choice((0.0, 20.0, 200.0)))

    def _bulk(self, project: str) -> None:
        rng = self._rng
        about: Message = {"group": GROUP} if rng.random() < 0.3 else {"project": project}
        about["filter"] = rng.choice(({}, {"job": "monday"}, {"url": "*t*[0-4]"}, {"url": "*/p1.*"}))
        about["action"] = rng.choice(("retry", "cancel", "reprioritise", "reschedule"))
        about["dry_run"] = rng.random() < 0.2
        self._client.ask(
            "bulk", self._undo_perhaps, priority=rng.randrange(10, 20), delay=rng.choice((0.0, 10.0, 60.0)), **about
        )

    def _undo_perhaps(self, reply: Message) -> None:
        """Undo an operation some time later, and perhaps stop that."""
        rng = self._undoing
        if rng.random() < 0.6:
            self._undo_after(rng.choice((0.5, 5.0, 60.0)) * rng.random(), reply)

    def _undo_after(self, seconds: float, reply: Message) -> None:
        if reply["type"] == "error":
            return
        number = reply["operation"]["id"]

        def stop(begun: Message) -> None:
            if begun["type"] != "error" and self._undoing.random() < 0.2:
                self._client.ask("operation-cancel", id=begun["operation"]["id"])

        self._world.clock.after(seconds, lambda: self._client.ask("operation-undo", stop, id=number))

    def _regret(self) -> None:
        """Retry what has failed, or put off what waits, and undo that once a part of it has run."""
        rng = self._regretting
        if self._world.is_calm:
            return
        undo, project = partial(self._undo_after, rng.uniform(5, 60)), rng.choice(PROJECTS)
        action = rng.choice(("retry", "retry", "reschedule"))
        self._client.ask("bulk", undo, project=project, filter={}, action=action, delay=60.0, dry_run=False)
        self._regret_later()

    def _regret_later(self) -> None:
        self._world.clock.after(self._world.wait(self._regretting, REGRET_SECONDS), self._regret)

    def _clear(self, project: str) -> None:
        action = self._rng.choice(("clear", "clear", "reset"))
        self._client.ask("project-do", project=project, action=action)

    def _group(self, project: str) -> None:
        there, back = self._rng.choice((("pause", "resume"), ("stop", "start"), ("clear", "start")))
        self._client.ask("group-do", group=GROUP, action=there)
        seconds = self._rng.uniform(5, 60)
        self._world.clock.after(seconds, lambda: self._client.ask("group-do", group=GROUP, action=back))

    def _set(self, project: str) -> None:
        settings: Message = self._rng.choice(
            (
                {"max_processing": 1.0},
                {"max_processing": 4.0},
                {"max_depth": 1.0},
                {"max_tasks": 30.0},
                {"fail_pause_num": 2, "pause_time": 30.0},
                {"fail_pause_num": 0},
                {"bucket": SHARED},
                {"bucket": ""},
                {"on_finished": {"priority": 2}},
                {"on_failure": {"url": "data:,{taskid}"}},
                {"on_failure": None},
                {"cron": {"often": {"every": "7s"}}},
                {"cron": {"seldom": {"every": "90s", "missed": "once"}}},
            )
        )
        self._client.ask("project-set", project=project, settings=settings)

    def _names(self, project: str) -> list[str]:
        wall = self._world.machine.now().wall
        drawn = [draw_task(self._rng, project, self._pool, wall) for _ in range(self._rng.randrange(1, 5))]
        return [str(task["taskid"]) for task in drawn]

    # ------------------------------------------------------------------------------------ when all is calm

    def open_everything(self) -> None:
        """Let every project dispatch at its full pace."""
        for project in PROJECTS:
            self._open(project)

    def _open(self, project: str) -> None:
        """Start the project, unset its overrides, and let it run, in this order on any network."""
        settings = {"rate": 100.0, "burst": 100.0, "max_processing": 1e9}

        def unset(reply: Message) -> None:
            self._client.ask("project-unset", set_pace, project=project, keys=[])

        def set_pace(reply: Message) -> None:
            self._client.ask("project-set", project=project, settings=settings)

        self._client.ask("project-do", unset, project=project, action="start")

    def end_for_good(self, project: str, taskids: list[str]) -> None:
        """Cancel tasks that would recur for ever."""
        self._client.ask("task-cancel", project=project, taskids=taskids)


_ACTS: Final = (
    Operator._re_rate, Operator._re_rate, Operator._re_rate, Operator._crowd, Operator._unset, Operator._pause,
    Operator._stop, Operator._delete, Operator._cancel, Operator._cancel, Operator._retry, Operator._retry,
    Operator._look, Operator._hold, Operator._hold, Operator._bulk, Operator._bulk, Operator._bulk, Operator._clear,
    Operator._group, Operator._set, Operator._set, Operator._set, Operator._set, Operator._set,
)  # fmt: skip
