"""Handling of damaged tasks: those of which the store has lost a part fail, and all others go on.

    place in an order damaged ──► in memory     written anew from memory
                              └─► elsewhere     out of the order; counts as failed, until ``store repair`` names it
    spec of a task in memory is missing ──► the task fails with the error ``damaged``

Only a store in a database reports single damaged rows; with any other store a missing spec is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from taskqueue.core.model.needs import SetAside
from taskqueue.core.model.project import Project
from taskqueue.core.model.spec import NO_SPEC
from taskqueue.core.model.task import DELAYED, FAILED, LIVE, PROCESSING, Task, seq_in
from taskqueue.core.moves import projects
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.values import Attempt

DAMAGED: Final = "damaged"
"""Error of the attempt with which a damaged task ends."""


def set_aside(turn: TurnState, places: Iterable[SetAside]) -> None:
    """Take damaged places out of their orders, and emit one event for each project that has any."""
    met: dict[int, list[SetAside]] = {}
    for place in places:
        project = turn.state.projects.by_number.get(place.project)
        if project is not None and not _heal(turn, project, place):
            _take_out(turn, project, place)
            met.setdefault(project.number, []).append(place)
    for number, those in met.items():
        more = f", and {len(those) - 1:,} more" if len(those) > 1 else ""
        reason = f"a task can't be read ({those[0].reason}){more}; taskqueue store repair ends it as failed"
        turn.emit("damaged", turn.state.projects.by_number[number], reason)


def lose(turn: TurnState, tasks: Iterable[Task]) -> None:
    """End tasks in memory whose specs the store does not have.

    Raises:
        Corrupt: the store has checksums of its own, so that none can be missing.
    """
    for task in tasks:
        project = turn.state.projects.by_number[task.project]
        if not turn.found.is_tolerant:
            raise Corrupt(f"project {project.name!r}: the store has no spec of task {task.taskid!r}")
        _fail(turn, project, task)
        turn.emit("damaged", project, f"task {task.taskid!r} has failed: its URL and body can't be read")


def _heal(turn: TurnState, project: Project, place: SetAside) -> bool:
    """Write the task at the place anew, if it is in memory; return whether it is."""
    seq = seq_in(place.place)
    task = next((each for each in project.queue.tasks.values() if each.seq == seq), None)
    if task is None or (task.state, task.key) != (place.state, place.place):
        return False
    if task.spec is not None:
        task.write_anew(task.spec)
        turn.changes.touch(task)
    else:
        _fail(turn, project, task)
    return True


def _take_out(turn: TurnState, project: Project, place: SetAside) -> None:
    """Count a live task at the place as failed; a finished one keeps its state, without its place."""
    queue = project.queue
    if place.state in LIVE:
        queue.counts[place.state] -= 1
        queue.counts[FAILED] += 1
        queue.unfinished -= not place.apart
    if place.state == DELAYED:
        queue.count_anew()  # whether it waited for a retry is lost with it
        projects.count_delayed(turn.state, project)
    turn.changes.writes.set_aside.append(place)
    turn.touch(project)


def _fail(turn: TurnState, project: Project, task: Task) -> None:
    """End a task in memory as failed, without a URL; a report of its fetcher will be stale."""
    if task.state == PROCESSING:
        turn.revoke(task)
    turn.touch(project)
    project.queue.finish(turn.changes, task, FAILED, turn.now.wall)
    task.write_anew(NO_SPEC)
    turn.note_attempt(task, Attempt(turn.now.wall, "failed", error=DAMAGED))
