"""Description of a task by its producer: an immutable value."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.structs import replace
from mypy_extensions import mypyc_attr

from taskqueue.protocol.fields import NIL
from taskqueue.protocol.values import PLAIN, PageFacts, Schedule


@mypyc_attr(acyclic=True)
class Spec:
    """Description of a task: stored as the producer sent it, once for each seq, and read when a hollow task needs it.

    Two fields are the daemon's: ``depth`` counts the follow-ups from a task that was pushed by a producer, and ``page``
    has the facts about the page of a task with ``recrawl``, from its first success on. So is the count of runs that are
    left in the schedule's ``repeat``. Immutable.
    """

    __slots__ = ("body", "depth", "page", "schedule", "url")

    def __init__(self, url: str, schedule: Schedule, body: Raw, depth: int = 0, page: PageFacts | None = None) -> None:
        self.url: Final = url
        self.schedule: Final = schedule
        self.body: Final = body
        self.depth: Final = depth
        self.page: Final = page

    def with_page(self, page: PageFacts | None) -> Spec:
        """Return this spec with other facts about its page."""
        return Spec(self.url, self.schedule, self.body, self.depth, page)

    def counted_down(self, repeat: int) -> Spec:
        """Return this spec with a run less in its ``repeat``, which is at least 1."""
        schedule = replace(self.schedule, repeat=repeat - 1)
        return Spec(self.url, schedule, self.body, self.depth, self.page)


NO_SPEC: Final = Spec("", PLAIN, NIL)
"""Spec shown for a bare task."""
