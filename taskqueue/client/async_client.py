"""AsyncClient: a producer, fetcher and administrator in one, on one connection, for asyncio.

It sleeps until a frame arrives, a caller asks, or its session's next deadline; it never polls. All rules of the
protocol are in ``session``; ``exchange`` has the socket, the clock and the callers that wait. Here is what producers
and fetchers call; what administrators call is in ``project_admin``, ``task_admin`` and
``log_admin``.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import Final, Self, Unpack

from taskqueue.client.admin.hold_open import Holding
from taskqueue.client.admin.log_admin import LogAdmin
from taskqueue.client.admin.long_poll import LongPoll
from taskqueue.client.admin.project_admin import ProjectAdmin
from taskqueue.client.admin.task_admin import TaskAdmin
from taskqueue.client.connection.exchange import Exchange, limit
from taskqueue.client.connection.session import HandedOut, Session
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.relay import Relay
from taskqueue.client.fetcher.task_supply import TaskSupply
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_many import Batch, Defaults, Item, Packer, Pushed, batches
from taskqueue.client.tasks.push_one import PushOne, push_of
from taskqueue.client.tasks.push_options import Duration, Moment, PushOptions, explains_options
from taskqueue.client.tasks.reports import Finish, Reports, failure_of, success_of
from taskqueue.client.tasks.task import Task
from taskqueue.errors import MessageTooLarge
from taskqueue.protocol.fields import MAX_BATCH
from taskqueue.protocol.replies import NewOutcome, NewTasksReply, OperationsReply, TokensReply
from taskqueue.protocol.requests import Extend, LeaseRef, NewTasks, OperationList, Release

DEFAULT_URL: Final = "tcp://127.0.0.1:7400"


class AsyncClient(ProjectAdmin, TaskAdmin, LogAdmin):
    """A client of one daemon. Made anywhere, used in one event loop; close it, or use it as a context manager.

    Methods raise ``RequestTimeout`` when no answer came in time, ``RequestRejected`` when the daemon refused,
    ``MessageTooLarge`` instead of sending what it would not take, ``Closed`` after ``close``. While the daemon is
    away, requests wait and are sent again when it is back; none is done twice.

    Args:
        url: of the daemon; None: the environment's TASKQUEUE_URL, or tcp://127.0.0.1:7400.
        timeout: seconds to wait for each answer; ``math.inf``: for ever.
        name: for people, shown among the fetchers and in the log of changes; None: host:pid.
        connect_timeout: seconds to wait for a daemon where nobody listens, whose host is not known, or in whose place
            there is somebody else; without it as long as for an answer, because a daemon may be about to start.

    Attributes:
        pushes, finishing: what callers push and report one by one; the blocking client adds to them from its threads.
        reach: whether the daemon can be reached.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 30.0,
        name: str | None = None,
        connect_timeout: float = inf,
    ) -> None:
        self.url = url or os.environ.get("TASKQUEUE_URL") or DEFAULT_URL
        self.timeout = timeout
        session = Session(_new_session(), name or f"{socket.gethostname()}:{os.getpid()}", _new_session)
        self._exchange = Exchange(self.url, session, timeout, self._arrive, connect_timeout)
        self.reach = self._exchange.reach
        self._fetching = FetchBuffer(session, self._exchange.pump, self._release_quietly)
        self._relay = Relay(session, self._exchange.pump)
        self.pushes = PushOne(self._exchange)
        self.finishing = Reports(self._exchange, self._fetching.finished)
        self._waiting = LongPoll(self._exchange)
        self._holding = Holding(self.hold)

    async def __aenter__(self) -> Self:
        self._exchange.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back what this client holds, and disconnect. Calls that wait for an answer raise Closed."""
        self._holding.close()
        self._relay.close()
        self._fetching.close()
        self.pushes.grouping.close()
        self.finishing.grouping.close()
        await self._exchange.close()

    # ------------------------------------------------------------------------------------ producing

    @explains_options
    async def push(self, project: str, url: str, **options: Unpack[PushOptions]) -> NewOutcome:
        """Hand one task to the daemon; when this returns, it is kept. Returns what became of it.

        A url that can't be fetched, such as a relative one, is refused: see ``taskqueue.client.tasks.url_rules``.
        Calls that are under way at the same time share messages, so many of them cost little more than one; each has an
        outcome or an error of its own, and who is alone waits for nobody. See ``taskqueue.client.connection.batching``.

        Raises:
            ValueError, TypeError: it is no task; nothing was sent.
            RequestRejected: the daemon does not take it, such as for an unknown project.
        """
        return await self.pushes.push(push_of(project, new_task(url, **options)))

    async def push_many(
        self,
        project: str,
        tasks: Iterable[Item] | AsyncIterable[Item],
        *,
        batch: int = 256,
        window: int = 8,
        exetime: Moment | None = None,
        delay: Duration | None = None,
        canonical: bool = False,
        progress: Callable[[Pushed], object] | None = None,
    ) -> Pushed:
        """Hand many tasks to the daemon; when this returns, all that were not rejected are kept.

        Args:
            tasks: urls, ``new_task`` values or maps of its arguments; an iterator of millions takes no more memory
                than one of thousands. One that is not async is read between two messages, in the event loop.
            batch: tasks a message, at most; large ones make smaller batches.
            window: messages on their way at once.
            exetime, delay: one time for all urls, and for all maps that say neither: either unix seconds or an aware
                datetime, or seconds from the arrival of each message; see ``new_task``.
            canonical: for urls, and for maps that don't say; see ``new_task``.
            progress: called with the counts so far, after each message's answer.

        Returns:
            How many became what. Rejected tasks, those that are no tasks included, are counted, not raised.

        Raises:
            ValueError: two times for all are given, or one that can't be; nothing was sent.
            TypeError: one task is given instead of several; nothing was sent.
        """
        pushed = Pushed()
        sending: set[asyncio.Task[Pushed]] = set()
        try:
            async for full in batches(tasks, Packer(batch, pushed, Defaults(canonical, exetime, delay))):
                if len(sending) >= window:
                    await _settle(sending, pushed, progress)
                sending.add(asyncio.ensure_future(self.push_batch(project, full)))
            while sending:
                await _settle(sending, pushed, progress)
        finally:
            for unsettled in sending:
                unsettled.cancel()
        return pushed

    async def push_batch(self, project: str, batch: Batch) -> Pushed:
        """Send one batch of ``push_many``; one that is too large goes in parts."""
        message = NewTasks(session="", n=0, project=project, tasks=list(batch.tasks))
        try:
            return batch.count(await self._exchange.ask(message, NewTasksReply))
        except MessageTooLarge as error:
            if len(batch.tasks) == 1:
                return batch.rejected(str(error))
        pushed = Pushed()
        for half in batch.halves():
            pushed.add(await self.push_batch(project, half))
        return pushed

    # ------------------------------------------------------------------------------------ fetching

    async def select(
        self,
        n: int = 1,
        *,
        projects: Iterable[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the blocking client has no other way
    ) -> list[Task]:
        """Take up to ``n`` tasks to run, of these projects (None: of any); waits for the first of them.

        Args:
            timeout: seconds to wait; None: the client's; 0: for nothing but the daemon's word that it has none ready.

        Each has to be ended by ``done``, ``failed`` or ``release`` before its ``timeout``; what this client holds
        when it is closed goes back.

        Returns:
            At least one task; none if there was none in time.
        """
        await self._exchange.ready()
        patience = self.timeout if timeout is None else timeout
        if patience <= 0:
            return await self._fetching.select(n, projects, self._have_handed_out)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit(patience)):
                return await self._fetching.select(n, projects)
        return []

    async def _have_handed_out(self) -> None:
        """Wait until the daemon has handed out what it has ready for the wish that was stated last.

        It hands out at the end of the turn in which it hears the wish, or of the next one if the queue has to be read
        from its store first, and answers questions at the start of a turn. So the answer to the third one comes later.
        """
        for _ in range(3):
            await self._exchange.ask(OperationList(session="", n=0), OperationsReply)

    async def tasks(self, projects: Iterable[str] | None = None, *, capacity: int = 16) -> AsyncGenerator[Task, None]:
        """Tasks to run, one after the other, for ever; while one is being run, the next are on their way.

        Args:
            projects: whose tasks; None is any project's.
            capacity: tasks held at once, those that wait here included; what waits here uses up its lease, too.
        """
        await self._exchange.ready()
        consumer = self._fetching.join(projects, capacity)
        try:
            while True:
                for task in await self._fetching.take(consumer, 1):
                    self._fetching.begin(task.token, consumer)
                    yield task
        finally:
            self._fetching.leave(consumer)

    async def intake(self, projects: Iterable[str] | None, slots: int, prefetch: int | None = None) -> TaskSupply:
        """What a Worker takes its tasks from; see there."""
        await self._exchange.ready()
        return TaskSupply(self._fetching, projects, slots, prefetch)

    async def done(self, task: Task, new: Iterable[Item] = ()) -> Finish:
        """Say that a task succeeded, and which tasks came out of it; both are kept together or not at all.

        Args:
            new: urls, ``new_task`` values or maps of its arguments, of the task's project unless they name one.

        Raises:
            ValueError, TypeError: one of ``new`` is no task; nothing was sent.
        """
        return await self.finishing.report(success_of(task, new))

    async def failed(
        self,
        task: Task,
        error: str = "",
        *,
        retry_after: float | None = None,
        retry: bool = True,
    ) -> Finish:
        """Say that a task failed.

        Args:
            error: why, for people; its last 2048 characters are sent.
            retry_after: run it again after so many seconds (0 to 86,400), without using up a retry; None: after the
                delay of the project's table, if it has retries left.
            retry: False: it has failed for good.
        """
        return await self.finishing.report(failure_of(task, error, retry_after, retry))

    async def release(self, *tasks: Task) -> int:
        """Hand back tasks that were not started; no retry is used up. Returns how many leases were in force."""
        self._fetching.finished(task.token for task in tasks)
        counted = 0
        for leases in _chunks(tasks):
            reply = await self._exchange.ask(Release(session="", n=0, leases=leases), TokensReply)
            counted += reply.counted
        return counted

    async def pass_on(self, *tasks: Task) -> None:
        """Say that another process has these tasks now, and reports them with a client of its own.

        They take no capacity of this client any more; it goes on holding their leases, so it has to live until they are
        reported. Call this when they are out of your hands; it waits for nothing.
        """
        tokens = [task.token for task in tasks]
        self._fetching.finished(tokens)
        self._relay.pass_on(tokens)

    async def extend(self, task: Task, seconds: float | None = None) -> bool:
        """Give a task's lease ``seconds`` from now; None: its own timeout again. False: it is not in force any more."""
        request = Extend(session="", n=0, leases=[_ref(task)], seconds=seconds)
        return (await self._exchange.ask(request, TokensReply)).counted == 1

    def _arrive(self, handed: HandedOut, now: float) -> None:
        self._fetching.arrive(handed.tasks, handed.fetch, now)

    def _release_quietly(self, tasks: list[Task]) -> None:
        """Hand back what nobody here wants any more; nobody waits for the answer."""
        for leases in _chunks(tasks):
            self._exchange.post(Release(session="", n=0, leases=leases))


async def _settle(
    sending: set[asyncio.Task[Pushed]], pushed: Pushed, progress: Callable[[Pushed], object] | None
) -> None:
    """Wait for one of them, and count it; raises what one of them raised."""
    done, pending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
    sending.intersection_update(pending)
    for each in done:
        pushed.add(each.result())
        if progress is not None:
            progress(pushed)


def _new_session() -> str:
    """The id of a session: 128 random bits, because whoever knows it can speak in it."""
    return secrets.token_hex(16)


def _chunks(tasks: Sequence[Task]) -> Iterator[list[LeaseRef]]:
    for start in range(0, len(tasks), MAX_BATCH):
        yield [_ref(task) for task in tasks[start : start + MAX_BATCH]]


def _ref(task: Task) -> LeaseRef:
    return LeaseRef(task.project, task.taskid, task.token)
