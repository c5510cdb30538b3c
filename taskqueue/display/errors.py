"""What is shown of an error where there is one line for it."""

from __future__ import annotations

from taskqueue.error_texts import kind_in
from taskqueue.protocol.tasks import Attempt, TaskRow


def error_line(said: Attempt | TaskRow) -> str:
    """What the error is about; of a daemon that does not say it, what its text tells."""
    return said.kind or kind_in(said.error)
