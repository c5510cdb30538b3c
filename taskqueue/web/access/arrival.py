"""Where a request comes from, and which address it was meant for: its host and root path, as a trusted proxy says.

    browser ──https──► proxy (X-Forwarded-For, -Proto, -Host, -Prefix, and its header of the user) ──http──► here

Everybody can send these headers, so from anywhere else they say nothing; on loopback without tokens they show that
there is a proxy that nobody has named, and the request is refused: it would be an admin's.

Host: a page of a stranger may let its own name lead to an address of ours (DNS rebinding), and then counts as of the
same origin. Its requests still have the stranger's name in Host. An address instead of a name can't be rebound.

Root path: below it, such as /taskqueue, a reverse proxy shows the pages. It stands before every address that leaves
this process. Requests may come with it, from a proxy that passes them on as they are, or without it, from one that has
stripped it:

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
    """What is known of a request's way.

    Attributes:
        address: of whoever asks, as the nearest trusted proxy saw it.
        scheme: that the asker used: http or https.
        host: that the asker wrote, with the port if there is one, in lower case.
        is_by_proxy: it comes from a trusted proxy.
        root: path below which the asker sees the pages, such as /taskqueue; "" if they are at the top.
    """

    address: str
    scheme: str
    host: str
    is_by_proxy: bool
    root: str = ""


def arrival_of(request: HTTPConnection, trusted: Sequence[Network], root: str = "") -> Arrival:
    """Read the way of a request.

    Args:
        root: that whoever runs the process has chosen; "": a trusted proxy may say it.

    Raises:
        Refused: it has no Host, or more than one; or a trusted proxy says a root that is none.
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
    """Whether an address belongs to one of these networks."""
    try:
        ip = _plain(ip_address(address))
    except ValueError:
        return False
    return any(ip in network for network in networks)


def network_of(address: str) -> str:
    """The address, or its network of 64 bits: the owner of one IPv6 address has all of its network."""
    try:
        ip = _plain(ip_address(address))
    except ValueError:
        return address
    return f"{int(ip) >> _IPV6_HOST_BITS:x}::" if isinstance(ip, IPv6Address) else str(ip)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at this name or address."""
    try:
        return _plain(ip_address(host)).is_loopback
    except ValueError:
        return host == "localhost"


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address that is written as one of IPv6, as itself."""
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
    """What the nearest proxy has said: each appends."""
    return values[-1].rpartition(",")[2].strip() if values else ""


def _first_stranger(values: Sequence[str], trusted: Sequence[Network]) -> str:
    """The last address of a chain that is no trusted proxy: what stands before it, anybody may have written."""
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
    """The names that are ours.

    Args:
        bound: what the process listens at: a loopback address is called by loopback names alone.
        allowed: further names.
    """

    def __init__(self, bound: str, allowed: Sequence[str]) -> None:
        self._is_local = is_loopback(bound)
        self._names = {name.lower().rstrip(".") for name in (bound, *allowed)}

    def check(self, host: str) -> None:
        """See that a host, with or without a port, is one of ours.

        Raises:
            Refused: it is not.
        """
        read = HOST.fullmatch(host)
        if read is None:
            raise Refused(400, "Host is no name of a host")
        name = (read["ipv6"] or read["name"]).rstrip(".")
        if name in self._names or is_loopback(name) or (not self._is_local and _is_address(name)):
            return
        raise Refused(421, f'"{name}" is no name of this page; whoever runs it can allow it: --host {name}')


def port_of(host: str, scheme: str) -> int:
    """The port that a browser used."""
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

ROOT_WORDS: Final = 'letters, digits and "-._~" between slashes, such as /taskqueue, and no name of a page of ours'
"""What it has to be."""

OWN_SEGMENTS: Final = (
    "api", "daemon", "failures", "fetchers", "flows", "healthz", "live", "log", "login", "logout", "metrics",
    "operations", "projects", "readyz", "static",
)  # fmt: skip
"""First segments of addresses of ours: with one of them nobody could tell whether a proxy has stripped it."""

_ROOT_PATH: Final = re.compile(
    rf"(?!/(?:{'|'.join(OWN_SEGMENTS)})(?:/|\Z))(?:/(?!\.{{1,2}}(?:/|\Z))[A-Za-z0-9._~-]+)*\Z"
)


def root_path_of(written: str) -> str | None:
    """Read a path, with or without a slash at its end; None if it is unsafe or ambiguous, "" if it is only a slash."""
    path = written.removesuffix("/")
    return path if len(path) <= MAX_ROOT_CHARS and _ROOT_PATH.match(path) else None


def below(scope: Scope, root: str) -> Scope:
    """Take the root path off the address of a request, if it has it."""
    raw: bytes = scope["raw_path"]
    prefix = root.encode()
    if not root or (raw != prefix and not raw.startswith(prefix + b"/")):
        return scope
    return {**scope, "path": scope["path"][len(root) :] or "/", "raw_path": raw[len(prefix) :] or b"/"}
