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
        if page.status in (404, 410):
            raise Drop(f"{page.status} {page.reason}")
        if page.status in (429, 503):
            raise Retry(after=seconds(page.headers.get("Retry-After", "")))
        if page.status >= 400:
            raise OSError(f"{page.status} {page.reason}")
        return links(page.read(MAX_PAGE_BYTES), task.url, headers=page.headers)


def seconds(retry_after: str) -> float:
    """How long a busy site wants to be left alone; a day at most."""
    return min(float(retry_after), 86_400.0) if retry_after.isdecimal() else BUSY_SECONDS


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    Worker(None, crawl, projects=["demo"], concurrency=10).run()
