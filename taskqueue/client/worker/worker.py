"""Worker: runs a handler on tasks as they become ready, many at once, until it is told to stop.

    serve ──► place free ──► next task ──► handler ──► done | failed ──► place free
      stop: no more tasks; tasks not started go back; running ones may end within ``grace`` seconds
      drained: no more tasks; tasks not started go back; running ones end in their own time; then stop, if asked for
      max_tasks, max_memory_bytes, until_finished: the same, and then stop

Up to ``concurrency`` tasks run; a few more wait here, so that a free place has one at once: see ``intake``. A place is
free when its handler has ended; the daemon's answer to the report is awaited beside the next task.

SIGINT and SIGTERM: the first stops it, a later one kills the process.

    first signal ──► stop() in the loop ──► 0.5 s in which another one is ignored ──► the next one kills

A terminal and a supervisor often send the same signal twice within milliseconds, and a process that is killed gives
nothing back: so an immediate repeat is ignored. The system's own action kills, which leaves no traceback, and does not
wait for threads that hang.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from math import inf
from types import FrameType
from typing import Final

from taskqueue.client.arguments import checked_count, checked_priority, checked_seconds
from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.fetcher.intake import Intake
from taskqueue.client.fetcher.leases import EXTEND_MOST, checked_extend_most
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.attempt import Attempts
from taskqueue.client.worker.handler import Handle, Handler
from taskqueue.client.worker.lease_watch import LeaseWatch, Limits
from taskqueue.client.worker.lifespan import Lifespan, until_finished
from taskqueue.client.worker.loop_watch import LoopWatch
from taskqueue.client.worker.middleware import Middleware, MiddlewareChain, OnError, OnErrorOnly
from taskqueue.client.worker.reporting import Reporting, warn_unreported
from taskqueue.client.worker.worker_log import (
    SUMMARY_SECONDS,
    Hanging,
    WorkerLog,
    log_draining,
    log_reach,
    log_unknown,
)
from taskqueue.defaults import CONCURRENCY
from taskqueue.errors import ClientError, Hung, RequestTimeout

WAIT_SECONDS: Final = 1.0
"""Time after which a task that waits for a place goes back; a quarter of its lease if that is less."""

LAST_SECONDS: Final = 2.0
"""Time after ``grace`` to wait for cancelled handlers, and for the daemon's answers.

