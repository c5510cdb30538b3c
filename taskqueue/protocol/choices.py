"""Enumerated values of fields, in messages and in the store, and the characters of names.

Commands import this module without the types of messages, whose import takes a third of a command's start.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

NAME: Final = r"(?!\.{1,2}\Z)[A-Za-z0-9_.\-]"
"""Pattern of the characters of a name, after a check that the name is neither "." nor ".."."""
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
AttemptOutcome = Literal["success", "failed", "timeout", "expired", "crashed", "upstream", "slow"]
RerunScope = Literal["task", "downstream", "upstream-failed", "only-failed"]
"""Tasks that a rerun adds to its task: none, its descendants, its failed ancestors, or its failed descendants."""
ParentFailure = Literal["fail", "run", "wait", "only"]
"""Reaction of a task to the failure of a parent; ``only``: it runs only if one has failed."""
ErrorKind = Literal["connection", "timeout", "http", "other"]
"""Reason of a failed fetch: no response, no response in time, the response's status, or something else."""

WhyCause = Literal[
    "", "none", "stopped", "paused", "hours", "rate", "overdue", "tasks", "limits", "daemon", "slots", "pace",
    "fetchers", "memory",
]  # fmt: skip
"""Cause why a project dispatches nothing; empty: the question was about a task; ``none``: the project dispatches."""

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
"""State of a flow: how far it is, or how it ended."""
FlowTaskState = Literal["staged", TaskState, "unknown"]
"""State of a flow's task; ``staged``: not made yet; ``unknown``: forgotten."""
SlotSort = Literal["backlog", "errors", "delay", "name"]
SlotPlace = Literal["ready", "waiting", "parked", "stored"]
"""Place of a slot: it may dispatch, waits for a time, waits for something else, or is only in the store."""
