"""Exit statuses of commands that wait for the end of a task or a flow, which both name."""

from __future__ import annotations

from typing import Final

STATUSES: Final = {"success": 0, "failed": 3, "cancelled": 4}
"""By the state in which it ended."""

NOT_OVER: Final = 1
"""If it has not ended in the time that it was given."""
