"""What comes in: received from the socket, kept in fair turns, heard as far as a turn's budget goes.

    socket ──► fair turns ──► requests for the core
                  │    └────► what is none: refused, with the reason
                  └─────────► too much of one peer: refused as ``unavailable``

Bounds, a turn: what the router receives; TURN_MS of what the requests are thought to cost, which is corrected by what
turns have cost lately; SLOW_MS of slow ones; HEAR_BYTES and HEAR_SECONDS of decoding. The last request may exceed each.

``verify`` takes long whatever is done: of all the daemon's time it gets VERIFY_PART at most. Peers whose requests have
cost more than LONG_MS each lately, such as the largest batches, get LONG_PART at most while others ask, too: who asks
for little mostly finds the daemon free. Slow requests of a peer that does not read are not even heard: the answer
could not be sent.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Final

from taskqueue.errors import Rejected
from taskqueue.protocol.codec import request_number
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.replies import ErrorReply, Outgoing
from taskqueue.protocol.requests import Incoming, Verify
from taskqueue.server.clock import ticks
from taskqueue.server.log import quoted
from taskqueue.server.meters import Meters
from taskqueue.server.network.decoding import FRAME_MS, SLOW_MS, cost, decode_frame, refusal, slowness
from taskqueue.server.network.frame_queue import FrameQueue
from taskqueue.server.network.router import Frame, Router

log = logging.getLogger("taskqueue")

TURN_MS: Final = 25.0
HEAR_BYTES: Final = 4 << 20
HEAR_SECONDS: Final = 0.010
VERIFY_PART: Final = 0.1
LONG_MS: Final = 35.0
LONG_PART: Final = 0.4
OTHERS_SECONDS: Final = 1.0
"""After somebody else was heard, there is somebody else."""
PEEK_FRAMES: Final = 4
"""Received from a socket whose frames had better stay there, to see whether there is somebody else."""
REMEMBERED: Final = 0.9
"""How much what turns have cost before counts after each one."""
FACTOR_MOST: Final = 4.0
"""How wrong the costs are thought to be when a turn's budget is set."""
CROWDED: Final = "too many requests of this connection wait; repeat this one when others have been answered"


class Inbox:
    """In front of the core."""

    def __init__(self, router: Router, meters: Meters) -> None:
        self._router = router
        self._meters = meters
        self._queue = FrameQueue()
        self._estimated_ms = self._measured_ms = 1.0
        self._verify_at = self._long_at = 0.0
        self._has_verify = False
        self._last_peer: Peer | None = None
        self._other_peer_at = -inf

    def next_requests(self, max_message: int) -> tuple[list[Incoming], list[Outgoing]]:
        """The requests of the next turn, and replies to what is none, or too much."""
        refused = self._receive()
        heard: list[Incoming] = []
        began = now = ticks()
        factor = min(max(self._measured_ms / self._estimated_ms, 1.0), FACTOR_MOST)
        left, slow_left, bytes_left = TURN_MS / factor, SLOW_MS, HEAR_BYTES
        long_most = LONG_MS if now < self._long_at and now < self._other_peer_at + OTHERS_SECONDS else inf
        while left > 0 and slow_left > 0 and bytes_left > 0 and now < began + HEAR_SECONDS:
            if (frame := self._queue.take(now, min(left, long_most) if heard else long_most)) is None:
                break
            if frame.peer != self._last_peer:
                self._other_peer_at = now if self._last_peer else -inf
                self._last_peer = frame.peer
            bytes_left -= frame.size
            milliseconds = FRAME_MS
            try:
                one = decode_frame(frame, max_message)
                if type(one.request) is Verify:
                    if now < self._verify_at:
                        self._queue.put_back(frame, self._verify_at)
                        continue
                    self._has_verify = True
                if (slow := slowness(one.request)) and not self._router.reaches(frame.peer):
                    self._meters.undelivered += 1
                else:
                    slow_left -= slow
                    milliseconds = slow + cost(one.request, frame.size)
                    heard.append(one)
            except Rejected as why:
                self._meters.malformed += 1
                log.debug("refused code=%s reason=%s", why.code, quoted(why.reason))
                refused.append(refusal(frame, why))
            now = ticks()
            left -= milliseconds
            self._queue.charge(frame.peer, milliseconds)
        self._meters.hear_seconds += ticks() - began
        return heard, refused

    def spent(self, seconds: float) -> None:
        """Say what the turn of what was last heard has taken of the processor."""
        if estimated := self._queue.settle(1000 * seconds):
            self._estimated_ms = REMEMBERED * self._estimated_ms + estimated
            self._measured_ms = REMEMBERED * self._measured_ms + 1000 * seconds
            if 1000 * seconds > LONG_MS:
                self._long_at = ticks() + seconds * (1 / LONG_PART - 1)
        if self._has_verify:
            self._verify_at = ticks() + seconds * (1 / VERIFY_PART - 1)
        self._has_verify = False

    def wait(self) -> float:
        """Seconds until something that waits may be heard, if nothing comes in; inf: nothing waits."""
        return max(0.0, min(self._queue.next_delayed_at, self._long_at if self._queue.has_ready else inf) - ticks())

    def clear(self) -> list[Frame]:
        """Everything that waits, and what is in the socket, as far as a turn receives."""
        return [*self._queue.clear(), *self._router.drain()]

    def _receive(self) -> list[Outgoing]:
        """Let what came in wait for its turn; replies to what may not."""
        refused: list[Outgoing] = []
        left = PEEK_FRAMES
        for frame in self._router.drain():
            if not self._queue.put(frame):
                self._meters.unavailable += 1
                refused.append(crowded(frame))
            if not self._queue.has_room:
                left -= 1
                if left == 0:
                    break
        return refused


def crowded(frame: Frame) -> Outgoing:
    """The reply to a frame that may not even wait."""
    return Outgoing(
        frame.peer, ErrorReply(n=request_number(frame.payload), code="unavailable", reason=CROWDED), kept=False
    )