The daemon may be away, and a handler may ignore its cancellation: neither keeps a process that was told to end.
"""

NOT_HANDED_BACK: Final = "the daemon does not answer; it dispatches the task again after this worker has been silent"

ABANDONED: Final[list[asyncio.Task[None]]] = []
"""Tasks of handlers that ignore their cancellation, kept because Python would close forgotten ones."""

THREADS: Final = "taskqueue-worker"
"""Prefix of the names of threads that run plain functions."""

log = logging.getLogger("taskqueue.worker")


class Worker:
    """A fetcher process around a handler.

    Args:
        handler: called with each Task: a function, a coroutine function or a generator of either kind. It may return
            URLs, ``taskqueue.new_task`` values and a ``Result``, and raise ``Retry`` or ``Drop``.
        projects: projects to take tasks of; None: all.
        client: an AsyncClient to use, or the address of a daemon; None: the environment's TASKQUEUE_DAEMON, or
            tcp://127.0.0.1:7400. A client made here waits for the daemon for ever.
        key: key file of a client made here; None: as for an AsyncClient.
        concurrency: places, that is, tasks that run at once; and threads for a plain function.
        prefetch: tasks that wait here beside those that run; None: as many as the places finish in a tenth of a second,
            at most ``concurrency``. None wait while the median run takes longer than a second, and a task that has
            waited a second (or a quarter of its lease) goes back unstarted: the time of a lease belongs to the run.
        priority: of the fetchers with a free place for a task, the one with the highest priority gets it.
        grace: seconds that running tasks have to end after ``stop``; then they are cancelled and given back, and a few
            seconds later ``serve`` returns, wherever the daemon is. A plain function that is blocked outside of Python
            can't be interrupted; its process ends when it returns.
        overtime: seconds that a run has after its lease, because a late success may count; then its handler is told to
            end. None: a tenth of the lease, at least 1 s.
        extend: True: extend the lease of a running task after two thirds of it. False: a handler that hangs loses its
            task when the lease runs out.
        extend_most: leases that an extended task has in all, one after the other; the last one is not extended.
        max_hung: hung places, whose handlers go on after they were told to end, at which ``serve`` and ``run`` give up;
            None: all places.
        middleware: called around each run of the handler; see ``taskqueue.Middleware``.
        on_blocked: called with Hung when a handler blocks the event loop until it counts as hung. ``serve`` and ``run``
            can't give up then, so this is called in a thread of its own, and should end the process, for example by
            ``os._exit``; the daemon dispatches the tasks again after ``fetcher_timeout``. None: it is only logged.
        on_error: called with each task whose handler failed, and the exception; a short form of middleware, called
            before all other middleware.
        summary_seconds: time from the first run to the log line that summarises it and the following ones.
        name: shown to operators, and named in ``taskqueue fetcher drain``; None: host:pid, or that of the AsyncClient.
        exit_when_drained: True: ``serve`` returns when an operator has drained this worker's name and all its tasks are
            reported. False: it waits until it is resumed.
        max_tasks: runs of the handler, after which ``serve`` returns: tasks not started have gone back by then, and the
            other runs have ended in their own time, without ``grace``. None: no limit.
        max_memory_bytes: resident bytes of this process, checked after runs, above which ``serve`` returns in the same
            way. None: no limit.
        until_finished: True: ``serve`` returns in the same way when all ``projects``, which must be given, have
            finished; see ``client.projects.wait``.
    """

    def __init__(
        self,
        handler: Handle,
        projects: Iterable[str] | None = None,
        *,
        client: AsyncClient | str | None = None,
        key: str | os.PathLike[str] | None = None,
        concurrency: int = CONCURRENCY,
        prefetch: int | None = None,
        priority: int = 0,
        grace: float = 30.0,
        overtime: float | None = None,
        extend: bool = False,
        extend_most: float = EXTEND_MOST,
        max_hung: int | None = None,
        on_blocked: Callable[[Hung], object] | None = None,
        middleware: Sequence[Middleware] = (),
        on_error: OnError | None = None,
        summary_seconds: float = SUMMARY_SECONDS,
        name: str | None = None,
        exit_when_drained: bool = False,
        max_tasks: int | None = None,
        max_memory_bytes: int | None = None,
        until_finished: bool = False,
    ) -> None:
        if not callable(handler):
            raise TypeError(f"handler: expected a function, got {type(handler).__name__}")
        if isinstance(projects, str):
            raise TypeError(f"projects: expected several names, such as [{projects!r}], got str")
        if until_finished and not projects:
            raise ValueError("until_finished: give the projects that are to finish")
        checked_count("concurrency", concurrency)
        if prefetch is not None:
            checked_count("prefetch", prefetch, least=0)
        if overtime is not None and checked_seconds("overtime", overtime) == inf:
            raise ValueError("overtime: expected seconds that end, got inf")
        checked_extend_most(extend_most)
        if max_hung is not None:
            checked_count("max_hung", max_hung)
        if name is not None and isinstance(client, AsyncClient):
            raise ValueError("name: an AsyncClient has its own; give one of the two")
        self._client = client
        self._key = key
        self._name = name
        self._exit_when_drained = exit_when_drained
        self._handle = handler
        self._projects = None if projects is None else list(projects)
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._priority = checked_priority(priority)
        self._grace = checked_seconds("grace", grace)
        self._limits = Limits(concurrency, overtime, concurrency if max_hung is None else max_hung)
        self._leases = extend_most if extend else 1
        self._on_blocked = on_blocked
        self._summary_seconds = checked_seconds("summary_seconds", summary_seconds)
        self._log = WorkerLog(summary_seconds)
        self._chain = MiddlewareChain([*middleware, *([OnErrorOnly(on_error)] if on_error else [])])
        self._until_finished = until_finished
        self._lifespan = Lifespan(max_tasks, max_memory_bytes)
        self._stopping = asyncio.Event()
        self._running: dict[Task, asyncio.Task[None]] = {}
        self._intake: Intake | None = None
        self._watch: LeaseWatch | None = None
        self._loop_watch: LoopWatch | None = None
        self._failure: KeyboardInterrupt | Hung | ClientError | None = None

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; from half a second later on, another signal kills the process.

        Raises:
            KeyboardInterrupt: a handler raised it; all tasks have been given back.
            Hung: too many handlers can't be ended; all tasks have been given back. Python does not end a process before
                its threads end, so call ``os._exit``.
        """
        runner = asyncio.Runner()
        loop = runner.get_loop()
        serving = loop.create_task(self.serve(signals=True))
        try:
            while not serving.done():
                # Raised in an asyncio task that a handler has started: its awaiter gets it, but the loop does, too.
                with suppress(SystemExit):
                    loop.run_until_complete(serving)
            serving.result()
        finally:
            if self._running:
                self._abandon(loop)
            else:
                runner.close()

    def _abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leave handlers that ignore their cancellation alone: a Runner would wait for them."""
        ABANDONED.extend(self._running.values())
        loop.close()

    async def serve(self, *, signals: bool = False) -> None:
        """Serve until ``stop``, in the caller's event loop.

        Args:
            signals: True: SIGINT and SIGTERM call ``stop``, as in ``run``; only in the main thread. False: the caller
                handles signals: call ``stop``, or cancel this, and wait until it has returned. A process that just ends
                gives nothing back, and its tasks wait for ``fetcher_timeout``.

        Raises:
            RequestRejected: the daemon speaks another version of the protocol, or a project of ``until_finished`` does
                not exist.
            KeyboardInterrupt, Hung: as ``run``.
        """
        threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix=THREADS)
        try:
            with stopped_by_signals(self.stop) if signals else nullcontext():
                async with self._connected() as client:
                    await self._serve(client, Handler(self._handle, threads, self._chain))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Make ``serve`` finish running tasks, give back the rest, and return. Call it in the loop of ``serve``."""
        self._stopping.set()
        if self._intake is not None:
            self._intake.room = 0

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncClient]:
        if isinstance(self._client, AsyncClient):
            yield self._client
            return
        async with AsyncClient(self._client, timeout=inf, name=self._name, key=self._key) as client:
            yield client

    # ------------------------------------------------------------------------------------ tasks

    async def _serve(self, client: AsyncClient, handler: Handler) -> None:
        reporting = Reporting(client, self._log)
        fetching = asyncio.ensure_future(self._fetch(client, handler, reporting))
        stopping = asyncio.ensure_future(self._stopping.wait())
        drained = asyncio.ensure_future(log_draining(client._draining, ends=self._exit_when_drained))
        watching = [asyncio.ensure_future(log_reach(client, self._projects, self._concurrency))]
        if self._projects:
            watching.append(asyncio.ensure_future(log_unknown(client, self._projects)))
            if self._until_finished:
                watching.append(asyncio.ensure_future(self._end_when_finished(client, self._projects)))
        try:
            await asyncio.wait({fetching, stopping, drained}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (stopping, fetching, drained, *watching):
                each.cancel()
            ended = await asyncio.gather(fetching, return_exceptions=True)
            await self._finish(client, reporting)
            if self._watch is not None:
                self._watch.close()
            if self._loop_watch is not None:
                self._loop_watch.close()
            self._log.end()
        if isinstance(ended[0], Exception):
            raise ended[0]

    async def _fetch(self, client: AsyncClient, handler: Handler, reporting: Reporting) -> None:
        """Start tasks until a limit is reached, and wait for them; tasks not started go back before."""
        loop, lifespan = asyncio.get_running_loop(), self._lifespan
        lifespan.warn_if_unknown()
        await client.ready()
        with client.intake(
            self._projects, self._concurrency, prefetch=self._prefetch, priority=self._priority, patience=WAIT_SECONDS
        ) as intake:
            self._intake = intake
            self._watch = watch = LeaseWatch(self._limits, self._log, intake.tell_hung, self._give_up)
            self._loop_watch = LoopWatch(watch, self._log, self._summary_seconds, self._on_blocked)
            intake.on_lost = watch.lose
            attempts = Attempts(client, handler, intake, self._log, reporting, loop.time, watch, self._leases, lifespan)
            # Repeated, because a task that came too late for its handler does not count as one of ``max_tasks``.
            while not (self._stopping.is_set() or lifespan.is_over):
                intake.room = self._concurrency
                with suppress(TimeoutError):
                    async with asyncio.timeout(None) as starting:
                        with lifespan.watching(partial(_end_starting, intake, starting)):
                            await self._start_each(attempts)
                intake.room = 0
                await self._wait_for_leases()

    async def _start_each(self, attempts: Attempts) -> None:
        """Start a task whenever a place is free; other tasks stay with the client, and can go back."""
        loop = asyncio.get_running_loop()
        while not (self._stopping.is_set() or self._lifespan.is_over):
            task = await attempts.intake.take()
            self._lifespan.begin()
            self._running[task] = loop.create_task(self._run(attempts, task))

    async def _end_when_finished(self, client: AsyncClient, projects: Sequence[str]) -> None:
        try:
            await until_finished(client, projects)
            self._lifespan.end_now()
        except ClientError as error:
            self._failure = error
            self.stop()

    async def _wait_for_leases(self) -> None:
        """Wait until no run has a lease in force."""
        now = asyncio.get_running_loop().time
        while runs := self._runs_in_force():
            ends_at = min(task.lease_ends_at for task in self._running if not self._is_over(task))
            await asyncio.wait(runs, timeout=max(0.0, ends_at - now()), return_when=asyncio.FIRST_COMPLETED)

    async def _run(self, attempts: Attempts, task: Task) -> None:
        try:
            await attempts.run(task)
        except KeyboardInterrupt as interrupt:
            # It must not leave through the loop, which would drop all other runs.
            self._failure = interrupt
            self.stop()
            await _release(attempts.client, [task])
        finally:
            # Not by a callback of the asyncio task: for short tasks that would be a third of the loop's calls.
            del self._running[task]

    def _give_up(self, hanging: Hanging) -> None:
        """Stop because too many handlers can't be ended, so that another process may replace this one."""
        if self._failure is None:
            self._failure = Hung(
                f"handlers go on after they were told to end, because their leases have ended: "
                f"{hanging.described(asyncio.get_running_loop().time())}"
            )
            self.stop()

    async def _finish(self, client: AsyncClient, reporting: Reporting) -> None:
        await self._wait_for_runs(reporting, self._grace, self._runs_in_force)
        late = dict(self._running)
        tasks = [*(task for task in late if not self._is_over(task)), *reporting.give_up()]
        for task, running in late.items():
            if self._watch is not None:
                self._watch.interrupt(task)
            running.cancel()
        # Some return although they were cancelled, and are reported.
        await self._wait_for_runs(reporting, LAST_SECONDS, lambda: list(self._running.values()))
        reporting.give_up()
        if tasks:
            log.warning("event=interrupted tasks=%d grace=%g", len(tasks), self._grace)
            await _release(client, tasks)

    async def _wait_for_runs(
        self, reporting: Reporting, seconds: float, runs: Callable[[], list[asyncio.Task[None]]]
    ) -> None:
        """Wait until none of these runs is left, and all have been reported; at most ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while running := runs():
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                await reporting.all_answered()

    def _runs_in_force(self) -> list[asyncio.Task[None]]:
        """Return the runs whose leases are in force; the others are being ended, or hang."""
        return [run for task, run in self._running.items() if not self._is_over(task)]

    def _is_over(self, task: Task) -> bool:
        return self._watch is not None and self._watch.is_over(task)


def _end_starting(intake: Intake, starting: asyncio.Timeout) -> None:
    """Start no more tasks, at once, because the place of the run that has just ended is free."""
    intake.room = 0
    starting.reschedule(asyncio.get_running_loop().time())


async def _release(client: AsyncClient, tasks: list[Task]) -> None:
    """Give tasks back, and log those that the daemon does not acknowledge in time."""
    try:
        async with asyncio.timeout(LAST_SECONDS):
            await client.release(*tasks)
    except ClientError as error:
        _warn_each(tasks, error)
    except TimeoutError:
        _warn_each(tasks, RequestTimeout(NOT_HANDED_BACK))


def _warn_each(tasks: list[Task], error: ClientError) -> None:
    for task in tasks:
        warn_unreported(task, error)


STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SAME_SECONDS: Final = 0.5
"""Time after the first signal during which another one is ignored."""


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` in the running event loop at the first of STOP_SIGNALS inside the block.

    Afterwards the signals have their earlier actions or, if one of them has come, the system's: a program that was told
    to stop is ended by the next signal without a traceback. Outside of the main thread, where Python takes no signals,
    this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _StopOnSignal(stop, asyncio.get_running_loop())
    before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action if handler.at is None else signal.SIG_DFL)


class _StopOnSignal:
    """Signal handler that calls ``stop`` at the first signal, and kills the process at a later one.

    Attributes:
        at: time of the first signal, by a monotonic clock; None: none has come.
    """

    def __init__(self, stop: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self.at: float | None = None
        self._stop = stop
        self._loop = loop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.at is None:
            self.at = now
            self._loop.call_soon_threadsafe(self._stop)
        elif now - self.at >= SAME_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
