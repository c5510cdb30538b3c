"""Hosts of urls, by which tasks are divided into slots; and what a report says of the host that was asked.

    http://ann@News.Example.org:8080/a?b   host   news.example.org:8080      domain   example.org
    http://www.Bücher.example/             host   www.xn--bcher-kva.example  domain   xn--bcher-kva.example
    https://[::0001]:443/                  host   [::1]                      domain   [::1]
    data:,report                           none, and a name that the task gives wins over all

Which slot a task is in is decided in ``slot_names``; the domain of a host is looked up in ``registered_domains``.

A name tells whom a fetcher asks, so a url is read as browsers read it, also where RFC 3986 would not:

1. Scheme and host don't mind the case; a backslash is a slash; tabs and line breaks are not there, and neither is what
   stands before the scheme and can't be seen.
2. The last ``@`` before the path ends user and password. A port that is empty or the scheme's own is dropped, and so
   are the leading zeros of any other and the dots in which a host ends.
3. A url that nobody could ask has no host: without a scheme and two slashes, with a host that is longer than names can
   be or has spaces or control characters in it, with a port that is none, with brackets around anything but an address.
4. A host has one name, however it is spelled: in Unicode, percent-encoded, with another dot than ``.``, an address in
   hexadecimal. It is what ``Environment.ascii_host`` makes of it. A host that can be none is called as it is spelled,
   in lower case.
5. A name that a task gives, or a person, is that of a host if it has letters beyond ASCII and can be one. Any other is
   taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

MAX_HOST_BYTES: Final = 253
"""Of a name in the DNS, without the dot at its end (RFC 1035, section 2.3.4)."""

MAX_PORT: Final = 65_535

OWN_PORTS: Final = {"http": "80", "https": "443", "ftp": "21", "ws": "80", "wss": "443"}

_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

_PLAIN: Final = re.compile(
    rf"https?://((?:(?:[a-z0-9._-]{{0,189}}\.)?[a-z_-][a-z0-9_-]{{0,62}}|{_BYTE}(?:\.{_BYTE}){{3}})"
    r"(?::(?!80\b|443\b)(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?)(?=[/?#\\]|\Z)",
    re.ASCII,
).match
"""Urls as nearly all of them are, and those with a port that has to be said.

The last part of a name begins with no digit: else it is an address, of which only the usual spelling is plain.
"""

_SCHEME: Final = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]{0,30}):[/\\]{2}").match

_CUTS: Final = re.compile(r"[/\\?#]")
"""What ends the host."""

_PLACE: Final = re.compile(
    r"(\[[0-9a-zA-Z.%_~-]*:[0-9a-zA-Z:.%_~-]*\]\.*|[^:@\[\]\x00-\x20\x7f-\x9f]+)(?::([0-9]*))?"
).fullmatch
"""Host and port."""

MAX_PLACE_CHARS: Final = 1000
"""Longer ones are not looked at; percent-encoded, a letter takes up to 12 characters."""

_BREAKS: Final = {ord(sign): None for sign in "\t\r\n"}

AsciiHost = Callable[[str], str]
"""``Environment.ascii_host``."""


def respelled(name: str, ascii_host: AsciiHost) -> str:
    """The one spelling of a host, with or without a port; a name that can be no host stays as it is."""
    return name if _CUTS.search(name) or "@" in name else _rare_host(f"x://{name}", ascii_host) or name


def host_of(url: str, ascii_host: AsciiHost) -> str:
    """Host and port of a url, the latter if it does not go without saying; empty: there is none to be asked.

    Args:
        ascii_host: the one spelling of a host; not called for one that is plainly a name in lower case.

    Takes 0.3 µs, or 2 µs of a url with a user, capitals or anything else that is rare; ``urlsplit`` takes 3.
    """
    plain = _PLAIN(url)
    if plain is not None:
        return plain[1]
    host = _rare_host(url, ascii_host)
    return host if host or url.isprintable() else _rare_host(url.translate(_BREAKS), ascii_host)


def _rare_host(url: str, ascii_host: AsciiHost) -> str:
    """The host of a url of any form without tabs and line breaks."""
    scheme = _SCHEME(url)
    if scheme is None:
        return ""
    place = _CUTS.split(url[scheme.end() :], 1)[0].rpartition("@")[2]
    read = _PLACE(place) if len(place) <= MAX_PLACE_CHARS else None
    return _named(scheme[1].lower(), _host(read[1], ascii_host), read[2]) if read is not None else ""


def _host(spelled: str, ascii_host: AsciiHost) -> str:
    # Lower case comes last: in Greek, that of a capital is another letter at the end of a word than IDNA makes of it.
    return ascii_host(spelled.rstrip(".")).lower().rstrip(".")


def _named(scheme: str, host: str, port: str | None) -> str:
    if not host or len(host.encode(errors="replace")) > MAX_HOST_BYTES:
        return ""
    number = port.lstrip("0") or "0" if port else ""
    if number in ("", OWN_PORTS.get(scheme)):
        return host
    return f"{host}:{number}" if len(number) <= 5 and int(number) <= MAX_PORT else ""
