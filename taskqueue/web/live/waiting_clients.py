"""Connections for requests that wait at the daemon: it lets a session wait once for one thing, and many people may.

Each request that waits has a connection to itself while it does; afterwards the next one has it. There are as many as
have waited at the same time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from taskqueue import AsyncClient


class WaitingClients:
    """The connections that are open.

    Args:
        make: a new one.
    """

    def __init__(self, make: Callable[[], AsyncClient]) -> None:
        self._make = make
        self._free: list[AsyncClient] = []

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[AsyncClient, None]:
        """One that nobody else waits with."""
        client = self._free.pop() if self._free else self._make()
        try:
            yield client
        finally:
            self._free.append(client)

    async def aclose(self) -> None:
        """Close all of them."""
        for client in self._free:
            await client.close()
