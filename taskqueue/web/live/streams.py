"""Server-sent events (WHATWG HTML, section 9.2): what changes in a view, as a response that does not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import StreamingResponse

QUIET_SECONDS: Final = 15.0
"""After so long without a change a comment is sent, by which both sides notice that the other has gone."""

RETRY_MILLISECONDS: Final = 2000


def stream(changes: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """A response of events ``change``, each with one line of JSON."""
    return StreamingResponse(
        _events(changes),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(changes: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    queue: asyncio.Queue[bytes] = asyncio.Queue(1)
    pumping = asyncio.create_task(_pump(changes, queue))
    try:
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    change = await queue.get()
            except TimeoutError:
                yield b": quiet\n\n"
            else:
                yield b"event: change\ndata: " + change + b"\n\n"
    finally:
        pumping.cancel()


async def _pump(changes: AsyncGenerator[bytes, None], queue: asyncio.Queue[bytes]) -> None:
    async with aclosing(changes):
        async for change in changes:
            await queue.put(change)
