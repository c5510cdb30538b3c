"""Globs over urls and errors, and what matching one costs at most.

    *  any text      ?  one character      [ab]  one of these      [!ab]  another one      case matters

A hostile glob can make each match slow, so whoever matches many texts in a turn counts what that may have cost, and
stops when COST_MOST has been passed: a page is then shorter. Ordinary globs over ordinary urls stay far below it.
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
    """A compiled glob.

    Attributes:
        weight: comparisons per character of a text, at most.
    """

    __slots__ = ("_match", "weight")

    def __init__(self, pattern: str) -> None:
        self._match = re.compile(translate(pattern)).match
        # At each place a match may start anew, and fail at the last character that stands between two stars.
        self.weight = max(map(len, pattern.split("*"))) + 1

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        return self._match(text) is not None

    def cost(self, text: str) -> int:
        """Upper bound of the comparisons for this text."""
        return self.weight * (len(text) + 1)


@lru_cache(REMEMBERED)
def glob(pattern: str) -> Glob:
    """The compiled glob; recent ones are cached."""
    return Glob(pattern)
