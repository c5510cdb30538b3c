"""What is heard: the requests of clients, as values without methods. See ``messages``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from taskqueue.core.messages import (
    MAX_BATCH,
    MAX_CAPACITY,
    MAX_WISHES,
    PROTOCOL,
    Finished,
    NewTask,
    Number,
    Peer,
    ProjectName,
    SessionId,
    Setting,
    TaskId,
    TimeoutSeconds,
)


class Request(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """What every request carries.

    Attributes:
        v: the protocol's version.
        session: chosen at random by a client process when it starts.
        n: this request's number in its session, from 1.
    """

    v: Annotated[int, Meta(ge=PROTOCOL, le=PROTOCOL)] = PROTOCOL
    session: SessionId
    n: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Hello(Request, tag="hello"):
    """Facts about a fetcher, stated again and again; a lost, repeated or late one does no harm.

    Attributes:
        capacity: how many leases it will hold at once.
        projects: whose tasks it wants; None is any project's.
        holds: tokens of the tasks that it has, those in an unanswered ``done`` included.
        seen: number of the last ``select`` that it saw.
        name: for people, such as host:pid.
    """

    capacity: Annotated[int, Meta(ge=0, le=MAX_CAPACITY)] = 0
    projects: Annotated[list[ProjectName], Meta(max_length=MAX_WISHES)] | None = None
    holds: Annotated[list[Number], Meta(max_length=MAX_CAPACITY)] = []
    seen: Number = 0
    name: Annotated[str, Meta(max_length=128)] = ""


class NewTasks(Request, tag="new-task"):
    """Here are tasks for a project. None stands for an item that could not be decoded; see ``Heard.flaws``."""

    project: ProjectName
    tasks: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)]


class Done(Request, tag="done"):
    """These tasks have been run."""

    tasks: Annotated[list[Finished | None], Meta(max_length=MAX_BATCH)]


class Extend(Request, tag="extend"):
    """Give these leases ``seconds`` from now; None is each task's own timeout again."""

    tokens: Annotated[list[Number], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Release(Request, tag="release"):
    """These tasks were not started: hand them to somebody else, no retry used up."""

    tokens: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class Status(Request, tag="status"):
    """How are you? Projects in the order of their names, from the first one after ``after``."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 100


class ProjectShow(Request, tag="project-show"):
    """Tell about one project."""

    project: ProjectName


class ProjectSet(Request, tag="project-set"):
    """Change settings of a project, now and across restarts; an unknown project is made."""

    project: ProjectName
    settings: dict[str, Setting]


class ProjectUnset(Request, tag="project-unset"):
    """Forget what ``project-set`` said of these keys; an empty list means all of them."""

    project: ProjectName
    keys: list[str] = []


Action = Literal["pause", "resume", "stop", "start", "delete"]


class ProjectDo(Request, tag="project-do"):
    """Pause, resume, stop, start or delete a project; ``start`` makes an unknown one."""

    project: ProjectName
    action: Action


class TaskShow(Request, tag="task-show"):
    """Tell about one task, its body included."""

    project: ProjectName
    taskid: TaskId


class TaskRetry(Request, tag="task-retry"):
    """Run these tasks now, whatever they wait for or ended as, with their retries given back."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskCancel(Request, tag="task-cancel"):
    """End these tasks; whoever is processing one of them will be told that its answer is stale."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class Verify(Request, tag="verify"):
    """Check the scheduler's own invariants now; costs a look at everything in memory."""


AnyRequest = (
    Hello | NewTasks | Done | Extend | Release | Status | ProjectShow | ProjectSet | ProjectUnset | ProjectDo
    | TaskShow | TaskRetry | TaskCancel | Verify
)  # fmt: skip


Flaws = dict[tuple[int, ...], str]
"""Why items of a batch could not be decoded, by their path: (index,) or, for a follow-up, (parent, index)."""


class Heard(Struct):
    """A request and where its answer goes to.

    Attributes:
        flaws: reasons for the items that are None in the request's batch.
    """

    peer: Peer
    request: AnyRequest
    flaws: Flaws = {}
