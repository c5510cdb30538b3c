"""Where a request comes from, and which address it was meant for: what a trusted proxy says of it counts.

    browser ──https──► proxy (X-Forwarded-For, -Proto, -Host, -Prefix, and its header of the user) ──http──► here

Everybody can send these headers, so from anywhere else they say nothing; on loopback without tokens they show that
there is a proxy that nobody has named, and the request is refused: it would be an admin's.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from starlette.requests import HTTPConnection

from taskqueue.web.access.refusals import Refused
from taskqueue.web.access.root_path import WORDS, root_path_of

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
        raise Refused(400, f"X-Forwarded-Prefix must be {WORDS}")
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
