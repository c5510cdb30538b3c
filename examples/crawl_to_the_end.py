"""Push a crawl, wait for its end, and print its outcome. Start a daemon and the crawler first:

taskqueue project set demo rate=5 slot.by=host max_depth=20
python examples/crawler.py &
python examples/crawl_to_the_end.py https://example.com/ https://EXAMPLE.com/#top https://example.org/
"""

import sys

from taskqueue import Client


def main(*start: str) -> None:
    """Crawl all pages that the start pages lead to; one page written in several ways is one task."""
    with Client() as client:
        with client.projects.keep_open("demo"):
            print(client.push_many("demo", start, canonical=True))
        client.projects.wait("demo")
        counts = client.projects.get("demo").counts
        print(f"{counts.success} pages crawled, {counts.failed} failed")
        for row in client.tasks.iter("demo", "failed"):
            print(f"{row.url}: {client.tasks.get('demo', row.taskid).error.splitlines()[-1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
