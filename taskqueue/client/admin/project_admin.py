"""The part of AsyncClient that is about projects: how they are, what they do, when they have finished."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from taskqueue.client.admin.hold_open import HOLD_SECONDS, Holding
from taskqueue.client.admin.long_poll import LongPoll
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.new_task import body_of
from taskqueue.errors import ClientError
from taskqueue.protocol.choices import FetcherSort, ProjectSort
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.replies import (
    FetchersReply,
    OperationReply,
    ProjectReply,
    StatsReply,
    StatusReply,
    VerifyReply,
    WhyReply,
)
from taskqueue.protocol.requests import (
    Action,
    Fetchers,
    GroupDo,
    ProjectDo,
    ProjectHold,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    Stats,
    Status,
    Verify,
    Why,
)
from taskqueue.protocol.views import FetcherView, OperationView, ProjectStats, ProjectView


class ProjectAdmin:
    """Methods of AsyncClient, which gives it the attributes."""

    _exchange: Exchange
    _waiting: LongPoll
    _holding: Holding

    # ------------------------------------------------------------------------------------ how things are

    async def status(
        self,
        after: str = "",
        limit: int = 100,
        group: str = "",
        *,
        filter: str = "",
        sort: ProjectSort = "name",
        skip: int = 0,
        fetchers: int = 1000,
    ) -> StatusReply:
        """How the daemon is, with up to ``limit`` projects.

        Args:
            after: projects with names after this one; who pages in the order of names goes on so.
            limit: 1 to 200.
            group: projects of this group only; empty: all.
            filter: projects whose names contain it, in upper or lower case.
            sort: by name, or those first that have the most tasks in a state (``ready``, …), or had the most events in
                the last five minutes (``selected_5m``, …).
            skip: so many of the first ones; who pages in another order than that of names goes on so.
            fetchers: so many of them, at most; ``fetchers`` has all, in pages.
        """
        request = Status(
            session="",
            n=0,
            after=after,
            limit=limit,
            group=group,
            filter=filter,
            sort=sort,
            skip=skip,
            fetchers=fetchers,
        )
        return await self._exchange.ask(request, StatusReply)

    async def fetchers(
        self,
        after: str = "",
        limit: int = 100,
        *,
        project: str = "",
        group: str = "",
        filter: str = "",
        sort: FetcherSort = "session",
        skip: int = 0,
    ) -> FetchersReply:
        """Up to ``limit`` of those who want or hold tasks.

        Args:
            after: fetchers whose pseudonyms come after this one; who pages in the order of these goes on so.
            limit: 1 to 500.
            project, group: those that may take tasks of it; empty: all.
            filter: those whose name or address contains it, in upper or lower case.
            sort: by pseudonym (``session``) or name, or those first that have the most (``capacity``, ``holds``,
                ``done``, ``failed``), have held a task for longest (``oldest``) or have not been heard for longest
                (``silent``).
            skip: so many of the first ones; who pages in another order than that of pseudonyms goes on so.
        """
        request = Fetchers(
            session="",
            n=0,
            after=after,
            limit=limit,
            project=project,
            group=group,
            filter=filter,
            sort=sort,
            skip=skip,
        )
        return await self._exchange.ask(request, FetchersReply)

    async def all_fetchers(self, project: str = "") -> AsyncGenerator[FetcherView, None]:
        """All who want or hold tasks, or may take those of the project, by pseudonym, asked for page by page."""
        page = await self.fetchers(limit=500, project=project)
        while True:
            for fetcher in page.fetchers:
                yield fetcher
            if not page.more:
                return
            page = await self.fetchers(page.fetchers[-1].session, limit=500, project=project)

    async def stats(self, after: str = "", limit: int = 100, group: str = "") -> StatsReply:
        """What happened in the last 5 minutes, hour and day, and in all: a page of projects, as in ``status``."""
        return await self._exchange.ask(Stats(session="", n=0, after=after, limit=limit, group=group), StatsReply)

    async def all_stats(self, group: str = "") -> AsyncGenerator[ProjectStats, None]:
        """The same of all projects, by name, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.stats(after, group=group)
            for project in page.projects:
                yield project
                after = project.name
            more = page.more

    async def why(self, project: str, taskid: str | None = None) -> str:
        """Why nothing of a project, or why this task, is not being handed out: one sentence for people."""
        return (await self._exchange.ask(Why(session="", n=0, project=project, taskid=taskid), WhyReply)).sentence

    async def verify(self) -> list[str]:
        """Have the daemon check its own invariants; returns what is wrong, in words."""
        return (await self._exchange.ask(Verify(session="", n=0), VerifyReply)).problems

    # ------------------------------------------------------------------------------------ one project, or a group

    async def project(self, name: str) -> ProjectView:
        """A project's state, counts and settings."""
        return _known(await self._exchange.ask(ProjectShow(session="", n=0, project=name), ProjectReply))

    async def project_set(self, name: str, settings: Mapping[str, Setting]) -> ProjectView:
        """Change settings of a project, now and across restarts; an unknown project is made.

        Tables, such as ``fetch`` and ``cron``, are changed key by key.
        """
        request = ProjectSet(session="", n=0, project=name, settings=dict(settings))
        return _known(await self._exchange.ask(request, ProjectReply))

    async def project_unset(self, name: str, keys: Iterable[str] = ()) -> ProjectView:
        """Forget what ``project_set`` said of these keys; no keys: of all. ``cron.JOB`` is one key of a table."""
        request = ProjectUnset(session="", n=0, project=name, keys=list(keys))
        return _known(await self._exchange.ask(request, ProjectReply))

    async def project_do(self, name: str, action: Action) -> ProjectView | None:
        """Do something with a project; None: it has been deleted.

        Args:
            action: pause, resume, stop; start, which makes an unknown one; clear: drop its live tasks; reset: forget
                all that is known of its tasks; delete: the project itself, with everything that it has.
        """
        request = ProjectDo(session="", n=0, project=name, action=action)
        return (await self._exchange.ask(request, ProjectReply)).project

    async def group_do(self, group: str, action: Action) -> OperationView:
        """The same with each project that belongs to a group now, in the order of their names; waits for the end.

        Returns the operation: with ``matched`` projects it was done, of ``seen``; for the others it made no sense. It
        goes on in the daemon, whatever becomes of this client.

        Raises:
            RequestRejected: no project belongs to the group.
        """
        request = GroupDo(session="", n=0, group=group, action=action)
        view = (await self._exchange.ask(request, OperationReply)).operation
        return view if view.ended_at else await self._waiting.ended(view.id, None, None)

    # ------------------------------------------------------------------------------------ the end of a crawl

    async def wait_finished(
        self,
        project: str,
        timeout: float | None = None,  # noqa: ASYNC109 - ends without an error
        progress: Callable[[int], object] | None = None,
    ) -> bool:
        """Wait until the project has finished: until no task is left that has to end first.

        Returns True when it has, which one with nothing to do has from the start; tasks pushed before are waited for.
        False: ``timeout`` seconds were over first (0: only look; None: wait for ever). The client's own timeout limits
        the first answer only: a daemon that goes away later is waited for. ``progress`` is called now and then with how
        many tasks are left.

        Raises:
            RequestRejected: there is no such project, or it was deleted meanwhile.
        """
        return await self._waiting.finished(project, progress, timeout)

    async def hold(self, project: str, seconds: float = HOLD_SECONDS) -> ProjectView:
        """Don't let the project be finished for so many seconds (to 86,400) from now, or until this client lets go.

        Args:
            seconds: instead of those of an earlier call; 0 lets go.
        """
        request = ProjectHold(session="", n=0, project=project, seconds=seconds)
        return _known(await self._exchange.ask(request, ProjectReply))

    def holding(self, project: str, seconds: float = HOLD_SECONDS) -> AbstractAsyncContextManager[None]:
        """Hold the project open as long as the ``async with`` lasts, such as while pushing what may be done at once.

        Args:
            seconds: for how long it stays open if this process dies; the hold is renewed three times as often.
        """
        return self._holding.holding(project, seconds)

    # ------------------------------------------------------------------------------------ cron

    async def cron_set(
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
    ) -> ProjectView:
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
        return await self.project_set(project, {"cron": {job: when | {"task": task}}})

    async def cron_unset(self, project: str, job: str) -> ProjectView:
        """Forget a job that ``cron_set`` made, or its changes to one of the config."""
        return await self.project_unset(project, [f"cron.{job}"])


def _known(reply: ProjectReply) -> ProjectView:
    if reply.project is None:
        raise ClientError("the daemon answered without the project")
    return reply.project
