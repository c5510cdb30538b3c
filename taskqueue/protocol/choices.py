"""Words of which a request names one: what the fields of ``requests`` can be where there is a choice."""

from __future__ import annotations

from typing import Literal

StateName = Literal["ready", "delayed", "processing", "success", "failed", "cancelled"]
"""Of a task."""

ProjectSort = Literal[
    "name", "ready", "delayed", "processing", "success", "failed", "cancelled", "new_5m", "selected_5m", "success_5m",
    "failed_5m", "retried_5m", "timeout_5m",
]  # fmt: skip
FetcherSort = Literal["session", "name", "capacity", "holds", "oldest", "done", "failed", "silent"]
Resolution = Literal["minute", "hour"]
FailuresBy = Literal["error", "host", "fetcher", "project"]
