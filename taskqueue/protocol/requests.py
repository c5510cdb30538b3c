"""Requests of people and tools, as values without methods. Field types: ``fields``; ``crawl_requests`` has the requests
of producers and fetchers, ``children_messages``, ``fetcher_requests``, ``flow_requests`` and ``slot_requests`` those
about children, fetchers, flows and slots, ``daemon_messages`` that about the daemon itself.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from taskqueue.protocol.children_messages import TaskChildren as TaskChildren
from taskqueue.protocol.choices import STATES, FailuresBy, ProjectSort, RerunScope, Resolution, StateName
from taskqueue.protocol.crawl_requests import Change as Change
from taskqueue.protocol.crawl_requests import Done as Done
from taskqueue.protocol.crawl_requests import Extend as Extend
from taskqueue.protocol.crawl_requests import Hello as Hello
from taskqueue.protocol.crawl_requests import Hung as Hung
from taskqueue.protocol.crawl_requests import LeaseRef as LeaseRef
from taskqueue.protocol.crawl_requests import NewTasks as NewTasks
from taskqueue.protocol.crawl_requests import Release as Release
from taskqueue.protocol.crawl_requests import Request as Request
from taskqueue.protocol.daemon_messages import DaemonHistory as DaemonHistory
from taskqueue.protocol.daemon_messages import DaemonShow as DaemonShow
from taskqueue.protocol.fetcher_requests import FetcherDo as FetcherDo
from taskqueue.protocol.fetcher_requests import Fetchers as Fetchers
from taskqueue.protocol.fetcher_requests import FetcherShow as FetcherShow
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_PARENTS,
    MAX_PAUSE_SECONDS,
    EpochSeconds,
    GroupName,
    Number,
    Part,
    Peer,
    Priority,
    ProjectName,
    Seconds,
    Setting,
    TaskId,
)
from taskqueue.protocol.flow_requests import FlowCancel as FlowCancel
from taskqueue.protocol.flow_requests import FlowList as FlowList
from taskqueue.protocol.flow_requests import FlowShow as FlowShow
from taskqueue.protocol.flow_requests import FlowStage as FlowStage
from taskqueue.protocol.flow_requests import FlowSubmit as FlowSubmit
from taskqueue.protocol.flow_requests import FlowTasks as FlowTasks
from taskqueue.protocol.slot_requests import SlotList as SlotList
from taskqueue.protocol.slot_requests import SlotSet as SlotSet
from taskqueue.protocol.slot_requests import SlotShow as SlotShow


class Status(Request, tag="status"):
    """How are you? With a page of projects.

    Attributes:
        after: projects with names after this one; who pages in the order of names goes on so.
        group: projects of this one only; empty: all.
        filter: projects whose names contain it.
        sort: by name, or the most first: tasks in a state now, or events of the last five minutes.
        skip: so many of the first ones; who pages in another order than that of names goes on so.
        fetchers: so many are shown, at most.
    """

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 100
    group: GroupName = ""
    filter: Part = ""
    sort: ProjectSort = "name"
    skip: Number = 0
    fetchers: Annotated[int, Meta(ge=0, le=1000)] = 1000


class Stats(Request, tag="stats"):
    """What happened over 5 minutes, 1 hour, 1 day, and all: projects in the order of their names, after ``after``."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 100
    group: GroupName = ""


class StatsHistory(Request, tag="stats-history"):
    """What happened in each minute of the last day, or in each hour of the last 90 days.

    Attributes:
        project: to this one; None: to all together.
        every: minute or hour.
        since, until: unix seconds; 0: from the first, to the last. A page has a bounded number of points.
    """

    project: ProjectName | None = None
    every: Resolution = "minute"
    since: EpochSeconds = 0.0
    until: EpochSeconds = 0.0


class ProjectShow(Request, tag="project-show"):
    """Tell about one project."""

    project: ProjectName


class ProjectSet(Change, tag="project-set"):
    """Change settings of a project, now and across restarts; an unknown project is made.

    A table, such as ``cron`` or ``fetch``, is changed key by key.
    """

    project: ProjectName
    settings: dict[str, Setting]


class ProjectUnset(Change, tag="project-unset"):
    """Forget what ``project-set`` said of these keys; an empty list means all of them.

    ``cron.JOB`` is one key of a table.
    """

    project: ProjectName
    keys: Annotated[list[str], Meta(max_length=1000)] = field(default_factory=list)


