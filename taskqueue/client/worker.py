"""Worker: runs a handler on tasks as they become ready, many at once, until it is told to stop.

    serve ──► slot free ──► next task ──► handler ──► done | failed ──► slot free
      stop: no more tasks; what was not started goes back; what runs may end within ``grace`` seconds

Up to ``concurrency`` tasks run; ``prefetch`` more wait here, so that a free slot has one at once. Those use up their
lease while they wait: keep prefetch small where tasks are slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from math import inf
from typing import Final

from taskqueue.client.async_client import AsyncClient
from taskqueue.client.finishing import Finish
from taskqueue.client.handler import Drop, Handle, Handler, Retry, traceback_of
from taskqueue.client.stopping import stopped_by_signals
from taskqueue.client.task import Task
from taskqueue.errors import ClientError, MessageTooLarge

EXTEND_AT: Final = 2 / 3
"""Part of a lease after which a Worker with ``extend`` has it extended."""

log = logging.getLogger("taskqueue.worker")


class Worker:
    """A fetcher process around a handler.

    Args:
        client: an AsyncClient to use, or the url of a daemon, or None for the default one. A client made here waits
            for the daemon as long as it takes.
        handler: called with each Task; see ``taskqueue.client.handler`` for what it may be, return and raise.
        projects: whose tasks; None is any project's.
        concurrency: tasks that run at once, and threads for a plain function.
        prefetch: tasks that wait here beside; None is a tenth of concurrency, at least 1.
        grace: seconds that running tasks have to end after ``stop``; those that don't are handed back. A plain
            function can't be interrupted; its process ends when it returns.
        extend: extend the lease of a task that is still running after two thirds of it, again and again. False: a
            handler that hangs loses its task when the lease runs out, which is what leases are for.
    """

    def __init__(
        self,
        client: AsyncClient | str | None,
        handler: Handle,
        *,
        projects: Iterable[str] | None = None,
        concurrency: int = 20,
        prefetch: int | None = None,
        grace: float = 30.0,
        extend: bool = False,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency: expected at least 1, got {concurrency}")
        self._client = client
        self._handle = handler
        self._projects = None if projects is None else list(projects)
        self._concurrency = concurrency
        self._prefetch = max(1, concurrency // 10) if prefetch is None else prefetch
        self._grace = grace
        self._extend = extend
        self._stopping = asyncio.Event()
        self._running: dict[asyncio.Task[None], Task] = {}
        self._interrupt: KeyboardInterrupt | None = None

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; half a second later, another one ends the process at once.

        Raises:
            KeyboardInterrupt: a handler raised it; what was held has been handed back.
        """
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            serving = loop.create_task(self.serve(signals=True))
            while not serving.done():
                # Of an asyncio task that a handler has started: whoever awaits it gets it, but the loop does, too.
                with suppress(SystemExit):
                    loop.run_until_complete(serving)
            serving.result()

    async def serve(self, *, signals: bool = False) -> None:
        """Serve until ``stop``, in an event loop of the caller's.

        Args:
            signals: have SIGINT and SIGTERM call ``stop``, as ``run`` does; only in the main thread. False: what those
                do is the caller's business. Then have them call ``stop``, or cancel this, and wait until it has
                returned: a process that just ends hands nothing back, and its tasks wait for ``fetcher_timeout``.

        Raises:
            RequestRejected: the daemon speaks another version of the protocol.
            KeyboardInterrupt: a handler raised it; what was held has been handed back.
        """
        threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="taskqueue-worker")
        try:
            with stopped_by_signals(self.stop) if signals else nullcontext():
                async with self._connected() as client:
                    await self._serve(client, Handler(self._handle, threads))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        if self._interrupt is not None:
            raise self._interrupt

    def stop(self) -> None:
        """Have ``serve`` finish what runs, hand back the rest, and return. Called in the loop of ``serve``."""
        self._stopping.set()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncClient]:
        if isinstance(self._client, AsyncClient):
            yield self._client
            return
        async with AsyncClient(self._client, timeout=inf) as client:
            yield client

    # ------------------------------------------------------------------------------------ tasks

    async def _serve(self, client: AsyncClient, handler: Handler) -> None:
        fetching = asyncio.ensure_future(self._fetch(client, handler))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({fetching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            fetching.cancel()
            ended = await asyncio.gather(fetching, return_exceptions=True)
            await self._finish(client)
        if isinstance(ended[0], Exception):
            raise ended[0]

    async def _fetch(self, client: AsyncClient, handler: Handler) -> None:
        """Start a task whenever a slot is free; what has not got one stays with the client, and can go back."""
        slots = asyncio.Semaphore(self._concurrency)
        async with aclosing(client.tasks(self._projects, capacity=self._concurrency + self._prefetch)) as tasks:
            while True:
                await slots.acquire()
                task = await anext(tasks)
                running = asyncio.ensure_future(self._run(client, handler, task))
                self._running[running] = task
                running.add_done_callback(self._running.pop)
                running.add_done_callback(lambda _: slots.release())

    async def _finish(self, client: AsyncClient) -> None:
        if not self._running:
            return
        _, late = await asyncio.wait(list(self._running), timeout=self._grace)
        tasks = [self._running[running] for running in late]
        for running in late:
            running.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if tasks:
            log.warning("event=interrupted tasks=%d grace=%g", len(tasks), self._grace)
            await _reported(client.release(*tasks), tasks[0])

    async def _run(self, client: AsyncClient, handler: Handler, task: Task) -> None:
        keeping = asyncio.ensure_future(_keep(client, task)) if self._extend else None
        try:
            await _run_and_report(client, handler, task)
        except KeyboardInterrupt as interrupt:
            # It must not leave through the loop, which would drop everything else that runs.
            self._interrupt = interrupt
            self.stop()
            await _reported(client.release(task), task)
        finally:
            if keeping is not None:
                keeping.cancel()


async def _run_and_report(client: AsyncClient, handler: Handler, task: Task) -> None:
    try:
        new = await handler.run(task)
    except Retry as retry:
        await _reported(client.failed(task, str(retry), retry_after=retry.after), task)
    except Drop as drop:
        await _reported(client.failed(task, str(drop), retry=False), task)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit, too: a handler that exits must not take the worker with it.
        if _is_cancelled():
            raise
        log.debug("event=failed project=%s taskid=%s error=%r", task.project, task.taskid, error)
        await _reported(client.failed(task, traceback_of(error)), task)
    else:
        try:
            await _reported(client.done(task, new), task)
        except MessageTooLarge as error:
            await _reported(client.failed(task, str(error)), task)


def _is_cancelled() -> bool:
    """It was this worker, not the handler, that cancelled what is running."""
    running = asyncio.current_task()
    return running is not None and running.cancelling() > 0


async def _reported(report: Awaitable[Finish | int], task: Task) -> None:
    """Wait for a report to be counted. If it isn't, the task's lease runs out and somebody runs it again."""
    try:
        finish = await report
    except MessageTooLarge:
        raise
    except ClientError as error:
        log.warning("event=unreported project=%s taskid=%s reason=%r", task.project, task.taskid, str(error))
        return
    if isinstance(finish, Finish):
        _tell(finish, task)


def _tell(finish: Finish, task: Task) -> None:
    if finish.outcome == "stale":
        log.info("event=stale project=%s taskid=%s", task.project, task.taskid)
    for index, reason in finish.reasons.items():
        log.warning("event=rejected project=%s taskid=%s new=%d reason=%r", task.project, task.taskid, index, reason)


async def _keep(client: AsyncClient, task: Task) -> None:
    """Extend a task's lease until cancelled, or until it is not ours any more."""
    held = True
    while held:
        await asyncio.sleep(task.timeout * EXTEND_AT)
        held = await client.extend(task)
