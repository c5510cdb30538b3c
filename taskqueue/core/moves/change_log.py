"""Entries of ``taskqueue log``: changes with their authors, and the number of tasks that they covered.

    project-set, -unset, -do, group-set, -do, task-retry, -cancel, bulk, SIGHUP ──► an entry in the commit of the change

Rules:
1. Refused requests have no entry, nor have a retry or a cancel that finds no task to change; a repeat adds none.
   A setting or action of a project, such as a pause, has one even if it changed nothing.
2. An operation has one entry when it ends, with its author and the names of the projects that
   it changed, NAMES_MOST per entry; a bulk operation has one when it begins, too. A dry run has none.
3. An entry has the old values of changed settings. Bodies, and the values of tables such as ``fetch``, are left out:
   they may hold passwords (``change_text``).
4. LOG_MOST entries are kept. The work of producers and fetchers has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from taskqueue.core.model.needs import ChangeRecord
from taskqueue.core.request_rule import Who
from taskqueue.core.turn_state import TurnState

DETAIL_CHARS: Final = 400

NAMES_MOST = 128
"""Projects that one entry names: those of a page of entries are read together, 8 MiB of names at most."""

RELOADER: Final = Who("SIGHUP", "")
"""Author of a config reload: the signal does not say who sent it."""


def note(
    turn: TurnState,
    by: Who,
    what: str,
    *,
    project: str = "",
    group: str = "",
    count: int = 0,
    detail: str = "",
    projects: Sequence[str] = (),
    is_part: bool = False,
) -> None:
    """Log a change, in an entry for each NAMES_MOST projects; see ``ChangeRecord``.

    Args:
        is_part: True if the change is about further projects.
    """
    state, is_whole = turn.state, not is_part and len(projects) <= NAMES_MOST
    for first in range(0, len(projects) or 1, NAMES_MOST):
        names = list(projects[first : first + NAMES_MOST])
        change = ChangeRecord(
            state.next_log, turn.now.wall, what, *by, project, group, count, cut(detail), names, is_whole
        )
        state.next_log += 1
        turn.changes.writes.log.append(change)
        count = 0


def note_reload(turn: TurnState, changed: Iterable[str]) -> None:
    """Log a reload of the config file, and the settings that it changed."""
    note(turn, RELOADER, "config reload", detail=", ".join(changed) or "nothing has changed")


def cut(text: str) -> str:
    """Cut a text to DETAIL_CHARS."""
    return text if len(text) <= DETAIL_CHARS else f"{text[: DETAIL_CHARS - 1]}…"
