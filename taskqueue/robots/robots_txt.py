"""robots.txt: rules for one crawler, age of copies, and verdicts on URLs.

Nothing here fetches or reads a clock. ``protego`` parses a file according to RFC 9309 (``Rules``):

    lines ──► user agents: ours | * | others ──► protego ──► may this URL be fetched? how fast? which sitemaps?

A file is foreign. ``protego`` gives each user agent a copy of all rules of its group: 60 KB with 3,000 agents above
3,000 rules took 20 s and 600 MB. So all agents that don't matter here are merged into one before: then none of the
files of 500 KiB that were tried took more than 0.3 s and 30 MB.

Age of a copy, replacement of a file that is unavailable, and number of copies (``Copies``):

    answer 2xx ────────────────► its rules                                  for ``max_age``
    answer 4xx, but for 429 ───► no rules: all is allowed                   for ``max_age``
    any other answer, or none ─► the last rules, or all is disallowed       for 1 minute, 2, 4, … an hour

These are sections 2.3.1 and 2.4 of RFC 9309. 429 is an exception among 4xx: an overloaded site has not said that all is
allowed. A 3xx is a redirect that was not followed: its target is unknown.

The ``Book`` has the copies of all sites, and judges URLs by them.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from taskqueue.client.arguments import checked_count, checked_seconds
from taskqueue.client.web_urls import WebUrl, web_url
from taskqueue.client.worker.outcome import Drop, Retry
from taskqueue.robots.slot_delays import SlotDelay, SlotDelays

try:
    from protego import Protego
except ModuleNotFoundError as error:  # pragma: no cover - told in a process of its own.
    told = "taskqueue.robots needs protego: pip install 'taskqueue-scheduler[robots]'"
    raise ModuleNotFoundError(told, name=error.name) from None

MAX_BYTES: Final = 500 << 10
"""Bytes of a file that are read, at most: RFC 9309, section 2.5, asks for no less."""

AGENT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Match a product token: the RFC's letters, ``_`` and ``-``, and the digits that many tokens have."""

AGENT_LINE: Final = re.compile(r"\s*user[- ]*agent\s*[:\s]\s*(?P<named>[^#]*)", re.IGNORECASE)
"""Match a user-agent line, also in common misspellings, which protego accepts."""


class Rules:
    """Rules of a robots.txt for one crawler.

    Args:
        body: the file; invalid UTF-8 is replaced, bytes beyond MAX_BYTES are ignored.
        agent: the crawler's product token.

    Attributes:
        crawl_delay: seconds between two requests; None if the site does not say.
        sitemaps: URLs of its sitemaps, as written in the file.
        size: characters of the parsed text.
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
        """Return whether the crawler may fetch this URL of the site; robots.txt itself is always allowed."""
        allowed: bool = self._parsed.can_fetch(url, self._agent)
        return allowed


def checked_agent(agent: str) -> str:
    """Return the agent if it is a product token.

    Raises:
        ValueError: it is not, such as a whole ``User-Agent`` with versions and addresses.
    """
    if not AGENT.fullmatch(agent):
        raise ValueError(
            f"agent: expected a product token such as examplebot, of letters, digits, _ and -, not {agent!r}"
        )
    return agent


def _lines(body: bytes, agent: str) -> Iterator[str]:
    """Yield the file's lines, with each user agent replaced by ``agent``, ``*``, or a name that no crawler has."""
    for line in _whole_lines(body).decode("utf-8-sig", "replace").splitlines():
        yield f"User-agent: {_meant(found['named'], agent)}" if (found := AGENT_LINE.match(line)) else line


def _whole_lines(body: bytes) -> bytes:
    """Cut a file at a line end: half a line could mean something else, such as ``Disallow: /``."""
    head = body[:MAX_BYTES]
    if len(body) > MAX_BYTES and (end := max(head.rfind(b"\n"), head.rfind(b"\r"))) >= 0:
        return head[:end]
    return head


def _meant(named: str, agent: str) -> str:
    """Return the agent that a line means, ignoring case, versions and the like."""
    if named.strip() == "*":
        return "*"
    found = AGENT.match(named.strip())
    return agent if found is not None and found[0].lower() == agent else f"{agent}-other"


