"""What a worker says in the log ``taskqueue.worker``: of its tasks, and of what keeps it from its work.

    first run ──► window opens ──► a while later: one line, and one for each kind of failure that came again ──► closed

Of tasks: how many, how fast, and which failures. A failure is logged as an error once, with its traceback, and only
counted when it comes again: from the same line, of the same type. So a site that changes its pages makes one error and
some lines, not a million; and what watches logs for errors, as Sentry does, has the traceback.

Of obstacles, such as a daemon that does not answer, a drain, a project that does not exist: at once, and again with
growing pauses as long as it is so.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.fetcher.draining import Draining
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.handler import handler_frames
from taskqueue.errors import ClientError, RequestRejected
from taskqueue.visible_text import visible

SUMMARY_SECONDS: Final = 60.0
"""From the first run to the line about it and those that followed."""
FIRST_SECONDS: Final = 10.0
"""From the first run to the first line, for whoever has just started a worker and looks."""

KINDS_MOST: Final = 100
"""Kinds of failures that are known; one that came long ago is forgotten, and is logged in full when it comes again."""

OUTCOMES: Final = (
    "done", "failed", "retry", "drop", "passed", "late", "ended", "interrupted", "unreported", "stale"
)  # fmt: skip
"""What is counted, when the daemon has answered the report. ``late`` went back, because it was too late to start them,
and ``interrupted``, because the worker was stopped. ``ended`` were told to end, because their leases were over. Of
``unreported`` the daemon has not answered the report, or refused all that could be said. ``stale`` are among the
others, too: their handlers have ended, and the daemon did not count it.
"""

PUT_OFF_TOLD: Final = 3
"""Times that one task is put off in a window from which on it is told: from then on the daemon lets it wait for 1 s."""
PUT_OFF_KNOWN: Final = 10_000
"""Tasks of a window whose times are counted, the first ones: one that runs again at once is among them."""

log = logging.getLogger("taskqueue.worker")


class Kind(NamedTuple):
    """What failures have in common that are told once."""

    type: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.type} at {Path(self.file).name}:{self.line}"


class Ran(NamedTuple):
    """A run that has ended.

    Attributes:
        outcome: one of OUTCOMES.
        seconds: for which it ran.
        ended_at: by the loop's clock.
    """

    task: Task
    outcome: str
    seconds: float
    ended_at: float


class Hanging(NamedTuple):
    """Runs whose leases are over and that go on.

    Attributes:
        places: number of these runs.
        of: number of all places of the worker.
        task: task of the first of these leases that has ended.
        stack: returns where its handler is now.
    """

    places: int
    of: int
    task: Task
    stack: Callable[[], str]

    def described(self, now: float) -> str:
        """Return one line for people, at a time of the loop's clock."""
        task, seconds = self.task, now - self.task.lease_ends_at
        return (
            f"places={self.places} of={self.of} seconds={seconds:.1f} "
            f"project={task.project} taskid={visible(task.taskid)} url={task.url!r}"
        )


