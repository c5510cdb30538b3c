"""Fetching in one process, processing in another, as many of each as you like. Start a daemon, then:

taskqueue project set demo slot.by=host max_depth=20
taskqueue push demo https://example.com/
python examples/fetcher_and_processor.py processor &
python examples/fetcher_and_processor.py fetcher

The channel between them is yours; here it is ZeroMQ. A full one makes the fetchers wait. If a killed process loses a
task, it runs again when its lease runs out.
"""

import os
import sys

import msgspec
import zmq
import zmq.asyncio

from taskqueue import Client, PassedOn, Task, Worker
from taskqueue.http import AsyncHttp, Page

CHANNEL = os.environ.get("CHANNEL", "tcp://127.0.0.1:7410")
PAGES_ON_THEIR_WAY = 100

http = AsyncHttp("examplebot/1.0 (+https://example.com/bot)")


def fetcher() -> None:
    """Fetch pages, and pass them on with their tasks."""
    channel = zmq.asyncio.Context.instance().socket(zmq.PUSH)
    channel.set_hwm(PAGES_ON_THEIR_WAY)
    channel.connect(CHANNEL)

    async def fetch(task: Task) -> None:
        page = await http.fetch(task)
        await channel.send_multipart([task.to_bytes(), msgspec.msgpack.encode(page)])
        raise PassedOn

    Worker(fetch, ["demo"], concurrency=10).run()


def processor() -> None:
    """Process pages, and report their tasks: the daemon stores the links in the same commit as the success."""
    channel: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    channel.set_hwm(PAGES_ON_THEIR_WAY)
    channel.bind(CHANNEL)
    with Client() as client:
        while True:
            travelled, fetched = channel.recv_multipart()
            task = Task.from_bytes(travelled)
            try:
                found = msgspec.msgpack.decode(fetched, type=Page).links()
            except Exception as error:  # Any error of reading the page.
                client.failed(task, repr(error))
            else:
                client.done(task, new=found)


if __name__ == "__main__":
    {"fetcher": fetcher, "processor": processor}[sys.argv[1]]()
