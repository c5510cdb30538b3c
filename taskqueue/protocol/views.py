"""The parts of replies: projects, tasks, fetchers and counts as people see them, as values without methods.

``replies`` are the messages that contain them. None of these is stored: records on disk have types of their own, in
``core``, from which a view is made on request.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Raw, Struct

from taskqueue.protocol.choices import AttemptOutcome, FlowState, FlowTaskState, ProjectState, RemainingReason
from taskqueue.protocol.fields import NIL, Setting
from taskqueue.protocol.requests import OperationAction, TaskFilter
from taskqueue.protocol.rerun_views import RerunView
from taskqueue.protocol.slot_views import DivisionView


class Counts(Struct, omit_defaults=True, gc=False):
    """Tasks of a project by state, now. ``failed`` and the like are those that are over and known."""

    ready: int = 0
    delayed: int = 0
    processing: int = 0
    success: int = 0
    failed: int = 0
    cancelled: int = 0
    blocked: int = 0


class Totals(Struct, omit_defaults=True, gc=False):
    """Events of a project since it was made."""

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


class Window(Struct, frozen=True, omit_defaults=True, gc=False):
    """Events of a project in some time before now. An attempt that timed out is also among failed or retried.

    Attributes:
        mean_seconds: that attempts took which ended then, from hand-out to answer or timeout.
        p95_seconds: what 19 of 20 of them took at most; within 18 % from 16 ms to 49 minutes, 78 minutes at most.
    """

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0
    mean_seconds: float = 0.0
    p95_seconds: float = 0.0


QUIET: Final = Window()
"""Nothing happened. Use this very value: a message leaves it out, but not others that equal it."""


class Windows(Struct, frozen=True, omit_defaults=True, gc=False, rename={"minutes": "5m", "hour": "1h", "day": "1d"}):
    """Events of a project in the last five minutes, hour and day; in messages ``5m``, ``1h``, ``1d``."""

    minutes: Window = QUIET
    hour: Window = QUIET
    day: Window = QUIET


class Point(Struct, frozen=True, omit_defaults=True, gc=False):
    """Events in one minute or hour.

    Attributes:
        at: unix seconds of its beginning.
    """

    at: float
    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


class ProjectStats(Struct, omit_defaults=True, gc=False):
    """What happened to a project: over windows, and over all (``totals``)."""

    name: str
    totals: Totals
    windows: Windows


class CronView(Struct, omit_defaults=True):
    """A cron job as people see it.

    Attributes:
        next_at, last_at: unix seconds; 0: never.
        runs: how often it has pushed its task.
        skipped: ticks that found the task of the last run still live.
    """

    job: str
    next_at: float = 0.0
    last_at: float = 0.0
    runs: int = 0
    skipped: int = 0


class SharedView(Struct, frozen=True, omit_defaults=True):
    """A bucket that a project shares, as people see it.

    Attributes:
        rate, burst: as the config has them; 0 and 1 or more if it does not have the bucket (any more).
        tokens: its level.
    """

    name: str
    rate: float
    burst: float
    tokens: float = 0.0


class Remaining(Struct, omit_defaults=True):
    """How fast a project is, what is left to do, and how long that takes.

    Attributes:
        new_rate, done_rate: tasks a second that came, without those of a single push, and that succeeded or failed, in
            the last five minutes.
        left: tasks that are ready, processing or blocked.
        held_back: tasks that wait for a retry, at most ``retry_seconds``: the longest delay that the project's retries
            reach; None: they are still being counted, in a store from before they were.
        later: other delayed tasks: scheduled, or to be crawled again.
        soonest_seconds, latest_seconds: from now until what is left has ended; 0: not known, see ``reason``.
        reason: why no time is told: nothing is left, the project is stopped or paused, out of its hours, its rate is 0,
            fewer than 20 tasks have ended in an hour, none was attempted for five minutes, there is no end in sight,
            it is not clear yet that it becomes less, or all that is left is blocked.
    """

    new_rate: float = 0.0
    done_rate: float = 0.0
    left: int = 0
    held_back: int | None = 0
    later: int = 0
    retry_seconds: float = 0.0
    soonest_seconds: float = 0.0
    latest_seconds: float = 0.0
    reason: RemainingReason = ""


ConfigLayer = Literal["project", "defaults"]


class ProjectView(Struct, omit_defaults=True):
    """A project as people see it.

    Attributes:
        settings: in force now.
        overrides: the part of them that ``project-set`` said.
        configured: the part of them that the config says, by name: in the section of this project, in that of the
            defaults, or in both, which only tables can have of both; only where one project is shown.
        tokens: level of its bucket.
        shared: the bucket that it shares with others; None: none.
        reason: why it is paused, if it paused itself.
        check_at: unix seconds of the next check, if it paused itself.
        unfinished: live tasks that it would have to end for the project to be finished.
        finished: how often it has been.
        held_by: sessions that hold it open.
        cron: its jobs.
        slots: how it is divided into slots; None: it never was. Only where one project is shown.
        paused_until: unix seconds at which the pause by a person ends; 0: there is none, or it lasts until ``resume``.
        remaining: how far it is; None: a daemon does not say that is older.
    """

    name: str
    state: ProjectState
    counts: Counts
    totals: Totals
    settings: dict[str, Setting]
    overrides: dict[str, Setting]
    tokens: float = 0.0
    reason: str = ""
    check_at: float = 0.0
    unfinished: int = 0
    finished: int = 0
    held_by: int = 0
    cron: list[CronView] = []
    shared: SharedView | None = None
    configured: dict[str, list[ConfigLayer]] = {}
    slots: DivisionView | None = None
    paused_until: float = 0.0
    remaining: Remaining | None = None


SHOWN_WISHES: Final = 20


class HungView(Struct, omit_defaults=True, frozen=True, gc=False):
    """Places of a fetcher that are held by handlers whose leases are over.

    Attributes:
        places: number of these places.
        seconds: time since the first of these leases ended.
        project, taskid, url: task of that lease; each is empty if it is not known, a long url is cut.
    """

    places: int
    seconds: float = 0.0
    project: str = ""
    taskid: str = ""
    url: str = ""


class FetcherView(Struct, omit_defaults=True):
    """A fetcher as people see it.

    Attributes:
        session: its pseudonym.
        silent_seconds: since it was last heard.
        projects: the first SHOWN_WISHES of those that it wants; None: any.
        address: of its machine; empty: not known.
        oldest_seconds: since it was handed the oldest of the tasks that it holds.
        done, failed: attempts of what it was handed that ended so since the daemon's start, timeouts among the failed.
        draining: it gets no new tasks, and finishes those that it holds.
        priority: fetchers with a higher one are served first.
        slots: tasks that it runs at once; 0: it takes none.
        free: places of its capacity that nothing holds. It is handed nothing for them while it drains, or rests.
        hung: places held by handlers whose leases are over; None: there are none.
    """

    session: str
    name: str
    capacity: int
    holds: int
    silent_seconds: float
    projects: list[str] | None = None
    address: str = ""
    oldest_seconds: float = 0.0
    done: int = 0
    failed: int = 0
    draining: bool = False
    priority: int = 0
    slots: int = 0
    free: int = 0
    hung: HungView | None = None


class Attempt(Struct, array_like=True, frozen=True, gc=False):
    """How one attempt to run a task ended.

    Attributes:
        at: unix seconds of its end.
        fetcher: name of who ran it, or its pseudonym if it has none; empty: nobody (``expired``).
        seconds: from hand-out to end.
        kind: what the error is about, in one line.
    """

    at: float
    outcome: AttemptOutcome
    fetcher: str = ""
    seconds: float = 0.0
    error: str = ""
    kind: str = ""


class TaskRow(Struct, omit_defaults=True, gc=False):
    """A task in a list.

    Attributes:
        at: unix seconds: due (delayed), ended (over), handed out (processing); 0: ready.
        error: of its last attempt, unless that was a success.
        fetcher: name of who has it, or had it last, or its pseudonym; not of a success.
        kind: what the error is about, in one line.
        lease_seconds: until its lease runs out (processing).
        put_off: how often in a row its fetcher has put it off by ``retry_after``.
        state: as of any task; empty: it is that which was asked for.
        pushed_at: unix seconds, whole ones, when it first came; 0: unknown.
    """

    taskid: str
    url: str
    priority: int = 0
    at: float = 0.0
    retried: int = 0
    lastcrawltime: float = 0.0
    error: str = ""
    fetcher: str = ""
    lease_seconds: float = 0.0
    kind: str = ""
    put_off: int = 0
    state: str = ""
    pushed_at: float = 0.0


class ParentView(Struct, omit_defaults=True, gc=False):
    """A task that another one waits for.

    Attributes:
        project: empty: it was deleted.
        state: as of any task, or unknown: nobody has pushed it yet, or it is forgotten.
        satisfied: the other one waits for it no more: it has succeeded since, or failed and was to be overlooked.
        result: of its last success, as its fetcher gave it; nil: that gave none, or there was none.
    """

    project: str
    taskid: str
    state: str
    satisfied: bool = False
    result: Raw = NIL


class FailureGroup(Struct, omit_defaults=True, gc=False):
    """Failed attempts that have something in common.

    Attributes:
        name: what that is: kind of error, host, fetcher or project; empty: there was none, such as of ``data:,x``.
        failures: how many.
        first_at, last_at: unix seconds of the end of the first and of the last one.
        project, taskid, host, fetcher, error: of the last one; of the error what it is about, in one line.
    """

    name: str
    failures: int
    first_at: float
    last_at: float
    project: str
    taskid: str
    host: str = ""
    fetcher: str = ""
    error: str = ""


class OperationView(Struct, omit_defaults=True):
    """An operation as people see it: on tasks (``bulk``, ``rerun``), or on the projects of a group (``group-do``).

    Attributes:
        known: tasks that its projects had when it began; about as many have to be looked at. On a group: its projects.
        seen: looked at so far.
        matched: of them, those that the filter let through: changed, or (dry run) only counted. On a group: projects
            for which the action made sense.
        began_at, ended_at: unix seconds; 0: not yet.
        projects: names of the first of those that it goes through.
        group: that they belong to, if it was asked for.
        filter: which tasks are meant.
        priority: that ``reprioritise`` gives them; None: it is another action.
        exetime: to which ``reschedule`` moves them, in unix seconds; 0 is now. None: it is another action.
        cancelled: somebody has ended it.
        rerun: what a rerun takes; it has come to ``seen`` tasks so far, of which it takes ``known``; ``matched`` of
            these are reset (dry run: would be). None: it is another action.
        until: unix seconds at which its pause of projects ends; 0: it does not end by itself, or is another action.
    """

    id: int
    action: OperationAction
    projects: list[str]
    dry_run: bool
    known: int
    seen: int
    matched: int
    began_at: float
    ended_at: float = 0.0
    group: str = ""
    filter: TaskFilter = TaskFilter()
    priority: int | None = None
    exetime: float | None = None
    cancelled: bool = False
    rerun: RerunView | None = None
    until: float = 0.0


class FlowView(Struct, omit_defaults=True, gc=False):
    """A flow as people see it.

    Attributes:
        flow: its name in its project.
        tasks: that it has.
        unrolled: of these, those that have been made.
        counts: of these, by state.
        began_at: unix seconds when it was submitted; of a stage, when its first task arrived.
        ended_at: unix seconds when the last of its tasks was over; 0: not yet.
    """

    project: str
    flow: str
    state: FlowState
    tasks: int
    counts: Counts
    unrolled: int = 0
    began_at: float = 0.0
    ended_at: float = 0.0


class FlowTaskView(Struct, omit_defaults=True, gc=False):
    """A task of a flow.

    Attributes:
        index: its place in the flow, from 0.
        depends_on: what it waits for: indices of tasks of the flow, project and taskid of others.
        missing: of these, those that it still waits for.
        seconds: that its last attempt took; 0: there was none.
        ended_at: unix seconds; 0: it is not over.
    """

    index: int
    taskid: str
    url: str
    state: FlowTaskState
    depends_on: list[int | tuple[str, str]] = []
    missing: int = 0
    seconds: float = 0.0
    ended_at: float = 0.0


class LogEntry(Struct, frozen=True, omit_defaults=True, gc=False):
    """A change that a person made.

    Attributes:
        number: of the entry; later ones are larger.
        at: unix seconds.
        what: as the command line calls it, such as ``project delete``.
        actor: who asked: as the client said, or what its session is called; ``SIGHUP``: whoever sent that signal.
        address: of the machine that it came from; empty: not known.
        project: that was changed; empty: it was not about one.
        group: that was meant as a whole.
        count: tasks that it changed or dropped.
        detail: what else there is to be said, such as old values: ``rate=5 (was 20)``.
        projects: names of those of the group that were changed.
    """

    number: int
    at: float
    what: str
    actor: str
    address: str = ""
    project: str = ""
    group: str = ""
    count: int = 0
    detail: str = ""
    projects: list[str] = []
