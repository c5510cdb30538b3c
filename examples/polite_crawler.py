"""A crawler that begins with the sitemaps of a site and obeys its robots.txt, Crawl-delay included.

Start a daemon, then:

python examples/polite_crawler.py https://example.com/
"""

import logging
import sys

from taskqueue import Client, Task, Worker
from taskqueue.http import Http
from taskqueue.robots import Robots

AGENT = "examplebot"
PROJECT = "demo"
SETTINGS: dict[str, int | dict[str, str]] = {"rate": 5, "slot": {"by": "host"}, "max_depth": 20}
"""Each host has a pace of its own, which its robots.txt may slow down; ``max_depth`` ends crawler traps."""

http = Http(f"{AGENT}/1.0 (+https://example.com/bot)")


def main(site: str) -> None:
    """Crawl a site in one process; several may run at once."""
    with Client() as client:
        client.projects.set(PROJECT, SETTINGS)
        robots = Robots(http.get, AGENT, slots=client.slots, projects=[PROJECT])

        def crawl(task: Task) -> list[str]:
            """Fetch a page if robots.txt allows it, and return the links that the site allows to follow."""
            robots.check(task.url)
            return http.fetch(task).links(nofollow=True)

        client.push(PROJECT, site)
        client.push_many(PROJECT, robots.sitemap_tasks(site))
        Worker(crawl, [PROJECT], concurrency=10).run()


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    main(*sys.argv[1:])
