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
    """A flow, as users see it.

    Attributes:
        project: name of its project.
        state: staged: not submitted yet; unrolling: accepted, tasks still being created; running; or how it ended:
            success, failed, or cancelled (a task was cancelled, none failed).
        tasks: tasks of the flow.
        counts: created tasks by state.
        unrolled: tasks created so far.
        began_at: unix seconds at which it was submitted; of a stage: at which its first task arrived.
        ended_at: unix seconds at which its last task finished; 0: it has not ended.
        cron: cron entry that has submitted it; empty: a client has.
        tick: unix seconds of that entry's tick.
    """

    project: str
    """Name of its project."""
    flow: str
    """Name of the flow in its project."""
    state: FlowState
    tasks: int
    counts: TaskCounts
    unrolled: int = 0
    began_at: float = 0.0
    ended_at: float = 0.0
    cron: str = ""
    tick: float = 0.0


class FlowTaskStatus(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task of a flow.

    Attributes:
        index: its index in the flow, from 0.
        state: state of the task; staged: not created yet, unknown: forgotten.
        depends_on: tasks that it depends on: the index of those in the flow, project and taskid of others.
        missing: of these, those that it still waits for.
        seconds: duration of its last attempt; 0: it has never run.
        ended_at: unix seconds at which it finished; 0: it has not.
    """

    index: int
    taskid: str
    """Id of the task in its project."""
    url: str
    """URL that it fetches."""
    state: FlowTaskState
    depends_on: list[int | tuple[str, str]] = []
    missing: int = 0
    seconds: float = 0.0
    ended_at: float = 0.0


FlowName = ProjectName
"""Name of a flow in its project; free again when the flow has been forgotten."""

FLOW_WAIT_MOST_SECONDS = 60.0

FLOW_TASKS_MOST = 1000
"""Most tasks in one ``flow-tasks-reply``."""


class FlowStage(Request["FlowStaged"], tag="flow-stage"):
    """Store tasks for a flow that will be submitted.

    Attributes:
        first: index of the first of these tasks in the flow: the number of tasks staged so far, or 0 to begin again.
        tasks: parents first, each taskid once in a flow; all in the flow's project.
    """

    project: ProjectName
    flow: FlowName
    first: Number
    tasks: Annotated[list[NewTask], Meta(min_length=1, max_length=MAX_BATCH)]


class FlowSubmit(Request["FlowReply"], tag="flow-submit"):
    """Accept all staged tasks of a flow, or none.

    Attributes:
        count: number of tasks that the flow must have.
        reuse: known tasks become part of the flow as they are; false: a known task refuses the flow.
    """

    project: ProjectName
    flow: FlowName
    count: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    reuse: bool = False


class FlowShow(WaitingRequest["FlowReply"], tag="flow-show"):
    """Show a flow, or wait until it has ended.

    Attributes:
        seconds: longest wait for its end; 0: reply at once.
    """

    project: ProjectName
    flow: FlowName
    seconds: Annotated[float, Meta(ge=0, le=FLOW_WAIT_MOST_SECONDS)] = 0.0


class FlowList(Request["FlowsReply"], tag="flow-list"):
    """List flows, in the order of projects and names, in pages.

    Attributes:
        project: flows of this project only; empty: all.
        after: flows after this one, ``PROJECT/FLOW``.
    """

    project: GroupName = ""
    after: Annotated[str, Meta(max_length=129)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class FlowTasks(Request["FlowTasksReply"], tag="flow-tasks"):
    """List the tasks of a flow in the order in which they were staged, in pages.

    Attributes:
        after: ``next`` of the page before; None: from the first task. A page may have fewer than ``limit``.
    """

    project: ProjectName
    flow: FlowName
    after: Number | None = None
    limit: Annotated[int, Meta(ge=1, le=FLOW_TASKS_MOST)] = FLOW_TASKS_MOST


class FlowCancel(ChangeRequest["FlowReply"], tag="flow-cancel"):
    """Cancel the unfinished tasks of a flow, or drop a stage; a failed flow of a cron entry is then cancelled."""

    project: ProjectName
    flow: FlowName


class FlowStaged(Reply, tag="flow-staged"):
    """Tasks that are staged so far.

    Attributes:
        staged: tasks of the flow that are stored.
        errors: why none of the tasks of this request were stored; empty: all were.
    """

    staged: int
    errors: list[ItemError] = []


class FlowReply(Reply, tag="flow-reply"):
    """A flow, as it is now.

    Attributes:
        flow: as it is now.
    """

    flow: Flow


class FlowsReply(Reply, tag="flows-reply"):
    """A page of flows.

    Attributes:
        flows: rows of the page.
    """

    flows: list[Flow]
    more: bool


class FlowTasksReply(Reply, tag="flow-tasks-reply"):
    """A page of the tasks of a flow.

    Attributes:
        tasks: rows of the page.
        next: ``after`` of the next page; None: this is the last one.
    """

    tasks: list[FlowTaskStatus]
    next: int | None = None