class WorkerLog:
    """The lines of one worker.

    Args:
        seconds: between two lines about what happened.
    """

    def __init__(self, seconds: float = SUMMARY_SECONDS) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._opened_at = 0.0
        self._counts: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()
        self._slowest: tuple[float, str] = (0.0, "")
        self._put_off: Counter[tuple[str, str]] = Counter()
        self._most_put_off: tuple[int, str] = (0, "")
        self._kinds: OrderedDict[Kind, int] = OrderedDict()
        self._hanging: Hanging | None = None

    def ran(self, ran: Ran) -> None:
        """Count a run whose outcome is known."""
        self._open(ran.ended_at - ran.seconds)
        self._counts[ran.outcome] += 1
        if ran.seconds > self._slowest[0]:
            self._slowest = (ran.seconds, ran.task.url)
        if ran.outcome == "retry":
            self._count_put_off(ran.task)

    def failed(self, task: Task, error: BaseException) -> None:
        """A handler has failed."""
        kind = _kind_of(error)
        if kind in self._kinds:
            self._kinds[kind] += 1
            self._kinds.move_to_end(kind)
            return
        self._kinds[kind] = 0
        if len(self._kinds) > KINDS_MOST:
            self._kinds.popitem(last=False)
        log.error(
            "event=failed project=%s taskid=%s url=%r error='%s'",
            task.project,
            visible(task.taskid),
            task.url,
            kind,
            exc_info=(type(error), error, handler_frames(error)),
        )

    def stale(self, task: Task) -> None:
        """The daemon did not count a report; said once in a window, and counted."""
        first = not self._counts["stale"]
        self._open(asyncio.get_running_loop().time())
        self._counts["stale"] += 1
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "event=stale project=%s taskid=%s url=%r reason='it took longer than the %g s of its lease, or was taken "
            "away; a longer processing_timeout, or extend, lets it end'",
            task.project,
            visible(task.taskid),
            task.url,
            task.timeout,
        )

    def overdue(self, task: Task, seconds: float, overtime: float, stack: str) -> None:
        """A lease has ended under a running handler.

        Args:
            seconds: for which it has run.
            overtime: seconds after which it is told to end.
            stack: where it is.
        """
        _warn(
            stack,
            "event=overdue project=%s taskid=%s url=%r seconds=%.1f reason='its lease is over and its handler goes on; "
            "it is told to end in %g s'",
            task.project,
            visible(task.taskid),
            task.url,
            seconds,
            overtime,
        )

    def taken_away(self, task: Task) -> None:
        """The daemon has ended the lease of a running handler before its time."""
        log.info(
            "event=taken-away project=%s taskid=%s url=%r reason='its task was cancelled, or given to another fetcher; "
            "its handler is told to end'",
            task.project,
            visible(task.taskid),
            task.url,
        )

    def blocked(self, task: Task | None, seconds: float, stack: str) -> None:
        """A handler blocks the event loop. From any thread, as ``goes_on``.

        Args:
            task: its task; None if that is one of several.
            seconds: for which the loop has not answered.
            stack: where it is.
        """
        told = "" if task is None else f" project={task.project} taskid={visible(task.taskid)} url={task.url!r}"
        _warn(
            stack,
            "event=loop-blocked seconds=%.1f%s reason='a handler computes or waits in the event loop without await: "
            "nothing else runs or is reported, and the daemon hears nothing; call what blocks by asyncio.to_thread, or "
            "make it a plain handler'",
            seconds,
            told,
        )

    def goes_on(self, seconds: float) -> None:
        """The event loop goes on that was blocked for so long."""
        log.info("event=loop-goes-on seconds=%.1f", seconds)

    def hang(self, hanging: Hanging | None) -> None:
        """Tell in each summary of these runs; None: of none."""
        self._hanging = hanging
        if hanging is not None:
            self._open(asyncio.get_running_loop().time())

    def end(self) -> None:
        """The worker has stopped."""
        if self._timer is not None:
            self._timer.cancel()
            self._close()
        log.info("event=stopped %s", _pairs(self._totals))

    def _open(self, at: float) -> None:
        """Begin a window, unless there is one."""
        if self._timer is None:
            self._opened_at = at
            pause = self._seconds if self._totals else min(FIRST_SECONDS, self._seconds)
            self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        self._close()
        self.hang(self._hanging)

    def _close(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        ended = self._counts.total() - self._counts["stale"]
        rate = ended / max(now - self._opened_at, 0.001)
        slowest, url = self._slowest
        pairs = _pairs(self._counts) + (f" hung={self._hanging.places}" if self._hanging else "")
        times, again = self._most_put_off
        put_off = f" put_off={times} put_off_url={again!r}" if times >= PUT_OFF_TOLD else ""
        log.info(
            "event=summary %s rate=%.1f/s slowest=%.3fs slowest_url=%r%s", pairs, rate, slowest, url or "?", put_off
        )
        if self._hanging is not None:
            _warn(
                self._hanging.stack(),
                "event=hung %s reason='the lease is over and the handler goes on. One that can not be ended is blocked "
                "outside of Python, or swallows RunEnded; give each request a timeout'",
                self._hanging.described(now),
            )
        for kind, times in self._kinds.items():
            if times:
                log.warning("event=failing error='%s' times=%d", kind, times)
                self._kinds[kind] = 0
        self._totals.update(self._counts)
        self._counts.clear()
        self._slowest = (0.0, "")
        self._put_off.clear()
        self._most_put_off = (0, "")

    def _count_put_off(self, task: Task) -> None:
        name = (task.project, task.taskid)
        if name in self._put_off or len(self._put_off) < PUT_OFF_KNOWN:
            self._put_off[name] += 1
            self._most_put_off = max(self._most_put_off, (self._put_off[name], task.url))


def _warn(stack: str, message: str, *values: object) -> None:
    """Log a warning, and under it the stack of another thread or coroutine than this one."""
    below = f"Stack (most recent call last):\n{stack}" if stack else None
    log.handle(log.makeRecord(log.name, logging.WARNING, __file__, 0, message, values, None, sinfo=below))


def _kind_of(error: BaseException) -> Kind:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return Kind(type(error).__name__, "?", 0)
    return Kind(type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno)


def _pairs(counts: Counter[str]) -> str:
    """``done=3 failed=0``, and the others if there were any."""
    return " ".join(f"{name}={counts[name]}" for name in OUTCOMES if counts[name] or name in OUTCOMES[:2])


# ------------------------------------------------------------------------------------------------ obstacles

PAUSE_SECONDS: Final = 5.0
"""Between the first two times that something is said; doubled each time, up to the next."""
PAUSE_MOST_SECONDS: Final = 300.0

SILENCE_SECONDS: Final = 2.0
"""That a daemon may take for its first answer, before it is said that it does not answer."""

NAMES_MOST: Final = 10
"""Projects that a line names."""


async def tell_reach(client: AsyncClient, projects: Sequence[str] | None, slots: int) -> None:
    """Say whenever the daemon can't be reached and, when it can, what this worker wants of it; until cancelled."""
    reach = client._reachability
    wanted = "any" if projects is None else ",".join(projects)
    while True:
        await reach.known(SILENCE_SECONDS)
        pauses = growing_pauses()
        while not reach.answers.is_set():
            log.warning(
                "event=unreachable url=%s reason='nobody answers: is the daemon running there? It is waited for'",
                client.daemon_address,
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(reach.answers.wait(), next(pauses))
        log.info(
            "event=connected url=%s version=%s projects=%s slots=%d",
            client.daemon_address,
            reach.version or "?",
            wanted,
            slots,
        )
        await reach.lost.wait()


async def tell_draining(draining: Draining, *, ends: bool) -> None:
    """Say when this worker is to finish, when it has, and when it is to go on; until cancelled.

    Args:
        ends: return when it has finished.
    """
    while True:
        await draining.told.wait()
        log.info(
            "event=draining name=%s reason='no new tasks come: what has begun is finished, the rest goes back'",
            draining.name,
        )
        await _either(draining.finished, draining.taking)
        if draining.finished.is_set():
            log.info(
                "event=drained name=%s reason='all that was held is over; tasks come again after "
                "`taskqueue fetcher resume %s`'",
                draining.name,
                draining.name,
            )
            if ends:
                return
        await draining.taking.wait()
        log.info("event=resumed name=%s reason='tasks come again'", draining.name)


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


async def tell_unknown(client: AsyncClient, projects: Sequence[str]) -> None:
    """Say in one line which of the projects do not exist, until all do."""
    unknown: Sequence[str] = []
    for pause in growing_pauses():
        missing = [project for project in unknown or projects if not await _exists(client, project)]
        if missing:
            log.warning(
                "event=unknown-project project=%s reason='%s'", _joined(missing, ","), _why_nothing_comes(missing)
            )
        if found := [project for project in unknown if project not in missing]:
            log.info("event=project-found project=%s", _joined(found, ","))
        if not missing:
            return
        unknown = missing
        await asyncio.sleep(pause)


def _joined(projects: Sequence[str], between: str) -> str:
    return between.join([*projects[:NAMES_MOST], *["…"] * (len(projects) > NAMES_MOST)])


def _why_nothing_comes(missing: Sequence[str]) -> str:
    start = f"`taskqueue project start {_joined(missing, ' ')}`"
    if len(missing) == 1:
        return f"it does not exist, so nothing of it is handed out; {start} makes it"
    return f"these {len(missing)} do not exist, so nothing of them is handed out; {start} makes them"


def growing_pauses() -> Iterator[float]:
    """Seconds between the times that something is said, for ever."""
    pause = PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, PAUSE_MOST_SECONDS)


async def _exists(client: AsyncClient, project: str) -> bool:
    """It is there, or nobody can tell now."""
    try:
        await client.projects.get(project)
    except RequestRejected as error:
        return error.code != "unknown-project"
    except ClientError:
        return True
    return True
