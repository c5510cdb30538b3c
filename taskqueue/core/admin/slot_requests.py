"""Requests about one slot: what is known of it, and where each number of its pace comes from."""

from __future__ import annotations

from typing import Final

from msgspec.structs import asdict

from taskqueue.core.admin.slot_views import slots_of, stored_view, view_of
from taskqueue.core.projects.project import Project
from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.settings.slot_sources import sources_of
from taskqueue.core.tasks.needs import Needs
from taskqueue.core.tasks.slots.slot_looks import SlotLook
from taskqueue.core.tasks.task import Task
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.replies import SlotReply
from taskqueue.protocol.requests import SlotShow
from taskqueue.protocol.views import TaskRow

TASKS_SHOWN: Final = 5
"""Next tasks of a slot."""
COUNTED_MOST: Final = 2048
"""Ready tasks of a slot that are counted."""


def show(turn: TurnState, request: SlotShow) -> SlotReply:
    """Everything that is known of a slot.

    Raises:
        Rejected: the project is unknown or not divided, or it has no such slot.
    """
    project = turn.state.projects.named(request.project)
    slots = slots_of(project)
    look = turn.found.slot_answers.looks.get(_look(project, request.slot))
    slot = slots.by_name.get(request.slot)
    if slot is not None:
        view, record = view_of(turn, slot), slot.record
    elif look is not None and look.record is not None and look.number >= slots.division:
        view, record = stored_view(turn, project, look.number, look.record), look.record
    else:
        reason = f'slot: project "{project.name}" has had no task of a slot "{request.slot}"'
        raise Rejected("unknown-slot", reason)
    tasks: list[Task] = []
    if look is not None and look.number == view.number:
        view.ready, view.more, tasks = look.ready, look.more, look.tasks
    chosen = {name: value for name, value in asdict(record.choice).items() if value is not None}
    return SlotReply(
        n=request.n,
        slot=view,
        chosen=chosen,
        sources=sources_of(project.settings, record.name, record.choice),
        tasks=[_row(task) for task in tasks],
    )


def _row(task: Task) -> TaskRow:
    url = task.spec.url if task.spec is not None else ""
    return TaskRow(task.taskid, url, task.priority, retried=task.retried, lastcrawltime=task.lastcrawltime)


def _look(project: Project, name: str) -> SlotLook:
    return SlotLook(project.number, 0, name, "", COUNTED_MOST, TASKS_SHOWN)


def _need(turn: TurnState, request: SlotShow, wanted: Needs) -> None:
    project = turn.state.projects.by_name.get(request.project)
    if project is not None and project.queue.slots is not None:
        wanted.slot_questions.append(_look(project, request.slot))


REQUESTS: Final = (RequestRule(SlotShow, asked(show), _need, keeps=False),)
