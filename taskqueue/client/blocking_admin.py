"""The part of Client that administers: what ``project_admin``, ``task_admin`` and ``log_admin`` have, and describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from taskqueue.client.admin.hold_open import HOLD_SECONDS
from taskqueue.client.admin.log_admin import PAGE
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.errors import Closed
from taskqueue.protocol.choices import FailuresBy, FetcherSort, ProjectSort, Resolution, StateName
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.replies import (
    FailuresReply,
    FetchersReply,
    HistoryReply,
    LogReply,
    StatsReply,
    StatusReply,
    TaskListReply,
    TaskReply,
)
from taskqueue.protocol.requests import Action, BulkAction
from taskqueue.protocol.views import FetcherView, LogEntry, OperationView, Point, ProjectStats, ProjectView, TaskRow

if TYPE_CHECKING:
    from taskqueue.client.async_client import AsyncClient


class BlockingAdmin:
    """Methods of Client, which gives it the attributes."""

    _client: AsyncClient
    _background: Background

    # ------------------------------------------------------------------------------------ projects

    def status(
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
        """See ``AsyncClient.status``."""
        return self._background.run(
            self._client.status(after, limit, group, filter=filter, sort=sort, skip=skip, fetchers=fetchers)
        )

    def fetchers(
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
        """See ``AsyncClient.fetchers``."""
        return self._background.run(
            self._client.fetchers(after, limit, project=project, group=group, filter=filter, sort=sort, skip=skip)
        )

    def all_fetchers(self, project: str = "") -> Iterator[FetcherView]:
        """See ``AsyncClient.all_fetchers``."""
        page = self.fetchers(limit=500, project=project)
        yield from page.fetchers
        while page.more:
            page = self.fetchers(page.fetchers[-1].session, limit=500, project=project)
            yield from page.fetchers

    def stats(self, after: str = "", limit: int = 100, group: str = "") -> StatsReply:
        """See ``AsyncClient.stats``."""
        return self._background.run(self._client.stats(after, limit, group))

    def all_stats(self, group: str = "") -> Iterator[ProjectStats]:
        """See ``AsyncClient.all_stats``."""
        after, more = "", True
        while more:
            page = self.stats(after, group=group)
            yield from page.projects
            after, more = page.projects[-1].name if page.projects else after, page.more

    def why(self, project: str, taskid: str | None = None) -> str:
        """See ``AsyncClient.why``."""
        return self._background.run(self._client.why(project, taskid))

    def verify(self) -> list[str]:
        """See ``AsyncClient.verify``."""
        return self._background.run(self._client.verify())

    def project(self, name: str) -> ProjectView:
        """See ``AsyncClient.project``."""
        return self._background.run(self._client.project(name))

    def project_set(self, name: str, settings: Mapping[str, Setting]) -> ProjectView:
        """See ``AsyncClient.project_set``."""
        return self._background.run(self._client.project_set(name, settings))

    def project_unset(self, name: str, keys: Iterable[str] = ()) -> ProjectView:
        """See ``AsyncClient.project_unset``."""
        return self._background.run(self._client.project_unset(name, keys))

    def project_do(self, name: str, action: Action) -> ProjectView | None:
        """See ``AsyncClient.project_do``."""
        return self._background.run(self._client.project_do(name, action))

    def group_do(self, group: str, action: Action) -> OperationView:
        """See ``AsyncClient.group_do``."""
        return self._background.run(self._client.group_do(group, action))

    def wait_finished(
        self, project: str, timeout: float | None = None, progress: Callable[[int], object] | None = None
    ) -> bool:
        """See ``AsyncClient.wait_finished``. ``progress`` is called in the client's own thread."""
        return self._background.run(self._client.wait_finished(project, timeout, progress))

    def hold(self, project: str, seconds: float = HOLD_SECONDS) -> ProjectView:
        """See ``AsyncClient.hold``."""
        return self._background.run(self._client.hold(project, seconds))

    @contextmanager
    def holding(self, project: str, seconds: float = HOLD_SECONDS) -> Iterator[None]:
        """See ``AsyncClient.holding``. The hold is renewed whatever the caller's thread does."""
        hold = self._client.holding(project, seconds)
        self._background.run(_entered(hold))
        try:
            yield
        finally:
            with suppress(Closed):
                self._background.run(_left(hold))

    def cron_set(
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
    ) -> ProjectView:
        """See ``AsyncClient.cron_set``."""
        return self._background.run(
            self._client.cron_set(
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

    def cron_unset(self, project: str, job: str) -> ProjectView:
        """See ``AsyncClient.cron_unset``."""
        return self._background.run(self._client.cron_unset(project, job))

    # ------------------------------------------------------------------------------------ tasks

    def show_task(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskReply:
        """See ``AsyncClient.show_task``."""
        return self._background.run(self._client.show_task(project, taskid, url=url))

    def retry_tasks(self, project: str, taskids: Iterable[str]) -> list[str]:
        """See ``AsyncClient.retry_tasks``."""
        return self._background.run(self._client.retry_tasks(project, taskids))

    def cancel_tasks(self, project: str, taskids: Iterable[str]) -> list[str]:
        """See ``AsyncClient.cancel_tasks``."""
        return self._background.run(self._client.cancel_tasks(project, taskids))

    def task_list(
        self,
        project: str,
        state: StateName,
        *,
        url: str | None = None,
        error: str | None = None,
        since: Moment | None = None,
        newest: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> TaskListReply:
        """See ``AsyncClient.task_list``."""
        return self._background.run(
            self._client.task_list(
                project, state, url=url, error=error, since=since, newest=newest, after=after, limit=limit
            )
        )

    def all_tasks(
        self,
        project: str,
        state: StateName,
        *,
        url: str | None = None,
        error: str | None = None,
        since: Moment | None = None,
        newest: bool = False,
    ) -> Iterator[TaskRow]:
        """See ``AsyncClient.all_tasks``."""
        after, more = "", True
        while more:
            page = self.task_list(
                project, state, url=url, error=error, since=since, newest=newest, after=after, limit=500
            )
            yield from page.tasks
            after, more = page.next, bool(page.next)

    def failures(
        self,
        project: str | None = None,
        *,
        by: FailuresBy = "error",
        since: Moment | None = None,
        limit: int = 100,
    ) -> FailuresReply:
        """See ``AsyncClient.failures``."""
        return self._background.run(self._client.failures(project, by=by, since=since, limit=limit))

    def bulk(
        self,
        action: BulkAction,
        *,
        project: str | None = None,
        group: str = "",
        states: Iterable[StateName] = (),
        url: str = "",
        error: str = "",
        before: float = 0.0,
        priority: int = 0,
        exetime: Moment | None = None,
        delay: float | None = None,
        dry_run: bool = False,
    ) -> OperationView:
        """See ``AsyncClient.bulk``."""
        return self._background.run(
            self._client.bulk(
                action,
                project=project,
                group=group,
                states=states,
                url=url,
                error=error,
                before=before,
                priority=priority,
                exetime=exetime,
                delay=delay,
                dry_run=dry_run,
            )
        )

    def operation(self, id: int, seconds: float = 0.0) -> OperationView:
        """See ``AsyncClient.operation``."""
        return self._background.run(self._client.operation(id, seconds))

    def wait_operation(
        self, id: int, progress: Callable[[OperationView], object] | None = None, timeout: float | None = None
    ) -> OperationView:
        """See ``AsyncClient.wait_operation``. ``progress`` is called in the client's thread, so it must not wait."""
        return self._background.run(self._client.wait_operation(id, progress, timeout))

    def operations(self) -> list[OperationView]:
        """See ``AsyncClient.operations``."""
        return self._background.run(self._client.operations())

    # ------------------------------------------------------------------------------------ looking back

    def log(self, project: str | None = None, *, since: float = 0.0, before: int = 0, limit: int = 100) -> LogReply:
        """See ``AsyncClient.log``."""
        return self._background.run(self._client.log(project, since=since, before=before, limit=limit))

    def whole_log(self, project: str | None = None, *, since: float = 0.0) -> Iterator[LogEntry]:
        """See ``AsyncClient.whole_log``."""
        page = self.log(project, since=since, limit=PAGE)
        yield from page.entries
        while page.next:
            page = self.log(project, since=since, before=page.next, limit=PAGE)
            yield from page.entries

    def history(
        self, project: str | None = None, every: Resolution = "minute", *, since: float = 0.0, until: float = 0.0
    ) -> HistoryReply:
        """See ``AsyncClient.history``."""
        return self._background.run(self._client.history(project, every, since=since, until=until))

    def whole_history(
        self, project: str | None = None, every: Resolution = "minute", *, since: float = 0.0, until: float = 0.0
    ) -> Iterator[Point]:
        """See ``AsyncClient.whole_history``."""
        page = self.history(project, every, since=since, until=until)
        yield from page.points
        while page.next:
            page = self.history(project, every, since=page.next, until=until)
            yield from page.points


async def _entered(hold: Any) -> None:
    await hold.__aenter__()


async def _left(hold: Any) -> None:
    await hold.__aexit__(None, None, None)
