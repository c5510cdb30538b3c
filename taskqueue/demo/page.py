"""The answer of a site to a GET, and the interface of the demo's sites. No sockets here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

HTML = "text/html; charset=utf-8"


class Page(NamedTuple):
    """A response.

    Attributes:
        location: target, if it is a redirect.
        delay_seconds: how long the site waits before it answers.
    """

    status: int
    body: bytes = b""
    content_type: str = HTML
    location: str = ""
    delay_seconds: float = 0.0


Progress = Callable[[int, int], object]
"""Called with the number of pages read, and of further known pages."""


def no_progress(read: int, waiting: int) -> None:
    """Report nothing."""


class Site(Protocol):
    """Pages by target."""

    def page(self, target: str) -> Page:
        """The response to a GET; a 404 if there is no such page."""

    def expected(self, progress: Progress = no_progress) -> Mapping[str, int]:
        """Targets that a full crawl fetches, each exactly once, with their statuses; computed once.

        Args:
            progress: called again and again if that takes a while.
        """


def not_found(target: str) -> Page:
    """The 404 for a target."""
    return Page(404, f"There is no page at {target}.\n".encode(), "text/plain; charset=utf-8")
