"""Origin of a request, and the address it was sent to: host and root path, as a trusted proxy reports them.

    browser ──https──► proxy (X-Forwarded-For, -Proto, -Host, -Prefix, and its header of the user) ──http──► here

Any client can send these headers, so they are ignored unless they come from a trusted proxy. On loopback without tokens
they show that a proxy is not configured, and the request is refused: it would run as admin.

Host: a foreign page may resolve its own name to our address (DNS rebinding), and then counts as same-origin. Its
requests still have the foreign name in Host. An address instead of a name can't be rebound.

Root path: a reverse proxy serves the dashboard below a path such as /taskqueue, which then begins every address that
leaves this process. Requests may contain it, if the proxy passes them on unchanged, or lack it, if the proxy strips it:

    browser ──/taskqueue/flows──► proxy ──/taskqueue/flows──► below ──/flows──► the application
                                    └──────────/flows──────────►┘
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from starlette.requests import HTTPConnection
from starlette.types import Scope

from taskqueue.web.access.refusals import Refused

Network = IPv4Network | IPv6Network

FORWARDING: Final = (
    "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-prefix", "x-forwarded-proto", "x-real-ip", "via",
)  # fmt: skip

_IPV6_HOST_BITS: Final = 64


class Arrival(NamedTuple):
    """Origin of a request.

    Attributes:
        address: client's address, as the nearest trusted proxy saw it.
        scheme: scheme that the client used: http or https.
        host: host that the client used, with its port if there is one, in lower case.
        is_by_proxy: True if a trusted proxy passed the request on.
        root: path below which the client sees the dashboard, such as /taskqueue; "" if it is at the top.
    """

    address: str
    scheme: str
    host: str
    is_by_proxy: bool
    root: str = ""


def arrival_of(request: HTTPConnection, trusted: Sequence[Network], root: str = "") -> Arrival:
    """Read the origin of a request.

    Args:
        root: root path set by the operator; "": a trusted proxy may send it.

    Raises:
        Refused: Host is missing or repeated, or a trusted proxy sends an invalid root path.
    """
    headers = request.headers
    peer = request.client.host if request.client else ""
    host = _only(headers.getlist("host"))
    scheme: str = request.scope.get("scheme", "http")
    if not is_among(peer, trusted):
        return Arrival(peer, scheme, host, False, root)
    forwarded = _last(headers.getlist("x-forwarded-host"))
    proto = _last(headers.getlist("x-forwarded-proto")).lower()
    return Arrival(
        _first_stranger(headers.getlist("x-forwarded-for"), trusted) or peer,
        proto if proto in ("http", "https") else scheme,
        forwarded.lower() or host,
        True,
        root or _root_of(_last(headers.getlist("x-forwarded-prefix"))),
    )


def is_among(address: str, networks: Sequence[Network]) -> bool:
    """Return whether an address belongs to one of these networks."""
    try:
        ip = _plain(ip_address(address))
    except ValueError:
        return False
    return any(ip in network for network in networks)


def network_of(address: str) -> str:
    """Return an address, or the 64-bit network of an IPv6 address, because its owner has all of the network."""
    try:
        ip = _plain(ip_address(address))
    except ValueError:
        return address
    return f"{int(ip) >> _IPV6_HOST_BITS:x}::" if isinstance(ip, IPv6Address) else str(ip)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a server bound to this name or address."""
    try:
        return _plain(ip_address(host)).is_loopback
    except ValueError:
        return host == "localhost"


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Convert an IPv4 address mapped to IPv6 back to IPv4."""
    return (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip


def _only(hosts: Sequence[str]) -> str:
    if len(hosts) != 1 or not hosts[0]:
        raise Refused(400, "a request needs one Host")
    return hosts[0].lower()


def _root_of(said: str) -> str:
    if (root := root_path_of(said)) is None:
        raise Refused(400, f"X-Forwarded-Prefix must be {ROOT_WORDS}")
    return root


def _last(values: Sequence[str]) -> str:
    """Return the value of the nearest proxy: each proxy appends."""
    return values[-1].rpartition(",")[2].strip() if values else ""


def _first_stranger(values: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the last address of a chain that is not a trusted proxy; clients may have forged the ones before."""
    chain = [address.strip() for value in values for address in value.split(",")]
    for address in reversed(chain):
        try:
            ip_address(address)
        except ValueError:
            return ""
        if not is_among(address, trusted):
            return address
    return ""


# ---------------------------------------------------------------------------------------------------------------- hosts

HOST: Final = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::(?P<port>\d{1,5}))?", re.ASCII)


class HostNames:
    """Host names of this process.

    Args:
        bound: address that the process listens at; a loopback address is only reached by loopback names.
        allowed: further host names.
    """

    def __init__(self, bound: str, allowed: Sequence[str]) -> None:
        self._is_local = is_loopback(bound)
        self._names = {name.lower().rstrip(".") for name in (bound, *allowed)}

    def check(self, host: str) -> None:
        """Check that a host, with or without a port, belongs to this process.

        Raises:
            Refused: it does not.
        """
        read = HOST.fullmatch(host)
        if read is None:
            raise Refused(400, "Host is not a valid host name")
        name = (read["ipv6"] or read["name"]).rstrip(".")
        if name in self._names or is_loopback(name) or (not self._is_local and _is_address(name)):
            return
        raise Refused(421, f'"{name}" is not a host name of the dashboard; its operator can allow it: --host {name}')


def port_of(host: str, scheme: str) -> int:
    """Return the port that a browser used."""
    read = HOST.fullmatch(host)
    return int(read["port"]) if read and read["port"] else 443 if scheme == "https" else 80


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


# ----------------------------------------------------------------------------------------------------------- root paths

MAX_ROOT_CHARS: Final = 255

ROOT_WORDS: Final = 'letters, digits and "-._~" between slashes, such as /taskqueue, but no page of ours such as /log'
"""Words for a valid root path."""

OWN_SEGMENTS: Final = (
    "api", "daemon", "failures", "fetchers", "flows", "healthz", "live", "log", "login", "logout", "metrics",
    "operations", "projects", "readyz", "static",
)  # fmt: skip
"""First segments of our addresses; a root path with one of them would be ambiguous if a proxy strips it."""

_ROOT_PATH: Final = re.compile(
    rf"(?!/(?:{'|'.join(OWN_SEGMENTS)})(?:/|\Z))(?:/(?!\.{{1,2}}(?:/|\Z))[A-Za-z0-9._~-]+)*\Z"
)


def root_path_of(written: str) -> str | None:
    """Parse a root path; None if it is unsafe or ambiguous, "" if it is only a slash."""
    path = written.removesuffix("/")
    return path if len(path) <= MAX_ROOT_CHARS and _ROOT_PATH.match(path) else None


def below(scope: Scope, root: str) -> Scope:
    """Strip the root path from a request's address, if it is there."""
    raw: bytes = scope["raw_path"]
    prefix = root.encode()
    if not root or (raw != prefix and not raw.startswith(prefix + b"/")):
        return scope
    return {**scope, "path": scope["path"][len(root) :] or "/", "raw_path": raw[len(prefix) :] or b"/"}
