"""What a site answers to a GET, and what every site of the demo can be asked.

A *target* is what stands in the request line: path and query, such as ``/search?lang=en&page=3``. What must never
come in here: sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

HTML = "text/html; charset=utf-8"


class Page(NamedTuple):
    """One answer.

    Attributes:
        location: where to, if it is a redirect.
        delay_seconds: how long the site thinks before it answers.
    """

    status: int
    body: bytes = b""
    content_type: str = HTML
    location: str = ""
    delay_seconds: float = 0.0


class Site(Protocol):
    """Pages by target."""

    def page(self, target: str) -> Page:
        """What a GET of the target answers; a 404 if there is no such page."""

    def expected(self) -> Mapping[str, int]:
        """Targets that a full crawl fetches, each exactly once, with the status it gets."""


def not_found(target: str) -> Page:
    """The 404 for a target."""
    return Page(404, f"There is no page at {target}.\n".encode(), "text/plain; charset=utf-8")
