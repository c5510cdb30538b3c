"""Which connection each session uses, and how many leases one connection may have.

    max_leases ──half of it──► the leases of all sessions of one connection together
                                 │ reached: its fetchers are set aside, and get nothing
                                 │ a lease has ended, or a session has moved to another connection: they may try again

So nobody can hold all tasks, however many sessions he makes up. A session that moves to another connection takes its
leases along. While no more than half of ``max_leases`` are out in all, nothing is counted here.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.projects.session import Session
from taskqueue.protocol.fields import Peer

CONNECTION_PART: Final = 2
"""A connection may have one in so many of ``max_leases``."""


def most_at_one(max_leases: int) -> int:
    """The most leases of one connection: its part of ``max_leases``, rounded up."""
    return -(-max_leases // CONNECTION_PART)


class Connections:
    """Sessions by connection, with their leases.

    Attributes:
        crowded: by connection, sessions that would take tasks and were set aside.
    """

    __slots__ = ("_sessions", "crowded")

    def __init__(self) -> None:
        self._sessions: dict[Peer, dict[str, Session]] = {}
        self.crowded: dict[Peer, dict[str, Session]] = {}

    def move(self, session: Session, peer: Peer) -> bool:
        """The session uses this connection from now on; True: it was set aside, and may try again."""
        was_crowded = self.is_crowded(session)
        self.forget(session)
        session.peer = peer
        self._sessions.setdefault(peer, {})[session.id] = session
        return was_crowded

    def forget(self, session: Session) -> None:
        """The session has no connection any more."""
        for by_peer in (self._sessions, self.crowded):
            there = by_peer.get(session.peer)
            if there is not None and there.pop(session.id, None) is not None and not there:
                del by_peer[session.peer]

    def has(self, session: Session) -> bool:
        """Whether the session is registered at its present connection."""
        return self._sessions.get(session.peer, {}).get(session.id) is session

    def held(self, peer: Peer) -> int:
        """Leases of all sessions of a connection; costs a look at each of them."""
        return sum(len(session.leases) for session in self._sessions.get(peer, {}).values())

    def set_aside(self, session: Session) -> None:
        """The session would take tasks, but its connection may have no more."""
        self.crowded.setdefault(session.peer, {})[session.id] = session

    def is_crowded(self, session: Session) -> bool:
        """Whether the session was set aside, and not called since."""
        return session.id in self.crowded.get(session.peer, ())

    def call(self, most: int) -> tuple[list[Session], bool]:
        """Sessions that may try again, at most one for each lease that their connection has room for.

        The second value: others of a connection with room are left for the next turn.

        Args:
            most: leases that a connection may have.
        """
        called: list[Session] = []
        more = False
        for peer, aside in list(self.crowded.items()):
            room = max(0, most - self.held(peer))
            some = list(islice(aside.values(), room))
            for session in some:
                del aside[session.id]
            called += some
            more = more or (room > 0 and bool(aside))
            if not aside:
                del self.crowded[peer]
        return called, more
