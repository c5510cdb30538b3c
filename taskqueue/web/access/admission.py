"""Runs an endpoint for those who may ask it, in a place of its own, and as long as they may.

    short   whole request, or its first AHEAD_BYTES ──► place ──► endpoint ──► response
    long    place ──► endpoint ──► response, while the asker's rights are looked at each second

Places limit how many requests are worked on at a time, so that a flood of browsers keeps this process busy and not the
daemon:

    short   asks the daemon and answers: one of SHORT places, for which LINE others wait WAIT_SECONDS
    long    lasts as long as the asker likes (streams, watching, waiting, pushing): a place at once, or none

A request that finds no place is answered 503 with Retry-After. No visitor has all long places, unless everybody is the
same visitor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from taskqueue.web.access.access import WRONG_TOKEN, Access
from taskqueue.web.access.visitors import demand, visitor_of
from taskqueue.web.roles import Role

LOOK_SECONDS: Final = 1.0
"""Between two looks at whether the askers of long responses still may."""

AHEAD_BYTES: Final = 64 * 1024
"""Of a body that are awaited without a place, so that bodies that do not come take no place from others."""


class Admitted:
    """An endpoint and whoever may ask it; an application by itself.

    Args:
        is_long: whether it lasts as long as the asker likes.
    """

    def __init__(self, endpoint: Callable[[Request], Awaitable[Response]], role: Role, *, is_long: bool) -> None:
        self._endpoint = endpoint
        self._role = role
        self._is_long = is_long

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or raise an HTTPException."""
        request = Request(scope, receive, send)
        demand(request, self._role)
        places: Places = request.app.state.places
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
    """Long requests under way and whether their askers still may; without any of them it costs nothing."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._watched: dict[asyncio.Timeout, HTTPConnection] = {}
        self._looking: asyncio.TimerHandle | None = None

    @contextmanager
    def watched(self, request: HTTPConnection, ending: asyncio.Timeout) -> Iterator[None]:
        """Have ``ending`` expire within LOOK_SECONDS once the asker of the request may no longer."""
        self._watched[ending] = request
        if self._looking is None:
            self._look_soon()
        try:
            yield
        finally:
            del self._watched[ending]
            if not self._watched and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def _look_soon(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        for ending, request in self._watched.items():
            if not ending.expired() and not self._access.is_still(visitor_of(request), request, request.state.arrival):
                ending.reschedule(asyncio.get_running_loop().time())
        self._look_soon()


async def _end(sent: list[Message], send: Send) -> None:
    """End a response of which this was the last part, or refuse if there was none.

    Raises:
        HTTPException: 401.
    """
    if not sent:
        raise HTTPException(401, WRONG_TOKEN)
    if sent[0]["type"] == "http.response.start" or sent[0].get("more_body"):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read_ahead(receive: Receive) -> Receive:
    """Await a body, or the beginning of a long one; returns what gives it once more, and then goes on.

    Raises:
        ClientDisconnect: the asker has gone.
        HTTPException: 408: it did not come in time.
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
        raise HTTPException(408, f"the body did not come within {SHORT_SECONDS:g} s") from None
    first: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": more}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


# --------------------------------------------------------------------------------------------------------------- places

SHORT: Final = 32
LINE: Final = 512
WAIT_SECONDS: Final = 5.0
SHORT_SECONDS: Final = 30.0
"""The longest that a short one may take until its response begins."""
LONG: Final = 1024
LONG_OF_ONE: Final = 128
RETRY_SECONDS: Final = 5


class Places:
    """All places of the process."""

    def __init__(self) -> None:
        self._short = asyncio.Semaphore(SHORT)
        self._line = 0
        self._long: dict[str, int] = {}

    @asynccontextmanager
    async def short(self) -> AsyncGenerator[None, None]:
        """Have a place for a short request, and give it back.

        Raises:
            HTTPException: 503: there was none in time; 408: what was done in it took too long.
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
            raise HTTPException(408, f"it took longer than {SHORT_SECONDS:g} s") from None
        finally:
            self._short.release()

    @contextmanager
    def long(self, who: str) -> Generator[None, None, None]:
        """Have a place for a long request, and give it back.

        Args:
            who: asks; empty: anybody on this machine.

        Raises:
            HTTPException: 503: there is none.
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
