"""A fair queue of received frames: peers take turns by what their requests cost, not by how many they send.

    put ──► a queue per peer ──take──► a frame of the peer with the least virtual time ──charge──► that grows

After start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996). Each peer has a virtual time, in milliseconds
of the daemon's time: the lowest is next, and grows by the cost of its frame. A peer that returns after a pause begins
at the others' virtual time, less CREDIT_MS, but never below its own; a new one a little above them, so that many new
peers don't overtake known ones.

Rules:
1. The frames of one peer keep their order.
2. A peer that is alone gets everything: no capacity is reserved for idle ones.
3. A peer has at most FRAMES_MOST frames queued and, when all together have BYTES_MOST, its equal part of these.
   Further frames are refused. A single peer may have twice as many, but its frames should stay in the socket before.
4. Pure: the caller provides costs and times.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import Final

from taskqueue.protocol.fields import Peer
from taskqueue.server.network.router import Frame

FRAMES_MOST: Final = 128
"""Queued frames of a peer, at most: twice as many requests as a session may have unanswered."""
BYTES_MOST: Final = 64 << 20
CREDIT_MS: Final = 50.0
"""Cost of the requests that a mostly idle peer may have served at once, ahead of busy ones."""
NEW_MS: Final = 1.0
"""Initial charge of a new peer."""
PEERS_MOST: Final = 4096
"""Peers remembered, at most, before idle ones are dropped whose virtual time is no later than the others'."""


class _PeerQueue:
    """Frames of one peer.

    Attributes:
        recent_ms: moving average of a frame's cost, in milliseconds.
        charged, taken: milliseconds and frames charged in the current turn.
    """

    __slots__ = ("bytes", "charged", "frames", "recent_ms", "taken", "virtual_time")

    def __init__(self, virtual_time: float) -> None:
        self.virtual_time = virtual_time
        self.frames: deque[Frame] = deque()
        self.bytes = self.taken = 0
        self.recent_ms = self.charged = 0.0


