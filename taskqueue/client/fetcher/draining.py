"""Whether the daemon has told a client to finish, and whether it has.

(takes tasks) ──welcome──► told: what was not started goes back ──all is reported──► finished
      ▲                     │                                                          │
      └───────welcome───────┴──────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from asyncio import Event

from taskqueue.client.connection.session import ClientSession


class Draining:
    """Asked to look whenever the session may have heard of it; waited for by whoever wants to know.

    Args:
        session: knows what the daemon says, and what is held.

    Attributes:
        told: set while the daemon gives this client no new tasks, because somebody drains its name.
        taking: set while it is not so.
        finished: set while it drains, and neither holds a task any more nor runs one.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.told = Event()
        self.taking = Event()
        self.finished = Event()
        self.taking.set()

    @property
    def name(self) -> str:
        """The name that is drained."""
        return self._session.name

    def look(self) -> bool:
        """Set the events as they are to be; returns whether it has been told to finish since the last look."""
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
