"""Hosts as the DNS has them: ASCII, by UTS 46 as browsers apply it (https://www.unicode.org/reports/tr46/).

    bücher.example, BÜCHER。example, b%C3%BCcher.example   xn--bcher-kva.example
    faß.de                                                 xn--fa-hia.de, which is not fass.de
    [::0001]                                               [::1]
    0x7f.1, 2130706433                                     127.0.0.1

The standard library's ``idna`` codec is from 2003: it turns faß.de into fass.de, which belongs to another owner.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import unquote, urlsplit

MAX_HOST_CHARS: Final = 253
"""Longer hosts are not mapped: no name in the DNS is longer (RFC 1035, section 2.3.4), and a letter takes 1 µs."""

FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]")
"""Forbidden domain code points (URL Standard): with one of them, the URL would name another host."""

RARE: Final = re.compile(r"[\[%]")
"""Match characters that let an ASCII host be spelled in several ways."""

PLACE: Final = re.compile(r"(\[[^\]]*\]|[^:]*)(.*)", re.DOTALL)
"""Match host, and port with its colon."""

NUMBERS: Final = re.compile(r"(?:(?:0x[0-9a-f]*|[0-9]+)(?:\.(?!\Z)|\Z)){1,4}", re.ASCII).fullmatch
"""Match a host that may be an IPv4 address: one to four numbers, decimal or hexadecimal."""


def ascii_host(host: str) -> str:
    """Return the canonical spelling of a host without a port; an invalid host, such as one with a space, stays.

    Takes 0.1 µs for a name in lower case, about 10 µs for any other. Names need not exist: those that IDNA 2008
    disallows, such as an emoji, are left to the DNS to refuse.
    """
    if host.startswith("["):
        return _address(host)
    if host.isascii() and "%" not in host:
        return _without_odd_numbers(host.lower())
    try:
        mapped = _mapped(unquote(host, errors="strict"))
    except ValueError:
        return host
    return host if FORBIDDEN.search(mapped) else _without_odd_numbers(".".join(map(_label, mapped.split("."))))


def with_ascii_host(url: str) -> str:
    """Return the URL with its host in ASCII; user, password and port stay.

    Raises:
        ValueError: the text is not a URL, for example because a bracket is not closed.
    """
    split = urlsplit(url)
    if split.netloc.isascii() and not RARE.search(split.netloc):
        return url
    user, at, place = split.netloc.rpartition("@")
    host, port = PLACE.findall(place)[0]
    return split._replace(netloc=f"{user}{at}{ascii_host(host)}{port}").geturl()


def _address(host: str) -> str:
    try:
        address = IPv6Address(host[1:-1])
    except ValueError:
        return host.lower()
    if address.ipv4_mapped is None or address.scope_id is not None:
        return f"[{address}]"
    return "[::ffff:{:x}:{:x}]".format(*divmod(int(address.ipv4_mapped), 1 << 16))  # Python 3.13 writes 1.2.3.4


def _without_odd_numbers(host: str) -> str:
    """Return an IPv4 address as four decimal numbers, also from fewer, hexadecimal or octal ones; other hosts stay."""
    if not NUMBERS(host):
        return host
    try:
        *firsts, last = map(_number, host.split("."))
        return str(IPv4Address(bytes(firsts) + last.to_bytes(4 - len(firsts), "big")))
    except (ValueError, OverflowError):
        return host


def _number(part: str) -> int:
    """Parse a number of an IPv4 address.

    Raises:
        ValueError: a number with a leading zero has a digit that is not octal.
    """
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)


def _mapped(host: str) -> str:
    """Map the letters of a host as UTS 46 does.

    Raises:
        ValueError: a letter is not allowed in a host.
    """
    from idna import uts46_remap  # Not above: it takes 15 ms, which most programs need not spend.

    if len(host) > MAX_HOST_CHARS:
        raise ValueError(f"a host of {len(host)} characters")
    return uts46_remap(host, std3_rules=False, transitional=False)


def _label(label: str) -> str:
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"
