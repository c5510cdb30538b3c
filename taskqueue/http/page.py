"""Page: what a task's url was answered with."""

from __future__ import annotations

from typing import Unpack

from msgspec import Struct

from taskqueue.client.links.hyperlinks import LinkOptions, links
from taskqueue.client.links.page_text import page_text


class Page(Struct, frozen=True):
    """An answer whose status is below 400.

    Attributes:
        url: that was asked, as ``taskqueue.links`` writes urls.
        status: 200, or another one below 400: redirects are not followed.
        headers: their names in lower case; the values of those that were sent several times are joined by commas.
        body: with its Content-Encoding undone.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, decoded at each look.

        Its charset is that of its byte order mark, else of the header, else what the page itself says, else UTF-8 or,
        if it is none, windows-1252. What can't be decoded is replaced.
        """
        return page_text(self.body, self.headers.get("content-type", "")).text

    def links(self, **options: Unpack[LinkOptions]) -> list[str]:
        """Where the page leads to, a redirect's target included; the options are those of ``taskqueue.links``."""
        return links(self.body, self.url, headers=self.headers, **options)