class GroupSet(Change, tag="group-set"):
    """Change settings of each project that belongs to a group, as ``project-set`` does.

    If one of the projects can't have one of the settings, none is changed, and the reason names that project.
    """

    group: GroupName
    settings: dict[str, Setting]


PauseSeconds = Annotated[float, Meta(gt=0, le=MAX_PAUSE_SECONDS)]
"""Of a pause by an operator that ends by itself."""

Action = Literal["pause", "resume", "stop", "start", "clear", "reset", "delete"]

LOSSES: Final = ("clear", "reset", "delete")
"""Actions that drop tasks, which can't be taken back."""


class ProjectDo(Change, tag="project-do"):
    """Do something with a project; ``start`` makes an unknown one.

    ``clear`` drops its live tasks, ``reset`` all that is known of tasks, ``delete`` the project itself.

    Attributes:
        seconds: for ``pause``: it ends by itself after so many; None: it lasts until ``resume``.
    """

    project: ProjectName
    action: Action
    seconds: PauseSeconds | None = None


class GroupDo(Change, tag="group-do"):
    """Do something with each project of a group; those for which it makes no sense now are left as they are.

    An operation, which has ended when the request is answered if the group is small.

    Attributes:
        seconds: as for ``project-do``; a project that a person has paused until ``resume`` is left as it is.
        all: each project, whatever its group; ``group`` is empty then. Not for what drops tasks.
    """

    action: Action
    group: GroupName = ""
    seconds: PauseSeconds | None = None
    all: bool = False


WAIT_MOST_SECONDS = 60.0


class ProjectWait(Request, tag="project-wait"):
    """Answer when the project has finished, or after ``seconds``, whichever comes first.

    Attributes:
        ignore_retries: tasks that wait for a retry need not end first.
    """

    project: ProjectName
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0
    ignore_retries: bool = False


class Watch(Request, tag="watch"):
    """Which projects have changed? Answered when some have, or after ``seconds``, whichever comes first.

    Attributes:
        since: that of the reply before; empty: from the beginning, so all projects are told.
    """

    since: Annotated[str, Meta(max_length=64)] = ""
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0


class ProjectHold(Request, tag="project-hold"):
    """This session is still pushing: don't take the project as finished for ``seconds``; 0 lets go."""

    project: ProjectName
    seconds: Annotated[float, Meta(ge=0, le=86_400)]


class Why(Request, tag="why"):
    """Why is nothing (or, with a taskid, this task not) handed out?"""

    project: ProjectName
    taskid: TaskId | None = None


class TaskShow(Request, tag="task-show"):
    """Tell about one task, its body included."""

    project: ProjectName
    taskid: TaskId


class TaskWait(Request, tag="task-wait"):
    """Answer when the task is over, or after ``seconds``, whichever comes first."""

    project: ProjectName
    taskid: TaskId
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0


class TaskParents(Request, tag="task-parents"):
    """Which tasks does a task wait for, and what have they left behind? A page of them.

    Attributes:
        after: the ``next`` of the page before; 0: from the first one.
    """

    project: ProjectName
    taskid: TaskId
    after: Annotated[int, Meta(ge=0, le=MAX_PARENTS)] = 0


class TaskRetry(Change, tag="task-retry"):
    """Run these tasks now, whenever they are due and whatever they ended as, with their retries given back.

    One that waits for other tasks is blocked.
    """

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskCancel(Change, tag="task-cancel"):
    """End these tasks; whoever is processing one of them will be told that its answer is stale."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskReprioritise(Change, tag="task-reprioritise"):
    """Give these tasks another priority, up or down; one that is over stays as it is."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]
    priority: Priority


Glob = Annotated[str, Meta(max_length=256)]


class TaskList(Request, tag="task-list"):
    """Tasks of a project in one state, in the order of that state, or in all states, one state after the other.

    Attributes:
        state: None: each state, and a page has tasks of one of them.
        url: a glob that the url matches; a page looks at a bounded number of tasks, so it may be short, or empty.
        error: a glob that the error of the last attempt matches; not for what is being processed.
        since: unix seconds: ended at that time or later or, if live, last run; one that was never run is left out.
        newest: backwards, from the end of the order; not for what is ready or delayed.
        after: the ``next`` of the page before; empty: from the start.
        pushed_since, pushed_before: unix seconds: first came at that time or later, or before it; a task of which that
            is unknown is left out.
    """

    project: ProjectName
    state: StateName | None = None
    url: Glob = ""
    error: Glob = ""
    since: EpochSeconds = 0.0
    newest: bool = False
    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0


