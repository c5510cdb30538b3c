"""A complete crawler. Start a daemon, then:

taskqueue project set demo rate=5 slot.by=host max_depth=20
taskqueue push demo https://example.com/
python examples/crawler.py
"""

import logging

from taskqueue import Task, Worker
from taskqueue.http import Http

http = Http("examplebot/1.0 (+https://example.com/bot)")


def crawl(task: Task) -> list[str]:
    """Fetch a page and return its links to the same site, redirects included: these are the new tasks."""
    return http.fetch(task).links()


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    Worker(crawl, ["demo"], concurrency=10).run()
