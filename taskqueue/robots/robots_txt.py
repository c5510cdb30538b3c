"""robots.txt: what one says to one crawler, how long a copy of it is good, and what follows from all of them for a url.

It fetches nothing and knows no time. ``protego`` parses a file, as RFC 9309 says (``Rules``):

    lines ──► user agents: ours | * | somebody's ──► protego ──► may this url be fetched? how fast? which sitemaps?

A file is a stranger's. ``protego`` gives each user agent that is named its own copy of each rule of its group: 60 KB
that name 3,000 agents above 3,000 rules took it 20 s and 600 MB. So all agents that are not meant here are made one
before: then no 500 KiB that were tried took it more than 0.3 s and 30 MB.

How long a copy is good, what stands for a file that can't be had, and how many are kept (``Copies``):

    answer 2xx ────────────────► its rules                                  for ``max_age``
    answer 4xx, but for 429 ───► no rules: all is allowed                   for ``max_age``
    any other answer, or none ─► the last rules, or all is disallowed       for 1 minute, 2, 4, … an hour

These are sections 2.3.1 and 2.4 of RFC 9309. An answer 429 is a 4xx by its number only: a site that has too much to do
has not said that all is allowed. A 3xx is a redirect that was not followed: what it leads to is not known.

What is known of all sites, and judgements by it, are in the ``Book``.
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


Answer = tuple[int, bytes]
"""Status of an HTTP answer, and its body."""

MAX_AGE_SECONDS: Final = 86_400.0
"""RFC 9309, section 2.4."""

TOO_MANY_REQUESTS: Final = 429

FIRST_DELAY_SECONDS: Final = 60.0
LAST_DELAY_SECONDS: Final = 3600.0
MOST_DOUBLINGS: Final = 6

MAX_CHARS: Final = 8 << 20
"""Of all rules that are kept: they take some 20 times as much memory, hostile ones 60 times."""


class Copy(NamedTuple):
    """What is known of one robots.txt.

    Attributes:
        rules: None: it could not be had, and all is disallowed.
        fetch_at: when it is to be fetched again, by the clock of whoever keeps it.
        failures: how often in a row it could not be had.
        trouble: why, such as "answered by 503" or "TimeoutError: timed out"; "": it could.
        status: of the answer that it was; None: there was none.
    """

    rules: Rules | None
    fetch_at: float
    failures: int = 0
    trouble: str = ""
    status: int | None = None

    @property
    def size(self) -> int:
        """Characters of its rules."""
        return 0 if self.rules is None else self.rules.size


class Copies:
    """A copy for each origin; those that nobody has asked for lately make room for others.

    Args:
        agent: whom the rules are read for.
        max_age: seconds, at most a day.
        max_origins: copies that are kept.
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
        """The copy that is good now; None: it must be fetched."""
        copy = self._kept.get(origin)
        if copy is None or now >= copy.fetch_at:
            return None
        self._kept.move_to_end(origin)
        return copy

    def keep(self, origin: str, answer: Answer | Exception, now: float) -> Copy:
        """Take what came of fetching it: the answer, or why there was none."""
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
    """What a site can make of us.

    Attributes:
        max_age: seconds that a robots.txt is good for, at most a day.
        min_delay, max_delay: seconds that a crawl-delay counts as at least, and at most.
        max_origins: robots.txt, and slots, that are remembered.
    """

    max_age: float
    min_delay: float
    max_delay: float
    max_origins: int


class Book:
    """Copies of robots.txt, and judgements by them. Threads may share it: a lock guards what it keeps.

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
        """What is known of the page's site; None: its robots.txt must be fetched."""
        with self._lock:
            return self._copies.get(page.origin, now)

    def keep(self, page: WebUrl, answer: Answer | Exception, now: float) -> Copy:
        """Take what came of fetching the robots.txt of the page's site."""
        with self._lock:
            return self._copies.keep(page.origin, answer, now)

    def crawl_delay(self, copy: Copy) -> float | None:
        """Seconds that the site asks for, within the limits; None: it asks for nothing."""
        if copy.rules is None or copy.rules.crawl_delay is None:
            return None
        return min(max(copy.rules.crawl_delay, self._limits.min_delay), self._limits.max_delay)

    def news(self, page: WebUrl, copy: Copy, slot: str, now: float) -> SlotDelay | None:
        """What the page's slot is to be told, and counts as told; None: nothing."""
        with self._lock:
            return self._delays.news(slot, page.origin, self.crawl_delay(copy), now) if slot else None

    def unheard(self, news: SlotDelay, now: float) -> None:
        """It could not be told."""
        with self._lock:
            self._delays.unheard(news, now)

    def pause(self, page: WebUrl, now: float) -> float:
        """Seconds between two files of the page's site that are fetched without a task."""
        copy = self.copy(page, now)
        asked = None if copy is None else self.crawl_delay(copy)
        return self._limits.min_delay if asked is None else asked


def robots_txt(page: WebUrl) -> str:
    """Url of the robots.txt of a page's site."""
    return f"{page.origin}/robots.txt"


def is_allowed(page: WebUrl, copy: Copy) -> bool:
    """Whether the page may be fetched now."""
    return copy.rules is not None and copy.rules.allow(page.text)


def check(page: WebUrl, copy: Copy, now: float) -> None:
    """Let a handler go on, or raise what becomes of its task.

    Raises:
        Drop: the site does not want the page to be fetched.
        Retry, ConnectionError: see ``rules_of``.
    """
    if not rules_of(page, copy, now).allow(page.text):
        raise Drop(f"{robots_txt(page)} disallows it")


def rules_of(page: WebUrl, copy: Copy, now: float) -> Rules:
    """What the page's site asks for.

    Raises:
        Retry: nobody knows, since the site answers with errors; after the next look at its robots.txt.
        ConnectionError: nobody knows, since the site can't be reached.
    """
    if copy.rules is not None:
        return copy.rules
    if copy.status is not None:
        after = max(copy.fetch_at - now, LEAST_RETRY_SECONDS)
        raise Retry(after, f"{robots_txt(page)}: {copy.trouble}", status_code=copy.status)
    raise ConnectionError(f"{robots_txt(page)}: {copy.trouble}")


def page_of_site(url: str) -> WebUrl:
    """Any page of the site that is meant.

    Raises:
        ValueError: it is none of http or https.
    """
    page = web_url(url)
    if page is None:
        raise ValueError(f"site: expected an absolute http or https url of it, not {url!r}")
    return page


def checked_answer(answer: object) -> Answer:
    """What a fetch function has returned, if it is what it should be.

    Raises:
        TypeError: it is not.
    """
    match answer:
        case (int() as status, bytes() as body):
            return status, body
    raise TypeError(f"fetch: expected it to return a tuple of status and body, (int, bytes), not {answer!r:.100}")
