"""Client: AsyncClient for code that waits.

A thin facade: an AsyncClient lives on an event loop in one background thread, so heartbeats go on while the user's
code computes or sleeps. Any thread may call it. Here is what producers and fetchers call; the rest is in
``blocking_admin``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import Self, Unpack

from taskqueue.client.async_client import AsyncClient
from taskqueue.client.blocking_admin import BlockingAdmin
from taskqueue.client.connection.background import Background, Running
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_many import Defaults, Item, Packer, Pushed
from taskqueue.client.tasks.push_one import push_of
from taskqueue.client.tasks.push_options import Duration, Moment, PushOptions, explains_options
from taskqueue.client.tasks.reports import Finish, failure_of, report_size, success_of
from taskqueue.client.tasks.task import Task
from taskqueue.errors import Closed
from taskqueue.protocol.fields import TaskReport
from taskqueue.protocol.replies import NewOutcome


class Client(BlockingAdmin):
    """A client of one daemon, with blocking methods; those of ``AsyncClient``, where they are described.

    Close it, or use it as a context manager. Make one in each process: in a forked one its methods raise Closed.

    Args:
        url: of the daemon; None: the environment's TASKQUEUE_URL, or tcp://127.0.0.1:7400.
        timeout: seconds to wait for each answer; ``math.inf``: for ever.
        name: for people, shown among the fetchers and in the log of changes; None: host:pid.
        connect_timeout: see ``AsyncClient``.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 30.0,
        name: str | None = None,
        connect_timeout: float = inf,
    ) -> None:
        self._client = AsyncClient(url, timeout=timeout, name=name, connect_timeout=connect_timeout)
        self.url = self._client.url
        self.timeout = timeout
        self._background = Background()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what this client holds, and disconnect."""
        self._background.close(self._client.close())

    # ------------------------------------------------------------------------------------ producing

    @explains_options
    def push(self, project: str, url: str, **options: Unpack[PushOptions]) -> NewOutcome:
        """See ``AsyncClient.push``."""
        push = push_of(project, new_task(url, **options))
        return self._background.ask(self._client.pushes.grouping, push, push.size)

    def push_many(
        self,
        project: str,
        tasks: Iterable[Item],
        *,
        batch: int = 256,
        window: int = 8,
        exetime: Moment | None = None,
        delay: Duration | None = None,
        canonical: bool = False,
        progress: Callable[[Pushed], object] | None = None,
    ) -> Pushed:
        """See ``AsyncClient.push_many``. The iterable is read, and ``progress`` called, in the caller's thread."""
        pushed = Pushed()
        sending: deque[Running[Pushed]] = deque()
        try:
            for full in Packer(batch, pushed, Defaults(canonical, exetime, delay)).pack(tasks):
                if len(sending) >= window:
                    _settle(sending, pushed, progress)
                sending.append(self._background.start(self._client.push_batch(project, full)))
            while sending:
                _settle(sending, pushed, progress)
        finally:
            for unsettled in sending:
                unsettled.cancel()
        return pushed

    # ------------------------------------------------------------------------------------ fetching

    def select(self, n: int = 1, *, projects: Iterable[str] | None = None, timeout: float | None = None) -> list[Task]:
        """See ``AsyncClient.select``."""
        return self._background.run(self._client.select(n, projects=projects, timeout=timeout))

    def tasks(self, projects: Iterable[str] | None = None, *, capacity: int = 16) -> Iterator[Task]:
        """See ``AsyncClient.tasks``."""
        tasks = self._client.tasks(projects, capacity=capacity)
        try:
            while True:
                yield self._background.run(_next(tasks))
        finally:
            with suppress(Closed):
                self._background.run(tasks.aclose())

    def done(self, task: Task, new: Iterable[Item] = ()) -> Finish:
        """See ``AsyncClient.done``."""
        return self._report(success_of(task, new))

    def failed(self, task: Task, error: str = "", *, retry_after: float | None = None, retry: bool = True) -> Finish:
        """See ``AsyncClient.failed``."""
        return self._report(failure_of(task, error, retry_after, retry))

    def release(self, *tasks: Task) -> int:
        """See ``AsyncClient.release``."""
        return self._background.run(self._client.release(*tasks))

    def pass_on(self, *tasks: Task) -> None:
        """See ``AsyncClient.pass_on``."""
        self._background.run(self._client.pass_on(*tasks))

    def extend(self, task: Task, seconds: float | None = None) -> bool:
        """See ``AsyncClient.extend``."""
        return self._background.run(self._client.extend(task, seconds))

    def _report(self, item: TaskReport) -> Finish:
        return self._background.ask(self._client.finishing.grouping, item, report_size(item))


async def _next(tasks: AsyncGenerator[Task, None]) -> Task:
    return await anext(tasks)


def _settle(sending: deque[Running[Pushed]], pushed: Pushed, progress: Callable[[Pushed], object] | None) -> None:
    """Wait for the oldest of them, and count it."""
    pushed.add(sending.popleft().result())
    if progress is not None:
        progress(pushed)
