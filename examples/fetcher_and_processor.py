"""Fetching in one process, processing in another, as many of each as you like. Start a daemon, then:

taskqueue project start demo
taskqueue push demo https://example.com/
python examples/fetcher_and_processor.py processor &
python examples/fetcher_and_processor.py fetcher

The channel between them is yours; here it is ZeroMQ. A full one makes the fetchers wait. What it loses, with a process
that is killed, is run again when the task's lease runs out.
"""

import asyncio
import os
import sys

import urllib3
import zmq
import zmq.asyncio

from taskqueue import Client, PassedOn, Task, Worker, links

CHANNEL = os.environ.get("CHANNEL", "tcp://127.0.0.1:7410")
PAGES_ON_THEIR_WAY = 100
MAX_PAGE_BYTES = 8 << 20

http = urllib3.PoolManager(maxsize=10, timeout=30)
"""Speaks http and https only: no url makes it open a local file."""


def fetcher() -> None:
    """Fetch pages, and pass them on with their tasks."""
    channel = zmq.asyncio.Context.instance().socket(zmq.PUSH)
    channel.set_hwm(PAGES_ON_THEIR_WAY)
    channel.connect(CHANNEL)

    async def fetch(task: Task) -> None:
        page = await asyncio.to_thread(download, task.url)
        await channel.send_multipart([task.to_bytes(), page])
        raise PassedOn

    Worker(None, fetch, projects=["demo"], concurrency=10).run()


def processor() -> None:
    """Process pages, and report their tasks: the links that were found are kept in the same commit as the end."""
    channel: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    channel.set_hwm(PAGES_ON_THEIR_WAY)
    channel.bind(CHANNEL)
    with Client() as client:
        while True:
            travelled, page = channel.recv_multipart()
            task = Task.from_bytes(travelled)
            try:
                found = links(page, task.url)
            except Exception as error:  # Whatever a page does to the code that reads it.
                client.failed(task, repr(error))
            else:
                client.done(task, new=found)


def download(url: str) -> bytes:
    """The page; what is raised here fails its task."""
    with http.request("GET", url, preload_content=False) as page:
        if page.status >= 400:
            raise OSError(f"{page.status} {page.reason}")
        return page.read(MAX_PAGE_BYTES)


if __name__ == "__main__":
    {"fetcher": fetcher, "processor": processor}[sys.argv[1]]()
