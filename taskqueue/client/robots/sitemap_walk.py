"""A walk through the sitemaps of a site: which file is to be fetched next, and which tasks it gives.

    Sitemap lines of robots.txt, or named by the caller ──► files ──► pages of the site ──► tasks
                                                              ▲   │
                                                              └───┴─ sitemap indexes: further files

Rules:

1. A page counts if it is of the site; the protocol has folders of sitemaps, too, which nobody keeps to.
2. robots.txt may name sitemaps anywhere. An index may only name those of its own host, or of the site.
3. Each file is read once, no more than MAX_LEVELS below the first one, and no more than the caller wants.
4. A file that can't be had, or read, is passed over, and the log says so.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from taskqueue.client.connection.patience import checked_count
from taskqueue.client.links.web_urls import SAMES, Same, WebUrl, belongs, web_url
from taskqueue.client.robots.copies import Answer
from taskqueue.client.robots.sitemap_file import Entry, SitemapFile, read_sitemap
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_options import PushOptions
from taskqueue.protocol.fields import NewTask

MAX_LEVELS: Final = 3
"""The protocol knows one level of indexes; some sites have two."""

MAX_FILES: Final = 1_000

log = logging.getLogger("taskqueue.robots")


class SitemapWalk:
    """One walk. Ask for the next file, fetch it, and take the tasks that it gives, until there is none.

    Args:
        site: any page of it.
        named: urls of the first files.
        same: which pages are of the site, as ``taskqueue.links`` has it.
        max_files: that are fetched.
        options: for each task.
    """

    def __init__(self, site: WebUrl, named: Iterable[str], same: Same, max_files: int, options: PushOptions) -> None:
        if same not in SAMES:
            raise ValueError(f"same: expected one of {', '.join(SAMES)}, not {same!r}")
        self._site = site
        self._same = same
        self._options = options
        self._left = checked_count("max_files", max_files)
        self._level = 0
        self._seen: set[str] = set()
        self._files: deque[tuple[int, WebUrl]] = deque()
        for written in islice(named, max_files):
            if (file := web_url(written)) is None:
                log.warning("event=sitemap-unread url=%r reason='no absolute url of http or https'", written)
            else:
                self._add(file, 0)

    def next_file(self) -> WebUrl | None:
        """The next file to be fetched; None: that was all."""
        if not self._files or self._left <= 0:
            return None
        self._left -= 1
        self._level, file = self._files.popleft()
        return file

    def tasks(self, file: WebUrl, read: SitemapFile) -> Iterator[NewTask]:
        """The tasks that the last file gives; its sitemaps are fetched later."""
        if read.trouble:
            log.warning("event=sitemap-unread url=%s pages=%d reason=%r", file.text, len(read.pages), read.trouble)
        for written in read.sitemaps if self._level < MAX_LEVELS else ():
            sitemap = web_url(written)
            if sitemap is not None and (belongs(sitemap, file, "host") or belongs(sitemap, self._site, self._same)):
                self._add(sitemap, self._level + 1)
            if len(self._files) >= self._left:
                break
        for entry in read.pages:
            page = web_url(entry.url)
            if page is not None and belongs(page, self._site, self._same):
                yield new_task(page.text, **_with_itag(self._options, entry))

    def _add(self, file: WebUrl, level: int) -> None:
        if file.text not in self._seen:
            self._seen.add(file.text)
            self._files.append((level, file))


def read_answer(answer: Answer | Exception) -> SitemapFile:
    """What came of fetching a file: what it says, or why nobody knows."""
    if isinstance(answer, Exception):
        return SitemapFile([], [], f"{type(answer).__name__}: {answer}")
    status, body = answer
    return read_sitemap(body) if 200 <= status < 300 else SitemapFile([], [], f"answered by {status}")


def _with_itag(options: PushOptions, entry: Entry) -> PushOptions:
    """The options of a task: another time of its last change restarts it, unless the caller has an itag for all."""
    return {"itag": entry.lastmod or None, **options}
