"""Names as segments of a path, on pages and in the HTTP interface: one rule for names of every kind.

A name is percent-encoded, all but letters, digits and ``-._~``. Browsers, clients and proxies take the segments ``.``
and ``..``, escaped or not, for steps (RFC 3986, section 5.2.4; WHATWG URL, section 4.4), so a name of one or two dots
has a ``~`` before it, and so has one that would be read as such a name:

    .  ──►  ~.      ..  ──►  ~..      ~..  ──►  ~~..      http://a/  ──►  http%3A%2F%2Fa%2F
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

_DOTS: Final = re.compile(r"~*\.{1,2}")


def segment(name: str) -> str:
    """Write a name as one segment of a path."""
    return quote(f"~{name}" if _DOTS.fullmatch(name) else name, safe="")


def name_of(decoded: str) -> str:
    """Read the name that a segment says; it is percent-decoded already."""
    return decoded[1:] if decoded.startswith("~") and _DOTS.fullmatch(decoded) else decoded
