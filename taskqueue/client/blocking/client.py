"""Blocking twin of ``taskqueue.client.asynchronous.client``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Self, Unpack

from taskqueue.access.key_file import KeyFile
from taskqueue.client.arguments import checked_count
from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.blocking.daemon import BlockingDaemon
from taskqueue.client.blocking.fetchers import BlockingFetchers
from taskqueue.client.blocking.flows import BlockingFlow, BlockingFlows
from taskqueue.client.blocking.insight import BlockingLog, BlockingStats
from taskqueue.client.blocking.operations import BlockingOperations
from taskqueue.client.blocking.projects import BlockingCron, BlockingGroups, BlockingProjects
from taskqueue.client.blocking.slots import BlockingSlots
from taskqueue.client.blocking.tasks import BlockingTasks
from taskqueue.client.connection.background import Background, BlockingSingles
from taskqueue.client.connection.exchange import KnownAs, R
from taskqueue.client.fetcher.intake import WAIT_SECONDS, BlockingIntake
from taskqueue.client.fetcher.leases import EXTEND_MOST
from taskqueue.client.tasks.fetched import FetchFacts
from taskqueue.client.tasks.push_options import Duration, Moment, PushOptions, explains_options
from taskqueue.client.tasks.pushes import (
    BlockingBatchSender,
    Defaults,
    Item,
    Packer,
    Pushed,
    PushedTask,
    push_of,
)
from taskqueue.client.tasks.reports import (
    Reported,
    checked_after,
    failure_of,
    joined,
    new_of_failure,
    packed_result,
    reports_of,
)
from taskqueue.client.tasks.task import Cancelled, Task, checked_task
from taskqueue.defaults import ANSWER_SECONDS
from taskqueue.protocol.base import Request
from taskqueue.protocol.choices import FailuresBy, PushOutcome
from taskqueue.protocol.daemon import Status
from taskqueue.protocol.fetchers import NoteOutcome
from taskqueue.protocol.insight import Failures


class Client:
    """A client of one daemon; close it, or use it as a context manager.

    It works in a thread of its own, so leases and connection stay alive while the caller computes or sleeps. Any thread
    may call it. Create one in each process: in a forked process its methods raise ClientClosed.

    The methods that producers and fetchers call every day are here. Those of administrators are in namespaces, such as
    ``client.projects.pause``. In a namespace, ``get`` returns one, ``list`` a page, and ``iter`` goes through all of
    them.

    Methods raise ``RequestTimeout`` if no answer came in time, ``RequestRejected`` if the daemon refused,
    ``MessageTooLarge`` instead of sending more than the daemon accepts, and ``ClientClosed`` after ``close``. While the
    daemon is away, requests wait; the client sends them again when the daemon is back, and the daemon carries out each
    only once. If the key of the client has got another name meanwhile, a change whose first answer was lost raises
    ``RequestRejected`` with the code ``not-yours``, because it may have been made.

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
        self._client = AsyncClient(daemon, timeout=timeout, name=name, connect_timeout=connect_timeout, key=key)
        self._background = Background()
        self.daemon_address = self._client.daemon_address
        self.timeout = self._client.timeout
        self._single_pushes = BlockingSingles(self._background, self._client._single_pushes)
        self._single_reports = BlockingSingles(self._background, self._client._single_reports)
        self._batch_sender = BlockingBatchSender(self._background, self._client._batch_sender)
        self.projects = BlockingProjects(self._background, self._client.projects)
        self.groups = BlockingGroups(self._background, self._client.groups)
        self.tasks = BlockingTasks(self._background, self._client.tasks)
        self.slots = BlockingSlots(self._background, self._client.slots)
        self.cron = BlockingCron(self._background, self._client.cron)
        self.operations = BlockingOperations(self._background, self._client.operations)
        self.flows = BlockingFlows(self._background, self._client.flows)
        self.fetchers = BlockingFetchers(self._background, self._client.fetchers)
        self.daemon = BlockingDaemon(self._background, self._client.daemon)
        self.stats = BlockingStats(self._background, self._client.stats)
        self.log = BlockingLog(self._background, self._client.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the tasks of this client, and disconnect. Calls that wait for an answer raise ClientClosed."""
        self._background.close(self._client.close())

    @explains_options
    def push(self, project: str, url: str, **options: Unpack[PushOptions]) -> PushOutcome:
        """Push one task; returns its outcome. When this returns, the daemon has stored the task.

        A URL that can't be fetched, such as a relative one, is refused: see ``taskqueue.new_task``. Calls that are
        under way at the same time share messages, so a hundred of them cost little more than one. Each call has an
        outcome or an error of its own, and a single call is sent at once.

        Raises:
            ValueError, TypeError: the arguments make no task; nothing was sent.
            RequestRejected: the daemon refuses the task, for example because the project is unknown.
        """
        return self._single_pushes.ask(push_of(project, url, options))

    def push_many(
        self,
        project: str,
        tasks: Iterable[Item],
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
        with self._batch_sender.in_flight(project, in_flight, pushed, progress, outcomes) as sending:
            for full in packer.pack(tasks):
                sending.send(full)
        return pushed

    def flow(self, project: str, name: str | None = None) -> BlockingFlow:
        """Begin to describe a flow: a graph of tasks that the daemon accepts as a whole and then runs by itself.

        Args:
            name: 1 to 64 letters, digits, ``_``, ``-`` or ``.``, not the name of another flow of the project; None: a
                random name.
        """
        return BlockingFlow(self._background, self._client.flow(project, name))

    def select(
        self, limit: int = 1, *, projects: Iterable[str] | None = None, timeout: float | None = None, priority: int = 0
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
        return self._background.run(self._client.select(limit, projects=projects, timeout=timeout, priority=priority))

    def stream(
        self,
        projects: Iterable[str] | None = None,
        *,
        places: int = 16,
        until_drained: bool = False,
        priority: int = 0,
        extend: bool = False,
        extend_most: float = EXTEND_MOST,
    ) -> Iterator[Task]:
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
        return self._background.iterate(
            self._client.stream(
                projects,
                places=places,
                until_drained=until_drained,
                priority=priority,
                extend=extend,
                extend_most=extend_most,
            )
        )

    def done(
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
            said.append(self._single_reports.ask(report))
            if said[-1].outcome == "stale":
                break
        return joined(said)

    def failed(
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
        pause, followers = (checked_after(retry_after, "retry_after"), new_of_failure(new))
        if facts:
            checked_task(task).fetched(**facts)
        report = failure_of(checked_task(task), error, pause, retry, kind, followers)
        return self._single_reports.ask(report)

    def retry(
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
        return self._background.run(
            self._client.retry(
                task, error, after=after, counts=counts, body=body, priority=priority, new=new, kind=kind, **facts
            )
        )

    def release(self, *tasks: Task) -> int:
        """Give back tasks that were not started; no retry is used up. Returns the number of their leases in force."""
        return self._background.run(self._client.release(*tasks))

    def pass_on(self, *tasks: Task) -> None:
        """Record that another process has these tasks now and reports them with a client of its own.

        They occupy no place of this client any more. It still holds their leases, so it has to live until they are
        reported. Call this when the other process has the tasks; it does not wait.
        """
        self._background.run(self._client.pass_on(*tasks))

    def extend(self, task: Task, seconds: float | None = None) -> bool:
        """Extend a task's lease to ``seconds`` from now (None: its own timeout). Returns False if it has ended."""
        return self._background.run(self._client.extend(task, seconds))

    def note(self, task: Task, note: str | float) -> NoteOutcome:
        """Show users a note beside a task that runs, also one that another process has sent here, as ``Task.note``.

        Returns:
            ``noted``; ``too-soon``: left out, because the task has had more than one a second; or ``stale``: its lease
            has ended.
        """
        return self._background.run(self._client.note(task, note))

    def keep(self, task: Task, *, extend_most: float = EXTEND_MOST) -> AbstractContextManager[Cancelled]:
        """Keep a task's lease inside the block, by extensions after each two thirds of its time.

        The extensions end when the task is reported.

            with client.keep(task) as lost:
                crawl(task)                       # it looks at ``lost``, or waits for it: see ``Task.lost``
                client.done(task)

        ``task.lost`` is set if the lease ends all the same: the daemon ended it, for example after a cancel, or the
        client could not extend it in time. The block goes on; a report is then most likely ``stale``.

        Args:
            extend_most: leases, each of its timeout, that the task gets in all, so that hanging code doesn't keep it.

        Raises:
            RequestRejected: the daemon refuses to extend, for a task that another process has sent here.
        """
        return self._background.within(self._client.keep(task, extend_most=extend_most))

    def intake(
        self,
        projects: Iterable[str] | None = None,
        room: int = 16,
        *,
        on_arrival: Callable[[], object] | None = None,
        prefetch: int | None = None,
        priority: int = 0,
        patience: float = WAIT_SECONDS,
    ) -> BlockingIntake:
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
        return BlockingIntake(
            self._background,
            partial(
                self._client.intake,
                projects,
                room,
                on_arrival=on_arrival,
                prefetch=prefetch,
                priority=priority,
                patience=patience,
            ),
        )

    @explains_options
    def push_soon(self, project: str, url: str, **options: Unpack[PushOptions]) -> Future[PushOutcome]:
        """Push one task soon, without waiting; returns a future of its outcome or error.

        Pushes leave in their order, and so do reports. A report leaves after all pushes before it, and a push of a task
        that is being reported after that report. Cancelling the future changes nothing.

        Raises:
            ValueError, TypeError: the arguments make no task, or the project's name is impossible.
            BacklogFull: 10,000 pushes and reports, or 64 MiB of them, have no outcome yet; nothing was done.
            ClientClosed: after ``close``.
        """
        return self._background.future(partial(self._client.push_soon, project, url, **options))

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
    ) -> Future[Reported]:
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
        return self._background.future(
            partial(
                self._client.report_soon,
                task,
                new,
                result=result,
                error=error,
                after=after,
                retry=retry,
                kind=kind,
                counts=counts,
                body=body,
                priority=priority,
                **facts,
            )
        )

    def settled(self) -> None:
        """Wait until every earlier ``push_soon`` and ``report_soon`` has an outcome or an error.

        Call it before you close the client: futures without an outcome then get ClientClosed.
        """
        self._background.run(self._client.settled())

    def ready(self, timeout: float | None = None) -> None:
        """Wait until the daemon has answered.

        Args:
            timeout: seconds to wait; None: the client's.

        Raises:
            RequestTimeout: the daemon has not answered in time.
            RequestRejected: the daemon speaks another version of the protocol.
        """
        self._background.run(self._client.ready(timeout))

    def wait_drained(self, timeout: float = inf) -> bool:
        """Wait until an operator has drained this client's name and all its tasks are reported.

        The process may end then.

        Once the daemon says so, no task comes any more, and tasks that wait in the client go back. The client ends
        nothing by itself; if the operator resumes the name, tasks come again. Returns True if the client is drained.

        Args:
            timeout: seconds to wait; 0: only check.
        """
        return self._background.run(self._client.wait_drained(timeout))

    def status(self) -> Status:
        """Return the state of the daemon and the totals of all projects; ``client.projects.list`` has each of them."""
        return self._background.run(self._client.status())

    def failures(
        self, project: str | None = None, *, by: FailuresBy = "error", since: Moment | None = None, limit: int = 100
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
        return self._background.run(self._client.failures(project, by=by, since=since, limit=limit))

    def why(self, project: str | None = None, taskid: str | None = None) -> str:
        """Say in one sentence why no task of a project, or this task, is being dispatched.

        Args:
            project: None: all; returns a line for each project that has tasks and stands still, or says that none does.
            taskid: task to explain; None: the project as a whole.
        """
        return self._background.run(self._client.why(project, taskid))

    def _ask(self, request: Request[R], patience: float | None = None, known_as: KnownAs = None) -> R:
        """Send any request of the protocol; returns its reply.

        ``patience``: seconds to wait if not the client's timeout; ``known_as``: see ``KnownAs``.
        """
        return self._background.run(self._client._ask(request, patience, known_as))
