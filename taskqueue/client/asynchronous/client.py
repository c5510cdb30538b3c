"""AsyncClient: a producer, fetcher and administrator in one, on one connection, for asyncio.

It sleeps until a frame arrives, a caller asks, or its session's next deadline; it never polls. All rules of the
protocol are in ``session``; ``exchange`` has the socket, the clock and the callers that wait.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Self, Unpack

from taskqueue.client.arguments import checked_capacity, checked_count, checked_seconds, time_limit
from taskqueue.client.asynchronous.daemon import AsyncDaemon
from taskqueue.client.asynchronous.fetchers import AsyncFetchers
from taskqueue.client.asynchronous.flows import AsyncFlow, AsyncFlows
from taskqueue.client.asynchronous.insight import AsyncLog, AsyncStats
from taskqueue.client.asynchronous.operations import AsyncOperations
from taskqueue.client.asynchronous.projects import AsyncCron, AsyncGroups, AsyncProjects
from taskqueue.client.asynchronous.slots import AsyncSlots
from taskqueue.client.asynchronous.tasks import AsyncTasks
from taskqueue.client.connection.exchange import Exchange, KnownAs, R
from taskqueue.client.connection.hold_open import Holding
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.connection.session import ClientSession, HandedOut
from taskqueue.client.fetcher.draining import Draining
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.intake import WAIT_SECONDS, Intake
from taskqueue.client.fetcher.leases import EXTEND_MOST, KeptLeases, Leases, Relay, checked_extend_most
from taskqueue.client.tasks.fetched import FetchFacts
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.outbox import Outbox, in_future
from taskqueue.client.tasks.parents import ParentPages
from taskqueue.client.tasks.push_options import Duration, Moment, PushOptions, explains_options, unix_seconds_or_0
from taskqueue.client.tasks.pushes import (
    BatchSender,
    Defaults,
    Item,
    Packer,
    Pushed,
    PushedTask,
    push_of,
    single_pushes,
)
from taskqueue.client.tasks.reports import (
    Reported,
    check_body,
    check_fits,
    checked_after,
    failure_of,
    joined,
    new_of_failure,
    next_attempt,
    packed_result,
    reports_of,
    single_reports,
)
from taskqueue.client.tasks.task import Cancelled, Task, checked_task
from taskqueue.defaults import ANSWER_SECONDS, URL
from taskqueue.protocol.base import Request, without_envelope
from taskqueue.protocol.choices import FailuresBy, PushOutcome
from taskqueue.protocol.daemon import (
    Status,
    StatusShow,
)
from taskqueue.protocol.insight import FailureList, Failures, Why


class AsyncClient:
    """A client of one daemon; close it, or use it as a context manager.

    What producers and fetchers call every day is here; what administrators call is in namespaces, such as
    ``client.projects.pause``. There ``get`` is one, ``list`` a page, and ``iter`` goes through all of them.

    Methods raise ``RequestTimeout`` when no answer came in time, ``RequestRejected`` when the daemon refused,
    ``MessageTooLarge`` instead of sending what it would not take, ``ClientClosed`` after ``close``. While the daemon is
    away, requests wait and are sent again when it is back; none is done twice.

    It is made anywhere, and used in one event loop.

    Args:
        daemon: its address; None: the environment's TASKQUEUE_DAEMON, or tcp://127.0.0.1:7400.
        timeout: seconds to wait for each answer; ``math.inf``: for ever.
        name: for people, shown among the fetchers and in the log of changes; None: host:pid.
        connect_timeout: seconds to wait for a daemon where nobody listens, whose host is not known, or in whose place
            there is somebody else; without it as long as for an answer, because a daemon may be about to start.

    Attributes:
        daemon_address: of the daemon.
        projects, groups, tasks, slots, cron, operations, flows: what can be done with them.
        fetchers, stats, log, daemon: what can be seen of them, and of the daemon.
    """

    def __init__(
        self,
        daemon: str | None = None,
        *,
        timeout: float = ANSWER_SECONDS,
        name: str | None = None,
        connect_timeout: float = inf,
    ) -> None:
        self.daemon_address = daemon or os.environ.get("TASKQUEUE_DAEMON") or URL
        self.timeout = checked_seconds("timeout", timeout)
        connect_timeout = checked_seconds("connect_timeout", connect_timeout)
        session = ClientSession(_new_session(), name or f"{socket.gethostname()}:{os.getpid()}", _new_session)
        exchange = self._exchange = Exchange(
            self.daemon_address, session, timeout, self._arrive, self._ended, self._look, connect_timeout
        )
        self._reachability = exchange.reachability
        self._draining = Draining(session)
        self._leases = Leases(exchange)
        self._fetching = FetchBuffer(session, exchange.pump, self._leases.release_soon, ParentPages(exchange))
        self._relay = Relay(session, exchange.pump)
        self._kept_leases = KeptLeases(self._leases.extend)
        self._single_pushes = single_pushes(exchange)
        self._single_reports = single_reports(exchange, self._leave, self._fetching.answered)
        self._batch_sender = BatchSender(exchange)
        self._outbox = Outbox(self._single_pushes, self._single_reports)
        self._holding = Holding(exchange)
        long_poll = LongPoll(exchange)
        self.projects = AsyncProjects(exchange, long_poll, self._holding)
        self.groups = AsyncGroups(exchange, long_poll)
        self.tasks = AsyncTasks(exchange, long_poll)
        self.slots = AsyncSlots(exchange)
        self.cron = AsyncCron(self.projects)
        self.operations = AsyncOperations(exchange, long_poll)
        self.flows = AsyncFlows(exchange, long_poll)
        self.fetchers = AsyncFetchers(exchange)
        self.daemon = AsyncDaemon(exchange)
        self.stats = AsyncStats(exchange)
        self.log = AsyncLog(exchange)

    async def __aenter__(self) -> Self:
        self._exchange.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back what this client holds, and disconnect. Calls that wait for an answer raise ClientClosed."""
        self._holding.close()
        self._relay.close()
        self._fetching.close()
        self._kept_leases.close()
        self._outbox.close()
        self._single_pushes.close()
        self._single_reports.close()
        await self._exchange.close()

    # ------------------------------------------------------------------------------------ producing

    @explains_options
    async def push(self, project: str, url: str, **options: Unpack[PushOptions]) -> PushOutcome:
        """Hand one task to the daemon; when this returns, it is kept. Returns what became of it.

        A url that can't be fetched, such as a relative one, is refused: see ``taskqueue.new_task``.
        Calls that are under way at the same time share messages, so many of them cost little more than one; each has an
        outcome or an error of its own, and who is alone waits for nobody.

        Raises:
            ValueError, TypeError: it is no task; nothing was sent.
            RequestRejected: the daemon does not take it, such as for an unknown project.
        """
        return await self._single_pushes.ask(push_of(project, new_task(url, **options)))

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
        outcomes: Callable[[PushedTask], object] | None = None,
    ) -> Pushed:
        """Hand many tasks to the daemon; when this returns, all that were not rejected are kept.

        An iterable that is not async is read in the event loop, between two messages.

        Args:
            tasks: urls, ``new_task`` values or maps of its arguments; an iterator of millions takes no more memory
                than one of thousands.
            batch: tasks a message, at most; large ones make smaller batches.
            window: messages on their way at once.
            exetime, delay: one time for all urls, and for all maps that say neither: either unix seconds or an aware
                datetime, or seconds from the arrival of each message; see ``new_task``.
            canonical: for urls, and for maps that don't say; see ``new_task``.
            progress: called with the counts so far, after each message's answer.
            outcomes: called with what became of each task: its place in the iterable, its outcome, and the state in
                which the daemon knew it before. Tasks of one message come in order, messages as they are answered.
                Like ``progress`` it must not wait, because the client itself calls it; what it raises is raised here.

        Returns:
            How many became what. Rejected tasks, those that are no tasks included, are counted, not raised.

        Raises:
            ValueError: two times for all are given, or one that can't be; nothing was sent.
            TypeError: one task is given instead of several; nothing was sent.
        """
        pushed = Pushed()
        checked_count("window", window)
        packer = Packer(batch, pushed, Defaults(canonical, exetime, delay), outcomes)
        async with self._batch_sender.window(project, window, pushed, progress, outcomes) as sending:
            async for full in packer.pack_async(tasks):
                await sending.send(full)
        return pushed

    def flow(self, project: str, name: str | None = None) -> AsyncFlow:
        """Begin to describe a flow: a graph of tasks that is accepted at once, and then goes by itself.

        Args:
            name: 1 to 64 of letters, digits, ``_``, ``-``, ``.``, which no other flow of the project has; None: one
                by chance.
        """
        return AsyncFlow(self._exchange, project, name or f"flow-{secrets.token_hex(4)}")

    # ------------------------------------------------------------------------------------ fetching

    async def select(
        self,
        limit: int = 1,
        *,
        projects: Iterable[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the blocking client has no other way
        priority: int = 0,
    ) -> list[Task]:
        """Take up to ``limit`` tasks to run, of these projects (None: of any); waits for the first of them.

        Args:
            timeout: seconds to wait; None: the client's; 0: for nothing but the daemon's word that it has none ready.
            priority: a task goes to the fetcher with the highest one of those that wait for it. A client has one at a
                time, the highest of those who take tasks with it.

        Each has to be ended by ``done``, ``failed`` or ``release`` before its ``timeout``; what this client holds
        when it is closed goes back. An empty list: there was none in time.
        """
        await self._exchange.ready()
        patience = self.timeout if timeout is None else checked_seconds("timeout", timeout)
        tasks: list[Task] = []
        if patience == 0:
            tasks = await self._fetching.select(limit, projects, priority, self._exchange.handed_out)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(time_limit("timeout", patience)):
                    tasks = await self._fetching.select(limit, projects, priority)
        for task in tasks:
            self._kept_leases.hand_over(task)
        return tasks

    async def stream(
        self,
        projects: Iterable[str] | None = None,
        *,
        places: int = 16,
        until_drained: bool = False,
        priority: int = 0,
        extend: bool = False,
        extend_most: float = EXTEND_MOST,
    ) -> AsyncGenerator[Task, None]:
        """Tasks to run, one after the other, for ever; while one is being run, the next are on their way.

        Args:
            projects: whose tasks; None is any project's.
            places: tasks held at once, those that wait here included; what waits here uses up its lease, too.
            until_drained: end when somebody drains this client's name, instead of waiting until it is resumed.
            priority: as for ``select``.
            extend: keep the lease of each task from here on, as ``keep`` does, until it is reported or the loop is
                broken off; not of those that wait here, which go back when their leases run out.
            extend_most: as for ``keep``.
        """
        checked_capacity("places", places, least=1)
        leases = checked_extend_most(extend_most) if extend else 1
        await self._exchange.ready()
        consumer = self._fetching.join(projects, places, priority=priority)
        try:
            while tasks := await self._fetching.take(consumer, 1, until_drained=until_drained):
                for task in tasks:
                    self._fetching.begin(task.token, consumer)
                    self._kept_leases.hand_over(task, leases, consumer)
                    yield task
        except BaseException:
            self._kept_leases.leave(consumer)
            raise
        finally:
            self._fetching.leave(consumer)

    async def done(
        self, task: Task, new: Iterable[Item] = (), *, result: Any = None, **facts: Unpack[FetchFacts]
    ) -> Reported:
        """Say that a task succeeded, and what came out of it.

        Up to 5,000 new tasks, or 4 MiB of them, are kept together with its end, or not at all. More go ahead in parts,
        each of which is kept by itself. What was kept stays, whatever happens then; the lease goes on until the last
        one. If a part is stale, nothing more is sent.

        Args:
            new: urls, ``new_task`` values or maps of its arguments, of the task's project unless they name one; an
                iterator is asked for a part at a time.
            result: what it leaves behind, of 65,536 bytes as MessagePack at most; it replaces that of the task's last
                success. None: nothing.
            facts: how its fetch went, such as ``status_code=200, headers=response.headers``: see ``Task.fetched``.

        Raises:
            ValueError, TypeError: one of ``new`` is no task, or the result can't be sent, or a fact can't be; nothing
                was sent, except for parts that came before it.
            RequestRejected, MessageTooLarge: the daemon does not take the report, such as for a new task that is too
                large, which is named; the task is still held. Call ``failed``, or ``done`` with something else.
        """
        left_behind = packed_result(result)
        if facts:
            checked_task(task).fetched(**facts)
        said: list[Reported] = []
        for report in reports_of(checked_task(task), new, left_behind):
            said.append(await self._single_reports.ask(report))
            if said[-1].outcome == "stale":
                break
        return joined(said)

    async def failed(
        self,
        task: Task,
        error: str = "",
        *,
        retry_after: Duration | None = None,
        retry: bool = True,
        kind: str = "",
        new: Iterable[Item] = (),
        **facts: Unpack[FetchFacts],
    ) -> Reported:
        """Say that a task failed. How its next attempt is to differ: see ``retry``.

        Args:
            error: why, for people; of more than 2048 bytes the middle is left out.
            retry_after: run it again after so many seconds, a text such as "5m", or a timedelta, up to a day, without
                using up a retry, and nothing else of its slot before; None: after the delay of the project's table, if
                it has retries left.
            retry: False: it has failed for good.
            kind: what the error is about, in one line of at most 200 characters: by it failures are grouped, and it is
                shown where there is no room for more. Empty: the exception of the last traceback in ``error``, else its
                last line that begins like ``ValueError: ``, else its last line.
            new: what came out of it all the same, as for ``done``, but 10,000 at most, in one message. They are kept
                together with the failure, or, if that is stale, not at all.
            facts: how its fetch went, such as ``status_code=429, headers=response.headers``: see ``Task.fetched``.

        Raises:
            ValueError, TypeError: an argument can't be; nothing was sent.
            MessageTooLarge: ``new`` is too large for one message; nothing was sent.
        """
        pause, followers = checked_after(retry_after, "retry_after"), new_of_failure(new)
        if facts:
            checked_task(task).fetched(**facts)
        report = failure_of(checked_task(task), error, pause, retry, kind, followers)
        return await self._single_reports.ask(report)

    async def retry(
        self,
        task: Task,
        error: str = "",
        *,
        after: Duration | None = None,
        counts: bool | None = None,
        body: Any = None,
        priority: int | None = None,
        new: Iterable[Item] = (),
        kind: str = "",
        **facts: Unpack[FetchFacts],
    ) -> Reported:
        """Say that a task failed and is to be run again, and how its next attempt differs.

        It keeps its place among equals, and how often it has failed. If it was pushed with ``force_update`` meanwhile,
        that push wins; if it has no retry left, it has failed for good and stays as it was.

        Args:
            after: seconds, a text such as "5m", or a timedelta to wait, up to a day, during which nothing else of its
                slot runs; None: the delay of the project's table.
            counts: this attempt uses up a retry; None: it does unless ``after`` is given. One that doesn't is not
                counted towards the pause of its project, and from the third time in a row waits for a second at least.
            body: of the task from now on, instead of the whole map of ``fetch``, ``process`` and ``save``, such as
                ``{**task.body, "save": {"proxy": 2}}``; None: as it was.
            priority: of the task from now on; None: as it was.
            error, new, kind, facts: as for ``failed``.

        Raises:
            ValueError, TypeError: an argument can't be; nothing was sent.
            MessageTooLarge: the body is too large, or ``new`` is for one message; nothing was sent.
            RequestRejected: the daemon does not take it; the task is still held.
        """
        again = next_attempt(counts, body, priority)
        check_body(checked_task(task), again, self._exchange.max_message)
        pause, followers = checked_after(after), new_of_failure(new)
        if facts:
            task.fetched(**facts)
        report = failure_of(task, error, pause, True, kind, followers, again)
        return await self._single_reports.ask(report)

    async def release(self, *tasks: Task) -> int:
        """Hand back tasks that were not started; no retry is used up. Returns how many leases were in force."""
        tokens = [checked_task(task).token for task in tasks]
        self._finish(tokens)
        self._fetching.released(tokens)
        return await self._leases.release(tasks)

    async def pass_on(self, *tasks: Task) -> None:
        """Say that another process has these tasks now, and reports them with a client of its own.

        They take no capacity of this client any more; it goes on holding their leases, so it has to live until they are
        reported. Call this when they are out of your hands; it waits for nothing.
        """
        tokens = [checked_task(task).token for task in tasks]
        self._finish(tokens)
        self._relay.pass_on(tokens)

    async def extend(self, task: Task, seconds: float | None = None) -> bool:
        """Give a task's lease ``seconds`` from now; None: its own timeout again. False: it is not in force any more."""
        return await self._leases.extend(checked_task(task), seconds)

    def keep(self, task: Task, *, extend_most: float = EXTEND_MOST) -> AbstractAsyncContextManager[Cancelled]:
        """Keep a task's lease inside: it is extended after two thirds of its time, until the task is reported.

            async with client.keep(task) as lost:
                ...                                     # look at ``lost``, or wait for it: see ``Task.lost``
                await client.done(task)

        When the lease is over all the same, ``task.lost`` is set: because the daemon says so, such as after a cancel,
        or because it could not be extended in time. Nothing is ended; a report is then most likely ``stale``.

        Args:
            extend_most: leases of its timeout that the task has in all, so that code that hangs keeps no task for ever.

        Raises:
            RequestRejected: the daemon refuses it, for a task that another process has sent here.
        """
        return self._kept_leases.keeping(checked_task(task), checked_extend_most(extend_most))

    # ------------------------------------------------------------------------------------ without awaiting

    def intake(
        self,
        projects: Iterable[str] | None = None,
        room: int = 16,
        *,
        on_arrival: Callable[[], object] | None = None,
        prefetch: int | None = None,
        priority: int = 0,
        patience: float = WAIT_SECONDS,
    ) -> Intake:
        """Begin to take tasks for a loop that must not wait: ``take_now`` gives one that is here, or None, at once.

        Close it to take no more; what was not taken goes back then. What was taken is yours until you report or
        release it. A daemon that is away is waited for.

        Args:
            projects: whose tasks; None is any project's.
            room: tasks that run at once, that is taken and not reported; ``intake.room = n`` changes it.
            on_arrival: called without arguments when ``take_now`` has a task for you: after one has come, its time to
                start has come, or there is room again. In asyncio it is called in the loop; else in a thread of the
                client's, where it has to wake yours, such as by a signal of Qt, and must not wait.
            prefetch: tasks that wait here beside those that run, as for a ``Worker``; None: as many as are finished in
                a tenth of a second, none while the median run takes longer than a second.
            priority: as for ``select``.
            patience: seconds that a task may wait here, a quarter of its lease at most; one of a slot by its own time,
                which is about a second. Then it goes back unstarted, and no others come before you look again.

        Raises:
            ValueError, TypeError: such as a name that no project can have; nothing has changed.
            ClientClosed: after ``close``.
        """
        self._exchange.open()
        return Intake(
            self._fetching, self._outbox, self._kept_leases, projects, room,
            on_arrival=on_arrival, prefetch=prefetch, priority=priority, patience=patience,
        )  # fmt: skip

    @explains_options
    def push_soon(self, project: str, url: str, **options: Unpack[PushOptions]) -> asyncio.Future[PushOutcome]:
        """Have one task handed to the daemon soon; returns a future, which has its outcome or its error then.

        What is said so leaves in order: pushes behind pushes, reports behind reports, a report behind all pushes that
        came before it, a push of a task that is being reported behind that report. To cancel the future changes
        nothing.

        The event loop logs an error of a future that is never read.

        Raises:
            ValueError, TypeError: it is no task, or no project can have that name.
            BacklogFull: 10,000 pushes and reports, or 64 MiB of them, have no outcome yet; nothing was done.
            ClientClosed: after ``close``.
        """
        self._exchange.open()
        outcome: asyncio.Future[PushOutcome] = asyncio.get_running_loop().create_future()
        self._outbox.push(push_of(project, new_task(url, **options)), partial(in_future, outcome))
        return outcome

    def report_soon(
        self,
        task: Task,
        new: Iterable[Item] = (),
        *,
        result: Any = None,
        error: str | None = None,
        after: Duration | None = None,
        retry: bool = True,
        kind: str = "",
        counts: bool | None = None,
        body: Any = None,
        priority: int | None = None,
        **facts: Unpack[FetchFacts],
    ) -> asyncio.Future[Reported]:
        """Have the end of a task said soon; its place is free at once. Returns a future, and order as ``push_soon``.

        Where its lease is kept, it is until the last part of its report leaves.

        Args:
            new: as for ``done``, read a part at a time; of a failure as for ``failed``, in one message. In asyncio it
                is read in the loop; else in a thread of the client's, where it must not wait, nor call the client.
            result: of a success, as for ``done``.
            error: None: it succeeded; else it failed, and this is why.
            retry, kind: of a failure, as for ``failed``.
            after, counts, body, priority: of a failure, as for ``retry``.
            facts: how its fetch went, see ``Task.fetched``.

        Raises:
            ValueError, TypeError: an argument can't be, or is not one of a success, or of a failure; the task is still
                yours. What is wrong behind the first 5,000 of ``new`` of a success is an error of the future.
            MessageTooLarge: the body is too large; the task is still yours. If ``new`` of a failure is too large for
                one message, that is an error of the future.
            ClientClosed: after ``close``.
        """
        self._exchange.open()
        check_fits(error, result, retry, after=after, kind=kind, counts=counts, body=body, priority=priority)
        again = next_attempt(counts, body, priority)
        check_body(checked_task(task), again, self._exchange.max_message)
        pause, left_behind = checked_after(after), packed_result(result)
        followers = [] if error is None else new_of_failure(new)
        if facts:
            task.fetched(**facts)
        if error is None:
            parts = reports_of(task, new, left_behind)
        else:
            parts = iter([failure_of(task, error, pause, retry, kind, followers, again)])
        first = next(parts)
        outcome: asyncio.Future[Reported] = asyncio.get_running_loop().create_future()
        self._outbox.report(first, partial(in_future, outcome), parts)
        self._fetching.finished([task.token])  # Its lease is kept until the last part leaves.
        return outcome

    async def settled(self) -> None:
        """Wait until all that ``push_soon`` and ``report_soon`` have been told by now has an outcome or an error.

        Call it before the client is closed: what has no outcome then gets ClientClosed.
        """
        await self._outbox.settled()

    async def ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the blocking client has no other way
        """Wait until the daemon has answered.

        Args:
            timeout: seconds to wait; None: the client's.

        Raises:
            RequestTimeout: it has not, in time.
            RequestRejected: it speaks another version of the protocol.
        """
        await self._exchange.ready(None if timeout is None else checked_seconds("timeout", timeout))

    # ------------------------------------------------------------------------------------ until the end

    async def wait_drained(self, timeout: float = inf) -> bool:  # noqa: ASYNC109 - the blocking client has no other way
        """Wait until an operator has drained this client's name, and all that it held is over: then it may end.

        As soon as this client is told, no task comes any more, and those that wait here go back. It ends nothing by
        itself, and if the name is resumed tasks come again. Returns whether it is so.

        Args:
            timeout: seconds to wait; 0: only look.
        """
        self._exchange.open()
        with suppress(TimeoutError):
            async with asyncio.timeout(time_limit("timeout", timeout)):
                await self._draining.finished.wait()
        return self._draining.finished.is_set()

    # ------------------------------------------------------------------------------------ how things are

    async def status(self) -> Status:
        """How the daemon and all its projects together are; pages of these are in ``client.projects``."""
        return without_envelope(Status, await self._exchange.ask(StatusShow(limit=1, fetchers=0)))

    async def failures(
        self,
        project: str | None = None,
        *,
        by: FailuresBy = "error",
        since: Moment | None = None,
        limit: int = 100,
    ) -> Failures:
        """What failed, counted by what failures have in common: each failed attempt, whatever became of its task.

        The daemon has those of the last seven days, a million at most, and looks at 100,000 in well under a second.

        Args:
            project: None: all of them.
            by: error: kinds of errors, which differ in more than numbers, ids and urls; host of the url; fetcher;
                project.
            since: unix seconds, or an aware datetime: ended at that time or later; None: all that are kept.
            limit: 1 to 1,000 groups, those with the most failures.

        Raises:
            ValueError: since is a datetime without a zone.
            RequestRejected: there is no such project, or too many ask at once.
        """
        start = unix_seconds_or_0("since", since)
        reply = await self._exchange.ask(FailureList(project=project, by=by, since=start, limit=limit))
        return without_envelope(Failures, reply)

    async def why(self, project: str | None = None, taskid: str | None = None) -> str:
        """Why nothing of a project, or why this task, is not being handed out: one sentence for people.

        Args:
            project: None: all; then a line for each that has tasks and stands still, or that none does.
        """
        reply = await self._exchange.ask(Why(project=project, taskid=taskid))
        found = [each.sentence for each in reply.projects]
        while reply.next:
            reply = await self._exchange.ask(Why(after=reply.next))
            found += [each.sentence for each in reply.projects]
        return "\n".join(found) or reply.sentence

    async def _ask(self, request: Request[R], patience: float | None = None, known_as: KnownAs = None) -> R:
        """Send any request of the protocol; returns its reply.

        ``patience``: seconds that it may take, if not the client's timeout; ``known_as``: see ``KnownAs``.
        """
        return await self._exchange.ask(request, patience, known_as)

    def _look(self) -> None:
        if self._draining.look():
            self._fetching.drain()

    def _arrive(self, handed: HandedOut, now: float) -> None:
        self._fetching.arrive(handed.tasks, handed.fetch, now)

    def _ended(self, tokens: list[int]) -> None:
        self._kept_leases.lose(tokens)
        self._fetching.lose(tokens)

    def _leave(self, tokens: list[int]) -> None:
        self._finish(tokens)
        self._fetching.leaving(tokens)

    def _finish(self, tokens: Sequence[int]) -> None:
        self._kept_leases.finish(tokens)
        self._fetching.finished(tokens)


def _new_session() -> str:
    """The id of a session: 128 random bits, because whoever knows it can speak in it."""
    return secrets.token_hex(16)