Answer = tuple[int, bytes]
"""Status and body of an HTTP answer."""

MAX_AGE_SECONDS: Final = 86_400.0
"""Longest age of a copy (RFC 9309, section 2.4)."""

TOO_MANY_REQUESTS: Final = 429

FIRST_DELAY_SECONDS: Final = 60.0
LAST_DELAY_SECONDS: Final = 3600.0
MOST_DOUBLINGS: Final = 6

MAX_CHARS: Final = 8 << 20
"""Characters of all cached rules, at most: rules take about 20 times as much memory, hostile ones 60 times."""


class Copy(NamedTuple):
    """Copy of one robots.txt.

    Attributes:
        rules: None if it was unavailable: all is disallowed.
        fetch_at: when it must be fetched again, by the caller's clock.
        failures: failed fetches in a row.
        trouble: reason of the failure, such as "answered by 503" or "TimeoutError: timed out"; "" after a success.
        status: HTTP status; None if there was no answer.
    """

    rules: Rules | None
    fetch_at: float
    failures: int = 0
    trouble: str = ""
    status: int | None = None

    @property
    def size(self) -> int:
        """Characters of the rules."""
        return 0 if self.rules is None else self.rules.size


class Copies:
    """Copy for each origin; those used least recently make room for others.

    Args:
        agent: product token that the rules are read for.
        max_age: seconds until a copy is fetched again, at most a day.
        max_origins: copies that are kept, at most.
    """

    def __init__(self, agent: str, max_age: float, max_origins: int) -> None:
        if not checked_seconds("max_age", max_age, MAX_AGE_SECONDS):
            raise ValueError(f"max_age: expected more than 0 seconds, got {max_age}")
        checked_count("max_origins", max_origins)
        self._agent = agent
        self._max_age = max_age
        self._max_origins = max_origins
        self._kept: OrderedDict[str, Copy] = OrderedDict()
        self._chars = 0

    def get(self, origin: str, now: float) -> Copy | None:
        """Return the copy that is valid now; None if it must be fetched."""
        copy = self._kept.get(origin)
        if copy is None or now >= copy.fetch_at:
            return None
        self._kept.move_to_end(origin)
        return copy

    def keep(self, origin: str, answer: Answer | Exception, now: float) -> Copy:
        """Store the result of a fetch: the answer, or the reason why there was none."""
        last = self._kept.pop(origin, None)
        copy = self._kept[origin] = self._judged(answer, last, now)
        self._chars += copy.size - (0 if last is None else last.size)
        while len(self._kept) > self._max_origins or self._chars > MAX_CHARS:
            self._chars -= self._kept.popitem(last=False)[1].size
        return copy

    def _judged(self, answer: Answer | Exception, last: Copy | None, now: float) -> Copy:
        if isinstance(answer, Exception):
            return _unreachable(f"{type(answer).__name__}: {answer}", last, now, None)
        status, body = answer
        if 200 <= status < 300:
            return Copy(Rules(body, self._agent), now + self._max_age)
        if 400 <= status < 500 and status != TOO_MANY_REQUESTS:
            return Copy(Rules(b"", self._agent), now + self._max_age)
        return _unreachable(f"answered by {status}", last, now, status)


def _unreachable(trouble: str, last: Copy | None, now: float, status: int | None) -> Copy:
    failures = 0 if last is None else last.failures
    delay = min(FIRST_DELAY_SECONDS * 2 ** min(failures, MOST_DOUBLINGS), LAST_DELAY_SECONDS)
    return Copy(None if last is None else last.rules, now + delay, failures + 1, trouble, status)


LEAST_RETRY_SECONDS: Final = 1.0


class Limits(NamedTuple):
    """Limits of what sites can cause.

    Attributes:
        max_age: seconds until a robots.txt is fetched again, at most a day.
        min_delay, max_delay: bounds of a crawl-delay, in seconds.
        max_origins: cached robots.txt, and slots, at most.
    """

    max_age: float
    min_delay: float
    max_delay: float
    max_origins: int


