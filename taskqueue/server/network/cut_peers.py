"""Peers whose connections the guard has cut for good, and owners without a key, on their way to the loop."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress

from taskqueue.protocol.fields import Peer


class CutPeers:
    """A queue from the guard's thread to the loop's, with a file descriptor that ends its sleep."""

    def __init__(self) -> None:
        self._cut: deque[Peer | str] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def add(self, cut: Peer | str) -> None:
        """Tell the loop of a peer, or of an owner (``Caller.owner``) who was revoked, has expired, or may do less."""
        self._cut.append(cut)
        os.eventfd_write(self._event, 1)

    def take(self) -> list[Peer | str]:
        """Take the peers that were cut, and the owners that may do less or nothing, since the last call."""
        taken = []
        while self._cut:
            taken.append(self._cut.popleft())
        return taken

    def fileno(self) -> int:
        """Return the descriptor that is readable when a peer was cut, until ``clear_wakeup``."""
        return self._event

    def clear_wakeup(self) -> None:
        """Drain the descriptor."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._event)
