"""Counts of tasks and projects in words."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.choices import OVER_STATES, WAITING_STATES, TaskState

STATES: Final[tuple[TaskState, ...]] = (*WAITING_STATES, "processing", *OVER_STATES)
"""States of tasks in the order in which a task goes through them."""


def tasks(count: int) -> str:
    """Count tasks: ``1 task``, ``1,204 tasks``."""
    return "1 task" if count == 1 else f"{count:,} tasks"


def projects(count: int) -> str:
    """Count projects: ``1 project``, ``1,204 projects``."""
    return "1 project" if count == 1 else f"{count:,} projects"


def brief(number: int) -> str:
    """Shorten a number: ``1,234,567``, ``12.3 M``; nine characters at most."""
    for unit, size in (("G", 10**9), ("M", 10**6)):
        if number >= 10 * size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,}"
