"""Enumerated values of fields, in messages and, where they are stored, on disk; and what names are made of.

Commands know these without the types of messages, which take a third of a command's start to import.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

NAME: Final = r"(?!\.{1,2}\Z)[A-Za-z0-9_.\-]"
"""Pattern of a name's beginning and of its characters."""
NAME_CHARS: Final = 64
NAME_WORDS: Final = 'ASCII letters, digits, "_", "-" and ".", but not "." or ".."'
"""Characters of names of projects, groups and flows. HTTP clients resolve "." and ".." in paths."""

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
"""Outcome of a pushed task."""
NEW_OUTCOMES: Final[tuple[PushOutcome, ...]] = get_args(PushOutcome)
AttemptOutcome = Literal["success", "failed", "timeout", "expired", "crashed", "upstream"]
RerunScope = Literal["task", "downstream", "upstream-failed", "only-failed"]
"""Tasks that run again with one: none, its descendants, its failed ancestors, or its failed descendants."""
ParentFailure = Literal["fail", "run", "wait"]
"""Reaction of a task to the failure of a task that it depends on."""
ErrorKind = Literal["connection", "timeout", "http", "other"]
"""Reason of a failed fetch: no answer, no answer in time, the answer's status, or something else."""

WhyCause = Literal[
    "", "none", "stopped", "paused", "hours", "rate", "overdue", "tasks", "limits", "daemon", "slots", "pace",
    "fetchers", "memory",
]  # fmt: skip
"""Why a project dispatches nothing; empty: the question was about a task, none: it dispatches."""

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
"""Progress of a flow, or how it ended."""
FlowTaskState = Literal["staged", TaskState, "unknown"]
"""State of a task of a flow; ``staged``: not created yet, ``unknown``: forgotten."""
SlotSort = Literal["backlog", "errors", "delay", "name"]
SlotPlace = Literal["ready", "waiting", "parked", "stored"]
"""Place of a slot: it may go on, waits for a time, waits for something else, or is in the store only."""
