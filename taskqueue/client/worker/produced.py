"""What came out of a run of a handler that did not raise."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Raw

from taskqueue.protocol.fields import NIL, NewTask


class Produced(NamedTuple):
    """New tasks, and what the task leaves behind; nil: nothing."""

    new: list[NewTask]
    result: Raw


NOTHING: Final = Produced([], NIL)
