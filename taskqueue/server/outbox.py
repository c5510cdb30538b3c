"""Messages on their way out, some of which wait until what they tell of is on disk.

    kept      waits until the write numbered ``ticket`` is covered
    not kept  leaves at once

Replies that wait leave in the order in which they were said; a ``select`` does not wait behind them, so that a
fetcher has its next task while the disk still syncs its last answer. What waits is bounded by MAX_WAITING_BYTES: a full
outbox makes the loop wait for the disk instead of taking further requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from taskqueue.protocol.fields import Peer

MAX_WAITING_BYTES: Final = 64 << 20


class _Unsynced(NamedTuple):
    ticket: int
    messages: list[tuple[Peer, bytes]]


class Outbox:
    """In front of the socket; ``send`` hands a message to it.

    Attributes:
        covered: number of the last write for which nothing waits any more.
    """

    def __init__(self, send: Callable[[Peer, bytes], bool]) -> None:
        self._send = send
        self.released = 0
        self._bytes = 0
        self._batches: deque[_Unsynced] = deque()

    @property
    def full(self) -> bool:
        """Too much is waiting for the disk."""
        return self._bytes >= MAX_WAITING_BYTES

    def put(self, peer: Peer, payload: bytes, ticket: int | None) -> bool:
        """Take a message; ``ticket`` numbers the write that it waits for, None: it needn't wait.

        Tickets must not decrease. False: it was to leave at once and could not.
        """
        if ticket is None or ticket <= self.released:
            return self._send(peer, payload)
        self._batch(ticket).messages.append((peer, payload))
        self._bytes += len(payload)
        return True

    def release(self, ticket: int) -> None:
        """Send everything that waited for writes up to this one."""
        self.released = ticket
        while self._batches and self._batches[0].ticket <= ticket:
            self._send_batch(self._batches.popleft())

    def clear(self) -> None:
        """Drop everything that waits; tickets begin anew."""
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
