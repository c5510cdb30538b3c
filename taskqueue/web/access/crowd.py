"""Connections by address, and which of them is closed when a new one finds no room.

    enter ──► idle ──known visitor's head──► served
               │ ▲────────response ends────────┘
               └──no room, and older than fresh_seconds──► gives way

A connection is idle until it has sent the complete head of a request by a known visitor, so closing it loses nothing. A
stranger's request does not count: half a sign-in form would block others as half a head does. No clock is read here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from taskqueue.web.access.arrival import Network, is_among, network_of
from taskqueue.web.options import Patience

KNOWN: Final = "known"
"""Key in the state of an ASGI scope: function that the gate calls for requests of known visitors."""

_BY_PROXY: Final = ""
"""Key for the addresses of all trusted proxies."""


class Connection(Protocol):
    """Connection that can be asked to end."""

    def give_way(self) -> None:
        """End, to make room for another connection."""


class Crowd:
    """Connections of the process.

    Args:
        patience: limits of connections, and how long an idle one is safe.
        proxies: trusted proxies, whose connections belong to many users and are not counted by address.
    """

    def __init__(self, patience: Patience, proxies: Sequence[Network] = ()) -> None:
        self._patience = patience
        self._proxies = proxies
        self._address: dict[Connection, str] = {}
        self._count: Counter[str] = Counter()
        self._idle: defaultdict[str, dict[Connection, float]] = defaultdict(dict)
        """Start of idleness by address and connection, the oldest first; addresses without idle ones are missing."""

    def __len__(self) -> int:
        return len(self._address)

    def enter(self, connection: Connection, host: str, now: float) -> bool:
        """Admit a connection, if need be by closing an idle one; return False if there is no room."""
        address = _BY_PROXY if is_among(host, self._proxies) else network_of(host)
        if not self._has_room(address, now):
            return False
        self._address[connection] = address
        self._count[address] += 1
        self._idle[address][connection] = now
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection, if it is known."""
        self.serve(connection)
        address = self._address.pop(connection, None)
        if address is not None:
            self._count[address] -= 1
            if not self._count[address]:
                del self._count[address]

    def serve(self, connection: Connection) -> None:
        """Mark a connection as busy: its request is being answered."""
        idle = self._idle.get(self._address.get(connection, ""), {})
        if idle.pop(connection, None) is not None and not idle:
            del self._idle[self._address[connection]]

    def rest(self, connection: Connection, now: float) -> None:
        """Mark a connection as idle after a response; one that is idle already keeps its start."""
        if (address := self._address.get(connection)) is not None:
            self._idle[address].setdefault(connection, now)

    def _has_room(self, address: str, now: float) -> bool:
        if address != _BY_PROXY and self._count[address] >= self._patience.of_one_address:
            return self._make_room([address], now)
        return len(self._address) < self._patience.connections or self._make_room(self._idle, now)

    def _make_room(self, addresses: Iterable[str], now: float) -> bool:
        """Close the oldest idle connection of the address that has most of those that may be closed."""
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
        """Return for an address the weight of its idle connections, and start and connection of the oldest."""
        idle = self._idle[address]
        connection, since = next(iter(idle.items()))
        return (1 if address == _BY_PROXY else len(idle)), since, connection
