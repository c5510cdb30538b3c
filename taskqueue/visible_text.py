"""Text of somebody else as it may be shown: nothing in it is obeyed, hidden or turned round.

Names, urls, errors and reasons are what clients sent. A terminal obeys ESC and the other control characters (C0, DEL,
C1); U+202A to U+202E and U+2066 to U+2069 turn round what stands beside them (https://trojansource.codes); characters
without width hide; line ends of any kind begin a line that nobody wrote. So what is not a letter, a mark, a number, a
sign or a space is written as its number in Unicode, as Python writes it.
"""

from __future__ import annotations

from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_SPACES: Final = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""Not "printable", as Python has it, but harmless, and some languages write with them."""

_BASIC: Final = 0xFFFF


def visible(text: str) -> str:
    r"""One line that can be shown: ``\u001b`` for ESC, ``\n`` for a line end; what can be printed stays as it is."""
    return text if text.isprintable() else "".join(map(_visible, text))


def visible_lines(text: str) -> str:
    """What can be shown of a text of several lines: its line ends stay, and what is in a line is ``visible``."""
    return "\n".join(map(visible, text.split("\n")))


def _visible(char: str) -> str:
    if char.isprintable() or char in _SPACES:
        return char
    number = ord(char)
    return _SHORT.get(char) or (f"\\u{number:04x}" if number <= _BASIC else f"\\U{number:08x}")
