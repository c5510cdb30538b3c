"""Client: AsyncClient for code that waits.

A thin facade: an AsyncClient lives on an event loop in one background thread, so heartbeats go on while the user's
code computes or sleeps. Any thread may call it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from taskqueue.client.async_client import AsyncClient
from taskqueue.client.finishing import Finish
from taskqueue.client.pushing import Item, Packer, Pushed
from taskqueue.client.task import Task
from taskqueue.core.messages import Setting
from taskqueue.core.replies import NewOutcome, ProjectView, StatusReply, TaskReply
from taskqueue.core.requests import Action
from taskqueue.errors import Closed

T = TypeVar("T")


class Client:
    """A client of one daemon, with blocking methods; those of ``AsyncClient``, where they are described.

    Close it, or use it as a context manager. It doesn't survive a fork: make one in each process.

    Args:
        url: of the daemon; None: the environment's TASKQUEUE_URL, or tcp://127.0.0.1:7400.
        timeout: seconds to wait for each answer; ``math.inf``: for ever.
        name: for people, shown among the fetchers; None: host:pid.
    """

    def __init__(self, url: str | None = None, *, timeout: float = 30.0, name: str | None = None) -> None:
        self._client = AsyncClient(url, timeout=timeout, name=name)
        self.url = self._client.url
        self.timeout = timeout
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="taskqueue-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what this client holds, and disconnect."""
        if self._closed:
            return
        closing = self._start(self._client.close())
        self._closed = True
        closing.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # ------------------------------------------------------------------------------------ producing

    def push(
        self,
        project: str,
        url: str,
        *,
        taskid: str | None = None,
        fetch: Mapping[str, Any] | None = None,
        process: Mapping[str, Any] | None = None,
        save: Any = None,
        body: Any = None,
        priority: int = 0,
        exetime: float | None = None,
        delay: float | None = None,
        retries: int | None = None,
        age: float | None = None,
        itag: str | None = None,
        auto_recrawl: bool = False,
        force_update: bool = False,
        cancel: bool = False,
        timeout: float | None = None,
    ) -> NewOutcome:
        """See ``AsyncClient.push``."""
        return self._run(
            self._client.push(
                project,
                url,
                taskid=taskid,
                fetch=fetch,
                process=process,
                save=save,
                body=body,
                priority=priority,
                exetime=exetime,
                delay=delay,
                retries=retries,
                age=age,
                itag=itag,
                auto_recrawl=auto_recrawl,
                force_update=force_update,
                cancel=cancel,
                timeout=timeout,
            )
        )

    def push_many(
        self,
        project: str,
        tasks: Iterable[Item],
        *,
        batch: int = 256,
        window: int = 8,
        progress: Callable[[Pushed], object] | None = None,
    ) -> Pushed:
        """See ``AsyncClient.push_many``. The iterable is read, and ``progress`` called, in the caller's thread."""
        pushed = Pushed()
        sending: deque[Future[Pushed]] = deque()
        try:
            for full in Packer(batch, pushed).pack(tasks):
                if len(sending) >= window:
                    _settle(sending, pushed, progress)
                sending.append(self._start(self._client.push_batch(project, full)))
            while sending:
                _settle(sending, pushed, progress)
        finally:
            for unsettled in sending:
                unsettled.cancel()
        return pushed

    # ------------------------------------------------------------------------------------ fetching

    def select(self, n: int = 1, *, projects: Iterable[str] | None = None, timeout: float | None = None) -> list[Task]:
        """See ``AsyncClient.select``."""
        return self._run(self._client.select(n, projects=projects, timeout=timeout))

    def tasks(self, projects: Iterable[str] | None = None, *, capacity: int = 16) -> Iterator[Task]:
        """See ``AsyncClient.tasks``."""
        tasks = self._client.tasks(projects, capacity=capacity)
        try:
            while True:
                yield self._run(_next(tasks))
        finally:
            with suppress(Closed):
                self._run(tasks.aclose())

    def done(self, task: Task, new: Iterable[Item] = ()) -> Finish:
        """See ``AsyncClient.done``."""
        return self._run(self._client.done(task, list(new)))

    def failed(self, task: Task, error: str = "", *, retry_after: float | None = None, retry: bool = True) -> Finish:
        """See ``AsyncClient.failed``."""
        return self._run(self._client.failed(task, error, retry_after=retry_after, retry=retry))

    def release(self, *tasks: Task) -> int:
        """See ``AsyncClient.release``."""
        return self._run(self._client.release(*tasks))

    def extend(self, task: Task, seconds: float | None = None) -> bool:
        """See ``AsyncClient.extend``."""
        return self._run(self._client.extend(task, seconds))

    # ------------------------------------------------------------------------------------ administering

    def status(self, after: str = "", limit: int = 100) -> StatusReply:
        """See ``AsyncClient.status``."""
        return self._run(self._client.status(after, limit))

    def project(self, name: str) -> ProjectView:
        """See ``AsyncClient.project``."""
        return self._run(self._client.project(name))

    def project_set(self, name: str, settings: Mapping[str, Setting]) -> ProjectView:
        """See ``AsyncClient.project_set``."""
        return self._run(self._client.project_set(name, settings))

    def project_unset(self, name: str, keys: Iterable[str] = ()) -> ProjectView:
        """See ``AsyncClient.project_unset``."""
        return self._run(self._client.project_unset(name, keys))

    def project_do(self, name: str, action: Action) -> ProjectView | None:
        """See ``AsyncClient.project_do``."""
        return self._run(self._client.project_do(name, action))

    def show_task(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskReply:
        """See ``AsyncClient.show_task``."""
        return self._run(self._client.show_task(project, taskid, url=url))

    def retry_tasks(self, project: str, taskids: Iterable[str]) -> list[str]:
        """See ``AsyncClient.retry_tasks``."""
        return self._run(self._client.retry_tasks(project, taskids))

    def cancel_tasks(self, project: str, taskids: Iterable[str]) -> list[str]:
        """See ``AsyncClient.cancel_tasks``."""
        return self._run(self._client.cancel_tasks(project, taskids))

    def verify(self) -> list[str]:
        """See ``AsyncClient.verify``."""
        return self._run(self._client.verify())

    # ------------------------------------------------------------------------------------ the thread

    def _live(self) -> None:
        """The background thread: the event loop, until ``close`` stops it."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if self._closed:
            coroutine.close()
            raise Closed("the client was closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        running = self._start(coroutine)
        try:
            return running.result()
        except BaseException:
            # A Ctrl-C must not leave the call waiting in the thread.
            running.cancel()
            raise


async def _next(tasks: AsyncGenerator[Task, None]) -> Task:
    return await anext(tasks)


def _settle(sending: deque[Future[Pushed]], pushed: Pushed, progress: Callable[[Pushed], object] | None) -> None:
    """Wait for the oldest of them, and count it."""
    pushed.add(sending.popleft().result())
    if progress is not None:
        progress(pushed)
