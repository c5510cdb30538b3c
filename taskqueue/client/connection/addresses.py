"""Addresses that a daemon's URL stands for at the moment, and results of attempts to connect to each of them.

    tcp://[::1]:7400     ──────────────► one address, at once
    tcp://db.example:7400 ──a thread────► its addresses of both families, in the order of the system (RFC 6724)
    ipc:///run/tq.sock   ──────────────► one address, as it is

libzmq would look up a name itself, but takes one address of it, of one family, and does so in the thread of its I/O.

An attempt to connect ends in one of these ways, which explain why no daemon answers:

    REFUSED    nothing listens there, or there is no route to it
    STRANGER   the peer has hung up, or speaks another protocol
    MUTE       the peer accepted the connection and sent nothing
    SILENT     nothing came back at all
    KEY_REFUSED, KEY_MISSING, KEYLESS, OTHER_DAEMON    the keys of both sides don't fit, each in its way

All but MUTE and SILENT are certain: a client that is not to wait for a daemon gives up. Those may be a slow daemon.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, NamedTuple

from taskqueue.errors import ClientError

EXAMPLE = "a URL looks like tcp://127.0.0.1:7400 or tcp://[::1]:7400"


class Address(NamedTuple):
    """Address of one place to connect to.

    Attributes:
        endpoint: in the form that libzmq takes.
        shown: for messages, such as ``10.0.0.7:7400`` or ``[::1]:7400``.
        is_ipv6: True if libzmq has to use IPv6.
    """

    endpoint: str
    shown: str
    is_ipv6: bool = False

    @property
    def is_tcp(self) -> bool:
        """True if the peer may be on another machine."""
        return self.endpoint.startswith("tcp://")


Found = list[Address] | Exception
"""Addresses that a look-up has found, or its error."""


class Target:
    """Destination of a URL.

    Attributes:
        name: host name to look up; empty: the URL contains the address itself.

    Raises:
        ClientError: the URL is invalid.
    """

    def __init__(self, url: str) -> None:
        self.name = ""
        self._port = 0
        self._source = ""
        self._addresses = [Address(url, url)]
        if url.startswith("tcp://"):
            self._parse(url)

    def look_up(self, loop: asyncio.AbstractEventLoop, told: Callable[[Found], None]) -> None:
        """Call ``told`` with the addresses: at once, or in the loop when the name has been looked up.

        This does not use the loop's executor: its threads may all be busy with handlers, and a program that ends waits
        for them, while a look-up may take half a minute.
        """
        if not self.name:
            told(self._addresses)
            return

        def find() -> None:
            found = self._find()
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(told, found)

        threading.Thread(target=find, name="taskqueue-lookup", daemon=True).start()

    def _parse(self, url: str) -> None:
        # libzmq takes the address to come from, too: tcp://10.0.0.1:0;10.0.0.2:7400.
        source, semicolon, place = url.removeprefix("tcp://").rpartition(";")
        host, _, port = place.rpartition(":")
        if not host.strip("[]*") or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65_535:
            raise ClientError(f"can't connect to {url!r}: the URL has no host or no port; {EXAMPLE}")
        self._source, self._port = source + semicolon, int(port)
        if not _is_literal(literal := host.strip("[]")):
            if host != literal:
                raise ClientError(f"can't connect to {url!r}: {literal!r} is not an IPv6 address; {EXAMPLE}")
            self.name = host
        else:
            self._addresses = [self._address(literal)]

    def _find(self) -> Found:
        try:
            found = socket.getaddrinfo(self.name, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return error
        return [self._address(host) for host in dict.fromkeys(_host(each[4]) for each in found)]

    def _address(self, host: str) -> Address:
        is_ipv6 = ":" in host
        shown = f"[{host}]:{self._port}" if is_ipv6 else f"{host}:{self._port}"
        return Address(f"tcp://{self._source}{shown}", shown, is_ipv6)


def _host(place: Sequence[object]) -> str:
    """Return the address that ``getaddrinfo`` found, with its zone if that is separate."""
    host, zone = str(place[0]), place[3] if len(place) > 3 else 0
    return f"{host}%{zone}" if zone and "%" not in host else host


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


REFUSED: Final = "nothing listens there"
UNKNOWN: Final = "its host is unknown"
STRANGER: Final = "the program that listens there is not a taskqueue daemon"
MUTE: Final = "a program listens there, but is not a taskqueue daemon, or hangs"
SILENT: Final = "nothing comes back from there"


KEY_REFUSED: Final = "the daemon does not know this client's key, or the key was revoked or has expired"
KEY_MISSING: Final = "the daemon takes only clients with a key, and this one has none"
KEYLESS: Final = "the daemon there has no keys, but this client has one"
OTHER_DAEMON: Final = "the daemon there is not the one in this client's key file: its public key is another"

REMEDIES: Final = {
    KEY_REFUSED: "on its machine see taskqueue key list, then taskqueue key authorise {name} {public} --role ROLE "
    "(a new name), key set {name} --expires DURATION (expired) or key rotate {name} PUBLIC (another key)",
    KEY_MISSING: "name a key file by --key or TASKQUEUE_KEY; taskqueue key generate makes one",
    KEYLESS: "leave out --key, TASKQUEUE_KEY and data/local.key, or say daemon.keys in its config file",
    OTHER_DAEMON: "compare with taskqueue key server on its machine; if that has changed, make a new key file",
}
"""Remedies by trouble with keys; ``name`` and ``public`` belong to the client's key."""

CERTAIN: Final = (REFUSED, STRANGER, *REMEDIES)


class ConnectAttempts:
    """Attempts to connect to the addresses of one URL.

    Args:
        name: host name; empty: the URL contains the address itself, so that messages need not repeat it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._unknown = ""
        self._ends: dict[str, str] = {}

    def unknown(self, error: Exception) -> None:
        """Record that the name can't be looked up."""
        self._ends.clear()
        self._unknown = f"{UNKNOWN} ({getattr(error, 'strerror', None) or error})"

    def found(self, addresses: Sequence[str]) -> None:
        """Record the addresses that are tried now, one after the other; known results of earlier attempts stay."""
        self._unknown = ""
        self._ends = {address: self._ends.get(address, "") for address in addresses}

    def ended(self, address: str, how: str) -> None:
        """Record that an attempt has ended without a connection, or that a connection can't be used so far."""
        self._ends[address] = how

    def connected(self) -> None:
        """Record that there is a connection."""
        self._unknown = ""
        self._ends = dict.fromkeys(self._ends, "")

    @property
    def obstacle(self) -> str:
        """Reason why there can't be a connection; empty: there is one, or may be soon."""
        is_certain = bool(self._ends) and all(how in CERTAIN for how in self._ends.values())
        return self._unknown or (self.why if is_certain else "")

    @property
    def key_trouble(self) -> str:
        """Trouble with the keys, one of REMEDIES, if it is the only obstacle; else empty."""
        hows = set(self._ends.values())
        return hows.pop() if len(hows) == 1 and hows <= REMEDIES.keys() else ""

    @property
    def why(self) -> str:
        """Reason why there is no connection, as far as it is known."""
        known = {address: how for address, how in self._ends.items() if how}
        if not known:
            return self._unknown or (f"its host {self._name} is being looked up" if self._is_looked_up() else "")
        if len(set(known.values())) > 1:
            return "; ".join(f"{address}: {how}" for address, how in known.items())
        (how,) = set(known.values())
        return f"{how} ({', '.join(known)})" if self._name else how

    def _is_looked_up(self) -> bool:
        return bool(self._name) and not self._ends
