"""New flows, as producers describe them: tasks, each after some of the earlier ones; and their way to the daemon.

    a ──┬──► d       a = plan.add(url, …)
    b ──┘            b = plan.add(url, …)
                     d = plan.add(url, …, after=[a, b])

A task can only name tasks that exist already, so parents always come first and no search for cycles is needed. The
tasks go in messages of bounded size, one after the other, then one that accepts all:

    tasks ──► batch ──► flow-stage ──► batch ──► flow-stage ──► … ──► flow-submit ──► the flow

Nothing of a flow runs before it is accepted, and the daemon drops the staged tasks of a producer that died.

The answer to the last message may get lost after the flow has been accepted: so a repeat of the call first asks for
that answer again, and stages only what the daemon does not have. Only the session that sent it gets this answer: for
all others the name is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Unpack

from msgspec import Struct
from msgspec.structs import replace

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.new_task import check_meant, describe, without_lone_option
from taskqueue.client.tasks.push_options import PushOptions
from taskqueue.client.tasks.pushes import BATCH_BYTES, size_of, too_large
from taskqueue.errors import MessageTooLarge, RequestRejected
from taskqueue.protocol.fields import MAX_EDGES, MAX_PARENTS
from taskqueue.protocol.flows import Flow, FlowStage, FlowSubmit, FlowTaskStatus
from taskqueue.protocol.values import NewTask, TaskOf


class FlowTask(Struct, frozen=True, gc=False):
    """A task of a flow, for later tasks to refer to.

    Attributes:
        project, flow: names of its project and of its flow.
        index: its position in the flow, from 0.
        taskid: its identity in the project.
    """

    project: str
    flow: str
    index: int
    taskid: str


Parent = FlowTask | str | tuple[str, str]
"""Task to wait for: a task of a flow, the taskid of one in the same project, or project and taskid."""


class FlowPlan:
    """Tasks of one flow.

    Attributes:
        tasks: the tasks, parents first.
        edges: total number of their parents.
    """

    def __init__(self, project: str, name: str) -> None:
        self.project = project
        self.name = name
        self.tasks: list[NewTask] = []
        self.edges = 0
        self._indices: dict[str, int] = {}
        self._outside: dict[str, int] = {}

    def add(self, url: str, after: Iterable[Parent] = (), **options: Unpack[PushOptions]) -> FlowTask:
        """Describe a task that waits for those of ``after``; options are those of a push.

        Raises:
            ValueError: the arguments make no task, its taskid is in the flow already or was waited for, or it waits for
                too many.
            TypeError: an option, or an element of ``after``, has the wrong type.
        """
        if options.get("depends_on"):
            raise ValueError("depends_on: a task of a flow says with after what it waits for")
        check_meant(url)
        task = describe(url, **options)
        self._check_new(task.taskid)
        parents = self._parents(after, task.taskid)
        if len(parents) > MAX_PARENTS:
            raise ValueError(f"after: expected at most {MAX_PARENTS} tasks, got {len(parents)}")
        return self._keep(without_lone_option(replace(task, depends_on=parents) if parents else task))

    def views(self) -> Iterator[FlowTaskStatus]:
        """Iterate over the tasks in the form that ``client.flows.iter_tasks`` would give."""
        for index, task in enumerate(self.tasks):
            yield FlowTaskStatus(
                index, task.taskid, task.url, "staged", [self._place(each) for each in task.depends_on]
            )

    def _place(self, parent: str | TaskOf) -> int | tuple[str, str]:
        if isinstance(parent, TaskOf):
            return parent.project, parent.taskid
        return self._indices.get(parent, (self.project, parent))

    def _check_new(self, taskid: str) -> None:
        if (index := self._indices.get(taskid)) is not None:
            raise ValueError(f"taskid: {taskid!r} is task {index} of this flow already")
        if (index := self._outside.get(taskid)) is not None:
            raise ValueError(f"taskid: task {index} of this flow waits for {taskid!r}, so it has to come before that")

    def _parents(self, after: Iterable[Parent], taskid: str) -> tuple[str | TaskOf, ...]:
        """Return the parents in the form that the daemon takes, each once."""
        if isinstance(after, FlowTask | str):
            raise TypeError(f"after: expected several tasks, got one {type(after).__name__}; put it into a list")
        return tuple(dict.fromkeys(self._named(parent, taskid) for parent in after))

    def _named(self, parent: Parent, taskid: str) -> str | TaskOf:
        match parent:
            case FlowTask(project=project, taskid=named):
                pass
            case str():
                project, named = self.project, parent
            case (str(project), str(named)):
                pass
            case _:
                raise TypeError(f"after: expected a task, a taskid or (project, taskid), got {parent!r}")
        if (project, named) == (self.project, taskid):
            raise ValueError(f"after: {taskid!r} is the task itself")
        return named if project == self.project else TaskOf(project, named)

    def _keep(self, task: NewTask) -> FlowTask:
        index = len(self.tasks)
        for parent in task.depends_on:
            if isinstance(parent, str) and parent not in self._indices:
                self._outside.setdefault(parent, index)
        self._indices[task.taskid] = index
        self.edges += len(task.depends_on)
        self.tasks.append(task)
        return FlowTask(self.project, self.name, index, task.taskid)


BATCH_TASKS: Final = 1000
"""Most tasks of one message."""

CHECKED_A_SECOND: Final = 1000
"""Tasks that the daemon checks per second, at the very least, before it accepts a flow."""

Progress = Callable[[int], object] | None
"""Callback with the number of tasks staged so far."""


def batches(tasks: Iterable[NewTask]) -> Iterator[list[NewTask]]:
    """Divide the tasks into parts, each of which fits into a message by number, parents and approximate bytes."""
    batch: list[NewTask] = []
    edges = size = 0
    for task in tasks:
        parents = len(task.depends_on)
        if batch and (len(batch) >= BATCH_TASKS or size >= BATCH_BYTES or edges + parents > MAX_EDGES):
            yield batch
            batch, edges, size = [], 0, 0
        batch.append(task)
        edges += parents
        size += size_of(task)
    if batch:
        yield batch


class Staging:
    """Sender of a flow."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._unanswered = 0
        """Tasks of the submission whose answer is missing; 0: none is awaited."""

    async def submit(self, plan: FlowPlan, reuse: bool, progress: Progress) -> Flow:
        """Stage all tasks and have them accepted; if only the answer to that was lost, get it again.

        Raises:
            RequestRejected: a task, or the flow, is refused; nothing of it runs.
        """
        if self._unanswered == len(plan.tasks):
            try:
                return await self._have_accepted(plan, reuse)
            except RequestRejected as refusal:
                if refusal.code != "unknown-flow":
                    raise
        first = 0
        for batch in batches(plan.tasks):
            await self._stage(plan, first, batch)
            first += len(batch)
            if progress is not None:
                progress(first)
        return await self._have_accepted(plan, reuse)

    async def _have_accepted(self, plan: FlowPlan, reuse: bool) -> Flow:
        count = self._unanswered = len(plan.tasks)
        request = FlowSubmit(project=plan.project, flow=plan.name, count=count, reuse=reuse)
        patience = self._exchange.patience + count / CHECKED_A_SECOND
        try:
            flow = (await self._exchange.ask(request, patience)).flow
        except RequestRejected:
            self._unanswered = 0
            raise
        self._unanswered = 0
        return flow

    async def _stage(self, plan: FlowPlan, first: int, tasks: Sequence[NewTask]) -> None:
        """Stage some tasks; a message that is too large goes in halves."""
        request = FlowStage(project=plan.project, flow=plan.name, first=first, tasks=list(tasks))
        try:
            reply = await self._exchange.ask(request)
        except MessageTooLarge as refusal:
            if len(tasks) == 1:
                raise too_large(tasks[0], refusal) from None
            half = len(tasks) // 2
            await self._stage(plan, first, tasks[:half])
            await self._stage(plan, first + half, tasks[half:])
            return
        if reply.errors:
            error = reply.errors[0]
            taskid = tasks[error.index].taskid
            raise RequestRejected("malformed", f"task {first + error.index} of the flow ({taskid}): {error.reason}")
