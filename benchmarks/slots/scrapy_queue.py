"""Scrapy's own queue of many domains, ``DownloaderAwarePriorityQueue``, called as its engine calls it.

Scrapy's queue in memory has a request for each domain. The next one is popped, is in flight until the next pop, and
another request of the same domain, which isn't counted, takes its place. The queue prefers the domain with the fewest
requests in flight and knows no time: the downloader keeps the delay of a domain, after the pop.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any


def missing() -> str:
    """Return why it can't be measured; empty if it can."""
    try:
        import scrapy.pqueues  # noqa: F401
    except ImportError as error:
        return f"the package {error.name} is not installed"
    return ""


def rate(domains: int, pops: int) -> float:
    """Measure pops a second of CPU."""
    from scrapy import Request
    from scrapy.core.downloader import Downloader
    from scrapy.pqueues import DownloaderAwarePriorityQueue
    from scrapy.settings import Settings
    from scrapy.squeues import FifoMemoryQueue
    from scrapy.utils.httpobj import urlparse_cached

    class Idle(Downloader):  # type: ignore[misc]  # as it may not be installed
        """Downloader that loads nothing: the domains' slots alone."""

        def __init__(self) -> None:
            self.slots: dict[str, Any] = {}

        def get_slot_key(self, request: Any) -> str:
            return urlparse_cached(request).hostname or ""

    downloader = Idle()
    crawler: Any = SimpleNamespace(settings=Settings(), engine=SimpleNamespace(downloader=downloader))
    queue = DownloaderAwarePriorityQueue.from_crawler(crawler, FifoMemoryQueue, "")
    for number in range(domains):
        queue.push(Request(f"http://www.site-{number}.org/"))
    seconds = 0.0
    for _ in range(pops):
        began_at = time.thread_time()
        request = queue.pop()
        seconds += time.thread_time() - began_at
        assert request is not None
        queue.push(Request(request.url))
    return pops / seconds
