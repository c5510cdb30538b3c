"""Whose request is heard next: peers take turns by what their requests cost, not by how many they send.

    put ──► a queue a peer ──take──► a frame of the peer that has used least ──charge──► its next one waits longer

After start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996). A peer has a *mark*, in milliseconds of the
daemon's time: the lowest is next, and goes up by what its frame cost. A peer that comes back after a pause begins where
the others are, less CREDIT_MS, but never below where it was; a new one a little above them, so that many that come anew
don't go before those that are there.

Rules:
1. The frames of one peer keep their order.
2. Whoever is alone gets everything: nothing is kept free for those who don't ask.
3. A peer has at most FRAMES_MOST frames waiting and, when all together have BYTES_MOST, its equal part of these.
   What goes beyond is refused. A single peer may have twice as many; before that, what it sends had better stay in
   the socket.
4. Pure: what a frame costs, and what time it is, the caller says.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import Final

from taskqueue.protocol.fields import Peer
from taskqueue.server.network.router import Frame

FRAMES_MOST: Final = 128
"""Twice as many requests as a session may have unanswered."""
BYTES_MOST: Final = 64 << 20
CREDIT_MS: Final = 50.0
"""What a peer that asks little may ask at once, ahead of those that ask all the time."""
NEW_MS: Final = 1.0
"""What it costs to be new."""
PEERS_MOST: Final = 4096
"""Remembered, before those are forgotten of which nothing waits and that have used no more than others."""


class _PeerQueue:
    """The frames of one peer.

    Attributes:
        usual: milliseconds that a frame of it has cost lately.
        charged, taken: milliseconds, and frames, of the turn that is under way.
    """

    __slots__ = ("bytes", "charged", "frames", "recent_ms", "taken", "virtual_time")

    def __init__(self, virtual_time: float) -> None:
        self.virtual_time = virtual_time
        self.frames: deque[Frame] = deque()
        self.bytes = self.taken = 0
        self.recent_ms = self.charged = 0.0


class FrameQueue:
    """The frames that wait, of all peers.

    Attributes:
        peers: those that are remembered.
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
        """False: one peer is alone, and what it sends next had better stay in the socket."""
        if len(self._waiting) != 1:
            return True
        (queue,) = self._waiting.values()
        return len(queue.frames) < FRAMES_MOST and queue.bytes < BYTES_MOST

    @property
    def has_ready(self) -> bool:
        """Something waits that was not put back."""
        return len(self._waiting) > len(self._delayed)

    @property
    def next_delayed_at(self) -> float:
        """When the first frame that was put back may be taken; inf: there is none."""
        return min(self._delayed.values(), default=inf)

    def put(self, frame: Frame) -> bool:
        """Let a frame wait for its turn; False: too much of its peer waits already."""
        queue = self._waiting.get(frame.peer)
        if not self._has_room_for(frame, queue):
            return False
        if queue is None:
            queue = self._begin(frame.peer)
        queue.frames.append(frame)
        self._count(queue, frame.size)
        return True

    def take(self, now: float, most: float = inf) -> Frame | None:
        """The next frame, whose cost is then to be said; None: there is none that may be taken now.

        Peers whose frames have cost more than ``most`` milliseconds each lately are passed over.
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
        """Say what the frame that was taken costs; more than 0."""
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
        """Let the frame that was taken be its peer's first again, and not be taken before then."""
        queue = self.peers[frame.peer]
        queue.frames.appendleft(frame)
        self._count(queue, frame.size)
        self._delayed[frame.peer] = until

    def settle(self, milliseconds: float) -> float:
        """Say what the turn has cost in truth; returns what it was charged, which is corrected. 0: there was none."""
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
        """Take all that waits."""
        frames = [frame for queue in self._waiting.values() for frame in queue.frames]
        for queue in self._waiting.values():
            queue.frames.clear()
            queue.bytes = 0
        self._waiting.clear()
        self._delayed.clear()
        self._order.clear()
        self._bytes = 0
        return frames

    def _has_room_for(self, frame: Frame, queue: _PeerQueue | None) -> bool:
        peers = len(self._waiting) + (queue is None)
        frames, size = (len(queue.frames), queue.bytes + frame.size) if queue else (0, frame.size)
        return frames < (FRAMES_MOST if peers > 1 else 2 * FRAMES_MOST) and (
            self._bytes + frame.size <= BYTES_MOST or size <= BYTES_MOST // peers
        )

    def _begin(self, peer: Peer) -> _PeerQueue:
        """The queue of a peer of which nothing waited."""
        queue = self.peers.get(peer)
        if queue is None:
            self._forget()
            queue = self.peers[peer] = _PeerQueue(self._virtual_time + NEW_MS)
        queue.virtual_time = max(queue.virtual_time, self._virtual_time - CREDIT_MS)
        self._waiting[peer] = queue
        self._enter(peer, queue)
        return queue

    def _enter(self, peer: Peer, queue: _PeerQueue) -> None:
        """Into the order; what was entered before with another mark is passed over."""
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
