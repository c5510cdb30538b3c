"""Incoming messages: received from the socket, queued fairly, and decoded within the budget of a turn.

    socket ──► frame queue ──► requests for the core
                  │    ├─────► ``who``, which the access file answers
                  │    ├─────► malformed: refused, with the reason
                  │    └─────► its caller lacks the right, or the project: ``forbidden``
                  └──────────► too many of one peer: refused as ``unavailable``

Bounds per turn: what the router receives; TURN_MS of estimated cost of the requests, corrected by the actual cost of
recent turns; SLOW_MS of slow requests; HEAR_BYTES and HEAR_SECONDS of decoding. The last request may exceed each.

``verify`` always takes long, so it gets at most VERIFY_PART of the daemon's time. Peers whose requests have recently
cost more than LONG_MS each, such as the largest batches, get at most LONG_PART while others are active, so that small
requests mostly find the daemon free. A slow request of a peer that does not read is dropped: its reply could not be
sent.

Receiving never fails: an exception in it, by libzmq or by a bug, costs the current message and its connection, but
neither earlier nor later messages (rule 2 of the loop).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from taskqueue.access.checks import Callers, Everybody, check_projects, check_right, spoken_for, who_is
from taskqueue.core.request_rule import SLOW_MS
from taskqueue.core.request_rules import slow_ms
from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.callers import EVERYBODY, Caller
from taskqueue.protocol.codec import decode_request, request_number
from taskqueue.protocol.daemon import Verify, WhoIs
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import AnyRequest, Incoming, Outgoing
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.server.clock import ticks
from taskqueue.server.log import SparseLog, quoted
from taskqueue.server.meters import Meters
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
"""Seconds for which other peers count as active after a request of one."""
PEEK_FRAMES: Final = 4
"""Frames received although they should stay in the socket, to see whether another peer is active."""
REMEMBERED: Final = 0.9
"""Weight of earlier turns in the moving averages of costs."""
FACTOR_MOST: Final = 4.0
"""Largest correction of estimated costs in a turn's budget."""
CROWDED: Final = "too many requests of this connection wait; repeat this one when others have been answered"


