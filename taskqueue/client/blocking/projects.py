"""Blocking twin of ``taskqueue.client.asynchronous.projects``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Literal

from taskqueue.client.asynchronous.projects import AsyncCron, AsyncGroups, AsyncProjects
from taskqueue.client.connection.background import Background
from taskqueue.client.connection.keep_open import KEEP_OPEN_SECONDS
from taskqueue.protocol.choices import ProjectSort, Resolution
from taskqueue.protocol.exports import ExportedPoint, ExportedProject, ExportedTask, ImportProgress
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.insight import ProjectChanges
from taskqueue.protocol.projects import (
    CronEntry,
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
        """Return a project's state, counts and settings."""
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
        """Return a page of projects.

        Args:
            after: the ``next`` of the page before or, if sorted by name, any name; empty: from the first one.
            limit: projects per page, 1 to 200.
            group: projects of this group only; empty: all.
            filter: projects whose names contain this text, in upper or lower case.
            sort: by name, or those first that have the most tasks in a state (``ready``, …), or had the most events in
                the last five minutes (``selected_5m``, …).
            projects: only these (at most 200), if they belong to the group; empty: all.
        """
        return self._background.run(self._client.list(after, limit, group, filter=filter, sort=sort, projects=projects))

    def iter(self, group: str = "") -> Iterator[Project]:
        """Iterate over all projects, or those of a group, by name, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(after, group=group)
            yield from page.items
            after, more = (page.next, bool(page.next))

    def watch(self) -> Iterator[ProjectChanges]:
        """Iterate over changes for ever: first all projects, then those that change, at most four times a second.

        A reply that is ``anew`` begins with all projects again: forget the replies before it.
        """
        return self._background.iterate(self._client.watch())

    def set(self, name: str, settings: Mapping[str, Setting]) -> Project:
        """Change settings of a project, now and across restarts; an unknown project is created.

        Tables, such as ``fetch`` and ``cron``, are changed key by key.
        """
        return self._background.run(self._client.set(name, settings))

    def unset(self, name: str, keys: Iterable[str] = ()) -> Project:
        """Remove settings that ``set`` made; no keys: all of them. ``cron.ENTRY`` is one key of a table."""
        return self._background.run(self._client.unset(name, keys))

    def pause(self, name: str, seconds: float | None = None) -> Project:
        """Pause the dispatch of a project until ``resume``; the daemon still accepts new tasks.

        Args:
            seconds: length of the pause (to 10,000,000), after which dispatch resumes by itself; None: until
                ``resume``. The next action on the project, such as another pause, replaces it.
        """
        return self._background.run(self._client.pause(name, seconds))

    def resume(self, name: str) -> Project:
        """Resume the dispatch of a project."""
        return self._background.run(self._client.resume(name))

    def pause_all(self, seconds: float | None = None) -> Operation:
        """Pause each project, whatever its group; stopped projects stay stopped.

        Args:
            seconds: length of the pause, after which dispatch resumes by itself; None: until ``resume_all``. A project
                that an operator has paused until ``resume`` stays paused.

        Returns:
            The operation: of ``seen`` projects, ``matched`` are paused now.
        """
        return self._background.run(self._client.pause_all(seconds))

    def resume_all(self) -> Operation:
        """Resume dispatch for each project that is paused, also automatically; stopped projects stay stopped."""
        return self._background.run(self._client.resume_all())

    def stop(self, name: str) -> Project:
        """Stop a project until ``start``: it keeps its tasks and accepts new ones, but dispatches none."""
        return self._background.run(self._client.stop(name))

    def start(self, name: str) -> Project:
        """Start a project; an unknown one is created."""
        return self._background.run(self._client.start(name))

    def clear(self, name: str) -> Project:
        """Drop the unfinished tasks of a project; finished ones stay known."""
        return self._background.run(self._client.clear(name))

    def reset(self, name: str) -> Project:
        """Forget all tasks of a project; its settings, state and pace stay."""
        return self._background.run(self._client.reset(name))

    def delete(self, name: str) -> None:
        """Delete a project, with everything that it has."""
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
        """Wait until the project has finished, that is, no task is left that still has to end.

        Returns True when it has finished, which an empty project has from the start; tasks pushed before the call
        count. Returns False after ``timeout`` seconds.

        Args:
            timeout: seconds to wait; 0: only check; None: the client's; inf: for ever, also for a daemon that goes away
                after the first answer.
            progress: called now and then with the number of tasks left; it must not wait, because the client itself
                calls it.
            ignore_retries: return as soon as all tasks left wait for a retry, which may take a day.
            on_remaining: like ``progress``, but called with the project's speed and the estimated time left; about
                every 30 seconds if there is no ``progress``.

        Raises:
            RequestRejected: the project is unknown, or was deleted meanwhile.
        """
        return self._background.run(
            self._client.wait(name, timeout, progress, ignore_retries=ignore_retries, on_remaining=on_remaining)
        )

    def progress(
        self, name: str, timeout: float | None = inf, *, ignore_retries: bool = False
    ) -> Iterator[ProjectProgress]:
        """Iterate over the progress of a project, now and after each change, until it has finished.

        The changes come at most twice a second.

        This is ``wait`` as an iterator, for a caller with other work in between. Each reply says whether the project
        has ``finished``, as the last one does, or how many tasks are ``unfinished``. After ``timeout`` seconds the
        iterator ends without a ``finished`` reply (0: after the first reply; None: the client's timeout; inf: never).

        Args:
            ignore_retries: as for ``wait``; ``unfinished`` still counts tasks that wait for a retry.

        Raises:
            RequestRejected: the project is unknown, or was deleted meanwhile.
        """
        return self._background.iterate(self._client.progress(name, timeout, ignore_retries=ignore_retries))

    def import_step(
        self,
        name: str,
        export: str,
        begin: ExportedProject | None = None,
        *,
        first: int = 0,
        tasks: Iterable[ExportedTask] = (),
        every: Resolution = "hour",
        points: Iterable[ExportedPoint] = (),
    ) -> ImportProgress:
        """Take one step of an import, as ``taskqueue project import`` does with a file.

        The first step has ``begin`` only, and makes the project. Each further one brings the parts after those that are
        there: tasks and, after all of these, points. Until it has all parts the project is paused; the step with the
        last part gives it the state that it was exported in. A repeated step does no harm, and ``begin`` with the same
        ``export`` continues an unfinished import.

        Args:
            export: text that identifies the export, such as a hash of the file, at most 64 characters.
            begin: the project and the number of parts; None: the import has begun.
            first: number of parts before these.
            tasks: at most 1,000 tasks.
            every: what a point counts, a minute or an hour.
            points: at most 1,000 points of the project's history.

        Raises:
            RequestRejected: the project is known already, or has an unfinished import of another export; a part can't
                be taken, so none of this step is.
        """
        return self._background.run(
            self._client.import_step(name, export, begin, first=first, tasks=tasks, every=every, points=points)
        )

    def keep_open(self, name: str, seconds: float = KEEP_OPEN_SECONDS) -> AbstractContextManager[None]:
        """Keep the project from finishing inside the ``with`` block, for example while you push to it.

        Args:
            seconds: time that the project stays open if this process dies; the client renews it three times as often.
        """
        return self._background.within(self._client.keep_open(name, seconds))


class BlockingGroups:
    """Actions of ``client.projects``, carried out on each project of a group, in the order of their names.

    Each method but ``set`` waits for the end; the operation goes on in the daemon even if this client goes away. It
    returns the operation: of ``seen`` projects, ``matched`` were changed; for the others the action made no sense. The
    methods raise RequestRejected if no project belongs to the group.
    """

    def __init__(self, background: Background, groups: AsyncGroups) -> None:
        self._background = background
        self._client = groups

    def set(self, group: str, settings: Mapping[str, Setting]) -> GroupChange:
        """Change settings of all projects of a group at once; returns their number and the old values.

        Raises:
            RequestRejected: a setting is invalid for one of the projects, which the reason names, or there are more
                than 1,000 projects; none is changed.
        """
        return self._background.run(self._client.set(group, settings))

    def pause(self, group: str, seconds: float | None = None) -> Operation:
        """Pause the dispatch of a group's projects until ``resume``; the daemon still accepts new tasks.

        Args:
            seconds: length of the pause (to 10,000,000), after which dispatch resumes by itself; None: until
                ``resume``. A project that an operator has paused until ``resume`` stays paused.
        """
        return self._background.run(self._client.pause(group, seconds))

    def resume(self, group: str) -> Operation:
        """Resume the dispatch of a group's projects."""
        return self._background.run(self._client.resume(group))

    def stop(self, group: str) -> Operation:
        """Stop a group's projects until ``start``: they keep their tasks and accept new ones, but dispatch none."""
        return self._background.run(self._client.stop(group))

    def start(self, group: str) -> Operation:
        """Start the projects of a group."""
        return self._background.run(self._client.start(group))

    def clear(self, group: str) -> Operation:
        """Drop the unfinished tasks of a group's projects; finished ones stay known."""
        return self._background.run(self._client.clear(group))

    def reset(self, group: str) -> Operation:
        """Forget all tasks of a group's projects; their settings, states and paces stay."""
        return self._background.run(self._client.reset(group))

    def delete(self, group: str) -> Operation:
        """Delete the projects of a group, with everything that they have."""
        return self._background.run(self._client.delete(group))


class BlockingCron:
    """Cron entries of projects. They are a setting of the project, so ``projects.get`` returns them, too."""

    def __init__(self, background: Background, cron: AsyncCron) -> None:
        self._background = background
        self._client = cron

    def set(
        self,
        project: str,
        entry: str,
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
        tasks: Mapping[str, Mapping[str, Any]] | None = None,
        overlap: Literal["skip", "wait", "both"] | None = None,
        after_failure: Literal["run", "skip"] | None = None,
        keep_flows: int | None = None,
    ) -> CronEntry:
        """Have a task pushed again and again, with ``force_update``; this replaces an entry of the same name.

        With ``tasks``, each tick submits these as a flow, which is called ENTRY-TICK after the tick's unix seconds.

        Args:
            cron: a cron expression, read in ``zone``; or
            every: an interval such as "90s", "5m", "12h" or "1d": ticks are at its multiples since 1970 (UTC).
            zone: time zone of ``cron``, such as "Europe/Berlin".
            missed: ticks missed while the daemon was down: "skip" them, or run "once".
            url, taskid: URL and taskid of the task; empty: made from the entry's name. ``{tick}`` in these and in texts
                of the body stands for the tick's unix seconds.
            fetch, process, save, body, priority, retries, age, timeout: options of the task, as in
                ``taskqueue.new_task``.
            tasks: options of each task of a graph by its name, instead of those of one task; with ``after``, the names
                of those that it waits for, and ``on_parent_failure``.
            overlap: with tasks, a tick while an earlier flow has not ended: "skip" it (None), let it "wait" for it, or
                have "both".
            after_failure: with tasks, a tick after a flow that has failed: "run" it (None), or "skip" it until the flow
                is a success, or cancelled.
            keep_flows: with tasks, ended flows of the entry that are remembered, 1 to 100; None: 10.

        Raises:
            ValueError: an argument does not go with ``tasks``, or goes only with them.
        """
        return self._background.run(
            self._client.set(
                project,
                entry,
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
                tasks=tasks,
                overlap=overlap,
                after_failure=after_failure,
                keep_flows=keep_flows,
            )
        )

    def list(self, project: str) -> builtins.list[CronEntry]:
        """Return the entries of a project, by name, with their next ticks.

        Raises:
            RequestRejected: the project is unknown.
        """
        return self._background.run(self._client.list(project))

    def get(self, project: str, entry: str) -> CronEntry:
        """Return one entry of a project.

        Raises:
            RequestRejected: the project is unknown.
            KeyError: the project has no entry of that name.
        """
        return self._background.run(self._client.get(project, entry))

    def remove(self, project: str, entry: str) -> None:
        """Remove an entry that ``set`` made, or undo its changes to an entry of the config file."""
        self._background.run(self._client.remove(project, entry))
