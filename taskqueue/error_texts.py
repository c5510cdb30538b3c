"""Texts of errors: how a long one is cut, and which of its lines says what went wrong.

    Traceback (most recent call last):         ┐
      File "shop.py", line 7, in handle        │ text, of at most TEXT_BYTES: head and tail stay
        raise ValueError(page)                 │
    ValueError: unexpected page: <td></td>     ┘ its kind, of at most KIND_CHARS
    <td></td>

A worker has the exception, and sends its kind beside the text. Of a fetcher that sends only a text the kind is looked
for in the text.
"""

from __future__ import annotations

import re
from typing import Final

TEXT_BYTES: Final = 2048
"""Bytes in UTF-8 of a text that is sent and kept."""

HEAD_BYTES: Final = 512
"""Of them, those of the head of a text that is cut. A traceback ends with the place, and with the exception."""

KIND_CHARS: Final = 200

_MARK_BYTES: Final = 64
"""Room for the line that says how much was left out."""

_TOP_OF_GROUP: Final = "  | "
"""What Python prints before each line of the traceback of an exception group; before its members it prints more."""

_FRAME: Final = '  File "'
_NAMED: Final = re.compile(r"[A-Za-z_][\w.]*: ")


def cut_text(text: str, most: int = TEXT_BYTES, head: int = HEAD_BYTES) -> str:
    """Return at most ``most`` bytes in UTF-8 of a text: without its middle, and with a line that says how much that is.

    Half of a surrogate pair, which UTF-8 does not have, becomes a question mark.
    """
    encoded = text.encode(errors="replace")
    if len(encoded) <= most:
        return text if text.isascii() else encoded.decode()
    first = encoded[:head].decode(errors="ignore")
    last = encoded[head + _MARK_BYTES - most :].decode(errors="ignore")
    return f"{first}\n… {len(text) - len(first) - len(last):,} characters left out …\n{last}"


def kind_line(text: str) -> str:
    """Return the first line of a text that is not empty, as a kind is kept."""
    return cut_kind(text.strip().partition("\n")[0])


def kind_in(text: str) -> str:
    """Return the line of an error's text that says best what went wrong.

    It is the exception of the last traceback of Python; else the last line that begins like ``Name: `` and is not
    indented; else the last line.
    """
    lines = [line.removeprefix(_TOP_OF_GROUP).rstrip() for line in text.strip("\r\n").split("\n")]
    return cut_kind(_raised(lines) or _named(lines) or text.strip().rpartition("\n")[2])


def cut_kind(line: str) -> str:
    """Return a kind, or what becomes one, in its length."""
    return line.strip().encode(errors="replace").decode()[:KIND_CHARS]


def _raised(lines: list[str]) -> str:
    """The line of the exception in the last traceback: the first one after its frames that is not indented."""
    found, in_frames = "", False
    for line in lines:
        if line.startswith(_FRAME):
            in_frames = True
        elif in_frames and line and not line[0].isspace():
            found, in_frames = line, False
    return found


def _named(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if _NAMED.match(line)), "")
