"""``client.projects``: how projects are, what they do, when they have finished; ``client.groups`` and ``client.cron``.

A group is all projects of which a setting says that they belong to it: what is done with a project is done with each of
them. A cron job is a task that the daemon pushes to its project by itself, again and again.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Literal

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.hold_open import HOLD_SECONDS, Holding, project_of
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.tasks.new_task import body_of
from taskqueue.protocol.base import without_envelope
from taskqueue.protocol.choices import ProjectSort
from taskqueue.protocol.daemon import StatusShow
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.insight import ProjectChanges, Watch
from taskqueue.protocol.projects import (
    CronJob,
    GroupChange,
    GroupDo,
    GroupSet,
    Project,
    ProjectDo,
    ProjectProgress,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    Remaining,
)
from taskqueue.protocol.values import Action, Operation
from taskqueue.types import Page


class AsyncProjects:
    """Projects, each by its name."""

    def __init__(self, exchange: Exchange, long_poll: LongPoll, holding: Holding) -> None:
        self._exchange = exchange
        self._long_poll = long_poll
        self._holding = holding

    async def get(self, name: str) -> Project:
        """A project's state, counts and settings."""
        return project_of(await self._exchange.ask(ProjectShow(project=name)))

    async def list(
        self,
        after: str = "",
        limit: int = 100,
        group: str = "",
        *,
        filter: str = "",
        sort: ProjectSort = "name",
        projects: Iterable[str] = (),
    ) -> Page[Project]:
        """A page of projects.

        Args:
            after: the ``next`` of the page before or, in the order of names, any name; empty: from the first one.
            limit: 1 to 200.
            group: projects of this group only; empty: all.
            filter: projects whose names contain it, in upper or lower case.
            sort: by name, or those first that have the most tasks in a state (``ready``, …), or had the most events in
                the last five minutes (``selected_5m``, …).
            projects: only these (at most 200), if they belong to the group; empty: all.
        """
        skip = 0 if sort == "name" or not after else int(after)
        request = StatusShow(
            after=after if sort == "name" else "", limit=limit, group=group, filter=filter, sort=sort, skip=skip,
            fetchers=0, projects=[*projects],
        )  # fmt: skip
        reply = await self._exchange.ask(request)
        if not reply.more:
            return Page(reply.projects)
        return Page(reply.projects, reply.projects[-1].name if sort == "name" else str(skip + len(reply.projects)))

    async def iter(self, group: str = "") -> AsyncGenerator[Project, None]:
        """All projects, or those of a group, by name, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(after, group=group)
            for project in page.items:
                yield project
            after, more = page.next, bool(page.next)

    async def watch(self) -> AsyncGenerator[ProjectChanges, None]:
        """All projects, and then, for ever, those that change, four times a second at most.

        A reply that is ``anew`` begins with all projects again: forget what those before said.
        """
        since = ""
        while True:
            request = Watch(since=since)
            reply = await self._exchange.ask(request, self._exchange.patience + request.seconds)
            since = reply.since
            if reply.projects or reply.gone or reply.anew:
                yield without_envelope(ProjectChanges, reply)

    async def set(self, name: str, settings: Mapping[str, Setting]) -> Project:
        """Change settings of a project, now and across restarts; an unknown project is made.

        Tables, such as ``fetch`` and ``cron``, are changed key by key.
        """
        return project_of(await self._exchange.ask(ProjectSet(project=name, settings=dict(settings))))

    async def unset(self, name: str, keys: Iterable[str] = ()) -> Project:
        """Forget what ``set`` said of these keys; no keys: of all. ``cron.JOB`` is one key of a table."""
        return project_of(await self._exchange.ask(ProjectUnset(project=name, keys=list(keys))))

    async def pause(self, name: str, seconds: float | None = None) -> Project:
        """Hand out no more of its tasks until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which it goes on by itself. Whatever is done next with it, such
                as another pause, replaces that.
        """
        return await self._act(name, "pause", seconds)

    async def resume(self, name: str) -> Project:
        """Hand out its tasks again."""
        return await self._act(name, "resume")

    async def pause_all(self, seconds: float | None = None) -> Operation:
        """Pause each project, whatever its group; those that are stopped stay so.

        Args:
            seconds: for so many, after which they go on by themselves. A project that an operator has paused until
                ``resume`` stays so.

        Returns:
            The operation: ``matched`` projects, of ``seen``, are paused now.
        """
        request = GroupDo(action="pause", seconds=seconds, all=True)
        return await self._long_poll.done(request)

    async def resume_all(self) -> Operation:
        """Hand out the tasks of each project that is paused again, also by itself; those that are stopped stay so."""
        return await self._long_poll.done(GroupDo(action="resume", all=True))

    async def stop(self, name: str) -> Project:
        """Stop it until ``start``: it keeps and takes tasks, and hands out none."""
        return await self._act(name, "stop")

    async def start(self, name: str) -> Project:
        """Start it; an unknown one is made."""
        return await self._act(name, "start")

    async def clear(self, name: str) -> Project:
        """Drop its tasks that are live; those that are over stay known."""
        return await self._act(name, "clear")

    async def reset(self, name: str) -> Project:
        """Forget all that is known of its tasks; its settings, state and pace stay."""
        return await self._act(name, "reset")

    async def delete(self, name: str) -> None:
        """Delete the project itself, with everything that it has."""
        await self._exchange.ask(ProjectDo(project=name, action="delete"))

    async def wait(
        self,
        name: str,
        timeout: float | None = inf,  # noqa: ASYNC109 - ends without an error
        progress: Callable[[int], object] | None = None,
        *,
        ignore_retries: bool = False,
        on_remaining: Callable[[Remaining], object] | None = None,
    ) -> bool:
        """Wait until the project has finished: until no task is left that has to end first.

        Returns True when it has, which one with nothing to do has from the start; tasks pushed before are waited for.
        False: ``timeout`` seconds were over first.

        Args:
            timeout: seconds to wait; 0: only look; None: the client's; inf: for ever, also for a daemon that goes away
                after the first answer.
            progress: called now and then with how many tasks are left; it must not wait, because the client itself
                calls it.
            ignore_retries: return as soon as only tasks are left that wait for a retry, which may take a day.
            on_remaining: like ``progress``, but is told how fast it is and how long that may take; called about each
                30 seconds if there is no ``progress``.

        Raises:
            RequestRejected: there is no such project, or it was deleted meanwhile.
        """
        return await self._long_poll.finished(
            name, progress, timeout, ignore_retries=ignore_retries, on_remaining=on_remaining
        )

    async def progress(
        self,
        name: str,
        timeout: float | None = inf,  # noqa: ASYNC109 - ends without an error
        *,
        ignore_retries: bool = False,
    ) -> AsyncGenerator[ProjectProgress, None]:
        """How far a project is, now and each time that this changes, twice a second at most, until it has finished.

        ``wait`` as an iterator, for a caller who has something to do meanwhile. Each reply says whether the project has
        ``finished``, which the last one does, or how many tasks are ``unfinished``. Without that the iterator has ended
        after ``timeout`` seconds (0: after the first reply; None: the client's timeout; inf: never).

        Args:
            ignore_retries: as for ``wait``; ``unfinished`` counts what waits for a retry all the same.

        Raises:
            RequestRejected: there is no such project, or it was deleted meanwhile.
        """
        async for reply in self._long_poll.standing(name, timeout, ignore_retries=ignore_retries):
            yield without_envelope(ProjectProgress, reply)

    def keep_open(self, name: str, seconds: float = HOLD_SECONDS) -> AbstractAsyncContextManager[None]:
        """Keep the project from being finished as long as the ``async with`` lasts, such as while it is pushed to.

        Args:
            seconds: for how long it stays open if this process dies; the client says so again three times as often.
        """
        return self._holding.holding(name, seconds)

    async def _act(self, name: str, action: Action, seconds: float | None = None) -> Project:
        return project_of(await self._exchange.ask(ProjectDo(project=name, action=action, seconds=seconds)))


class AsyncGroups:
    """What ``client.projects`` does with one project, done with each of a group, in the order of their names.

    Each but ``set`` waits for the end, and goes on in the daemon whatever becomes of this client. It returns the
    operation: with ``matched`` projects it was done, of ``seen``; for the others it made no sense. RequestRejected is
    raised if no project belongs to the group.
    """

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll

    async def set(self, group: str, settings: Mapping[str, Setting]) -> GroupChange:
        """Change settings of these projects, of all at once; returns how many they are, and the old values.

        Raises:
            RequestRejected: one of the projects can't have one of the settings, or they are more than 1,000; the
                reason names the project, and none is changed.
        """
        reply = await self._exchange.ask(GroupSet(group=group, settings=dict(settings)))
        return without_envelope(GroupChange, reply)

    async def pause(self, group: str, seconds: float | None = None) -> Operation:
        """Hand out no more tasks of these projects until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which they go on by themselves. A project that an operator
                has paused until ``resume`` stays so.
        """
        return await self._act(group, "pause", seconds)

    async def resume(self, group: str) -> Operation:
        """Hand out the tasks of these projects again."""
        return await self._act(group, "resume")

    async def stop(self, group: str) -> Operation:
        """Stop these projects until ``start``: they keep and take tasks, and hand out none."""
        return await self._act(group, "stop")

    async def start(self, group: str) -> Operation:
        """Start these projects."""
        return await self._act(group, "start")

    async def clear(self, group: str) -> Operation:
        """Drop the tasks of these projects that are live; those that are over stay known."""
        return await self._act(group, "clear")

    async def reset(self, group: str) -> Operation:
        """Forget all that is known of the tasks of these projects; their settings, states and paces stay."""
        return await self._act(group, "reset")

    async def delete(self, group: str) -> Operation:
        """Delete these projects themselves, with everything that they have."""
        return await self._act(group, "delete")

    async def _act(self, group: str, action: Action, seconds: float | None = None) -> Operation:
        request = GroupDo(group=group, action=action, seconds=seconds)
        return await self._long_poll.done(request)


class AsyncCron:
    """Jobs of projects. They are a setting of theirs, so ``projects.get`` has them, too."""

    def __init__(self, projects: AsyncProjects) -> None:
        self._projects = projects

    async def set(
        self,
        project: str,
        job: str,
        *,
        cron: str = "",
        every: str = "",
        zone: str = "UTC",
        missed: Literal["skip", "once"] = "skip",
        url: str = "",
        taskid: str = "",
        fetch: Mapping[str, Any] | None = None,
        process: Mapping[str, Any] | None = None,
        save: Any = None,
        body: Any = None,
        priority: int = 0,
        retries: int | None = None,
        age: float | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the task's, not the call's
    ) -> CronJob:
        """Have a task pushed again and again, with ``force_update``; a job of that name is replaced.

        Args:
            cron: a cron expression, read in ``zone``; or
            every: such as "90s", "5m", "12h" or "1d": at the multiples of that since 1970 (UTC).
            missed: what to do about runs missed while the daemon was down: skip them, or run once.
            url, taskid: of the task; empty: made from the job's name. ``{tick}`` stands for the run's unix seconds.
            fetch, process, save, body, priority, retries, age, timeout: of the task, as in ``new_task``.
        """
        task = {
            "url": url,
            "taskid": taskid,
            "priority": priority,
            "retries": retries,
            "age": age,
            "timeout": timeout,
            "body": body_of(fetch, process, save, body),
        }
        when = {"cron": cron, "every": every, "zone": zone, "missed": missed}
        changed = await self._projects.set(project, {"cron": {job: when | {"task": task}}})
        return _job_of(changed, job)

    async def list(self, project: str) -> builtins.list[CronJob]:
        """The jobs of a project, by name, with when each runs next.

        Raises:
            RequestRejected: there is no such project.
        """
        return (await self._projects.get(project)).cron

    async def get(self, project: str, job: str) -> CronJob:
        """One job of a project.

        Raises:
            RequestRejected: there is no such project.
            KeyError: it has no job of that name.
        """
        return _job_of(await self._projects.get(project), job)

    async def remove(self, project: str, job: str) -> None:
        """Forget a job that ``set`` made, or its changes to one of the config."""
        await self._projects.unset(project, [f"cron.{job}"])


def _job_of(project: Project, name: str) -> CronJob:
    """The job of that name; a KeyError if there is none."""
    return {job.job: job for job in project.cron}[name]
