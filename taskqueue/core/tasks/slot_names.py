"""The name of a task's slot: what a project that divides its tasks paces apart from the rest.

    http://ann@News.Example.org:8080/a?b   host   news.example.org:8080      domain   example.org
    https://[::1]:443/                     host   [::1]                      domain   [::1]
    data:,report                           none, and a name that the task gives wins over all

A name tells whom a fetcher asks, so a url is read as browsers read it, also where RFC 3986 would not:

1. Scheme and host don't mind the case; a backslash is a slash; tabs and line breaks are not there, and neither is what
   stands before the scheme and can't be seen.
2. The last ``@`` before the path ends user and password. A port that is empty or the scheme's own is dropped, and so
   are the leading zeros of any other and the dots in which a host ends.
3. A url that nobody could ask has no host: without a scheme and two slashes, with a host that is longer than names can
   be or has spaces or control characters in it, with a port that is none, with brackets around anything but an address.

A host stays in the letters in which it came, so in Unicode and in ASCII (IDNA) it has two names; ``taskqueue.links``
gives urls in ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from taskqueue.core.settings.settings import Division

MAX_HOST_BYTES: Final = 253
"""Of a name in the DNS, without the dot at its end (RFC 1035, section 2.3.4)."""

MAX_PORT: Final = 65_535

OWN_PORTS: Final = {"http": "80", "https": "443", "ftp": "21", "ws": "80", "wss": "443"}

_PLAIN: Final = re.compile(
    r"https?://([a-z0-9._-]{0,252}[a-z0-9_-](?::(?!80\b|443\b)(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?)(?=[/?#\\]|\Z)",
    re.ASCII,
).match
"""Urls as nearly all of them are, and those with a port that has to be said."""

_SCHEME: Final = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]{0,30}):[/\\]{2}").match

_PLACE: Final = re.compile(
    r"(\[[0-9a-z.%_~-]*:[0-9a-z:.%_~-]*\]|[^:@\[\]\x00-\x20\x7f-\x9f]*[^.:@\[\]\x00-\x20\x7f-\x9f])\.*(?::([0-9]*))?"
).fullmatch
"""Host and port, in lower case."""

MAX_PLACE_CHARS: Final = 300
"""Longer ones are not looked at: a match may cost the square of their length."""

_BREAKS: Final = {ord(sign): None for sign in "\t\r\n"}


def slot_name(division: Division, url: str, named: str | None, domain_of: Callable[[str], str]) -> str:
    """The slot of a task in a project that is divided so; empty: none.

    Args:
        named: the name that the task gives, if it does.
        domain_of: the registered domain of a host, see ``Environment.domain``.
    """
    if division == "none":
        return ""
    if named or division == "named":
        return named or ""
    host = host_of(url)
    return domain_of(host) if host and division == "domain" else host


def host_of(url: str) -> str:
    """Host and port of a url, the latter if it does not go without saying; empty: there is none to be asked.

    Takes 0.2 µs, or 1.5 µs of a url with a user, capitals or anything else that is rare; ``urlsplit`` takes 3.
    """
    plain = _PLAIN(url)
    if plain is not None:
        return plain[1]
    host = _rare_host(url)
    return host if host or url.isprintable() else _rare_host(url.translate(_BREAKS))


def _rare_host(url: str) -> str:
    """The host of a url of any form without tabs and line breaks."""
    scheme = _SCHEME(url)
    if scheme is None:
        return ""
    place = url[scheme.end() :]
    for sign in "/\\?#":
        place = place.partition(sign)[0]
    place = place.rpartition("@")[2].lower()
    read = _PLACE(place) if len(place) <= MAX_PLACE_CHARS else None
    return _named(scheme[1].lower(), read[1], read[2]) if read is not None else ""


def _named(scheme: str, host: str, port: str | None) -> str:
    if len(host.encode(errors="replace")) > MAX_HOST_BYTES:
        return ""
    number = port.lstrip("0") or "0" if port else ""
    if number in ("", OWN_PORTS.get(scheme)):
        return host
    return f"{host}:{number}" if len(number) <= 5 and int(number) <= MAX_PORT else ""
