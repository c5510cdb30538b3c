"""Steps of group actions: the same done to the projects of a group, in the order of their names, some in a turn.

Who belongs to the group when it begins is who is meant. A small group is done with in the turn of the request.
"""

from __future__ import annotations

from typing import Final, cast

from taskqueue.core.admin.project_requests import act, lost
from taskqueue.core.projects.operation import Operation
from taskqueue.core.projects.project import Project
from taskqueue.core.tasks.records import OperationRecord
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.projects import LOSSES
from taskqueue.protocol.values import Action

PROJECTS_A_STEP: Final = 64

LOST_A_STEP: Final = 8
"""Projects per step of actions that drop tasks: each drops ranges of the store."""


def step_size(action: str) -> int:
    """Projects per step."""
    return LOST_A_STEP if action in LOSSES else PROJECTS_A_STEP


def take_step(turn: TurnState, operation: Operation) -> None:
    """Apply the action to the next projects."""
    progress = operation.record.progress
    for _ in range(step_size(progress.action)):
        project = turn.state.projects.by_number.get(operation.project)
        progress.seen += 1
        progress.matched += project is not None and _made_sense(turn, operation.record, project)
        operation.go_on(turn.now)
        if not operation.running:
            return


def makes_sense(project: Project, action: Action, until: float) -> bool:
    """Whether the action is possible now, and does not end what a person wants to last."""
    return (action in LOSSES or project.can(action)) and not (until and project.is_paused_for_good)


def _made_sense(turn: TurnState, record: OperationRecord, project: Project) -> bool:
    """Apply the action; False: it made no sense, and changed nothing."""
    action = cast(Action, record.progress.action)
    if not makes_sense(project, action, record.progress.until):
        return False
    count = lost(project, action)
    try:
        act(turn, project, action, record.progress.until)
    except Rejected:
        return False
    record.changed.append(project.name)
    record.tasks += count
    return True
