"""What is told of a change that somebody made: when, who, and what."""

from __future__ import annotations

from typing import Final

from taskqueue.display.counts import projects, tasks
from taskqueue.protocol.insight import LogEntry

HEADS: Final = ("when", "who", "change")

NAMED_MOST: Final = 5
"""Projects that an entry about all of them names."""


def who(entry: LogEntry) -> str:
    """Who asked, and from where."""
    return f"{entry.actor} {entry.address}".strip()


def what(entry: LogEntry) -> str:
    """Such as ``project delete (group papers), 12 projects, 1,204 tasks: operation 17``."""
    is_all = bool(entry.projects) and not entry.group and not entry.project
    group = f" (group {entry.group})" if entry.group else " (all)" if is_all else ""
    of_group = f", {projects(len(entry.projects))}" if entry.projects else ""
    if is_all:
        of_group += f" ({', '.join(entry.projects[:NAMED_MOST])}{', …' * (len(entry.projects) > NAMED_MOST)})"
    count = f", {tasks(entry.count)}" if entry.count else ""
    changed = f"{entry.what} {entry.project}".strip() + group + of_group + count
    return f"{changed}: {entry.detail}" if entry.detail else changed
