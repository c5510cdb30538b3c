"""Crawler of the demo: fetches one page and returns the pages that it links to.

This is all that the author of a crawler writes; ``taskqueue work taskqueue.demo.crawler:crawl demo`` does the rest. The
daemon's part (pace, order, deduplication, retries) is not here.
"""

from __future__ import annotations

from taskqueue import NewTask, Task, new_task
from taskqueue.http import Http

ARCHIVE_SECONDS = 3.0
"""Delay of archive pages, which aren't urgent."""

http = Http("taskqueue-demo")


def crawl(task: Task) -> list[NewTask]:
    """Fetch one page, and return its links or the target of its redirect as new tasks."""
    found = http.fetch(task).links(exclude="utm_")
    return [new_task(url, delay=ARCHIVE_SECONDS if "/archive/" in url else None) for url in found]