class Failures(Request, tag="failures"):
    """Which attempts failed: counted by what they have in common, of one project or of all.

    Attributes:
        by: kind of error, host of the url, fetcher, or project.
        since: unix seconds; ended at that time or later. 0: all that are kept.
        limit: groups, the largest ones.
    """

    project: ProjectName | None = None
    by: FailuresBy = "error"
    since: EpochSeconds = 0.0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class TaskFilter(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which tasks a bulk operation is about: those that everything said here is true of.

    Attributes:
        states: in one of these; empty: in any that the action makes sense for, but to ``retry``, failed ones.
        url: a glob that the url matches.
        error: a glob that the error of the last attempt matches.
        before, since: unix seconds: ended before that, or at that time or later; of those that are live their last run
            counts, and one that was never run is left out.
        pushed_since, pushed_before: unix seconds: first came at that time or later, or before it; a task of which that
            is unknown is left out.
    """

    states: Annotated[list[StateName], Meta(max_length=len(STATES))] = []
    url: Glob = ""
    error: Glob = ""
    before: EpochSeconds = 0.0
    since: EpochSeconds = 0.0
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0


BulkAction = Literal["retry", "cancel", "reprioritise", "reschedule"]


OperationAction = Literal[BulkAction, Action, "rerun"]
"""What an operation does."""


class Bulk(Change, tag="bulk"):
    """Do something with all tasks of a project, or of a group, that the filter lets through: starts an operation.

    Attributes:
        priority: for ``reprioritise``.
        exetime: for ``reschedule``, unix seconds; 0 is now.
        delay: for ``reschedule``, seconds from the arrival of this; wins over exetime.
        dry_run: only count them.
    """

    action: BulkAction
    project: ProjectName | None = None
    group: GroupName = ""
    filter: TaskFilter = TaskFilter()
    priority: Priority = 0
    exetime: EpochSeconds = 0.0
    delay: Seconds | None = None
    dry_run: bool = False


class Rerun(Change, tag="rerun"):
    """Run a task again, and others with it, in the order in which they depend on each other: starts an operation.

    Attributes:
        scope: task: it alone; downstream: and all tasks that depend on it; upstream-failed: and those of the tasks that
            it depends on that failed or were cancelled, with nothing but successes left behind it; only-failed: of it
            and all that depend on it those that failed or were cancelled.
        dry_run: only say which ones.
    """

    project: ProjectName
    taskid: TaskId
    scope: RerunScope = "task"
    dry_run: bool = False


class OperationCancel(Change, tag="operation-cancel"):
    """End an operation where it is: what it has changed stays changed."""

    id: Number


class OperationShow(Request, tag="operation-show"):
    """How far is an operation? Answers when it has ended, or after ``seconds``, whichever comes first."""

    id: Number
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 0.0


class OperationList(Request, tag="operation-list"):
    """All operations that are remembered, the newest first."""


class Log(Request, tag="log"):
    """Who changed what, the newest change first.

    Attributes:
        project: changes of this project only; None: all.
        since: unix seconds: none that were made before.
        before: the ``next`` of the page before; 0: from the newest on. A page looks at a bounded number of changes, so
            it may be short, or empty.
    """

    project: ProjectName | None = None
    since: EpochSeconds = 0.0
    before: Number = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class Verify(Request, tag="verify"):
    """Check the scheduler's own invariants now; costs a look at everything in memory."""


AnyRequest = (
    Hello | NewTasks | Done | Extend | Release | Status | Fetchers | FetcherShow | FetcherDo | Stats | StatsHistory
    | ProjectShow | ProjectSet | ProjectUnset | ProjectDo | GroupSet | GroupDo | ProjectWait | ProjectHold | Why
    | TaskShow | TaskWait | TaskParents | TaskRetry | TaskCancel | TaskList | Failures | Bulk | Rerun
    | OperationShow | OperationList | OperationCancel | FlowStage | FlowSubmit | FlowShow | FlowList | FlowTasks
    | FlowCancel | SlotList | SlotShow | SlotSet | TaskChildren | TaskReprioritise | Watch
    | Log | Verify | DaemonShow | DaemonHistory
)  # fmt: skip


Flaws = dict[tuple[int, ...], str]
"""Why items of a batch could not be decoded, by their path: (index,) or, for a follow-up, (parent, index)."""


class Incoming(Struct):
    """A request and its sender.

    Attributes:
        flaws: reasons for the items that are None in the request's batch.
        address: of the sender's machine, for people; empty if unknown.
    """

    peer: Peer
    request: AnyRequest
    flaws: Flaws = {}
    address: str = ""