class Receiver:
    """Queue and decoder of messages in front of the core; it refuses what callers have no right to send."""

    def __init__(self, router: Router, meters: Meters, callers: Callers | None = None) -> None:
        self._router = router
        self._callers = callers or Everybody()
        self._forbidden = SparseLog()
        self._meters = meters
        self._queue = FrameQueue()
        self._taken: Frame | None = None
        self._estimated_ms = self._measured_ms = 1.0
        self._verify_at = self._long_at = 0.0
        self._has_verify = False
        self._last_peer: Peer | None = None
        self._other_peer_at = -inf

    def next_requests(self, max_message: int) -> tuple[list[Incoming], list[Outgoing]]:
        """Return the requests of the next turn, and replies to messages that do not reach the core."""
        incoming: list[Incoming] = []
        refused: list[Outgoing] = []
        self._unfailing(lambda: self._receive(refused))
        began = ticks()
        self._unfailing(lambda: self._decode(max_message, incoming, refused))
        self._meters.hear_seconds += ticks() - began
        return incoming, refused

    def _decode(self, max_message: int, incoming: list[Incoming], refused: list[Outgoing]) -> None:
        """Take queued messages, up to the bounds of a turn."""
        began = now = ticks()
        factor = min(max(self._measured_ms / self._estimated_ms, 1.0), FACTOR_MOST)
        left, slow_left, bytes_left = TURN_MS / factor, SLOW_MS, HEAR_BYTES
        long_most = LONG_MS if now < self._long_at and now < self._other_peer_at + OTHERS_SECONDS else inf
        while left > 0 and slow_left > 0 and bytes_left > 0 and now < began + HEAR_SECONDS:
            if (frame := self._queue.take(now, min(left, long_most) if incoming else long_most)) is None:
                break
            self._taken, self._router.at_hand = frame, frame.peer
            if frame.peer != self._last_peer:
                self._other_peer_at = now if self._last_peer else -inf
                self._last_peer = frame.peer
            bytes_left -= frame.size
            # What is refused has been decoded, too.
            milliseconds = FRAME_MS + BYTE_MS * frame.size
            try:
                one = decode_frame(frame, max_message)
                milliseconds = cost(one.request, frame.size)
                caller = self._callers.caller_of(frame.key)
                if caller is not EVERYBODY:
                    self._admit(frame, one, caller)
                if type(one.request) is Verify:
                    if now < self._verify_at:
                        self._taken = None
                        self._queue.put_back(frame, self._verify_at)
                        continue
                    self._has_verify = True
                if type(one.request) is WhoIs:
                    refused.append(Outgoing(frame.peer, who_is(self._callers, one.request), after_sync=False))
                elif (slow := slow_ms(one.request)) and not self._router.reaches(frame.peer):
                    self._meters.undelivered += 1
                else:
                    slow_left -= slow
                    milliseconds += slow
                    incoming.append(one)
            except Rejected as why:
                if why.code == "forbidden":
                    self._note_forbidden(frame, why.reason)
                else:
                    self._meters.malformed += 1
                log.debug("refused code=%s reason=%s", why.code, quoted(why.reason))
                refused.append(refusal(frame, why))
            now = ticks()
            left -= milliseconds
            self._charge(frame, milliseconds)

    def _admit(self, frame: Frame, one: Incoming, caller: Caller) -> None:
        """Check a request against its caller's role and projects, and record the caller in it; count refused items.

        Raises:
            Rejected: the caller may not make the request at all.
        """
        if name := one.request.for_name:
            caller = spoken_for(self._callers, caller, name)
        check_right(caller, one.request)
        if caller.scope is not None and (reason := check_projects(caller, caller.scope, one)):
            self._note_forbidden(frame, reason)
        one.caller = caller

    def _note_forbidden(self, frame: Frame, reason: str) -> None:
        """Count a request that was refused, or items of it, and log some: a misconfigured client may repeat itself."""
        self._meters.forbidden += 1
        if self._router.keys is not None:
            self._router.keys.note_forbidden(frame.key)
        if count := self._forbidden.count(ticks()):
            log.info(
                "forbidden count=%d key=%s address=%s reason=%s",
                count, frame.key, frame.address, quoted(reason),
            )  # fmt: skip

    def _charge(self, frame: Frame, milliseconds: float) -> None:
        self._taken = None
        self._queue.charge(frame.peer, milliseconds)

    def _unfailing(self, receive: Callable[[], None]) -> None:
        """Receive or decode messages; after an exception the current one is dropped."""
        try:
            receive()
        except Exception as error:
            if self._taken is not None:
                self._charge(self._taken, FRAME_MS)
            self._router.give_up(error)

    def spent(self, seconds: float) -> None:
        """Report the CPU seconds of the turn of the last requests."""
        if estimated := self._queue.settle(1000 * seconds):
            self._estimated_ms = REMEMBERED * self._estimated_ms + estimated
            self._measured_ms = REMEMBERED * self._measured_ms + 1000 * seconds
            if 1000 * seconds > LONG_MS:
                self._long_at = ticks() + seconds * (1 / LONG_PART - 1)
        if self._has_verify:
            self._verify_at = ticks() + seconds * (1 / VERIFY_PART - 1)
        self._has_verify = False

    def wait(self) -> float:
        """Return the seconds until a queued message may be taken if nothing arrives; inf if nothing is queued."""
        return max(0.0, min(self._queue.next_delayed_at, self._long_at if self._queue.has_ready else inf) - ticks())

    def drop(self, peers: Iterable[Peer]) -> None:
        """Forget what these peers have sent."""
        for peer in peers:
            self._queue.drop(peer)

    def clear(self) -> list[Frame]:
        """Take everything queued, and messages in the socket, up to the bounds of a turn."""
        frames = self._queue.clear()
        self._unfailing(lambda: frames.extend(self._router.drain()))
        return frames

    def _receive(self, refused: list[Outgoing]) -> None:
        """Queue arrived messages, and answer refused ones."""
        left = PEEK_FRAMES
        for frame in self._router.drain():
            if not self._queue.put(frame):
                self._meters.unavailable += 1
                refused.append(crowded(frame))
            if not self._queue.has_room:
                left -= 1
                if left == 0:
                    break


def crowded(frame: Frame) -> Outgoing:
    """Make the reply to a frame that was refused because too many of its peer are queued."""
    return Outgoing(
        frame.peer, ErrorReply(n=request_number(frame.payload), code="unavailable", reason=CROWDED), after_sync=False
    )


FRAME_MS: Final = 0.05
"""Milliseconds that a small request takes."""
ITEM_MS: Final = 0.01
BYTE_MS: Final = 30e-6
"""Milliseconds that a batch takes per byte; ITEM_MS per item, if that is more."""


def cost(request: AnyRequest, size: int) -> float:
    """Estimate the milliseconds that a request of ``size`` bytes takes, without its ``slow_ms``."""
    items = len(request.tasks) if type(request) is NewTasks or type(request) is Done else 0
    return FRAME_MS + max(ITEM_MS * items, BYTE_MS * size)


def decode_frame(frame: Frame, max_message: int) -> Incoming:
    """Decode the request in a frame.

    Raises:
        Rejected: it contains none, or is too long.
    """
    if frame.parts != 1:
        raise Rejected("malformed", f"a message is one frame after the routing id, not {frame.parts}")
    request, flaws = decode_request(frame.payload, max_message)
    return Incoming(frame.peer, request, flaws, frame.address)


def refusal(frame: Frame, why: Rejected) -> Outgoing:
    """Make the error reply to a refused frame; it waits for no sync."""
    reply = ErrorReply(n=request_number(frame.payload), code=why.code, reason=why.reason)
    return Outgoing(frame.peer, reply, after_sync=False)
