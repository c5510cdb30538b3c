"""Messages about flows: graphs of tasks that are accepted at once.

    flow-stage … flow-stage ──► flow-submit ──► runs by itself ──► flow-show, flow-tasks

A flow belongs to a project and has a name in it. What has been sent of one that is not submitted yet is a *stage*.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from taskqueue.protocol.base import ChangeRequest, Reply, Request, WaitingRequest
from taskqueue.protocol.choices import FlowState, FlowTaskState
from taskqueue.protocol.fields import MAX_BATCH, GroupName, Number, ProjectName
from taskqueue.protocol.tasks import ItemError
from taskqueue.protocol.values import NewTask, TaskCounts


class Flow(Struct, frozen=True, omit_defaults=True, gc=False):
    """A flow as people see it.

    Attributes:
        flow: its name in its project.
        state: of the flow as a whole.
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
    counts: TaskCounts
    unrolled: int = 0
    began_at: float = 0.0
    ended_at: float = 0.0


class FlowTaskStatus(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task of a flow.

    Attributes:
        index: its place in the flow, from 0.
        state: as of any task; or it is staged, is still to be made, or is unknown.
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


FlowName = ProjectName
"""Of a flow, in its project; free again when the flow has been forgotten."""

FLOW_WAIT_MOST_SECONDS = 60.0

FLOW_TASKS_MOST = 1000
"""Most tasks in one ``flow-tasks-reply``."""


class FlowStage(Request["FlowStaged"], tag="flow-stage"):
    """Keep tasks for a flow that is about to be submitted; a stage that nobody submits is dropped after an hour.

    Attributes:
        first: index of the first of these tasks in the flow, from 0; tasks sent before with the same indices are
            overwritten.
        tasks: parents first: a task waits for earlier tasks of the flow, or for any that are no part of it.
    """

    project: ProjectName
    flow: FlowName
    first: Number
    tasks: Annotated[list[NewTask], Meta(min_length=1, max_length=MAX_BATCH)]


class FlowSubmit(Request["FlowReply"], tag="flow-submit"):
    """Accept what is staged of a flow, in one commit and whatever its size; its tasks are made by and by.

    Attributes:
        count: tasks that the flow must have; another number of staged ones is refused.
        reuse: tasks that are known already become part of the flow as they are; else one of these refuses it.
    """

    project: ProjectName
    flow: FlowName
    count: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    reuse: bool = False


class FlowShow(WaitingRequest["FlowReply"], tag="flow-show"):
    """How far is a flow? Answers when it has ended, or after ``seconds``, whichever comes first.

    Attributes:
        seconds: to wait for its end, at most; 0: none.
    """

    project: ProjectName
    flow: FlowName
    seconds: Annotated[float, Meta(ge=0, le=FLOW_WAIT_MOST_SECONDS)] = 0.0


class FlowList(Request["FlowsReply"], tag="flow-list"):
    """Which flows are there? A page, in the order of projects and then of names.

    Attributes:
        project: of this one only; empty: of all.
        after: flows after this one, ``PROJECT/FLOW``; who pages goes on so.
    """

    project: GroupName = ""
    after: Annotated[str, Meta(max_length=129)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class FlowTasks(Request["FlowTasksReply"], tag="flow-tasks"):
    """Which tasks has a flow, and how far is each? A page, in the order in which they were staged.

    Attributes:
        after: the ``next`` of the page before; None: from the first task on. A page may have fewer than ``limit``.
    """

    project: ProjectName
    flow: FlowName
    after: Number | None = None
    limit: Annotated[int, Meta(ge=1, le=FLOW_TASKS_MOST)] = FLOW_TASKS_MOST


class FlowCancel(ChangeRequest["FlowReply"], tag="flow-cancel"):
    """End the live tasks of a flow, by and by; a stage is dropped."""

    project: ProjectName
    flow: FlowName


class FlowStaged(Reply, tag="flow-staged"):
    """Answers ``flow-stage``.

    Attributes:
        staged: tasks of the flow that are kept so far.
        errors: why none of these tasks were kept; empty: all were.
    """

    staged: int
    errors: list[ItemError] = []


class FlowReply(Reply, tag="flow-reply"):
    """Answers ``flow-submit``, ``flow-show`` and ``flow-cancel``.

    Attributes:
        flow: as it is now.
    """

    flow: Flow


class FlowsReply(Reply, tag="flows-reply"):
    """Answers ``flow-list``: a page; ``more``: there are flows after the last one of it.

    Attributes:
        flows: a page of them.
    """

    flows: list[Flow]
    more: bool


class FlowTasksReply(Reply, tag="flow-tasks-reply"):
    """Answers ``flow-tasks``: a page; ``next`` asks for the one after it, None: there is none.

    Attributes:
        tasks: a page of them.
    """

    tasks: list[FlowTaskStatus]
    next: int | None = None
