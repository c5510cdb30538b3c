"""A crawler that begins with the sitemaps of a site and keeps to its robots.txt. Start a daemon, then:

taskqueue project set demo rate=5
python examples/polite_crawler.py https://example.com/
"""

import logging
import sys

import urllib3

from taskqueue import Client, Task, Worker, links
from taskqueue.robots import Robots

AGENT = "examplebot"
MAX_PAGE_BYTES = 8 << 20
MAX_SITEMAP_BYTES = 50 << 20

http = urllib3.PoolManager(maxsize=10, timeout=30, headers={"User-Agent": f"{AGENT}/1.0 (+https://example.com/bot)"})


def get(url: str) -> tuple[int, bytes]:
    """Fetch a robots.txt or a sitemap, redirects followed."""
    with http.request("GET", url, preload_content=False) as answer:
        return answer.status, answer.read(MAX_SITEMAP_BYTES)


robots = Robots(get, AGENT)


def crawl(task: Task) -> list[str]:
    """Fetch a page that its site lets us fetch, and return where it leads to."""
    robots.check(task.url)
    with http.request("GET", task.url, retries=False, preload_content=False) as page:
        task.fetched(page.status, page.headers)
        if page.status >= 400:
            raise OSError(f"{page.status} {page.reason}")
        return links(page.read(MAX_PAGE_BYTES), task.url, headers=page.headers)


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    [site] = sys.argv[1:]
    with Client() as client:
        client.push("demo", site)
        client.push_many("demo", robots.sitemap_tasks(site))
    Worker(None, crawl, projects=["demo"], concurrency=10).run()
