"""Rules: what one robots.txt says to one crawler. ``protego`` parses it, as RFC 9309 says.

    lines ──► user agents: ours | * | somebody's ──► protego ──► may this url be fetched? how fast? which sitemaps?

A file is a stranger's. ``protego`` gives each user agent that is named its own copy of each rule of its group: 60 KB
that name 3,000 agents above 3,000 rules took it 20 s and 600 MB. So all agents that are not meant here are made one
before: then no 500 KiB that were tried took it more than 0.3 s and 30 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

try:
    from protego import Protego
except ModuleNotFoundError as error:  # pragma: no cover - told in a process of its own.
    told = "taskqueue.robots needs protego: pip install 'taskqueue-scheduler[robots]'"
    raise ModuleNotFoundError(told, name=error.name) from None

MAX_BYTES: Final = 500 << 10
"""Of a file that are read: RFC 9309, section 2.5, asks for no less."""

AGENT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A product token: the RFC's letters, ``_`` and ``-``, and the digits that many have."""

AGENT_LINE: Final = re.compile(r"\s*user[- ]*agent\s*[:\s]\s*(?P<named>[^#]*)", re.IGNORECASE)
"""Also as they are often misspelt, which protego forgives."""


class Rules:
    """What a robots.txt says to one crawler.

    Args:
        body: the file; what is no UTF-8 is replaced, what is beyond MAX_BYTES left out.
        agent: the crawler's product token.

    Attributes:
        crawl_delay: seconds between two requests that the site asks for; None: it does not say.
        sitemaps: urls of its sitemaps, as they are written.
        size: characters that it was made of.
    """

    __slots__ = ("_agent", "_parsed", "crawl_delay", "sitemaps", "size")

    def __init__(self, body: bytes, agent: str) -> None:
        text = "\n".join(_lines(body, agent.lower()))
        self._agent = agent
        self._parsed = Protego.parse(text)
        self.crawl_delay: float | None = self._parsed.crawl_delay(agent)
        self.sitemaps: tuple[str, ...] = tuple(self._parsed.sitemaps)
        self.size = len(text)

    def allow(self, url: str) -> bool:
        """Whether the crawler may fetch this url of the site; robots.txt itself it always may."""
        allowed: bool = self._parsed.can_fetch(url, self._agent)
        return allowed


def checked_agent(agent: str) -> str:
    """The agent, if it is a product token.

    Raises:
        ValueError: it is none, such as a whole ``User-Agent`` with versions and addresses.
    """
    if not AGENT.fullmatch(agent):
        raise ValueError(
            f"agent: expected a product token such as examplebot, of letters, digits, _ and -, not {agent!r}"
        )
    return agent


def _lines(body: bytes, agent: str) -> Iterator[str]:
    """The file, with the user agents that it names made one of three: ``agent``, ``*``, or one that nobody has."""
    for line in _whole_lines(body).decode("utf-8-sig", "replace").splitlines():
        yield f"User-agent: {_meant(found['named'], agent)}" if (found := AGENT_LINE.match(line)) else line


def _whole_lines(body: bytes) -> bytes:
    """What is read of it. Half a line might say what the whole one does not, such as ``Disallow: /``."""
    head = body[:MAX_BYTES]
    if len(body) > MAX_BYTES and (end := max(head.rfind(b"\n"), head.rfind(b"\r"))) >= 0:
        return head[:end]
    return head


def _meant(named: str, agent: str) -> str:
    """Whom a line means. Versions and the like after a token don't count; the case does not either."""
    if named.strip() == "*":
        return "*"
    found = AGENT.match(named.strip())
    return agent if found is not None and found[0].lower() == agent else f"{agent}-other"
