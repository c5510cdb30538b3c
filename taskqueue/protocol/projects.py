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


class CronEntry(Struct, frozen=True, omit_defaults=True):
    """A cron entry, as users see it.

    Attributes:
        entry: name of the entry in its project.
        next_at: unix seconds of its next tick; 0: never.
        last_at: unix seconds at which a tick last ran, was skipped or began to wait; 0: never.
        ran: ticks at which it has pushed its task, or submitted its flow.
        skipped: ticks at which it has not, mostly because the task or flow of an earlier one had not ended.
        waiting: ticks that wait for the end of an earlier flow.
        problem: why the last tick of an entry with a graph was skipped; empty: it was not.
    """

    entry: str
    """Name of the entry in its project."""
    next_at: float = 0.0
    last_at: float = 0.0
    ran: int = 0
    skipped: int = 0
    waiting: int = 0
    problem: str = ""


class SharedBucket(Struct, frozen=True, omit_defaults=True):
    """A bucket that several projects share.

    Attributes:
        name: name of the bucket.
        rate: tasks a second, as the config says; 0: the config has no such bucket.
        burst: tasks at once, as the config says.
        tokens: tasks that it would let through now.
    """

    name: str
    rate: float
    burst: float
    tokens: float = 0.0


class Remaining(Struct, frozen=True, omit_defaults=True):
    """How fast a project is, how many tasks are left, and how long they take.

    Attributes:
        new_rate: tasks a second that came in the last five minutes, those of a single push left out.
        done_rate: tasks a second that succeeded or failed in the last five minutes.
        left: tasks that are ready, processing or blocked.
        held_back: tasks that wait for a retry; None: not counted yet, in a store of an older version.
        later: other delayed tasks: scheduled, or to be crawled again.
        retry_seconds: longest delay of ``retry_delay`` that the project's ``retries`` reach.
        soonest_seconds: shortest estimate of the time until what is left has finished, retries and scheduled tasks
            apart; 0: see ``reason``.
        latest_seconds: longest estimate of that time; 0: see ``reason``.
        reason: why there is no estimate; empty: there is one.
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
    """A project, as users see it.

    Attributes:
        name: name of the project.
        state: running, paused, stopped, or checking: a few tasks at a time after an automatic pause.
        counts: tasks by state, now.
        totals: events since it was created.
        settings: settings in force.
        overrides: settings that ``project-set`` has changed.
        tokens: tasks that its bucket would let through now.
        reason: why it paused itself, or that it is still being imported; empty: neither.
        check_at: unix seconds of the next check, if it paused itself.
        unfinished: tasks that must finish before the project has.
        finished: times that the project has finished.
        held_by: sessions that keep it open.
        cron: its cron entries.
        shared: bucket that it shares with other projects; None: none.
        configured: names of settings that the config file sets, keys of tables such as ``slot.delay`` included:
            ``project`` in the project's own section, ``defaults`` in that for all. Only in the reply to
            ``project-show``.
        slots: how it is divided into slots; None: it never was. Only in ``project-reply``.
        paused_until: unix seconds at which a user's pause ends; 0: no pause, or until ``resume``.
        remaining: estimate of the time that is left; None: unknown.
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
    cron: list[CronEntry] = []
    shared: SharedBucket | None = None
    configured: dict[str, list[ConfigLayer]] = {}
    slots: SlotDivision | None = None
    paused_until: float = 0.0
    remaining: Remaining | None = None


class ProjectShow(Request["ProjectReply"], tag="project-show"):
    """Show one project."""

    project: ProjectName


class ProjectSet(ChangeRequest["ProjectReply"], tag="project-set"):
    """Change settings of a project, now and across restarts; an unknown project is created.

    Attributes:
        settings: settings to change, by name.
    """

    project: ProjectName
    settings: dict[str, Setting]


class ProjectUnset(ChangeRequest["ProjectReply"], tag="project-unset"):
    """Forget what ``project-set`` has changed.

    Attributes:
        keys: names of settings, or of one key of a table such as ``slot.delay`` or ``cron.NAME``; empty: all.
    """

    project: ProjectName
    keys: Annotated[list[str], Meta(max_length=1000)] = field(default_factory=list)


LOSSES: Final = ("clear", "reset", "delete")
"""Actions that drop tasks, which can't be taken back."""


class ProjectDo(ChangeRequest["ProjectReply"], tag="project-do"):
    """Pause, resume, stop, start, clear, reset or delete a project.

    Attributes:
        action: what to do, see the rules.
        seconds: for ``pause``: the project resumes by itself after that time; None: only by ``resume``.
    """

    project: ProjectName
    action: Action
    seconds: PauseSeconds | None = None


class ProjectHold(Request["ProjectReply"], tag="project-hold"):
    """Keep a project open, because this session is still pushing to it.

    Attributes:
        seconds: from now, replacing what was said before; 0: no longer.
    """

    project: ProjectName
    seconds: Annotated[float, Meta(ge=0, le=86_400)]


class ProjectReply(Reply, tag="project-reply"):
    """A project, as it is now.

    Attributes:
        project: None: it has been deleted.
    """

    project: Project | None


class ProjectWait(WaitingRequest["WaitReply"], tag="project-wait"):
    """Wait until a project has finished.

    Attributes:
        seconds: longest wait; 0: reply at once.
        ignore_retries: don't wait for tasks that wait for a retry.
    """

    project: ProjectName
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0
    ignore_retries: bool = False


class ProjectProgress(Struct, frozen=True):
    """How far a project is from having finished.

    Attributes:
        finished: the project has finished or, with ``ignore_retries``, has only retries left.
        unfinished: tasks that must finish first.
        times: times that it has finished; a larger figure than before: it has finished in between.
        remaining: estimate of the time that is left; None: unknown.
    """

    finished: bool
    unfinished: int
    times: int = 0
    remaining: Remaining | None = None


class WaitReply(ProjectProgress, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="wait-reply"):
    """How far a project is from having finished."""

    v: int = PROTOCOL
    n: int


class GroupSet(ChangeRequest["GroupReply"], tag="group-set"):
    """Change settings of all projects of a group, in one commit.

    Attributes:
        group: name of the group, as the projects' setting ``group`` has it.
        settings: settings to change, by name.
    """

    group: GroupName
    settings: dict[str, Setting]


class GroupDo(ChangeRequest[OperationReply], tag="group-do"):
    """Do something with each project of a group, as an operation.

    Attributes:
        action: as in ``project-do``.
        group: name of the group, as the projects' setting ``group`` has it; empty: with ``all``.
        seconds: as in ``project-do``; a project that a user has paused without an end is left alone.
        all: every project, whatever its group; not for ``clear``, ``reset`` and ``delete``.
    """

    action: Action
    group: GroupName = ""
    seconds: PauseSeconds | None = None
    all: bool = False


class GroupChange(Struct, frozen=True):
    """Result of ``group-set``.

    Attributes:
        projects: number of changed projects.
        changed: for users, such as ``rate=5 (was 20, 7)``: the three most frequent old values.
    """

    projects: int
    changed: str


class GroupReply(GroupChange, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="group-reply"):
    """Result of ``group-set``."""

    v: int = PROTOCOL
    n: int