class Book:
    """Copies of robots.txt, and verdicts by them. Threads may share a book: a lock guards it.

    Args:
        agent: the crawler's product token.
    """

    def __init__(self, agent: str, limits: Limits) -> None:
        most = checked_seconds("max_delay", limits.max_delay)
        checked_seconds("min_delay", limits.min_delay, most)
        self._copies = Copies(checked_agent(agent), limits.max_age, limits.max_origins)
        self._delays = SlotDelays(limits.max_origins)
        self._limits = limits
        self._lock = threading.Lock()

    def copy(self, page: WebUrl, now: float) -> Copy | None:
        """Return the copy of the page's site; None if its robots.txt must be fetched."""
        with self._lock:
            return self._copies.get(page.origin, now)

    def keep(self, page: WebUrl, answer: Answer | Exception, now: float) -> Copy:
        """Store the result of fetching the robots.txt of the page's site."""
        with self._lock:
            return self._copies.keep(page.origin, answer, now)

    def crawl_delay(self, copy: Copy) -> float | None:
        """Return the crawl-delay of the site within the limits, in seconds; None if it asks for none."""
        if copy.rules is None or copy.rules.crawl_delay is None:
            return None
        return min(max(copy.rules.crawl_delay, self._limits.min_delay), self._limits.max_delay)

    def news(self, page: WebUrl, copy: Copy, slot: str, now: float) -> SlotDelay | None:
        """Return the delay to send to the page's slot, counted as sent; None if there is nothing to send."""
        with self._lock:
            return self._delays.news(slot, page.origin, self.crawl_delay(copy), now) if slot else None

    def unheard(self, news: SlotDelay, now: float) -> None:
        """Record that a delay could not be sent."""
        with self._lock:
            self._delays.unheard(news, now)

    def pause(self, page: WebUrl, now: float) -> float:
        """Return the seconds between two files of the page's site that are fetched without a task."""
        copy = self.copy(page, now)
        asked = None if copy is None else self.crawl_delay(copy)
        return self._limits.min_delay if asked is None else asked


def robots_txt(page: WebUrl) -> str:
    """Return the URL of the robots.txt of a page's site."""
    return f"{page.origin}/robots.txt"


def is_allowed(page: WebUrl, copy: Copy) -> bool:
    """Return whether the page may be fetched now."""
    return copy.rules is not None and copy.rules.allow(page.text)


def check(page: WebUrl, copy: Copy, now: float) -> None:
    """Return if the page may be fetched, or raise what a handler should raise.

    Raises:
        Drop: the site disallows the page.
        Retry, ConnectionError: see ``rules_of``.
    """
    if not rules_of(page, copy, now).allow(page.text):
        raise Drop(f"{robots_txt(page)} disallows it")


def rules_of(page: WebUrl, copy: Copy, now: float) -> Rules:
    """Return the rules of the page's site.

    Raises:
        Retry: the rules are unknown, because the site answers with errors; after its robots.txt is due again.
        ConnectionError: the rules are unknown, because the site is unreachable.
    """
    if copy.rules is not None:
        return copy.rules
    if copy.status is not None:
        after = max(copy.fetch_at - now, LEAST_RETRY_SECONDS)
        raise Retry(after, f"{robots_txt(page)}: {copy.trouble}", status_code=copy.status)
    raise ConnectionError(f"{robots_txt(page)}: {copy.trouble}")


def page_of_site(url: str) -> WebUrl:
    """Parse the URL of a page of a site.

    Raises:
        ValueError: it is not an http or https URL.
    """
    page = web_url(url)
    if page is None:
        raise ValueError(f"site: expected an absolute http or https URL of it, not {url!r}")
    return page


def checked_answer(answer: object) -> Answer:
    """Return the result of a fetch function, if it is valid.

    Raises:
        TypeError: it is not a tuple of status and body.
    """
    match answer:
        case (int() as status, bytes() as body):
            return status, body
    raise TypeError(f"fetch: expected it to return a tuple of status and body, (int, bytes), not {answer!r:.100}")
