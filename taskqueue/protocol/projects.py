"""Messages about projects and groups of projects: their settings, states and ends."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from taskqueue.protocol.base import AnyReply, ChangeRequest, Reply, Request, WaitingRequest
from taskqueue.protocol.choices import ProjectState, RemainingReason
from taskqueue.protocol.fields import PROTOCOL, WAIT_MOST_SECONDS, GroupName, ProjectName, Setting
from taskqueue.protocol.operations import OperationReply
from taskqueue.protocol.slots import SlotDivision
from taskqueue.protocol.values import Action, EventTotals, PauseSeconds, TaskCounts


class CronJob(Struct, frozen=True, omit_defaults=True):
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


class SharedBucket(Struct, frozen=True, omit_defaults=True):
    """A bucket that a project shares, as people see it.

    Attributes:
        name: of the bucket.
        rate, burst: as the config has them; 0 and 1 or more if it does not have the bucket (any more).
        tokens: its level.
    """

    name: str
    rate: float
    burst: float
    tokens: float = 0.0


class Remaining(Struct, frozen=True, omit_defaults=True):
    """How fast a project is, what is left to do, and how long that takes.

    Attributes:
        new_rate, done_rate: tasks a second that came, without those of a single push, and that succeeded or failed, in
            the last five minutes.
        left: tasks that are ready, processing or blocked.
        held_back: tasks that wait for a retry, at most ``retry_seconds``: the longest delay that the project's retries
            reach; None: they are still being counted, in a store from before they were.
        later: other delayed tasks: scheduled, or to be crawled again.
        retry_seconds: longest time that a task waits for a retry.
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


class Project(Struct, frozen=True, omit_defaults=True):
    """A project as people see it.

    Attributes:
        name: of the project.
        state: running, stopped, paused, or checking whether its tasks still fail.
        counts: its tasks by state, now.
        totals: its events since it was made.
        settings: in force now.
        overrides: the part of them that ``project-set`` said.
        configured: which part of the config says a setting, or a key of a table, by flat name such as ``slot.delay``:
            the section of this project or that of the defaults; only where one project is shown.
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
    counts: TaskCounts
    totals: EventTotals
    settings: dict[str, Setting]
    overrides: dict[str, Setting]
    tokens: float = 0.0
    reason: str = ""
    check_at: float = 0.0
    unfinished: int = 0
    finished: int = 0
    held_by: int = 0
    cron: list[CronJob] = []
    shared: SharedBucket | None = None
    configured: dict[str, list[ConfigLayer]] = {}
    slots: SlotDivision | None = None
    paused_until: float = 0.0
    remaining: Remaining | None = None


class ProjectShow(Request["ProjectReply"], tag="project-show"):
    """Tell about one project."""

    project: ProjectName


class ProjectSet(ChangeRequest["ProjectReply"], tag="project-set"):
    """Change settings of a project, now and across restarts; an unknown project is made.

    A table, such as ``cron`` or ``fetch``, is changed key by key.

    Attributes:
        settings: by name, what changes.
    """

    project: ProjectName
    settings: dict[str, Setting]


class ProjectUnset(ChangeRequest["ProjectReply"], tag="project-unset"):
    """Forget what ``project-set`` said of these keys; an empty list means all of them.

    ``cron.JOB`` is one key of a table.

    Attributes:
        keys: names of settings; empty: all.
    """

    project: ProjectName
    keys: Annotated[list[str], Meta(max_length=1000)] = field(default_factory=list)


LOSSES: Final = ("clear", "reset", "delete")
"""Actions that drop tasks, which can't be taken back."""


class ProjectDo(ChangeRequest["ProjectReply"], tag="project-do"):
    """Do something with a project; ``start`` makes an unknown one.

    ``clear`` drops its live tasks, ``reset`` all that is known of tasks, ``delete`` the project itself.

    Attributes:
        action: what is done.
        seconds: for ``pause``: it ends by itself after so many; None: it lasts until ``resume``.
    """

    project: ProjectName
    action: Action
    seconds: PauseSeconds | None = None


class ProjectHold(Request["ProjectReply"], tag="project-hold"):
    """This session is still pushing: don't take the project as finished for ``seconds``; 0 lets go.

    Attributes:
        seconds: from now; 0: it is kept open no more.
    """

    project: ProjectName
    seconds: Annotated[float, Meta(ge=0, le=86_400)]


class ProjectReply(Reply, tag="project-reply"):
    """Answers ``project-show``, ``-set``, ``-unset``, ``-do`` and ``-hold``; None: it has been deleted.

    Attributes:
        project: as it is now; None: it has been deleted.
    """

    project: Project | None


class ProjectWait(WaitingRequest["WaitReply"], tag="project-wait"):
    """Answer when the project has finished, or after ``seconds``, whichever comes first.

    Attributes:
        seconds: to wait, at most.
        ignore_retries: tasks that wait for a retry need not end first.
    """

    project: ProjectName
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0
    ignore_retries: bool = False


class ProjectProgress(Struct, frozen=True):
    """How far a project is from having finished.

    Attributes:
        finished: no task is left that would have to end first.
        unfinished: how many there are.
        times: how often it has finished; more than in an earlier answer: it has in between.
        remaining: how far it is; None: a daemon does not say that is older.
    """

    finished: bool
    unfinished: int
    times: int = 0
    remaining: Remaining | None = None


class WaitReply(ProjectProgress, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="wait-reply"):
    """Answers ``project-wait``."""

    v: int = PROTOCOL
    n: int


class GroupSet(ChangeRequest["GroupReply"], tag="group-set"):
    """Change settings of each project that belongs to a group, as ``project-set`` does.

    If one of the projects can't have one of the settings, none is changed, and the reason names that project.

    Attributes:
        settings: by name, what changes.
    """

    group: GroupName
    settings: dict[str, Setting]


class GroupDo(ChangeRequest[OperationReply], tag="group-do"):
    """Do something with each project of a group; those for which it makes no sense now are left as they are.

    An operation, which has ended when the request is answered if the group is small.

    Attributes:
        action: what is done.
        seconds: as for ``project-do``; a project that a person has paused until ``resume`` is left as it is.
        all: each project, whatever its group; ``group`` is empty then. Not for what drops tasks.
    """

    action: Action
    group: GroupName = ""
    seconds: PauseSeconds | None = None
    all: bool = False


class GroupChange(Struct, frozen=True):
    """What became of the settings of a group's projects.

    Attributes:
        projects: number of the projects that were changed.
        changed: what the log of changes says: ``rate=5 (was 20, 1)``.
    """

    projects: int
    changed: str


class GroupReply(GroupChange, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="group-reply"):
    """Answers ``group-set``."""

    v: int = PROTOCOL
    n: int
