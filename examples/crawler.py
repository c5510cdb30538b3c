"""A whole crawler. Start a daemon, then:

taskqueue project set demo rate=5
taskqueue push demo https://example.com/
python examples/crawler.py
"""

import logging

import urllib3

from taskqueue import Drop, Retry, Task, Worker, links

MAX_PAGE_BYTES = 8 << 20
BUSY_SECONDS = 60.0

http = urllib3.PoolManager(maxsize=10, timeout=30)
"""Speaks http and https only: no url makes it open a local file."""


def crawl(task: Task) -> list[str]:
    """Fetch a page and return where it leads to on the same site, redirects included: these are the new tasks."""
    with http.request("GET", task.url, retries=False, preload_content=False) as page:
        task.fetched(page.status, page.headers)
        if page.status in (404, 410):
            raise Drop(f"{page.status} {page.reason}")
        if page.status in (429, 503):
            raise Retry(after=task.retry_after or BUSY_SECONDS)
        if page.status >= 400:
            raise OSError(f"{page.status} {page.reason}")
        return links(page.read(MAX_PAGE_BYTES), task.url, headers=page.headers)


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    Worker(None, crawl, projects=["demo"], concurrency=10).run()
