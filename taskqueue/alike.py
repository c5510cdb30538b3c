"""Suggestions for mistyped names, such as ``rate`` for ``rat``."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

MAX_CHARS: Final = 64
"""Longest mistyped name that is compared with the known ones: a name of megabytes, which a request may have, would take
a second."""


ALIKE_MOST: Final = 3
"""Names that a suggestion has."""

FEW: Final = 8
"""So few names are listed beside a suggestion; thirty settings would hide it."""


def there_are(name: object, known: Sequence[str]) -> str:
    """Say what to write instead of a name that is none of those known: those that are most like it, or else all."""
    question, everything = did_you_mean(name, known), ", ".join(known)
    if not question:
        return f"there are {everything}"
    return f"{question} There are {everything}" if len(known) <= FEW else question


def did_you_mean(name: object, known: Sequence[str]) -> str:
    """Ask for the names that are most like this one; empty if none is."""
    said = str(name)
    alike = get_close_matches(said, known, ALIKE_MOST) if len(said) <= MAX_CHARS else []
    return f"did you mean {' or '.join(alike)}?" if alike else ""
