"""Emits an event when new tasks of a slot seem to come from a trap, such as a calendar: once a day and slot.

What a trap looks like: ``projects.growth``. When it was told is kept with the project, so that a restart does not tell
it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskqueue.core.projects.growth import SAMPLES, Finding, TrapKind
from taskqueue.core.projects.project import Project
from taskqueue.core.rules import slots
from taskqueue.core.tasks.spec import Spec
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.fields import NewTask

URL_CHARS: Final = 200
"""Characters of a url that an event shows."""

_WORDS: Final[dict[TrapKind, tuple[str, str]]] = {
    "repeated": (
        "have a part that occurs four times or more",
        "exclude such links, or set max_depth; a relative link or a login that returns to itself may make them",
    ),
    "session": (
        "have an id that each page makes anew for all of its links, such as one of a session",
        "push urls without that parameter",
    ),
    "deep": (
        "lie more than 30 links deep, each like the page that led to it, as in a calendar",
        "set max_depth, or exclude such links",
    ),
    "combined": (
        "combine parts of known urls in new ways, such as filters of a search",
        "exclude such links, or set max_depth",
    ),
}
"""What the tasks do, and what an operator can do, by kind."""


def look(turn: TurnState, project: Project, items: Sequence[NewTask | None], index: int, origin: Spec | None) -> None:
    """Look at a new task of a batch.

    Args:
        project: of the task.
        origin: the task that led to the batch; None: it was pushed by itself.
    """
    project.sampling.go_on(project.totals.new)
    item = items[index]
    if item is None:
        return
    # A project without slots has one, whose name is empty.
    slot = slots.name_of(turn, project, item.url, item.schedule.slot) if project.settings.slot != "none" else ""
    growth = turn.state.growth.of(project.number, slot, int(min(SAMPLES, project.settings.growing)))
    if origin is None:
        finding = growth.look(item.url, 0)
    else:
        finding = growth.look(item.url, origin.depth + 1, origin.url, _sibling(items, index))
    if finding is not None and project.note_growing(slot, turn.now.wall):
        turn.emit("growing", project, _reason(project, slot, finding))


def _sibling(items: Sequence[NewTask | None], index: int) -> str:
    """The url of the first or the last item of a batch, whichever is farther away; empty: there is no other.

    Neighbours often belong together, such as a document and its history, which have the same id.
    """
    other = items[0] if 2 * index >= len(items) else items[-1]
    return other.url if other is not None and len(items) > 1 else ""


def _reason(project: Project, slot: str, finding: Finding) -> str:
    does, remedy = _WORDS[finding.kind]
    whole = f'slot "{slot}"' if slot else "the project"
    tasks = max(finding.looked_at, round(finding.looked_at * project.settings.growing / SAMPLES))
    url = finding.url if len(finding.url) <= URL_CHARS else finding.url[:URL_CHARS] + "…"
    return (
        f"{whole} seems to grow without end: of the last {tasks} new tasks about {finding.share:.0%} {does} "
        f"({finding.kind}), such as {url} - {remedy}"
    )
