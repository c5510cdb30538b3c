"""Texts of errors: how a long text is cut, and which of its lines says what went wrong.

    Traceback (most recent call last):         ┐
      File "shop.py", line 7, in handle        │ text, of at most TEXT_BYTES: head and tail stay
        raise ValueError(page)                 │
    ValueError: unexpected page: <td></td>     ┘ the kind, of at most KIND_CHARS
    <td></td>

A worker has the exception, and sends its kind beside the text. If a fetcher sends only a text, the kind is looked for
in it.
"""

from __future__ import annotations

import re
from typing import Final

TEXT_BYTES: Final = 2048
"""Longest text that is sent and kept, in bytes of UTF-8."""

HEAD_BYTES: Final = 512
"""Bytes kept from the head of a cut text; the rest is its tail, since a traceback ends with place and exception."""

KIND_CHARS: Final = 200

_MARK_BYTES: Final = 64
"""Room for the line that says how much was cut."""

_TOP_OF_GROUP: Final = "  | "
"""Prefix that Python prints before each line of an exception group's traceback; its members have a longer one."""

_FRAME: Final = '  File "'
_NAMED: Final = re.compile(r"[A-Za-z_][\w.]*: ")


def cut_text(text: str, most: int = TEXT_BYTES, head: int = HEAD_BYTES) -> str:
    """Cut a text to at most ``most`` bytes of UTF-8; a line in place of its middle says how much is missing.

    Half of a surrogate pair, which UTF-8 can't encode, becomes a question mark.
    """
    encoded = text.encode(errors="replace")
    if len(encoded) <= most:
        return text if text.isascii() else encoded.decode()
    first = encoded[:head].decode(errors="ignore")
    last = encoded[head + _MARK_BYTES - most :].decode(errors="ignore")
    return f"{first}\n… {len(text) - len(first) - len(last):,} characters left out …\n{last}"


def kind_line(text: str) -> str:
    """Return the first non-empty line of a text, cut to the length of a kind."""
    return cut_kind(text.strip().partition("\n")[0])


def kind_in(text: str) -> str:
    """Find the line of an error's text that best says what went wrong.

    This is the exception of the last Python traceback, or the last unindented line that begins like ``Name: ``, or the
    last line.
    """
    lines = [line.removeprefix(_TOP_OF_GROUP).rstrip() for line in text.strip("\r\n").split("\n")]
    return cut_kind(_raised(lines) or _named(lines) or text.strip().rpartition("\n")[2])


def cut_kind(line: str) -> str:
    """Cut a line to the length of a kind."""
    return line.strip().encode(errors="replace").decode()[:KIND_CHARS]


def _raised(lines: list[str]) -> str:
    """Find the exception line of the last traceback: the first line after its frames that is not indented."""
    found, in_frames = "", False
    for line in lines:
        if line.startswith(_FRAME):
            in_frames = True
        elif in_frames and line and not line[0].isspace():
            found, in_frames = line, False
    return found


def _named(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if _NAMED.match(line)), "")
