"""At which connection each session was last heard, and what one connection may hold.

    max_leases ──half of it──► the leases of all sessions of one connection together
                                 │ it has them: its fetchers are set aside, and get nothing
                                 │ one has ended, or a session was heard elsewhere: they are called again

So nobody keeps all tasks from all others, however many sessions he makes up. A session that is heard at another
connection takes its leases along. While no more than half of ``max_leases`` are out in all, nothing is counted here.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.projects.session import Session
from taskqueue.protocol.fields import Peer

CONNECTION_PART: Final = 2
"""Of ``max_leases``, a connection may have one in so many."""


def most_at_one(max_leases: int) -> int:
    """Leases that one connection may have; of a single one, that one."""
    return -(-max_leases // CONNECTION_PART)


class Connections:
    """See the module.

    Attributes:
        crowded: by connection, sessions that would take tasks and were set aside.
    """

    __slots__ = ("_sessions", "crowded")

    def __init__(self) -> None:
        self._sessions: dict[Peer, dict[str, Session]] = {}
        self.crowded: dict[Peer, dict[str, Session]] = {}

    def move(self, session: Session, peer: Peer) -> bool:
        """The session, which was elsewhere, is there from now on; True: it was set aside, and may try again."""
        was_crowded = self.is_crowded(session)
        self.forget(session)
        session.peer = peer
        self._sessions.setdefault(peer, {})[session.id] = session
        return was_crowded

    def forget(self, session: Session) -> None:
        """The session is nowhere."""
        for by_peer in (self._sessions, self.crowded):
            there = by_peer.get(session.peer)
            if there is not None and there.pop(session.id, None) is not None and not there:
                del by_peer[session.peer]

    def has(self, session: Session) -> bool:
        """The session is known where it says that it is."""
        return self._sessions.get(session.peer, {}).get(session.id) is session

    def held(self, peer: Peer) -> int:
        """Leases of all its sessions; costs a look at each of them."""
        return sum(len(session.leases) for session in self._sessions.get(peer, {}).values())

    def set_aside(self, session: Session) -> None:
        """The session would take tasks, and its connection may have no more."""
        self.crowded.setdefault(session.peer, {})[session.id] = session

    def is_crowded(self, session: Session) -> bool:
        """It was set aside, and not called since."""
        return session.id in self.crowded.get(session.peer, ())

    def call(self, most: int) -> tuple[list[Session], bool]:
        """Sessions that were set aside and may try again, as many as their connections have room for; and whether
        others are to be called in the next turn.

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
