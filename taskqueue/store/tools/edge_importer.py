"""Imports the edges of tasks: each between a task of the lines and one that the store has, or waits for.

child ──► parent is there: satisfied if it is a success      parent ──► awaited by children that came before it:
      ──► parent is not there (yet): awaited                            what it ended as is told when a daemon runs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from taskqueue.core.tasks.links import (
    DELETED_PROJECT,
    POLICIES,
    SATISFIED,
    UNSATISFIED,
    Edge,
    Links,
    Mark,
    Propagation,
    PropagationKind,
    TaskRef,
)
from taskqueue.core.tasks.records import ProjectRecord, WriteSet
from taskqueue.core.tasks.task import BLOCKED, CANCELLED, DELAYED, FAILED, LIVE, OVER, READY, SUCCESS, Task
from taskqueue.store.tools.allowed_absences import is_cleared
from taskqueue.store.tools.edge_lines import ParentLine
from taskqueue.store.tools.export_lines import TaskLine


def parent_refs(line: TaskLine, projects: Mapping[str, ProjectRecord]) -> Iterator[TaskRef]:
    """The tasks that a task waits for, those of unknown projects apart."""
    for parent in line.parents:
        project = projects.get(line.project if parent.project is None else parent.project)
        if project is not None:
            yield TaskRef(project.number, parent.taskid)


class EdgeImporter:
    """Adds edges to the writes of one page of tasks.

    Args:
        writes: to which they are added.
        tasks, awaited: what was looked up of the tasks and their parents.
        projects: by name.

    Attributes:
        touched: projects that have edges from now on, by number.
    """

    def __init__(
        self,
        writes: WriteSet,
        tasks: Mapping[tuple[int, str], Task],
        awaited: dict[TaskRef, None],
        projects: Mapping[str, ProjectRecord],
    ) -> None:
        self._writes = writes
        self._projects = projects
        self._awaited = awaited
        cleared = {record.number: record.cleared for record in projects.values()}
        self._tasks = {ref: task for ref, task in tasks.items() if not is_cleared(task, cleared[ref[0]])}
        self.touched: dict[int, ProjectRecord] = {}

    def add(self, line: TaskLine, task: Task, number: int) -> None:
        """Give a new task its edges, and the state that these leave it in.

        Args:
            number: of the edges; this and the next one are used.

        Raises:
            ValueError: it waits for a task of a project that is not in the store.
        """
        ref = TaskRef(task.project, task.taskid)
        if line.parents:
            self._give_parents(ref, line, task, number)
        self._arrive(ref, task, number)
        self._tasks[ref] = task
        missing = task.links.missing if task.links is not None else 0
        if task.state in LIVE:
            task.state = BLOCKED if missing else DELAYED if task.exetime else READY

    def _give_parents(self, child: TaskRef, line: TaskLine, task: Task, number: int) -> None:
        links = task.links = Links(number=number, on_failure=POLICIES.index(line.on_parent_failure))
        has_failed = False
        for each in line.parents:
            parent = self._ref(line, each)
            known = self._tasks.get(parent)
            if known is not None:
                self._have_children(known)
            elif parent.project != DELETED_PROJECT:
                self._await(parent)
            state = each.state
            if state == UNSATISFIED and known is not None:
                state = SATISFIED if known.state == SUCCESS else UNSATISFIED
                has_failed |= known.state in (FAILED, CANCELLED)
            links.missing += state == UNSATISFIED
            self._writes.edges[Edge(child, parent)] = Mark(state, number)
            self._writes.new_edges[Edge(child, parent)] = None
        if has_failed:
            self._writes.propagations[number] = Propagation(number, "edges", *child)

    def _ref(self, line: TaskLine, parent: ParentLine) -> TaskRef:
        if parent.project == "":
            return TaskRef(DELETED_PROJECT, parent.taskid)
        project = self._projects.get(parent.project or line.project)
        if project is None:
            raise ValueError(f'parents: there is no project "{parent.project}"; import it first')
        for each in (project, self._projects[line.project]):
            if not each.linked:
                each.linked = True
                self.touched[each.number] = each
        return TaskRef(project.number, parent.taskid)

    def _arrive(self, ref: TaskRef, task: Task, number: int) -> None:
        """Tell those that wait for the task, when a daemon runs, how it has ended."""
        if ref not in self._awaited:
            return
        del self._awaited[ref]
        self._writes.awaited.pop(ref, None)
        task.links = task.links or Links()
        task.links.has_children = True
        if task.state in OVER:
            kind: PropagationKind = "succeeded" if task.state == SUCCESS else "failed"
            self._writes.propagations[number + 1] = Propagation(number + 1, kind, *ref)

    def _await(self, ref: TaskRef) -> None:
        if ref not in self._awaited:
            self._awaited[ref] = None
            self._writes.awaited[ref] = True

    def _have_children(self, parent: Task) -> None:
        links = parent.links = parent.links or Links()
        if links.has_children:
            return
        links.has_children = True
        if parent.kept_state in OVER:
            self._writes.linked[TaskRef(parent.project, parent.taskid)] = parent
        elif parent.kept_state:
            self._writes.moves.append(parent.as_move())
