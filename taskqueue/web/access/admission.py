"""Run an endpoint for visitors with the right that it takes, in a place, for as long as they have it.

    short   whole request, or its first AHEAD_BYTES ──► place ──► endpoint ──► response
    long    place ──► endpoint ──► response, while the visitor's rights are checked

Places limit how many requests run at a time, so that a flood of browsers occupies this process and not the daemon:

    short   asks the daemon and answers: one of SHORT places, for which LINE others wait up to WAIT_SECONDS
    long    lasts as long as the client wants (streams, watching, waiting, pushing): a place at once, or none

A request without a place is answered 503 with Retry-After. No visitor gets all long places, unless all visitors share
one name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import Final, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from taskqueue.errors import TaskQueueError
from taskqueue.protocol.callers import Right
from taskqueue.web.access.access import WRONG_TOKEN, Access
from taskqueue.web.access.visitors import Visitor, demand, visitor_of

LOOK_SECONDS: Final = 0.5
"""Time between two checks of the rights of visitors with long responses; with that of an answer, less than a second."""

AHEAD_BYTES: Final = 64 * 1024
"""Bytes of a body that are awaited before the request takes a place, so that bodies that never arrive occupy none."""


class PerUser(Protocol):
    """Services of each user, for the endpoints: see ``UserServices``."""

    def used(self, visitor: Visitor) -> AbstractContextManager[object]:
        """Return a context that yields the visitor's services, and lasts as long as the request."""


class Admitted:
    """ASGI application: an endpoint, and the right that it takes.

    Args:
        is_long: True for long polls and streams.
    """

    def __init__(
        self, endpoint: Callable[[Request], Awaitable[Response]], right: Right | None, *, is_long: bool
    ) -> None:
        self._endpoint = endpoint
        self._right = right
        self._is_long = is_long

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or raise an HTTPException."""
        request = Request(scope, receive, send)
        demand(request, self._right)
        places: Places = request.app.state.places
        users: PerUser = request.app.state.users
        with users.used(visitor_of(request)) as request.state.services:
            if self._is_long:
                with places.long(visitor_of(request).name):
                    await self._answer_long(request, send)
                return
            receive = await _read_ahead(receive)
            async with places.short():
                response = await self._endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

    async def _answer_long(self, request: Request, send: Send) -> None:
        rights: Rights = request.app.state.rights
        sent: list[Message] = []

        async def sending(message: Message) -> None:
            sent[:] = [message]
            await send(message)

        try:
            async with asyncio.timeout(None) as ending:
                with rights.watched(request, ending):
                    response = await self._endpoint(request)
                    await response(request.scope, request.receive, sending)
        except TimeoutError:
            if not ending.expired():
                raise
            await _end(sent, send)


class Rights:
    """Running long requests, checked for their visitors' rights; without any of them there is no cost."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._watched: dict[asyncio.Timeout, HTTPConnection] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watched(self, request: HTTPConnection, ending: asyncio.Timeout) -> Iterator[None]:
        """Let ``ending`` expire soon after the visitor of the request loses its rights; without keys it never does."""
        self._watched[ending] = request
        if self._looking is None and self._access.has_keys:
            self._looking = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            del self._watched[ending]
            if not self._watched and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # While the daemon does not answer, it shows no user anything new.
            with suppress(TaskQueueError):
                for ending, request in list(self._watched.items()):
                    await self._look(ending, request)

    async def _look(self, ending: asyncio.Timeout, request: HTTPConnection) -> None:
        is_still = await self._access.is_still(visitor_of(request), request, request.state.arrival)
        if not is_still and ending in self._watched and not ending.expired():
            ending.reschedule(asyncio.get_running_loop().time())


async def _end(sent: list[Message], send: Send) -> None:
    """End a response whose last part was sent, or refuse if nothing was sent.

    Raises:
        HTTPException: 401.
    """
    if not sent:
        raise HTTPException(401, WRONG_TOKEN)
    if sent[0]["type"] == "http.response.start" or sent[0].get("more_body"):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read_ahead(receive: Receive) -> Receive:
    """Await a body, or the beginning of a long one; return a function that yields it again and then continues.

    Raises:
        ClientDisconnect: the client has disconnected.
        HTTPException: 408: the body did not arrive in time.
    """
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(SHORT_SECONDS):
            while more and len(body) < AHEAD_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                body += message.get("body", b"")
                more = message.get("more_body", False)
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {SHORT_SECONDS:g} s") from None
    first: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": more}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


# --------------------------------------------------------------------------------------------------------------- places

SHORT: Final = 32
LINE: Final = 512
WAIT_SECONDS: Final = 5.0
SHORT_SECONDS: Final = 30.0
"""Longest time of a short request until its response begins."""
LONG: Final = 1024
LONG_OF_ONE: Final = 128
RETRY_SECONDS: Final = 5


class Places:
    """Places of the process."""

    def __init__(self) -> None:
        self._short = asyncio.Semaphore(SHORT)
        self._line = 0
        self._long: dict[str, int] = {}

    @asynccontextmanager
    async def short(self) -> AsyncGenerator[None, None]:
        """Take a place for a short request, and give it back.

        Raises:
            HTTPException: 503: there was no place in time; 408: the request took too long.
        """
        if self._short.locked() and self._line >= LINE:
            raise _busy()
        self._line += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._short.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._line -= 1
        try:
            async with asyncio.timeout(SHORT_SECONDS):
                yield
        except TimeoutError:
            raise HTTPException(408, f"the request took longer than {SHORT_SECONDS:g} s") from None
        finally:
            self._short.release()

    @contextmanager
    def long(self, who: str) -> Generator[None, None, None]:
        """Take a place for a long request, and give it back.

        Args:
            who: name of the visitor; empty for visitors on this machine.

        Raises:
            HTTPException: 503: there is no place.
        """
        taken = self._long.get(who, 0)
        if sum(self._long.values()) >= LONG or (who and taken >= LONG_OF_ONE):
            raise _busy()
        self._long[who] = taken + 1
        try:
            yield
        finally:
            self._long[who] -= 1
            if not self._long[who]:
                del self._long[who]


def _busy() -> HTTPException:
    return HTTPException(503, "too many requests are under way", {"Retry-After": str(RETRY_SECONDS)})
