"""Draining of a client: whether the daemon drains it, and whether it has finished.

(takes tasks) ──welcome──► told: tasks not started go back ──all are reported──► finished
      ▲                     │                                                      │
      └───────welcome───────┴──────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from asyncio import Event

from taskqueue.client.connection.session import ClientSession


class Draining:
    """State of draining, updated whenever the session may have heard of it, and awaited by its users.

    Args:
        session: knows what the daemon says, and which leases are held.

    Attributes:
        told: set while the daemon dispatches no new tasks to this client, because an operator drains its name.
        taking: set while ``told`` is not.
        finished: set while the client is drained, and neither holds a lease nor runs a task.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.told = Event()
        self.taking = Event()
        self.finished = Event()
        self.taking.set()

    @property
    def name(self) -> str:
        """Name that is drained."""
        return self._session.name

    def look(self) -> bool:
        """Update the events; returns True if draining has begun since the last call."""
        is_told, was_told = self._session.draining, self.told.is_set()
        if not is_told and not was_told:
            return False
        _set(self.told, is_told)
        _set(self.taking, not is_told)
        _set(self.finished, is_told and self._session.is_idle)
        return is_told and not was_told


def _set(event: Event, is_set: bool) -> None:
    if is_set:
        event.set()
    else:
        event.clear()
