"""AsyncClient: a producer, fetcher and administrator in one, on one connection, for asyncio.

It sleeps until a frame arrives, a caller asks or its session's next deadline comes; it never polls. All rules of the
protocol are in ``session``; ``exchange`` has the socket, the clock and the waiting callers.
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

from taskqueue.access.key_file import KeyFile
from taskqueue.client.arguments import checked_capacity, checked_count, checked_seconds, client_key, time_limit
from taskqueue.client.asynchronous.daemon import AsyncDaemon
from taskqueue.client.asynchronous.fetchers import AsyncFetchers
from taskqueue.client.asynchronous.flows import AsyncFlow, AsyncFlows
from taskqueue.client.asynchronous.insight import AsyncLog, AsyncStats
from taskqueue.client.asynchronous.operations import AsyncOperations
from taskqueue.client.asynchronous.projects import AsyncCron, AsyncGroups, AsyncProjects
from taskqueue.client.asynchronous.slots import AsyncSlots
from taskqueue.client.asynchronous.tasks import AsyncTasks
from taskqueue.client.connection.exchange import Exchange, KnownAs, R
from taskqueue.client.connection.keep_open import OpenProjects
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.connection.session import ClientSession, HandedOut
from taskqueue.client.fetcher.draining import Draining
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.intake import WAIT_SECONDS, Intake
from taskqueue.client.fetcher.leases import EXTEND_MOST, KeptLeases, Leases, Relay, checked_extend_most
from taskqueue.client.tasks.fetched import FetchFacts
from taskqueue.client.tasks.notes import Notes
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
from taskqueue.errors import RequestRejected
from taskqueue.protocol.base import Request, without_envelope
from taskqueue.protocol.choices import FailuresBy, PushOutcome
from taskqueue.protocol.daemon import (
    Status,
    StatusShow,
)
from taskqueue.protocol.fetchers import NoteOutcome
from taskqueue.protocol.insight import FailureList, Failures, Why


class AsyncClient:
    """A client of one daemon; close it, or use it as a context manager.

    The methods that producers and fetchers call every day are here. Those of administrators are in namespaces, such as
    ``client.projects.pause``. In a namespace, ``get`` returns one, ``list`` a page, and ``iter`` goes through all of
    them.

    Methods raise ``RequestTimeout`` if no answer came in time, ``RequestRejected`` if the daemon refused,
    ``MessageTooLarge`` instead of sending more than the daemon accepts, and ``ClientClosed`` after ``close``. While the
    daemon is away, requests wait; the client sends them again when the daemon is back, and the daemon carries out each
    only once. If the key of the client has got another name meanwhile, a change whose first answer was lost raises
    ``RequestRejected`` with the code ``not-yours``, because it may have been made.

    Create it anywhere; use it in one event loop.

    Args:
        daemon: address of the daemon; None: the environment's TASKQUEUE_DAEMON, or else tcp://127.0.0.1:7400.
        timeout: seconds to wait for each answer; ``math.inf``: for ever.
        name: shown to operators among the fetchers and in the log of changes; None: host:pid.
        connect_timeout: seconds to wait for a daemon if nothing listens at the address, its host is unknown, or another
            program answers there. By default as long as for an answer, because a daemon may be about to start.
        key: key file of this client, for a daemon that has keys; None: that in the environment's TASKQUEUE_KEY, or
            else local.key of a daemon on this machine, if this user may read it; empty: none.

    Attributes:
        daemon_address: address of the daemon.
        timeout: seconds to wait for each answer.
        projects, groups, tasks, slots, cron, operations, flows: namespaces that show and change these.
        fetchers: fetchers that the daemon knows, and draining them.
        stats, log, daemon: counts of events, the log of changes, and the daemon's own state.
    """

    def __init__(
        self,
        daemon: str | None = None,
        *,
        timeout: float = ANSWER_SECONDS,
        name: str | None = None,
        connect_timeout: float = inf,
        key: str | os.PathLike[str] | KeyFile | None = None,
    ) -> None:
        self.daemon_address = daemon or os.environ.get("TASKQUEUE_DAEMON") or URL
        self.timeout = checked_seconds("timeout", timeout)
        connect_timeout = checked_seconds("connect_timeout", connect_timeout)
        session = ClientSession(_new_session(), name or f"{socket.gethostname()}:{os.getpid()}", _new_session)
        exchange = self._exchange = Exchange(
            self.daemon_address,
            session,
            timeout,
            self._arrive,
            self._ended,
            self._look,
            connect_timeout,
            client_key(key, self.daemon_address),
            self._forbid,
        )
        self._reachability = exchange.reachability
        self._draining = Draining(session)
        self._leases = Leases(exchange)
        self._notes = Notes(exchange)
        self._fetching = FetchBuffer(
            session, exchange.pump, self._leases.release_soon, ParentPages(exchange), self._notes
        )
        self._relay = Relay(session, exchange.pump)
        self._kept_leases = KeptLeases(self._leases.extend)
        self._single_pushes = single_pushes(exchange)
        self._single_reports = single_reports(exchange, self._leave, self._fetching.answered)
        self._batch_sender = BatchSender(exchange)
        self._outbox = Outbox(self._single_pushes, self._single_reports)
        self._open_projects = OpenProjects(exchange)
        long_poll = LongPoll(exchange)
        self.projects = AsyncProjects(exchange, long_poll, self._open_projects)
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
        """Give back the tasks of this client, and disconnect. Calls that wait for an answer raise ClientClosed."""
        self._open_projects.close()
        self._relay.close()
        self._notes.close()
        self._fetching.close()
        self._kept_leases.close()
        self._outbox.close()
        self._single_pushes.close()
        self._single_reports.close()
        await self._exchange.close()

    # ------------------------------------------------------------------------------------ producing

    @explains_options
    async def push(self, project: str, url: str, **options: Unpack[PushOptions]) -> PushOutcome:
        """Push one task; returns its outcome. When this returns, the daemon has stored the task.

        A URL that can't be fetched, such as a relative one, is refused: see ``taskqueue.new_task``. Calls that are
        under way at the same time share messages, so a hundred of them cost little more than one. Each call has an
        outcome or an error of its own, and a single call is sent at once.

        Raises:
            ValueError, TypeError: the arguments make no task; nothing was sent.
            RequestRejected: the daemon refuses the task, for example because the project is unknown.
        """
        return await self._single_pushes.ask(push_of(project, url, options))

    async def push_many(
        self,
        project: str,
        tasks: Iterable[Item] | AsyncIterable[Item],
        *,
        batch: int = 256,
        in_flight: int = 8,
        exetime: Moment | None = None,
        delay: Duration | None = None,
        canonical: bool = False,
        progress: Callable[[Pushed], object] | None = None,
        outcomes: Callable[[PushedTask], object] | None = None,
    ) -> Pushed:
        """Push many tasks. When this returns, the daemon has stored all that it did not reject.

        An iterable that is not async is read in the event loop, between two messages.

        Args:
            tasks: URLs, ``taskqueue.new_task`` values or maps of its arguments; an iterator of millions takes no more
                memory than one of thousands.
            batch: tasks per message, at most; large tasks make smaller batches.
            in_flight: messages that may be unanswered at once.
            exetime, delay: one time for all URLs, and for all maps that name neither: either unix seconds or an aware
                datetime, or seconds from the arrival of each message; see ``taskqueue.new_task``.
            canonical: default for URLs, and for maps that don't name it; see ``taskqueue.new_task``.
            progress: called with the counts so far, after each message's answer.
            outcomes: called once per task with its index in the iterable, its outcome, and the state that it had in the
                daemon before. Tasks of one message come in order, messages as they are answered. Like ``progress`` it
                must not wait, because the client itself calls it; an exception of it is raised here.

        Returns:
            Counts by outcome. Rejected tasks, including invalid ones, are counted, not raised.

        Raises:
            ValueError: both times are given, or one of them is invalid; nothing was sent.
            TypeError: a single task is given instead of several; nothing was sent.
        """
        pushed = Pushed()
        checked_count("in_flight", in_flight)
        packer = Packer(batch, pushed, Defaults(canonical, exetime, delay), outcomes)
        async with self._batch_sender.in_flight(project, in_flight, pushed, progress, outcomes) as sending:
            async for full in packer.pack_async(tasks):
                await sending.send(full)
        return pushed

    def flow(self, project: str, name: str | None = None) -> AsyncFlow:
        """Begin to describe a flow: a graph of tasks that the daemon accepts as a whole and then runs by itself.

        Args:
            name: 1 to 64 letters, digits, ``_``, ``-`` or ``.``, not the name of another flow of the project; None: a
                random name.
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
        """Take up to ``limit`` tasks to run; wait for the first of them. The list is empty if none came in time.

        End each task by ``done``, ``failed`` or ``release`` before its ``timeout``. When this client is closed, it
        gives back the tasks that it still has.

        Args:
            projects: projects to take tasks of; None: all.
            timeout: seconds to wait; None: the client's; 0: only until the daemon answers that no task is ready.
            priority: of the fetchers that wait for a task, the one with the highest priority gets it. A client has one
                priority at a time, the highest of its callers that take tasks.
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
        """Take tasks to run, one after the other, for ever; while one runs, the next are on their way.

        Args:
            projects: projects to take tasks of; None: all.
            places: tasks that this client has at once, including those that wait in it; the lease of a waiting task
                runs, too.
            until_drained: end when an operator drains this client's name, instead of waiting until it is resumed.
            priority: as for ``select``.
            extend: keep the lease of each task that the loop receives, as ``keep`` does, until the task is reported or
                the loop is left. Tasks that wait in the client go back when their leases run out.
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
        """Report that a task succeeded, with the new tasks and the result that came of it.

        The daemon stores up to 5,000 new tasks, or 4 MiB of them, together with the task's success, or nothing. More
        are sent ahead in parts, each of which is stored by itself and stays stored whatever happens later; the last
        part carries the success, and the lease lasts until then. If a part is stale, nothing more is sent.

        Args:
            new: URLs, ``taskqueue.new_task`` values or maps of its arguments, in the task's project unless they name
                another; an iterator is read one part at a time.
            result: value to keep with the task, at most 65,536 bytes as MessagePack; it replaces that of the task's
                last success. None: no result.
            facts: facts of the fetch, such as ``status_code=200, headers=response.headers``: see ``Task.fetched``.

        Raises:
            ValueError, TypeError: an element of ``new`` is no task, or the result or a fact is invalid; nothing was
                sent, except for parts before it.
            RequestRejected, MessageTooLarge: the daemon refuses the report, for example because of a new task that is
                too large, which the message names. The lease is still in force: call ``failed``, or ``done`` with other
                arguments.
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
        """Report that a task failed. To change its next attempt, use ``retry``.

        Args:
            error: reason, for operators; of more than 2048 bytes the middle is left out.
            retry_after: run the task again after this time (seconds, a text such as "5m", or a timedelta; up to a day)
                without using up a retry; its slot pauses until then. None: after the delay of the project's table, if
                the task has retries left.
            retry: False: the task has failed for good.
            kind: the error's subject in one line of at most 200 characters, by which failures are grouped and shown in
                short. Empty: the exception of the last traceback in ``error``, else its last line that begins like
                ``ValueError: ``, else its last line.
            new: new tasks that came of the attempt all the same, as for ``done``, but at most 10,000, in one message.
                The daemon stores them together with the failure; if the report is stale, it stores none.
            facts: facts of the fetch, such as ``status_code=429, headers=response.headers``: see ``Task.fetched``.

        Raises:
            ValueError, TypeError: an argument is invalid; nothing was sent.
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
        """Report that a task failed and is to run again, with changes to its next attempt.

        The task keeps its place among tasks of equal priority, and its count of failures. If it was pushed with
        ``force_update`` meanwhile, that push wins. If it has no retry left, it has failed for good and stays unchanged.

        Args:
            after: time to wait: seconds, a text such as "5m", or a timedelta, up to a day; its slot pauses until then.
                None: the delay of the project's table.
            counts: True: this attempt uses up a retry; None: it does unless ``after`` is given. An attempt that uses up
                none does not count towards the pause of its project, and waits at least a second from the third in a
                row.
            body: new body of the task, instead of the whole map of ``fetch``, ``process`` and ``save``, such as
                ``{**task.body, "save": {"proxy": 2}}``; None: unchanged.
            priority: new priority of the task; None: unchanged.
            error, new, kind, facts: as for ``failed``.

        Raises:
            ValueError, TypeError: an argument is invalid; nothing was sent.
            MessageTooLarge: the body is too large, or ``new`` is for one message; nothing was sent.
            RequestRejected: the daemon refuses the report; the lease is still in force.
        """
        again = next_attempt(counts, body, priority)
        check_body(checked_task(task), again, self._exchange.max_message)
        pause, followers = checked_after(after), new_of_failure(new)
        if facts:
            task.fetched(**facts)
        report = failure_of(task, error, pause, True, kind, followers, again)
        return await self._single_reports.ask(report)

    async def release(self, *tasks: Task) -> int:
        """Give back tasks that were not started; no retry is used up. Returns the number of their leases in force."""
        tokens = [checked_task(task).token for task in tasks]
        self._finish(tokens)
        self._fetching.released(tokens)
        return await self._leases.release(tasks)

    async def pass_on(self, *tasks: Task) -> None:
        """Record that another process has these tasks now and reports them with a client of its own.

        They occupy no place of this client any more. It still holds their leases, so it has to live until they are
        reported. Call this when the other process has the tasks; it does not wait.
        """
        tokens = [checked_task(task).token for task in tasks]
        self._finish(tokens)
        self._relay.pass_on(tokens)

    async def extend(self, task: Task, seconds: float | None = None) -> bool:
        """Extend a task's lease to ``seconds`` from now (None: its own timeout). Returns False if it has ended."""
        return await self._leases.extend(checked_task(task), seconds)

    async def note(self, task: Task, note: str | float) -> NoteOutcome:
        """Show users a note beside a task that runs, also one that another process has sent here, as ``Task.note``.

        Returns:
            ``noted``; ``too-soon``: left out, because the task has had more than one a second; or ``stale``: its lease
            has ended.
        """
        return await self._notes.send(checked_task(task).noted(note))

    def keep(self, task: Task, *, extend_most: float = EXTEND_MOST) -> AbstractAsyncContextManager[Cancelled]:
        """Keep a task's lease inside the block, by extensions after each two thirds of its time.

        The extensions end when the task is reported.

            async with client.keep(task) as lost:
                await crawl(task)                       # it looks at ``lost``, or waits for it: see ``Task.lost``
                await client.done(task)

        ``task.lost`` is set if the lease ends all the same: the daemon ended it, for example after a cancel, or the
        client could not extend it in time. The block goes on; a report is then most likely ``stale``.

        Args:
            extend_most: leases, each of its timeout, that the task gets in all, so that hanging code doesn't keep it.

        Raises:
            RequestRejected: the daemon refuses to extend, for a task that another process has sent here.
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
        """Begin to take tasks for a loop that must not wait: ``take_now`` returns a task or None, at once.

        Close the intake to stop; tasks that were not taken go back then. Tasks that were taken stay yours until you
        report or release them. The intake waits for a daemon that is away.

        Args:
            projects: projects to take tasks of; None: all.
            room: tasks that run at once, that is, are taken and not reported; ``intake.room = n`` changes it.
            on_arrival: called without arguments when ``take_now`` has a task for you: one has arrived, its time to
                start has come, or there is room again. In asyncio it is called in the loop; else in a thread of the
                client, where it has to wake your thread, for example by a Qt signal, and must not wait.
            prefetch: tasks that wait here beside those that run, as for a ``Worker``; None: as many as finish in a
                tenth of a second, or none while the median run takes longer than a second.
            priority: as for ``select``.
            patience: seconds that a task may wait here, at most a quarter of its lease, and about a second in a slot
                with a pace of its own. Then it goes back unstarted, and no other comes before you call ``take_now``
                again.

        Raises:
            ValueError, TypeError: an argument is invalid, such as an impossible project name; nothing has changed.
            ClientClosed: after ``close``.
        """
        self._exchange.open()
        return Intake(
            self._fetching, self._outbox, self._kept_leases, projects, room,
            on_arrival=on_arrival, prefetch=prefetch, priority=priority, patience=patience,
        )  # fmt: skip

    @explains_options
    def push_soon(self, project: str, url: str, **options: Unpack[PushOptions]) -> asyncio.Future[PushOutcome]:
        """Push one task soon, without waiting; returns a future of its outcome or error.

        Pushes leave in their order, and so do reports. A report leaves after all pushes before it, and a push of a task
        that is being reported after that report. Cancelling the future changes nothing.

        The event loop logs the error of a future that is never read.

        Raises:
            ValueError, TypeError: the arguments make no task, or the project's name is impossible.
            BacklogFull: 10,000 pushes and reports, or 64 MiB of them, have no outcome yet; nothing was done.
            ClientClosed: after ``close``.
        """
        self._exchange.open()
        outcome: asyncio.Future[PushOutcome] = asyncio.get_running_loop().create_future()
        self._outbox.push(push_of(project, url, options), partial(in_future, outcome))
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
        """Report a task soon, without waiting; returns a future. Its place is free at once.

        Reports and pushes leave in the order that ``push_soon`` describes.

        If the client keeps the task's lease, it does so until the last part of the report leaves.

        Args:
            new: as for ``done``, read one part at a time; for a failure as for ``failed``, in one message. In asyncio
                it is read in the loop; else in a thread of the client, where it must neither wait nor call the client.
            result: for a success, as for ``done``.
            error: None: the task succeeded; else it failed, for this reason.
            retry, kind: for a failure, as for ``failed``.
            after, counts, body, priority: for a failure, as for ``retry``.
            facts: facts of the fetch: see ``Task.fetched``.

        Raises:
            ValueError, TypeError: an argument is invalid, or belongs to the other outcome; the task is still yours. An
                invalid element of ``new`` of a success beyond the first 5,000 is an error of the future.
            MessageTooLarge: the body is too large; the task is still yours. If ``new`` of a failure is too large for
                one message, the future has this error.
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
        """Wait until every earlier ``push_soon`` and ``report_soon`` has an outcome or an error.

        Call it before you close the client: futures without an outcome then get ClientClosed.
        """
        await self._outbox.settled()

    async def ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the blocking client has no other way
        """Wait until the daemon has answered.

        Args:
            timeout: seconds to wait; None: the client's.

        Raises:
            RequestTimeout: the daemon has not answered in time.
            RequestRejected: the daemon speaks another version of the protocol.
        """
        await self._exchange.ready(None if timeout is None else checked_seconds("timeout", timeout))

    # ------------------------------------------------------------------------------------ until the end

    async def wait_drained(self, timeout: float = inf) -> bool:  # noqa: ASYNC109 - the blocking client has no other way
        """Wait until an operator has drained this client's name and all its tasks are reported.

        The process may end then.

        Once the daemon says so, no task comes any more, and tasks that wait in the client go back. The client ends
        nothing by itself; if the operator resumes the name, tasks come again. Returns True if the client is drained.

        Args:
            timeout: seconds to wait; 0: only check.
        """
        self._exchange.open()
        with suppress(TimeoutError):
            async with asyncio.timeout(time_limit("timeout", timeout)):
                await self._draining.finished.wait()
        return self._draining.finished.is_set()

    # ------------------------------------------------------------------------------------ how things are

    async def status(self) -> Status:
        """Return the state of the daemon and the totals of all projects; ``client.projects.list`` has each of them."""
        return without_envelope(Status, await self._exchange.ask(StatusShow(limit=1, fetchers=0)))

    async def failures(
        self,
        project: str | None = None,
        *,
        by: FailuresBy = "error",
        since: Moment | None = None,
        limit: int = 100,
    ) -> Failures:
        """Count failed attempts by what they have in common, whatever happened to their tasks afterwards.

        The daemon keeps the failures of the last seven days, at most a million, and scans 100,000 in well under a
        second.

        Args:
            project: failures of this project only; None: of all.
            by: error: kinds of errors, which differ in more than numbers, ids and URLs; host: host of the URL; fetcher;
                or project.
            since: unix seconds, or an aware datetime: attempts that ended at that time or later; None: all that are
                kept.
            limit: groups to return, those with the most failures: 1 to 1,000.

        Raises:
            ValueError: ``since`` is a datetime without a time zone.
            RequestRejected: the project is unknown, or too many clients ask at once.
        """
        start = unix_seconds_or_0("since", since)
        reply = await self._exchange.ask(FailureList(project=project, by=by, since=start, limit=limit))
        return without_envelope(Failures, reply)

    async def why(self, project: str | None = None, taskid: str | None = None) -> str:
        """Say in one sentence why no task of a project, or this task, is being dispatched.

        Args:
            project: None: all; returns a line for each project that has tasks and stands still, or says that none does.
            taskid: task to explain; None: the project as a whole.
        """
        reply = await self._exchange.ask(Why(project=project, taskid=taskid))
        found = [each.sentence for each in reply.projects]
        while reply.next:
            reply = await self._exchange.ask(Why(after=reply.next))
            found += [each.sentence for each in reply.projects]
        return "\n".join(found) or reply.sentence

    async def _ask(self, request: Request[R], patience: float | None = None, known_as: KnownAs = None) -> R:
        """Send any request of the protocol; returns its reply.

        ``patience``: seconds to wait if not the client's timeout; ``known_as``: see ``KnownAs``.
        """
        return await self._exchange.ask(request, patience, known_as)

    def _look(self) -> None:
        if self._draining.look():
            self._fetching.drain()

    def _forbid(self, error: RequestRejected) -> None:
        self._fetching.fail_waiting(error)

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
        self._notes.forget(tokens)
        self._fetching.finished(tokens)


def _new_session() -> str:
    """Make the id of a session: 128 random bits, because a client that knows the id can speak in the session."""
    return secrets.token_hex(16)
