"""Globs over urls and errors, with a bound on the cost of matching.

    *  any text      ?  one character      [ab]  one of these      [!ab]  another one      case matters

A hostile glob can make each match slow, so rules that match many texts in a turn add up the bounds, and
stop at COST_MOST: a page is then shorter. Ordinary globs over ordinary urls stay far below it.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import Final

COST_MOST: Final = 1 << 20
"""Bound of the matching cost of one page, in character comparisons: 4 ms at worst."""

REMEMBERED: Final = 64


class Glob:
    """Compiled glob.

    Attributes:
        weight: comparisons per character of a text, at most.
    """

    __slots__ = ("_match", "weight")

    def __init__(self, pattern: str) -> None:
        self._match = re.compile(translate(pattern)).match
        # A match may start anew at each place, and fail at the last character between two stars.
        self.weight = max(map(len, pattern.split("*"))) + 1

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._match(text) is not None

    def cost(self, text: str) -> int:
        """Return an upper bound of the comparisons for this text."""
        return self.weight * (len(text) + 1)


@lru_cache(REMEMBERED)
def glob(pattern: str) -> Glob:
    """Return the compiled glob; recent ones are cached."""
    return Glob(pattern)