class FrameQueue:
    """Queued frames of all peers.

    Attributes:
        peers: queues of the remembered peers.
    """

    def __init__(self) -> None:
        self.peers: dict[Peer, _PeerQueue] = {}
        self._waiting: dict[Peer, _PeerQueue] = {}
        self._charged: dict[Peer, _PeerQueue] = {}
        self._delayed: dict[Peer, float] = {}
        self._order: list[tuple[float, int, Peer]] = []
        self._entries = 0
        self._virtual_time = 0.0
        self._bytes = 0
        self._forget_at = PEERS_MOST

    @property
    def has_room(self) -> bool:
        """False if only one peer has frames queued, and its further ones should stay in the socket."""
        if len(self._waiting) != 1:
            return True
        (queue,) = self._waiting.values()
        return len(queue.frames) < FRAMES_MOST and queue.bytes < BYTES_MOST

    @property
    def has_ready(self) -> bool:
        """Whether a frame is queued that is not delayed."""
        return len(self._waiting) > len(self._delayed)

    @property
    def next_delayed_at(self) -> float:
        """Time when the first delayed frame may be taken; inf if there is none."""
        return min(self._delayed.values(), default=inf)

    def put(self, frame: Frame) -> bool:
        """Queue a frame; return False if too much of its peer is queued already."""
        queue = self._waiting.get(frame.peer)
        if not self._has_room_for(frame, queue):
            return False
        if queue is None:
            queue = self._begin(frame.peer)
        queue.frames.append(frame)
        self._count(queue, frame.size)
        return True

    def take(self, now: float, most: float = inf) -> Frame | None:
        """Take the next frame, which the caller must then charge; None if none may be taken now.

        Peers whose frames have recently cost more than ``most`` milliseconds each are skipped.
        """
        if self._delayed:
            self._end_delays(now)
        passed_over = []
        frame = None
        while frame is None and self._order:
            entry = heappop(self._order)
            virtual_time, _, peer = entry
            queue = self._waiting.get(peer)
            if queue is None or queue.virtual_time != virtual_time or peer in self._delayed:
                continue
            if queue.recent_ms > most:
                passed_over.append(entry)
                continue
            self._virtual_time = max(self._virtual_time, virtual_time)
            frame = queue.frames.popleft()
            self._count(queue, -frame.size)
        for entry in passed_over:
            heappush(self._order, entry)
        return frame

    def charge(self, peer: Peer, milliseconds: float) -> None:
        """Charge the peer for the frame that was taken; more than 0 milliseconds."""
        queue = self.peers[peer]
        queue.virtual_time += milliseconds
        queue.charged += milliseconds
        queue.taken += 1
        self._charged[peer] = queue
        if queue.frames:
            self._enter(peer, queue)
        else:
            del self._waiting[peer]

    def put_back(self, frame: Frame, until: float) -> None:
        """Make the taken frame its peer's first again, not to be taken before ``until``."""
        queue = self.peers[frame.peer]
        queue.frames.appendleft(frame)
        self._count(queue, frame.size)
        self._delayed[frame.peer] = until

    def settle(self, milliseconds: float) -> float:
        """Correct the turn's estimated charges by its actual cost; return the estimate, 0 if nothing was charged."""
        charged = sum(queue.charged for queue in self._charged.values())
        for peer, queue in self._charged.items():
            truly = queue.charged * milliseconds / charged
            queue.virtual_time += truly - queue.charged
            queue.recent_ms = (queue.recent_ms + truly / queue.taken) / 2
            queue.charged, queue.taken = 0.0, 0
            if queue.frames:
                self._enter(peer, queue)
        self._charged.clear()
        return charged

    def clear(self) -> list[Frame]:
        """Take all queued frames."""
        frames = [frame for queue in self._waiting.values() for frame in queue.frames]
        for queue in self._waiting.values():
            queue.frames.clear()
            queue.bytes = 0
        self._waiting.clear()
        self._delayed.clear()
        self._order.clear()
        self._bytes = 0
        return frames

    def drop(self, peer: Peer) -> None:
        """Forget the frames of a peer that is not to be heard any more."""
        if (queue := self._waiting.pop(peer, None)) is not None:
            self._count(queue, -queue.bytes)
            queue.frames.clear()
        self._delayed.pop(peer, None)

    def _has_room_for(self, frame: Frame, queue: _PeerQueue | None) -> bool:
        peers = len(self._waiting) + (queue is None)
        frames, size = (len(queue.frames), queue.bytes + frame.size) if queue else (0, frame.size)
        return frames < (FRAMES_MOST if peers > 1 else 2 * FRAMES_MOST) and (
            self._bytes + frame.size <= BYTES_MOST or size <= BYTES_MOST // peers
        )

    def _begin(self, peer: Peer) -> _PeerQueue:
        """Return the queue of a peer that has nothing queued."""
        queue = self.peers.get(peer)
        if queue is None:
            self._forget()
            queue = self.peers[peer] = _PeerQueue(self._virtual_time + NEW_MS)
        queue.virtual_time = max(queue.virtual_time, self._virtual_time - CREDIT_MS)
        self._waiting[peer] = queue
        self._enter(peer, queue)
        return queue

    def _enter(self, peer: Peer, queue: _PeerQueue) -> None:
        """Add the peer to the heap; older entries of it with another virtual time are skipped when they come up."""
        self._entries += 1
        heappush(self._order, (queue.virtual_time, self._entries, peer))

    def _count(self, queue: _PeerQueue, size: int) -> None:
        queue.bytes += size
        self._bytes += size

    def _end_delays(self, now: float) -> None:
        for peer in [peer for peer, until in self._delayed.items() if until <= now]:
            del self._delayed[peer]
            self._enter(peer, self.peers[peer])

    def _forget(self) -> None:
        if len(self.peers) >= self._forget_at:
            known = self.peers.items()
            self.peers = {
                peer: queue for peer, queue in known if queue.frames or queue.virtual_time > self._virtual_time
            }
            self._forget_at = max(PEERS_MOST, 2 * len(self.peers))
