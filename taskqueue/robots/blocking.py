"""Robots: robots.txt for code that waits.

Made by ``python -m tools.blocking_client`` of ``AsyncRobots``; change that one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Unpack

from taskqueue.client.tasks.push_options import PushOptions, explains_options
from taskqueue.client.web_urls import Same, WebUrl, web_url
from taskqueue.errors import ClientError
from taskqueue.protocol.values import NewTask
from taskqueue.robots.fetches import Fetches
from taskqueue.robots.robots_txt import (
    MAX_AGE_SECONDS,
    Answer,
    Book,
    Copy,
    Limits,
    check,
    checked_answer,
    is_allowed,
    page_of_site,
    robots_txt,
    rules_of,
)
from taskqueue.robots.sitemaps import MAX_FILES, SitemapWalk, log, read_answer
from taskqueue.robots.slot_delays import Slots, several_projects, slot_of_host

Fetch = Callable[[str], Answer]


class Robots:
    """Rules of sites for crawlers, from their robots.txt (RFC 9309), each of which is fetched once a day.

    Methods block while a robots.txt is fetched. Threads that ask for the same site at once share one fetch.

    Args:
        fetch: called with a URL, returns status and body of the answer, ``(200, b"…")``. It must follow
            redirects, have a timeout of its own, and undo Content-Encoding; it may cut a body after 50 MiB. Any
            exception means that the site is unreachable.
        agent: the crawler's product token, such as "examplebot", which must be part of its User-Agent.
        slots: ``client.slots`` of a client, which receives crawl-delays, once for each change; for projects that are
            divided into slots. A delay that a site no longer asks for stays.
        projects: projects whose slots receive them.
        slot_of: names the slot of a URL; by default host and port, as with ``slot.by = "host"``.
        max_age: seconds until a robots.txt is fetched again, at most a day.
        min_delay, max_delay: bounds of a crawl-delay, in seconds.
        max_origins: sites that are cached, the most recently used; 8 MiB of text in total.
    """

    def __init__(
        self,
        fetch: Fetch,
        agent: str,
        *,
        slots: Slots | None = None,
        projects: Iterable[str] = (),
        slot_of: Callable[[str], str] = slot_of_host,
        max_age: float = MAX_AGE_SECONDS,
        min_delay: float = 1.0,
        max_delay: float = 300.0,
        max_origins: int = 10_000,
    ) -> None:
        self._fetch = fetch
        self._slots = slots
        self._projects = several_projects(projects, needed=slots is not None)
        self._slot_of = slot_of
        self._book = Book(agent, Limits(max_age, min_delay, max_delay, max_origins))
        self._fetches = Fetches()

    def allowed(self, url: str) -> bool:
        """Return whether the URL may be fetched now; True for schemes other than http and https, without robots.txt.

        While a robots.txt is unavailable and no earlier copy of it is known, nothing of its site is allowed; ``check``
        tells this case from a disallowed URL.
        """
        page = web_url(url)
        return page is None or is_allowed(page, self._known(page, url))

    def check(self, url: str) -> None:
        """Return if the URL may be fetched now; otherwise raise what a handler should raise.

        Raises:
            Drop: the site disallows the URL.
            Retry: robots.txt was answered by 5xx or 429; the task runs again when robots.txt is due.
            ConnectionError: robots.txt could not be fetched at all.
        """
        page = web_url(url)
        if page is not None:
            check(page, self._known(page, url), time.monotonic())

    def crawl_delay(self, url: str) -> float | None:
        """Return the crawl-delay of the URL's site in seconds, within the bounds; None if it asks for none."""
        page = web_url(url)
        return None if page is None else self._book.crawl_delay(self._known(page, url))

    @explains_options
    def sitemap_tasks(
        self,
        site: str,
        *,
        sitemaps: Iterable[str] | None = None,
        same: Same = "host",
        max_files: int = MAX_FILES,
        **options: Unpack[PushOptions],
    ) -> Iterator[NewTask]:
        """Yield the pages in a site's sitemaps as tasks, with the time of their last change as ``itag``.

        So pushing a task again reruns a page that has changed, and no other. URLs are written as ``taskqueue.links``
        writes them. Sitemap indexes are followed, three levels deep; gzip and lists of URLs are read, too; feeds are
        not. Files are fetched one by one as tasks are consumed, at the site's crawl-delay or ``min_delay`` apart. A
        file that can't be fetched or read is logged to ``taskqueue.robots``, and skipped.

        Args:
            site: URL of any page of the site.
            sitemaps: URLs of the first files; None: those in its robots.txt, on any host.
            same: pages to take: those of the site's "host", of its registered "domain", or "any"; see
                ``taskqueue.links``.
            max_files: files that are fetched, at most; each has up to 50 MiB and 50,000 pages.
            options: for each task; an ``itag`` replaces those of the pages.

        Raises:
            Retry, ConnectionError: the robots.txt with the sitemaps is unavailable; see ``check``.
            ValueError: ``site`` is not an http or https URL, or ``same`` is invalid.
        """
        page = page_of_site(site)
        if sitemaps is None:
            sitemaps = rules_of(page, self._known(page, site), time.monotonic()).sitemaps
        walk = SitemapWalk(page, sitemaps, same, max_files, options)
        pause = 0.0
        while (file := walk.next_file()) is not None:
            time.sleep(pause)
            answer = self._answer(file.text)
            read = read_answer(answer)
            yield from walk.tasks(file, read)
            pause = self._book.pause(page, time.monotonic())

    def _known(self, page: WebUrl, url: str) -> Copy:
        """Return the copy of a site's robots.txt, after sending a changed crawl-delay to the slot."""
        copy = self._copy(page)
        if self._slots is not None:
            self._tell(self._slots, page, copy, self._slot_of(url))
        return copy

    def _copy(self, page: WebUrl) -> Copy:
        """Return the cached copy of a site's robots.txt, or fetch it."""
        copy = self._book.copy(page, time.monotonic())
        return copy or self._fetches.once(page.origin, lambda: self._fetched(page))

    def _fetched(self, page: WebUrl) -> Copy:
        copy = self._book.copy(page, time.monotonic())  # Another caller may just have fetched it.
        return copy or self._book.keep(page, self._answer(robots_txt(page)), time.monotonic())

    def _answer(self, url: str) -> Answer | Exception:
        try:
            answer = self._fetch(url)
        # Each HTTP library has errors of its own, and all mean the same here.
        except Exception as error:
            log.warning("event=unreachable url=%s error=%r", url, error)
            return error
        return checked_answer(answer)

    def _tell(self, slots: Slots, page: WebUrl, copy: Copy, slot: str) -> None:
        news = self._book.news(page, copy, slot, time.monotonic())
        if news is None:
            return
        heard = False
        try:
            for project in self._projects:
                slots.set(project, news.slot, delay=news.delay)
            heard = True
        except ClientError as error:
            log.warning("event=slot-untold slot=%r delay=%g error=%r", news.slot, news.delay, error)
        finally:  # Also after a cancellation or an interrupt.
            if not heard:
                self._book.unheard(news, time.monotonic())
