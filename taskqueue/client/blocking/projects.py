"""The blocking twin of ``taskqueue.client.asynchronous.projects``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Literal

from taskqueue.client.asynchronous.projects import AsyncCron, AsyncGroups, AsyncProjects
from taskqueue.client.connection.background import Background
from taskqueue.client.connection.hold_open import HOLD_SECONDS
from taskqueue.protocol.choices import ProjectSort
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.insight import ProjectChanges
from taskqueue.protocol.projects import (
    CronJob,
    GroupChange,
    Project,
    ProjectProgress,
    Remaining,
)
from taskqueue.protocol.values import Operation
from taskqueue.types import Page


class BlockingProjects:
    """Projects, each by its name."""

    def __init__(self, background: Background, projects: AsyncProjects) -> None:
        self._background = background
        self._client = projects

    def get(self, name: str) -> Project:
        """A project's state, counts and settings."""
        return self._background.run(self._client.get(name))

    def list(
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
        return self._background.run(self._client.list(after, limit, group, filter=filter, sort=sort, projects=projects))

    def iter(self, group: str = "") -> Iterator[Project]:
        """All projects, or those of a group, by name, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(after, group=group)
            yield from page.items
            after, more = (page.next, bool(page.next))

    def watch(self) -> Iterator[ProjectChanges]:
        """All projects, and then, for ever, those that change, four times a second at most.

        A reply that is ``anew`` begins with all projects again: forget what those before said.
        """
        return self._background.iterate(self._client.watch())

    def set(self, name: str, settings: Mapping[str, Setting]) -> Project:
        """Change settings of a project, now and across restarts; an unknown project is made.

        Tables, such as ``fetch`` and ``cron``, are changed key by key.
        """
        return self._background.run(self._client.set(name, settings))

    def unset(self, name: str, keys: Iterable[str] = ()) -> Project:
        """Forget what ``set`` said of these keys; no keys: of all. ``cron.JOB`` is one key of a table."""
        return self._background.run(self._client.unset(name, keys))

    def pause(self, name: str, seconds: float | None = None) -> Project:
        """Hand out no more of its tasks until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which it goes on by itself. Whatever is done next with it, such
                as another pause, replaces that.
        """
        return self._background.run(self._client.pause(name, seconds))

    def resume(self, name: str) -> Project:
        """Hand out its tasks again."""
        return self._background.run(self._client.resume(name))

    def pause_all(self, seconds: float | None = None) -> Operation:
        """Pause each project, whatever its group; those that are stopped stay so.

        Args:
            seconds: for so many, after which they go on by themselves. A project that an operator has paused until
                ``resume`` stays so.

        Returns:
            The operation: ``matched`` projects, of ``seen``, are paused now.
        """
        return self._background.run(self._client.pause_all(seconds))

    def resume_all(self) -> Operation:
        """Hand out the tasks of each project that is paused again, also by itself; those that are stopped stay so."""
        return self._background.run(self._client.resume_all())

    def stop(self, name: str) -> Project:
        """Stop it until ``start``: it keeps and takes tasks, and hands out none."""
        return self._background.run(self._client.stop(name))

    def start(self, name: str) -> Project:
        """Start it; an unknown one is made."""
        return self._background.run(self._client.start(name))

    def clear(self, name: str) -> Project:
        """Drop its tasks that are live; those that are over stay known."""
        return self._background.run(self._client.clear(name))

    def reset(self, name: str) -> Project:
        """Forget all that is known of its tasks; its settings, state and pace stay."""
        return self._background.run(self._client.reset(name))

    def delete(self, name: str) -> None:
        """Delete the project itself, with everything that it has."""
        self._background.run(self._client.delete(name))

    def wait(
        self,
        name: str,
        timeout: float | None = inf,
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
        return self._background.run(
            self._client.wait(name, timeout, progress, ignore_retries=ignore_retries, on_remaining=on_remaining)
        )

    def progress(
        self, name: str, timeout: float | None = inf, *, ignore_retries: bool = False
    ) -> Iterator[ProjectProgress]:
        """How far a project is, now and each time that this changes, twice a second at most, until it has finished.

        ``wait`` as an iterator, for a caller who has something to do meanwhile. Each reply says whether the project has
        ``finished``, which the last one does, or how many tasks are ``unfinished``. Without that the iterator has ended
        after ``timeout`` seconds (0: after the first reply; None: the client's timeout; inf: never).

        Args:
            ignore_retries: as for ``wait``; ``unfinished`` counts what waits for a retry all the same.

        Raises:
            RequestRejected: there is no such project, or it was deleted meanwhile.
        """
        return self._background.iterate(self._client.progress(name, timeout, ignore_retries=ignore_retries))

    def keep_open(self, name: str, seconds: float = HOLD_SECONDS) -> AbstractContextManager[None]:
        """Keep the project from being finished as long as the ``with`` lasts, such as while it is pushed to.

        Args:
            seconds: for how long it stays open if this process dies; the client says so again three times as often.
        """
        return self._background.within(self._client.keep_open(name, seconds))


class BlockingGroups:
    """What ``client.projects`` does with one project, done with each of a group, in the order of their names.

    Each but ``set`` waits for the end, and goes on in the daemon whatever becomes of this client. It returns the
    operation: with ``matched`` projects it was done, of ``seen``; for the others it made no sense. RequestRejected is
    raised if no project belongs to the group.
    """

    def __init__(self, background: Background, groups: AsyncGroups) -> None:
        self._background = background
        self._client = groups

    def set(self, group: str, settings: Mapping[str, Setting]) -> GroupChange:
        """Change settings of these projects, of all at once; returns how many they are, and the old values.

        Raises:
            RequestRejected: one of the projects can't have one of the settings, or they are more than 1,000; the
                reason names the project, and none is changed.
        """
        return self._background.run(self._client.set(group, settings))

    def pause(self, group: str, seconds: float | None = None) -> Operation:
        """Hand out no more tasks of these projects until ``resume``; new ones are still taken.

        Args:
            seconds: for so many (to 10,000,000), after which they go on by themselves. A project that an operator
                has paused until ``resume`` stays so.
        """
        return self._background.run(self._client.pause(group, seconds))

    def resume(self, group: str) -> Operation:
        """Hand out the tasks of these projects again."""
        return self._background.run(self._client.resume(group))

    def stop(self, group: str) -> Operation:
        """Stop these projects until ``start``: they keep and take tasks, and hand out none."""
        return self._background.run(self._client.stop(group))

    def start(self, group: str) -> Operation:
        """Start these projects."""
        return self._background.run(self._client.start(group))

    def clear(self, group: str) -> Operation:
        """Drop the tasks of these projects that are live; those that are over stay known."""
        return self._background.run(self._client.clear(group))

    def reset(self, group: str) -> Operation:
        """Forget all that is known of the tasks of these projects; their settings, states and paces stay."""
        return self._background.run(self._client.reset(group))

    def delete(self, group: str) -> Operation:
        """Delete these projects themselves, with everything that they have."""
        return self._background.run(self._client.delete(group))


class BlockingCron:
    """Jobs of projects. They are a setting of theirs, so ``projects.get`` has them, too."""

    def __init__(self, background: Background, cron: AsyncCron) -> None:
        self._background = background
        self._client = cron

    def set(
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
        timeout: float | None = None,
    ) -> CronJob:
        """Have a task pushed again and again, with ``force_update``; a job of that name is replaced.

        Args:
            cron: a cron expression, read in ``zone``; or
            every: such as "90s", "5m", "12h" or "1d": at the multiples of that since 1970 (UTC).
            missed: what to do about runs missed while the daemon was down: skip them, or run once.
            url, taskid: of the task; empty: made from the job's name. ``{tick}`` stands for the run's unix seconds.
            fetch, process, save, body, priority, retries, age, timeout: of the task, as in ``new_task``.
        """
        return self._background.run(
            self._client.set(
                project,
                job,
                cron=cron,
                every=every,
                zone=zone,
                missed=missed,
                url=url,
                taskid=taskid,
                fetch=fetch,
                process=process,
                save=save,
                body=body,
                priority=priority,
                retries=retries,
                age=age,
                timeout=timeout,
            )
        )

    def list(self, project: str) -> builtins.list[CronJob]:
        """The jobs of a project, by name, with when each runs next.

        Raises:
            RequestRejected: there is no such project.
        """
        return self._background.run(self._client.list(project))

    def get(self, project: str, job: str) -> CronJob:
        """One job of a project.

        Raises:
            RequestRejected: there is no such project.
            KeyError: it has no job of that name.
        """
        return self._background.run(self._client.get(project, job))

    def remove(self, project: str, job: str) -> None:
        """Forget a job that ``set`` made, or its changes to one of the config."""
        self._background.run(self._client.remove(project, job))
