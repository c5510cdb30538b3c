"""Connections of urllib3 whose answers come in time as a whole, and not only each piece of them.

urllib3's timeouts are for each read of the socket: a host that sends a byte of a header a second keeps a thread for
hours. Here each read may take what is left of the time, so head and body end when the total is over.
"""

from __future__ import annotations

import io
import socket
import time
from functools import partial
from http.client import HTTPResponse
from typing import Any, Final

from urllib3 import PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ProtocolError

HOSTS_MOST: Final = 100
"""Whose idle connections are kept."""

IDLE_MOST: Final = 100
"""Connections of one host that are kept: as many as threads that may have used them."""

BUFFER_BYTES: Final = 64 << 10


class ClockedReader(io.RawIOBase):
    """Reads a socket until a moment of ``time.monotonic``."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, ends_at: float) -> None:
        self._raw = raw
        self._socket = connected
        self._ends_at = ends_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class ClockedResponse(HTTPResponse):
    """An answer that has to have come by a moment of ``time.monotonic``."""

    def __init__(self, connected: socket.socket, *arguments: Any, ends_at: float, **named: Any) -> None:
        super().__init__(connected, *arguments, **named)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(ClockedReader(raw, connected, ends_at), BUFFER_BYTES)


class Stale(ProtocolError):
    """A connection that was kept has been closed by its host meanwhile; the request may be sent by another one."""


class ClockedConnection(HTTPConnection):
    """A connection whose timeout for reading is that of the whole answer."""

    _was_kept = False

    def connect(self) -> None:
        """Connect, or connect anew."""
        self._was_kept = False
        super().connect()

    def getresponse(self) -> Any:
        """The answer to what was asked; its ``timeout`` is what is left of the request's total by now.

        Raises:
            Stale: its host has closed the connection before it heard the request.
        """
        assert self.timeout is not None
        ends_at = time.monotonic() + self.timeout
        self.response_class = partial(ClockedResponse, ends_at=ends_at)  # type: ignore[assignment]
        was_kept, self._was_kept = self._was_kept, True
        try:
            return super().getresponse()
        except ConnectionError as error:  # RemoteDisconnected, too.
            if was_kept:
                raise Stale("the connection was closed meanwhile", error) from error
            raise


class ClockedTlsConnection(ClockedConnection, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = ClockedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = ClockedTlsConnection


def clocked_pools() -> PoolManager:
    """Connections for all threads of a process."""
    pools = PoolManager(HOSTS_MOST, maxsize=IDLE_MOST)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return pools
