"""Hosts of URLs, by which tasks are divided into slots.

    http://ann@News.Example.org:8080/a?b   host   news.example.org:8080      domain   example.org
    http://www.Bücher.example/             host   www.xn--bcher-kva.example  domain   xn--bcher-kva.example
    https://[::0001]:443/                  host   [::1]                      domain   [::1]
    data:,report                           none; a slot that the task names wins over any host

``slot_names`` decides the slot of a task; ``registered_domains`` looks up the domain of a host.

The host decides which server a fetcher asks, so URLs are read as browsers read them, even where RFC 3986 differs:

1. Scheme and host are case-insensitive; a backslash is a slash; tabs, line breaks and invisible characters before the
   scheme are ignored.
2. The last ``@`` before the path ends user and password. An empty port and the scheme's default port are dropped, and
   so are leading zeros of other ports and the dots at the end of a host.
3. A URL that can't be fetched has no host: without a scheme and two slashes; with a host that is too long or has spaces
   or control characters; with an invalid port; with brackets around anything but an address.
4. A host has one name for all spellings: in Unicode, percent-encoded, with another dot than ``.``, an address in
   hexadecimal. ``Environment.ascii_host`` makes it. An invalid host keeps its spelling, in lower case.
5. A slot name given by a task or an operator is treated as a host if it has letters beyond ASCII and is a valid host.
   Any other name is kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

MAX_HOST_BYTES: Final = 253
"""Longest name in the DNS, without the dot at its end (RFC 1035, section 2.3.4)."""

MAX_PORT: Final = 65_535

OWN_PORTS: Final = {"http": "80", "https": "443", "ftp": "21", "ws": "80", "wss": "443"}

_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

_PLAIN: Final = re.compile(
    rf"https?://((?:(?:[a-z0-9._-]{{0,189}}\.)?[a-z_-][a-z0-9_-]{{0,62}}|{_BYTE}(?:\.{_BYTE}){{3}})"
    r"(?::(?!80\b|443\b)(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?)(?=[/?#\\]|\Z)",
    re.ASCII,
).match
"""Match nearly all URLs, and capture the host, with a port that is not the default.

The last part of a name does not begin with a digit: that would be an address, matched in its usual spelling only.
"""

_SCHEME: Final = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]{0,30}):[/\\]{2}").match

_CUTS: Final = re.compile(r"[/\\?#]")
"""Characters that end the host."""

_PLACE: Final = re.compile(
    r"(\[[0-9a-zA-Z.%_~-]*:[0-9a-zA-Z:.%_~-]*\]\.*|[^:@\[\]\x00-\x20\x7f-\x9f]+)(?::([0-9]*))?"
).fullmatch
"""Match host and port."""

MAX_PLACE_CHARS: Final = 1000
"""Longest host with port that is read; percent-encoded, a letter takes up to 12 characters."""

_BREAKS: Final = {ord(sign): None for sign in "\t\r\n"}

AsciiHost = Callable[[str], str]
"""Type of ``Environment.ascii_host``."""


def respelled(name: str, ascii_host: AsciiHost) -> str:
    """Return the canonical spelling of a host with or without a port; an invalid host is not changed."""
    return name if _CUTS.search(name) or "@" in name else _rare_host(f"x://{name}", ascii_host) or name


def host_of(url: str, ascii_host: AsciiHost) -> str:
    """Return the host of a URL, with a port that is not the default; empty if the URL can't be fetched.

    Args:
        ascii_host: canonicalises a host; not called for a plain name in lower case.

    Takes 0.3 µs, or 2 µs for a URL with a user, capitals or other rare parts; ``urlsplit`` takes 3.
    """
    plain = _PLAIN(url)
    if plain is not None:
        return plain[1]
    host = _rare_host(url, ascii_host)
    return host if host or url.isprintable() else _rare_host(url.translate(_BREAKS), ascii_host)


def _rare_host(url: str, ascii_host: AsciiHost) -> str:
    """Return the host of a URL of any form without tabs and line breaks."""
    scheme = _SCHEME(url)
    if scheme is None:
        return ""
    place = _CUTS.split(url[scheme.end() :], 1)[0].rpartition("@")[2]
    read = _PLACE(place) if len(place) <= MAX_PLACE_CHARS else None
    return _named(scheme[1].lower(), _host(read[1], ascii_host), read[2]) if read is not None else ""


def _host(spelled: str, ascii_host: AsciiHost) -> str:
    # Lower case comes last: at the end of a word, a Greek capital has another small letter than IDNA makes.
    return ascii_host(spelled.rstrip(".")).lower().rstrip(".")


def _named(scheme: str, host: str, port: str | None) -> str:
    if not host or len(host.encode(errors="replace")) > MAX_HOST_BYTES:
        return ""
    number = port.lstrip("0") or "0" if port else ""
    if number in ("", OWN_PORTS.get(scheme)):
        return host
    return f"{host}:{number}" if len(number) <= 5 and int(number) <= MAX_PORT else ""
