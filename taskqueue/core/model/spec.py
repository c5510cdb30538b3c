"""What a producer said of a task: a value that never changes."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from mypy_extensions import mypyc_attr

from taskqueue.core.model.recrawl_interval import PageFacts
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.values import PLAIN, Schedule


@mypyc_attr(acyclic=True)
class Spec:
    """What the producer sent: stored as it came, written once for each seq, read when a hollow task needs it.

    Two things are not the producer's: ``depth`` counts the follow-ups between it and a task that was pushed by itself,
    ``page`` is what is known of the page of a task with ``recrawl``, from its first success on. It never changes.
    """

    __slots__ = ("body", "depth", "page", "schedule", "url")

    def __init__(self, url: str, schedule: Schedule, body: Raw, depth: int = 0, page: PageFacts | None = None) -> None:
        self.url: Final = url
        self.schedule: Final = schedule
        self.body: Final = body
        self.depth: Final = depth
        self.page: Final = page

    def with_page(self, page: PageFacts | None) -> Spec:
        """The same, of a page of which this is known."""
        return Spec(self.url, self.schedule, self.body, self.depth, page)


NO_SPEC: Final = Spec("", PLAIN, NIL)
"""Shown to people as the spec of a bare task."""
