"""A whole crawler. Start a daemon, then:

taskqueue project start demo
taskqueue push demo https://example.com/
python examples/crawler.py
"""

import re
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

from taskqueue import Task, Worker


def crawl(task: Task) -> list[str]:
    """Fetch a page and return its links to the same site: they are the new tasks."""
    with urlopen(task.url, timeout=30) as page:
        html = page.read().decode(errors="replace")
    links = {urljoin(task.url, link) for link in re.findall(r'href="([^"]+)"', html)}
    return sorted(link for link in links if urlsplit(link).netloc == urlsplit(task.url).netloc)


if __name__ == "__main__":
    Worker(None, crawl, projects=["demo"], concurrency=10).run()
