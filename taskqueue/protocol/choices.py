"""Enumerated values of fields, in messages and, where they are stored, on disk; and what names are made of.

Commands know these without the types of messages, which take a third of a command's start to import.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

NAME: Final = r"(?!\.{1,2}\Z)[A-Za-z0-9_.\-]"
"""Pattern of a name's beginning and of its characters."""
NAME_CHARS: Final = 64
NAME_WORDS: Final = 'ASCII letters, digits, "_", "-" and ".", but not "." or ".."'
"""What names of projects, groups and flows are made of. A path of HTTP can't say the two: clients resolve them."""

LiveState = Literal["ready", "delayed", "processing", "blocked"]
OverState = Literal["success", "failed", "cancelled"]
TaskState = Literal[LiveState, OverState]
"""States of a task."""
LIVE_STATES: Final[tuple[LiveState, ...]] = get_args(LiveState)
OVER_STATES: Final[tuple[OverState, ...]] = get_args(OverState)
STATES: Final[tuple[TaskState, ...]] = get_args(TaskState)
WAITING_STATES: Final = tuple(state for state in LIVE_STATES if state != "processing")
KnownState = Literal[TaskState, ""]
"""State of a task that may be unknown: empty."""
ProjectState = Literal["running", "checking", "paused", "stopped"]
PushOutcome = Literal["new", "merged", "replaced", "deferred", "restarted", "cancelled", "ignored", "rejected"]
"""What became of a task that was pushed."""
NEW_OUTCOMES: Final[tuple[PushOutcome, ...]] = get_args(PushOutcome)
AttemptOutcome = Literal["success", "failed", "timeout", "expired", "crashed", "upstream"]
RerunScope = Literal["task", "downstream", "upstream-failed", "only-failed"]
"""Which tasks run again with one: none, those that depend on it, what it waits for that failed, what failed."""
ParentFailure = Literal["fail", "run", "wait"]
"""What a task does when a task that it waits for has failed."""
ErrorKind = Literal["connection", "timeout", "http", "other"]
"""Why a fetch failed: nobody answered, not in time, the answer's status, or something else."""

WhyCause = Literal[
    "", "none", "stopped", "paused", "hours", "rate", "overdue", "tasks", "limits", "daemon", "slots", "pace",
    "fetchers", "memory",
]  # fmt: skip
"""Why nothing of a project is handed out; empty: the question was of a task, none: it is handed out."""

ProjectSort = Literal[
    "name", TaskState, "new_5m", "selected_5m", "success_5m",
    "failed_5m", "retried_5m", "timeout_5m",
]  # fmt: skip
FetcherSort = Literal["session", "name", "capacity", "holds", "oldest", "done", "failed", "silent", "hung"]
RemainingReason = Literal[
    "",
    "nothing-left",
    "stopped",
    "paused",
    "out-of-hours",
    "no-rate",
    "too-few",
    "idle",
    "growing",
    "unclear",
    "blocked",
]
Resolution = Literal["minute", "hour"]
FailuresBy = Literal["error", "host", "fetcher", "project"]
FlowState = Literal["staged", "unrolling", "running", "success", "failed", "cancelled"]
"""Of a flow: how far it is, or how it ended."""
FlowTaskState = Literal["staged", TaskState, "unknown"]
"""Of a task of a flow; ``staged``: it is not made yet, ``unknown``: it has been forgotten."""
SlotSort = Literal["backlog", "errors", "delay", "name"]
SlotPlace = Literal["ready", "waiting", "parked", "stored"]
"""Where a slot is: it may go on, not before a time, not before something else happens, or in the store only."""
