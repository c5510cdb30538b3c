"""Lines of a worker in the log ``taskqueue.worker``: about its tasks, and about obstacles.

    first run ──► period begins ──► later: one line, and one for each kind of failure that came again ──► period ends

About tasks: how many, how fast, and which failures. A failure is logged as an error once, with its traceback, and only
counted when it comes again: from the same line, of the same type. So a site that changes its pages makes one error and
some lines, not a million; and programs that watch logs for errors, such as Sentry, have the traceback.

About obstacles, such as a daemon that does not answer, a drain, or a project that does not exist: at once, and again
with growing pauses as long as they last.
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
from taskqueue.texts.visible_text import visible

SUMMARY_SECONDS: Final = 60.0
"""Time from the first run to the line about it and the following ones."""
FIRST_SECONDS: Final = 10.0
"""Time from the first run to the first line, for a user who has just started a worker."""

KINDS_MOST: Final = 100
"""Kinds of failures that are remembered; one that came long ago is forgotten, and is logged in full when it comes
again.
"""

OUTCOMES: Final = (
    "done", "failed", "retry", "drop", "passed", "late", "ended", "interrupted", "unreported", "stale"
)  # fmt: skip
"""Outcomes of runs, counted when the daemon has answered the report. ``late`` runs went back, because it was too late
to start them, ``interrupted`` ones, because the worker was stopped. ``ended`` ones were told to end, because their
leases had ended. The daemon has not answered the reports of ``unreported`` ones, or has refused all that could be
reported. ``stale`` ones are counted among the others, too: their handlers have ended, and the daemon did not count
them.
"""

PUT_OFF_TOLD: Final = 3
"""Times that one task is put off in a period from which on it is logged: from then on the daemon delays it by 1 s."""
PUT_OFF_KNOWN: Final = 10_000
"""Tasks of a period whose times are counted, the first ones: a task that runs again at once is among them."""

log = logging.getLogger("taskqueue.worker")


class Kind(NamedTuple):
    """Common properties of failures that are logged once."""

    type: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.type} at {Path(self.file).name}:{self.line}"


class Ran(NamedTuple):
    """A run that has ended.

    Attributes:
        outcome: one of OUTCOMES.
        seconds: duration of the run.
        ended_at: its end by the loop's clock.
    """

    task: Task
    outcome: str
    seconds: float
    ended_at: float


class Hanging(NamedTuple):
    """Runs that go on although their leases have ended.

    Attributes:
        places: number of these runs.
        of: number of all places of the worker.
        task: task of the first of these leases that has ended.
        stack: returns the stack of its handler.
    """

    places: int
    of: int
    task: Task
    stack: Callable[[], str]

    def described(self, now: float) -> str:
        """Return one line for operators, at a time of the loop's clock."""
        task, seconds = self.task, now - self.task.lease_ends_at
        return (
            f"places={self.places} of={self.of} seconds={seconds:.1f} "
            f"project={task.project} taskid={visible(task.taskid)} url={task.url!r}"
        )


