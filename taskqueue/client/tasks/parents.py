"""Parents of a task: asked of the daemon page by page, while a caller iterates over them.

async for parent in task.parents()      in a coroutine
for parent in task.parents()            in a thread, also that of a plain handler
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import CancelledError
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from taskqueue.client.connection.exchange import Exchange
from taskqueue.errors import ClientClosed
from taskqueue.protocol.base import without_envelope
from taskqueue.protocol.tasks import PackedParent, Parent, TaskParents, TaskParentsReply


def _parent(packed: PackedParent) -> Parent:
    return replace(without_envelope(Parent, packed), result=decoded(packed.result))


def decoded(packed: Raw) -> Any:
    """Decode a body or a result; one that Python can't represent, such as text that is not utf-8, stays MessagePack."""
    try:
        return msgspec.msgpack.decode(packed)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return packed


class ParentPages:
    """Source of the parents of tasks, which it asks for page by page."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    def note_loop(self) -> None:
        """Record the running loop as the client's, which answers threads."""
        self._loop = asyncio.get_running_loop()

    async def all(self, project: str, taskid: str) -> AsyncGenerator[Parent, None]:
        """Iterate over all parents of a task, in a constant order; raises as any call of the client."""
        after: int | None = 0
        while after is not None:
            page = await self._page(project, taskid, after)
            for view in page.parents:
                yield _parent(view)
            after = page.next

    def all_in_thread(self, project: str, taskid: str) -> Iterator[Parent]:
        """Iterate over all parents of a task in a thread, which waits for each page."""
        after: int | None = 0
        while after is not None:
            page = self._wait_for_page(project, taskid, after)
            yield from map(_parent, page.parents)
            after = page.next

    def is_in_loop(self) -> bool:
        """Return True in the client's loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def _page(self, project: str, taskid: str, after: int) -> TaskParentsReply:
        return await self._exchange.ask(TaskParents(project=project, taskid=taskid, after=after))

    def _wait_for_page(self, project: str, taskid: str, after: int) -> TaskParentsReply:
        if self._process != os.getpid():
            raise ClientClosed(f"the client of this task belongs to process {self._process}, which forked this one")
        loop = self._loop
        if loop is None or loop.is_closed():
            raise ClientClosed("the client was closed")
        asking = asyncio.run_coroutine_threadsafe(self._page(project, taskid, after), loop)
        try:
            return asking.result()
        except CancelledError:
            raise ClientClosed("the client was closed") from None
        except BaseException:
            # A Ctrl-C must not leave the request waiting in the loop.
            asking.cancel()
            raise


class Parents:
    """Parents of one task, for ``for`` or ``async for``, as often as wanted; each iteration asks the daemon anew.

    Raises:
        RuntimeError: it is used with ``for`` in the client's event loop, or with ``async for`` in another one.
    """

    __slots__ = ("_pages", "_project", "_taskid")

    def __init__(self, pages: ParentPages, project: str, taskid: str) -> None:
        self._pages = pages
        self._project = project
        self._taskid = taskid

    def __aiter__(self) -> AsyncGenerator[Parent, None]:
        if not self._pages.is_in_loop():
            raise RuntimeError("task.parents(): go through it with `for`: its client does not live in this event loop")
        return self._pages.all(self._project, self._taskid)

    def __iter__(self) -> Iterator[Parent]:
        if self._pages.is_in_loop():
            raise RuntimeError("task.parents(): in a coroutine, go through it with `async for`")
        return self._pages.all_in_thread(self._project, self._taskid)
