"""The demo's crawler: fetches one page and returns the pages that it links to.

This is all that a crawler's author writes; ``taskqueue work taskqueue.demo.crawler:crawl -p demo`` does the rest. What
the scheduler decides (pace, order, deduplication, retries) is not here.
"""

from __future__ import annotations

from http.client import HTTPConnection, responses
from urllib.parse import urlsplit

from taskqueue import Drop, NewTask, Retry, Task, new_task
from taskqueue.demo.links import leads_to
from taskqueue.demo.page import HTML, Page
from taskqueue.demo.webserver import AGENT

TIMEOUT_SECONDS = 10.0
MAX_PAGE_BYTES = 64 << 20
BUSY = (429, 503)
BUSY_SECONDS = 60.0
"""Pause after an answer that says "not now"."""

ARCHIVE_SECONDS = 3.0
"""The archive isn't urgent: its pages wait so long after they were found."""


def crawl(task: Task) -> list[NewTask]:
    """Fetch one page; its links, or the target of its redirect, are the new tasks.

    Raises:
        Retry: the site is busy.
        Drop: there is no such page; trying again would not help.
    """
    page = fetch(task.url)
    if page.status in BUSY:
        raise Retry(after=BUSY_SECONDS)
    if page.status >= 400:
        raise Drop(f"{page.status} {responses.get(page.status, '')}")
    return [new_task(url, delay=_delay(url)) for url in leads_to(page, task.url)]


def fetch(url: str) -> Page:
    """One GET without following redirects: the target of a redirect is a task of its own."""
    split = urlsplit(url)
    connection = HTTPConnection(split.netloc, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", split._replace(scheme="", netloc="").geturl(), headers={"User-Agent": AGENT})
        answer = connection.getresponse()
        body = answer.read(MAX_PAGE_BYTES)
    finally:
        connection.close()
    location = answer.headers.get("Location", "") if 300 <= answer.status < 400 else ""
    return Page(answer.status, body, answer.headers.get("Content-Type", HTML), location)


def _delay(url: str) -> float | None:
    return ARCHIVE_SECONDS if "/archive/" in url else None