class WorkerLog:
    """Log lines of one worker.

    Args:
        seconds: time between two summaries.
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
        """Log a failed handler, or count it if its kind is known."""
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
        """Log, once in a period, and count a report that the daemon did not count."""
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
        """Log that a lease has ended while its handler runs.

        Args:
            seconds: time for which it has run.
            overtime: seconds after which it is told to end.
            stack: stack of the handler.
        """
        _warn(
            stack,
            "event=overdue project=%s taskid=%s url=%r seconds=%.1f reason='its lease has ended and its handler goes "
            "on; it is told to end in %g s'",
            task.project,
            visible(task.taskid),
            task.url,
            seconds,
            overtime,
        )

    def taken_away(self, task: Task) -> None:
        """Log that the daemon has ended the lease of a running handler before its time."""
        log.info(
            "event=taken-away project=%s taskid=%s url=%r reason='its task was cancelled, or dispatched to another "
            "fetcher; its handler is told to end'",
            task.project,
            visible(task.taskid),
            task.url,
        )

    def blocked(self, task: Task | None, seconds: float, stack: str) -> None:
        """Log that a handler blocks the event loop. Usable from any thread, as ``goes_on``.

        Args:
            task: task of the handler; None if it is one of several.
            seconds: time for which the loop has not answered.
            stack: stack of the handler.
        """
        told = "" if task is None else f" project={task.project} taskid={visible(task.taskid)} url={task.url!r}"
        _warn(
            stack,
            "event=loop-blocked seconds=%.1f%s reason='a handler computes or waits in the event loop without await: "
            "nothing else runs, and nothing is sent to the daemon; use asyncio.to_thread, or a plain handler'",
            seconds,
            told,
        )

    def goes_on(self, seconds: float) -> None:
        """Log that the event loop goes on that was blocked for ``seconds``."""
        log.info("event=loop-goes-on seconds=%.1f", seconds)

    def hang(self, hanging: Hanging | None) -> None:
        """Mention hanging runs in each summary; None: none."""
        self._hanging = hanging
        if hanging is not None:
            self._open(asyncio.get_running_loop().time())

    def end(self) -> None:
        """Log that the worker has stopped."""
        if self._timer is not None:
            self._timer.cancel()
            self._close()
        log.info("event=stopped %s", _pairs(self._totals))

    def _open(self, at: float) -> None:
        """Begin a period, unless there is one."""
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
                "event=hung %s reason='the lease has ended and the handler goes on. It is blocked outside of Python, "
                "or swallows RunEnded; give each request a timeout'",
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
    """Log a warning, and below it the stack of another thread or coroutine."""
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
    """Format counts as ``done=3 failed=0``; other outcomes only if there were any."""
    return " ".join(f"{name}={counts[name]}" for name in OUTCOMES if counts[name] or name in OUTCOMES[:2])


# ------------------------------------------------------------------------------------------------ obstacles

PAUSE_SECONDS: Final = 5.0
"""Time between the first two lines about an obstacle; doubled each time, up to PAUSE_MOST_SECONDS."""
PAUSE_MOST_SECONDS: Final = 300.0

SILENCE_SECONDS: Final = 2.0
"""Time that a daemon may take for its first answer before that is logged."""

NAMES_MOST: Final = 10
"""Projects that a line names."""


async def log_reach(client: AsyncClient, projects: Sequence[str] | None, places: int) -> None:
    """Log whenever the daemon can't be reached and, when it can, what this worker wants of it; until cancelled."""
    reach = client._reachability
    wanted = "any" if projects is None else ",".join(projects)
    while True:
        await reach.known(SILENCE_SECONDS)
        pauses = growing_pauses()
        while not reach.answers.is_set():
            log.warning(
                "event=unreachable daemon=%s reason='%s The worker waits for it'",
                client.daemon_address,
                client._exchange.obstacle(),
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(reach.answers.wait(), next(pauses))
        log.info(
            "event=connected daemon=%s version=%s projects=%s places=%d",
            client.daemon_address,
            reach.version or "?",
            wanted,
            places,
        )
        await reach.lost.wait()


async def log_draining(draining: Draining, *, ends: bool) -> None:
    """Log when this worker is drained, when it has finished, and when it is resumed; until cancelled.

    Args:
        ends: return when it has finished.
    """
    while True:
        await draining.told.wait()
        log.info(
            "event=draining name=%s reason='no new tasks come: running ones finish, the rest goes back'",
            draining.name,
        )
        await _either(draining.finished, draining.taking)
        if draining.finished.is_set():
            log.info(
                "event=drained name=%s reason='all tasks are reported; tasks come again after "
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


async def log_unknown(client: AsyncClient, projects: Sequence[str]) -> None:
    """Log in one line which of the projects do not exist, until all do."""
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
        return f"it does not exist, so none of its tasks are dispatched; {start} creates it"
    return f"these {len(missing)} do not exist, so none of their tasks are dispatched; {start} creates them"


def growing_pauses() -> Iterator[float]:
    """Iterate over the seconds between two lines about an obstacle, for ever."""
    pause = PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, PAUSE_MOST_SECONDS)


async def _exists(client: AsyncClient, project: str) -> bool:
    """Return True if the project exists, or that is unknown now."""
    try:
        await client.projects.get(project)
    except RequestRejected as error:
        return error.code != "unknown-project"
    except ClientError:
        return True
    return True
