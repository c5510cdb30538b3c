"""Channels: the picture that all browsers at a view share, and what has changed since each browser's last update.

    daemon ──look──► picture ──show──► Channel ──► changes since version n ──► stream ──► browser
                     (once for all)                (encoded once, if all browsers are up to date)

A picture has *parts* by name: blocks of HTML, cells, rows, their order. A browser that reads slowly gets the newest
values later, without those in between, so nothing is queued for it. A channel lives while a browser follows it. A
stream is an endless response of server-sent events (WHATWG HTML, section 9.2).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from taskqueue.errors import TaskQueueError
from taskqueue.texts.visible_text import visible_lines

log = logging.getLogger("taskqueue.web")

Picture = Mapping[str, Mapping[str, Any]]
"""Values by section (``blocks``, ``cells``, ``rows``, ``order``) and name, sent as JSON.

Channels add the section ``state``: ``trouble`` says why the picture is out of date; empty if it is not.
"""

Look = Callable[[], Awaitable[Picture]]
"""Function that makes the current picture."""

_TROUBLE: Final = ("state", "trouble")

MADE: Final = ("blocks", "rows")
"""Sections made by templates."""

LOOKS_A_SECOND: Final = 50
"""Looks of all views together; with thousands of views, each with another query, each changes less often."""

BUG_SECONDS: Final = 30.0
"""Pause after a look that failed by a bug, so that it does not flood the log."""

SOONEST_SECONDS: Final = 1.0
"""Time between two looks at the same view."""


class Channel:
    """View that browsers share.

    Attributes:
        version: grows with each picture that differs.
    """

    def __init__(self) -> None:
        self.version = 0
        self._values: dict[tuple[str, str], Any] = {}
        self._since: dict[tuple[str, str], int] = {}
        self._news = asyncio.Event()
        self._latest: tuple[int, bytes] = (0, b"")

    def show(self, picture: Picture) -> None:
        """Take a picture, and send what is new or has changed to all browsers."""
        self._take({(section, name): value for section, part in picture.items() for name, value in part.items()})

    def fail(self, why: str) -> None:
        """Send the reason why there is no new picture; the rest stays."""
        self._take({**self._values, _TROUBLE: why})

    def _take(self, values: dict[tuple[str, str], Any]) -> None:
        values.setdefault(_TROUBLE, "")
        changed = [key for key, value in values.items() if self._values.get(key, self) != value]
        gone = [key for key in self._values if key not in values]
        if not changed and not gone and self.version:
            return
        for key in gone:
            self._since.pop(key)
        self.version += 1
        self._values = values
        self._since.update((key, self.version) for key in changed)
        self._latest = (self.version - 1, self._encoded(changed))
        self._news.set()
        self._news = asyncio.Event()

    async def after(self, version: int) -> tuple[int, bytes]:
        """Wait for a change since a version; return the new version and all changes since."""
        while self.version <= version:
            await self._news.wait()
        before, latest = self._latest
        if before == version:
            return self.version, latest
        return self.version, self._encoded([key for key, since in self._since.items() if since > version])

    def _encoded(self, keys: list[tuple[str, str]]) -> bytes:
        parts: dict[str, dict[str, Any]] = {}
        for section, name in keys:
            value = self._values[section, name]
            parts.setdefault(section, {})[name] = value if section in MADE else _shown(value)
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()


def _shown(value: Any) -> Any:
    """Make hidden and reversing characters visible in foreign texts; templates have done so in their output."""
    if isinstance(value, str):
        return visible_lines(value)
    return {name: _shown(part) for name, part in value.items()} if isinstance(value, dict) else value


class Channels:
    """Channels of all views that browsers follow."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Channel, asyncio.Task[None]]] = {}
        self._lookers: dict[str, int] = {}

    async def changes(self, view: str, look: Look, every: float = SOONEST_SECONDS) -> AsyncGenerator[bytes, None]:
        """Yield the changes of a view, beginning with all of it.

        Args:
            view: name of the view; the same name shares the same channel.
            look: makes its picture; with the same name, the first one is used.
            every: seconds between two looks.
        """
        channel = self._join(view, look, every)
        try:
            version = 0
            while True:
                version, change = await channel.after(version)
                yield change
        finally:
            await self._leave(view)

    def _join(self, view: str, look: Look, every: float) -> Channel:
        if view not in self._open:
            channel = Channel()
            self._open[view] = channel, asyncio.create_task(self._keep_looking(channel, look, every))
        self._lookers[view] = self._lookers.get(view, 0) + 1
        return self._open[view][0]

    async def _leave(self, view: str) -> None:
        self._lookers[view] -= 1
        if self._lookers[view]:
            return
        del self._lookers[view]
        _, looking = self._open.pop(view)
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking

    async def _keep_looking(self, channel: Channel, look: Look, every: float) -> None:
        while True:
            try:
                channel.show(await look())
            except HTTPException as refused:
                channel.fail(refused.detail)
            except TaskQueueError as error:
                channel.fail(str(error))
            except Exception:
                log.exception("web-bug")
                channel.fail("this is a bug; the log of the web process has it")
                await asyncio.sleep(BUG_SECONDS)
            await asyncio.sleep(max(every, len(self._open) / LOOKS_A_SECOND))


# -------------------------------------------------------------------------------------------------------------- streams

QUIET_SECONDS: Final = 15.0
"""Time without a change after which a comment is sent, by which both sides notice a lost connection."""

RETRY_MILLISECONDS: Final = 2000


def stream(changes: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Make a response of events ``change``, each with one line of JSON."""
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
