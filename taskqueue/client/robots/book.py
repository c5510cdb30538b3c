"""The book: what is known of all sites, and what follows from it for a url. It fetches nothing and knows no time."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from taskqueue.client.connection.patience import checked_seconds
from taskqueue.client.links.web_urls import WebUrl, web_url
from taskqueue.client.robots.copies import Answer, Copies, Copy
from taskqueue.client.robots.rules import Rules, checked_agent
from taskqueue.client.robots.slot_delays import SlotDelay, SlotDelays
from taskqueue.client.worker.outcome import Drop, Retry

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
