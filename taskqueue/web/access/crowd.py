"""Connections by address, and which of them gives way when a newcomer finds no room.

    enter ──► idle ──known visitor's head──► served
               │ ▲────────response ends────────┘
               └──no room, and older than fresh_seconds──► gives way

A connection is idle until it has brought the whole head of a request by a known visitor: nothing of it is lost when it
ends. A stranger's request does not count, or the half of a sign-in form would keep others out as the half of a head
does. There is no clock here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from taskqueue.web.access.arrival import Network, is_among, network_of
from taskqueue.web.options import Patience

KNOWN: Final = "known"
"""Key in the state of an ASGI scope: the function by which the gate says that a known visitor asks."""

_BY_PROXY: Final = ""
"""Stands for the addresses of all trusted proxies."""


class Connection(Protocol):
    """What can be asked to end."""

    def give_way(self) -> None:
        """End, so that another one has room."""


class Crowd:
    """All connections of the process.

    Args:
        patience: how many there may be, and for how long an idle one is safe.
        proxies: trusted, so that connections from there are of many people, and none counts as the others' neighbour.
    """

    def __init__(self, patience: Patience, proxies: Sequence[Network] = ()) -> None:
        self._patience = patience
        self._proxies = proxies
        self._address: dict[Connection, str] = {}
        self._count: Counter[str] = Counter()
        self._idle: defaultdict[str, dict[Connection, float]] = defaultdict(dict)
        """By address, since when each is idle, the oldest first; addresses without any are missing."""

    def __len__(self) -> int:
        return len(self._address)

    def enter(self, connection: Connection, host: str, now: float) -> bool:
        """Give a connection room, if need be that of another one, which is told; False if there is none."""
        address = _BY_PROXY if is_among(host, self._proxies) else network_of(host)
        if not self._has_room(address, now):
            return False
        self._address[connection] = address
        self._count[address] += 1
        self._idle[address][connection] = now
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection, if it is here."""
        self.serve(connection)
        address = self._address.pop(connection, None)
        if address is not None:
            self._count[address] -= 1
            if not self._count[address]:
                del self._count[address]

    def serve(self, connection: Connection) -> None:
        """Keep a connection, whose request is being answered."""
        idle = self._idle.get(self._address.get(connection, ""), {})
        if idle.pop(connection, None) is not None and not idle:
            del self._idle[self._address[connection]]

    def rest(self, connection: Connection, now: float) -> None:
        """Take a connection for idle whose request has been answered; one that is idle already grows no younger."""
        if (address := self._address.get(connection)) is not None:
            self._idle[address].setdefault(connection, now)

    def _has_room(self, address: str, now: float) -> bool:
        if address != _BY_PROXY and self._count[address] >= self._patience.of_one_address:
            return self._make_room([address], now)
        return len(self._address) < self._patience.connections or self._make_room(self._idle, now)

    def _make_room(self, addresses: Iterable[str], now: float) -> bool:
        """Have the oldest idle connection give way, of that address which has most of those that may have to."""
        old = now - self._patience.fresh_seconds
        found = [
            (weight, -since, connection)
            for weight, since, connection in map(self._oldest, filter(self._idle.__contains__, addresses))
            if since <= old or weight > self._patience.idle_of_one_address
        ]
        if not found:
            return False
        *_, connection = max(found, key=lambda row: row[:2])
        self.leave(connection)
        connection.give_way()
        return True

    def _oldest(self, address: str) -> tuple[int, float, Connection]:
        """How many idle ones an address counts for, since when the oldest of them is idle, and which that is."""
        idle = self._idle[address]
        connection, since = next(iter(idle.items()))
        return (1 if address == _BY_PROXY else len(idle)), since, connection
