"""A flow before it is submitted: tasks in the order in which they were described, each after some of those before it.

    a ──┬──► d       a = plan.add(url, …)
    b ──┘            b = plan.add(url, …)
                     d = plan.add(url, …, after=[a, b])

Who names a task has been given it before, so parents always come first and there can be no cycle to be searched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

from msgspec import Struct
from msgspec.structs import replace

from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_options import PushOptions
from taskqueue.client.tasks.url_rules import check_meant
from taskqueue.protocol.fields import MAX_PARENTS, NewTask, TaskOf
from taskqueue.protocol.flows import FlowTaskView


class FlowTask(Struct, frozen=True, gc=False):
    """A task of a flow, as later tasks name it.

    Attributes:
        index: its place in the flow, from 0.
    """

    project: str
    flow: str
    index: int
    taskid: str


Parent = FlowTask | str | tuple[str, str]
"""What a task can wait for: a task of a flow, the taskid of one in the same project, or project and taskid."""


class FlowPlan:
    """The tasks of one flow.

    Attributes:
        tasks: them, parents first.
        edges: how many parents they have together.
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
            ValueError: it is no task, its taskid is in the flow already or was waited for, or it waits for too many.
            TypeError: an option, or one of ``after``, is of a type that it can't be.
        """
        if options.get("depends_on"):
            raise ValueError("depends_on: a task of a flow says with after what it waits for")
        check_meant(url)
        task = new_task(url, **options)
        self._check_new(task.taskid)
        parents = self._parents(after, task.taskid)
        if len(parents) > MAX_PARENTS:
            raise ValueError(f"after: expected at most {MAX_PARENTS} tasks, got {len(parents)}")
        return self._keep(task, parents)

    def views(self) -> Iterator[FlowTaskView]:
        """The tasks as they would be shown, were they staged."""
        for index, task in enumerate(self.tasks):
            yield FlowTaskView(index, task.taskid, task.url, "staged", [self._place(each) for each in task.depends_on])

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
        """What the daemon is told of them, each once."""
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

    def _keep(self, task: NewTask, parents: tuple[str | TaskOf, ...]) -> FlowTask:
        index = len(self.tasks)
        for parent in parents:
            if isinstance(parent, str) and parent not in self._indices:
                self._outside.setdefault(parent, index)
        self._indices[task.taskid] = index
        self.edges += len(parents)
        self.tasks.append(replace(task, depends_on=parents) if parents else task)
        return FlowTask(self.project, self.name, index, task.taskid)
