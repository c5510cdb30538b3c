"""Globs over URLs and errors, with a bound on the cost of matching.

    *  any text      ?  one character      [ab]  one of these      [!ab]  another one

Case matters unless it is ignored: then pattern and text are folded, which makes two letters of a few (ß).
A hostile glob can make each match slow, so rules that match many texts in a turn add up the bounds, and
stop at COST_MOST: a page is then shorter. Ordinary globs over ordinary URLs stay far below it.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import Final

COST_MOST: Final = 1 << 20
"""Bound of the matching cost of one page, in character comparisons: 4 ms at worst."""

FOLDED_MOST: Final = 3
"""Characters that one becomes when its case is ignored, at most."""

REMEMBERED: Final = 64


class Glob:
    """Compiled glob.

    Attributes:
        ignore_case: True if letters of either case match.
        weight: comparisons per character of a text, at most.
    """

    __slots__ = ("_match", "ignore_case", "weight")

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self.ignore_case = ignore_case
        pattern = pattern.casefold() if ignore_case else pattern
        self._match = re.compile(translate(pattern)).match
        # A match may start anew at each place, and fail at the last character between two stars.
        self.weight = max(map(len, pattern.split("*"))) + 1

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._match(text.casefold() if self.ignore_case else text) is not None

    def cost(self, text: str) -> int:
        """Return an upper bound of the comparisons for this text."""
        grows = FOLDED_MOST if self.ignore_case and not text.isascii() else 1
        return self.weight * (grows * len(text) + 1)


@lru_cache(REMEMBERED)
def glob(pattern: str, ignore_case: bool = False) -> Glob:
    """Return the compiled glob; recent ones are cached."""
    return Glob(pattern, ignore_case)
