"""A fetcher without Worker, for a crawler with an event loop of its own. Start a daemon first."""

import asyncio
import signal
from contextlib import suppress

from taskqueue import AsyncClient


async def main() -> None:
    """Take tasks of the project demo one by one; while one runs, the next ones are on their way."""
    async with AsyncClient() as client:
        async for task in client.stream(["demo"], places=8):
            if task.retried > 1:
                await client.failed(task, "given up by examples/own_loop.py", retry=False)
            else:
                await client.done(task, new=[f"{task.url}?page=2"] if "?" not in task.url else [])


async def until_told_to_stop() -> None:
    """Leave the loop at SIGTERM or Ctrl-C; closing the client gives back its tasks."""
    fetching = asyncio.ensure_future(main())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, fetching.cancel)
    with suppress(asyncio.CancelledError):
        await fetching


if __name__ == "__main__":
    asyncio.run(until_told_to_stop())
