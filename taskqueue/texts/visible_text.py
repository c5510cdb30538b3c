"""Foreign text made safe to show: nothing in it is obeyed, hidden or reversed.

Names, URLs, errors and reasons come from clients. A terminal obeys ESC and the other control characters (C0, DEL, C1);
U+202A to U+202E and U+2066 to U+2069 reverse the text beside them (https://trojansource.codes); characters without
width hide; line ends of any kind forge new lines. So every character that is not a letter, mark, number, sign or space
is written as its Unicode number, as Python writes it.
"""

from __future__ import annotations

from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_SPACES: Final = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""Spaces that Python does not count as printable; they are harmless, and some languages need them."""

_BASIC: Final = 0xFFFF


def visible(text: str) -> str:
    r"""Make a text one safe line: ``\u001b`` for ESC, ``\n`` for a line end; printable characters stay."""
    return text if text.isprintable() else "".join(map(_visible, text))


def visible_lines(text: str) -> str:
    """Make a text of several lines visible: line ends stay, each line becomes ``visible``."""
    return "\n".join(map(visible, text.split("\n")))


def _visible(char: str) -> str:
    if char.isprintable() or char in _SPACES:
        return char
    number = ord(char)
    return _SHORT.get(char) or (f"\\u{number:04x}" if number <= _BASIC else f"\\U{number:08x}")
