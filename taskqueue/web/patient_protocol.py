"""HTTP/1.1 for peers that are slow, many, or neither speak nor read: what each may cost has a limit.

    connected ──head──► body ──► response ──► (again)
        │ head_seconds    │ idle_seconds  │ unread_seconds
        └───── cut ───────┴───────────────┘

A connection is looked at every few seconds; that is what it costs. One too many takes the room of an idle one, or is
refused before a byte of it is read (``crowd``). Bytes that are not clearly one request are refused (``strict_http``).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from taskqueue.web.access.arrival import Network
from taskqueue.web.access.crowd import KNOWN, Crowd
from taskqueue.web.options import Patience
from taskqueue.web.strict_http import StrictConnection

MAX_AHEAD_BYTES: Final = 512 * 1024
"""Of requests that a peer has sent before the one that is answered: some reads of a socket."""

FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n"
    b"X-Content-Type-Options: nosniff\r\n\r\n"
)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with limits."""

    patience = Patience()
    crowd = Crowd(patience)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or say that there are too many."""
        super().connection_made(transport)
        self.conn = self._strict = StrictConnection()
        self.app_state = {**self.app_state, KNOWN: self._note_known}
        self._waited_since: float | None = self.loop.time()
        self._read_at = self.loop.time()
        self._unread_since: float | None = None
        self._is_ending = False
        self._looking = self.loop.call_later(self.patience.look_seconds, self._look)
        if not self.crowd.enter(self, self.client[0] if self.client else "", self.loop.time()):
            self._say_full()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._looking.cancel()
        self.crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what has come."""
        self._read_at = self.loop.time()
        if self.transport.is_closing():
            return
        if self._waited_since is None and self._is_between_requests():
            self._waited_since = self._read_at
        super().data_received(data)
        if not self._is_between_requests():
            self._waited_since = None
        # uvicorn reads on after each response, however much is left: requests that nobody waits for would pile up.
        if self._strict.ahead_bytes > MAX_AHEAD_BYTES:
            self._cut()

    def pause_writing(self) -> None:
        """The peer does not read."""
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The peer has read."""
        self._unread_since = None
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.crowd.rest(self, self.loop.time())
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; end the connection if another response has begun."""
        if self.cycle is not None:
            # The application may be about to answer what came before, and must not do so into this response.
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self._cut()

    def give_way(self) -> None:
        """End, so that another connection has room; nothing of a known visitor is lost."""
        if self._is_between_requests() and not self.transport.get_write_buffer_size():
            self._say_full()
        else:
            self._cut()

    def _note_known(self) -> None:
        self.crowd.serve(self)

    def _say_full(self) -> None:
        self.transport.write(FULL)
        self.transport.close()

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        now = self.loop.time()
        if self._is_ending:  # and the peer has not read what was left for him since the last look
            self._cut()
            return
        self._is_ending = self.transport.is_closing()
        if self._is_over(self._waited_since, self.patience.head_seconds, now) or self._is_over(
            self._unread_since, self.patience.unread_seconds, now
        ):
            self._cut()
            return
        awaits_body = not self._is_between_requests() and self.cycle.more_body and not self.flow.read_paused
        if awaits_body and now - self._read_at > self.patience.idle_seconds:
            self._cut()
            return
        self._looking = self.loop.call_later(self.patience.look_seconds, self._look)

    def _cut(self) -> None:
        """End at once; the kernel, too, forgets what nobody has read."""
        peer = self.transport.get_extra_info("socket")
        if peer is not None and peer.fileno() >= 0:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    @staticmethod
    def _is_over(since: float | None, seconds: float, now: float) -> bool:
        return since is not None and now - since > seconds


def with_patience(patience: Patience, proxies: tuple[Network, ...] = ()) -> type[PatientProtocol]:
    """The protocol with these limits, for one process; a proxy may have all connections."""
    return type("PatientProtocol", (PatientProtocol,), {"patience": patience, "crowd": Crowd(patience, proxies)})
