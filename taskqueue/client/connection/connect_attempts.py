"""What became of a client's attempts to connect: why nobody answers, address by address.

An address is tried, and the attempt ends in one of these ways:

    REFUSED    nobody listens there, or no way leads there
    STRANGER   who listens there has hung up, or speaks another protocol
    MUTE       somebody took the connection and said nothing
    SILENT     nothing came back at all

The first two are certain: a client that is not to wait for a daemon gives up. The others may be a daemon that is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

REFUSED: Final = "nobody listens there"
UNKNOWN: Final = "its host is not known"
STRANGER: Final = "who listens there is no taskqueue daemon"
MUTE: Final = "somebody listens there, but is no taskqueue daemon, or hangs"
SILENT: Final = "nothing comes back from there"

CERTAIN: Final = (REFUSED, STRANGER)


class ConnectAttempts:
    """Attempts to connect to the addresses of one url.

    Args:
        name: of the host; empty: the url has the address itself, so that it need not be said again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._unknown = ""
        self._ends: dict[str, str] = {}

    def unknown(self, error: Exception) -> None:
        """The name can't be looked up."""
        self._ends.clear()
        self._unknown = f"{UNKNOWN} ({getattr(error, 'strerror', None) or error})"

    def found(self, addresses: Sequence[str]) -> None:
        """These are tried now, one after the other; what is known of them from before stays."""
        self._unknown = ""
        self._ends = {address: self._ends.get(address, "") for address in addresses}

    def ended(self, address: str, how: str) -> None:
        """An attempt has ended without a connection, or a connection can't be used so far."""
        self._ends[address] = how

    def connected(self) -> None:
        """There is a connection."""
        self._unknown = ""
        self._ends = dict.fromkeys(self._ends, "")

    @property
    def obstacle(self) -> str:
        """In words, why there can't be a connection; empty: there is one, or may be soon."""
        is_certain = bool(self._ends) and all(how in CERTAIN for how in self._ends.values())
        return self._unknown or (self.why if is_certain else "")

    @property
    def why(self) -> str:
        """In words, why there is no connection, as far as that is known."""
        known = {address: how for address, how in self._ends.items() if how}
        if not known:
            return self._unknown or (f"its host {self._name} is being looked up" if self._is_looked_up() else "")
        if len(set(known.values())) > 1:
            return "; ".join(f"{address}: {how}" for address, how in known.items())
        (how,) = set(known.values())
        return f"{how} ({', '.join(known)})" if self._name else how

    def _is_looked_up(self) -> bool:
        return bool(self._name) and not self._ends
