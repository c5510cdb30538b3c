"""Outgoing messages, some of which wait until the write that they acknowledge is synced.

    after sync  waits until the write numbered ``ticket`` is synced
    otherwise   is sent at once

Waiting replies are sent in order; a ``select`` does not wait behind them, so that a fetcher has its next task while the
disk still syncs its last report. Waiting messages are bounded by MAX_WAITING_BYTES: while the outbox is full the loop
takes no further requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from taskqueue.protocol.fields import Peer

MAX_WAITING_BYTES = 64 << 20


class _Unsynced(NamedTuple):
    ticket: int
    messages: list[tuple[Peer, bytes]]


class Outbox:
    """Queues messages in front of the socket; ``send`` transmits one.

    Attributes:
        released: number of the last write for which no message waits any more.
    """

    def __init__(self, send: Callable[[Peer, bytes], bool]) -> None:
        self._send = send
        self.released = 0
        self._bytes = 0
        self._batches: deque[_Unsynced] = deque()

    @property
    def full(self) -> bool:
        """Whether too many bytes are waiting for the disk."""
        return self._bytes >= MAX_WAITING_BYTES

    def put(self, peer: Peer, payload: bytes, ticket: int | None) -> bool:
        """Send a message, or queue it until the write numbered ``ticket`` is synced; None: send at once.

        Tickets must not decrease. False: it was to be sent at once, and could not be.
        """
        if ticket is None or ticket <= self.released:
            return self._send(peer, payload)
        self._batch(ticket).messages.append((peer, payload))
        self._bytes += len(payload)
        return True

    def release(self, ticket: int) -> None:
        """Send all messages that waited for writes up to this one."""
        self.released = ticket
        while self._batches and self._batches[0].ticket <= ticket:
            self._send_batch(self._batches.popleft())

    def clear(self) -> None:
        """Drop all waiting messages; tickets start anew."""
        self.released = self._bytes = 0
        self._batches.clear()

    def _batch(self, ticket: int) -> _Unsynced:
        if not self._batches or self._batches[-1].ticket < ticket:
            self._batches.append(_Unsynced(ticket, []))
        return self._batches[-1]

    def _send_batch(self, batch: _Unsynced) -> None:
        for peer, payload in batch.messages:
            self._bytes -= len(payload)
            self._send(peer, payload)
