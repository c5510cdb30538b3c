"""What became of a client's attempts to connect, from what libzmq tells of each: why nobody answers.

    CONNECT_DELAYED ──► CLOSED                                   nobody listens there
                   └──► CONNECTED ──► HANDSHAKE_SUCCEEDED        it works
                                 ├──► HANDSHAKE_FAILED_…         who listens there is somebody else
                                 └──► nothing                    the same, or it hangs
    CONNECT_RETRIED, with nothing of this before it              the host is not known

The sequences were seen with libzmq 4.3.5; it does not say what the operating system said.
"""

from __future__ import annotations

from typing import Final

import zmq

HANDSHAKE_FAILED: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
EVENTS: Final = (
    zmq.EVENT_CONNECT_DELAYED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | HANDSHAKE_FAILED
)
"""What ``note`` wants to be told."""

REFUSED: Final = "nobody listens there"
UNKNOWN: Final = "its host is not known"
STRANGER: Final = "who listens there is no taskqueue daemon"
MUTE: Final = "somebody listens there, but is no taskqueue daemon, or hangs"


class ConnectAttempts:
    """Of one socket to connect.

    Attributes:
        obstacle: in words, why there is no connection; empty: there is one, or nobody knows yet.
        is_mute: there is a connection on which nobody has said anything yet.
    """

    def __init__(self) -> None:
        self.obstacle = ""
        self.is_mute = False
        self._has_begun = False

    def note(self, event: int) -> None:
        """Take note of an event of libzmq."""
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.obstacle = ""
            self.is_mute = False
        elif event == zmq.EVENT_CONNECTED:
            self.is_mute = True
        elif event == zmq.EVENT_CLOSED and not self.is_mute:
            self.obstacle = REFUSED
        elif event & HANDSHAKE_FAILED:
            self.obstacle, self.is_mute = STRANGER, False
        elif event == zmq.EVENT_CONNECT_RETRIED and not self._has_begun:
            self.obstacle = UNKNOWN
        self._has_begun = event != zmq.EVENT_CONNECT_RETRIED
