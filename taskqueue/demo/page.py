"""What a site answers to a GET, and what every site of the demo can be asked.

A *target* is what stands in the request line: path and query, such as ``/search?lang=en&page=3``. What must never
come in here: sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


Tell = Callable[[int, int], object]
"""Takes how many pages have been read, and how many more are known."""


def quiet(read: int, waiting: int) -> None:
    """Tell nobody."""


class Site(Protocol):
    """Pages by target."""

    def page(self, target: str) -> Page:
        """What a GET of the target answers; a 404 if there is no such page."""

    def expected(self, tell: Tell = quiet) -> Mapping[str, int]:
        """Targets that a full crawl fetches, each exactly once, with the status it gets; found out once.

        Args:
            tell: told again and again how far it is, if that takes a while.
        """


def not_found(target: str) -> Page:
    """The 404 for a target."""
    return Page(404, f"There is no page at {target}.\n".encode(), "text/plain; charset=utf-8")
