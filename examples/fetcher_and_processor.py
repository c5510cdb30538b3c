"""Fetching in one process, processing in another, as many of each as you like. Start a daemon, then:

taskqueue project set demo slot.by=host max_depth=20
taskqueue push demo https://example.com/
python examples/fetcher_and_processor.py processor &
python examples/fetcher_and_processor.py fetcher

The channel between them is yours; here it is ZeroMQ. A full one makes the fetchers wait. What it loses, with a process
that is killed, is run again when the task's lease runs out.
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
    """Process pages, and report their tasks: the links that were found are kept in the same commit as the end."""
    channel: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    channel.set_hwm(PAGES_ON_THEIR_WAY)
    channel.bind(CHANNEL)
    with Client() as client:
        while True:
            travelled, fetched = channel.recv_multipart()
            task = Task.from_bytes(travelled)
            try:
                found = msgspec.msgpack.decode(fetched, type=Page).links()
            except Exception as error:  # Whatever a page does to the code that reads it.
                client.failed(task, repr(error))
            else:
                client.done(task, new=found)


if __name__ == "__main__":
    {"fetcher": fetcher, "processor": processor}[sys.argv[1]]()
