"""Suggestions for mistyped names, such as ``rate`` for ``rat``."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

MAX_CHARS: Final = 64
"""Longest mistyped name that is compared with known ones; a name of megabytes in a request would take a second."""

ALIKE_MOST: Final = 3
"""Names in a suggestion, at most."""

FEW: Final = 8
"""Most known names that are listed beside a suggestion; thirty settings would hide it."""


def there_are(name: object, known: Sequence[str]) -> str:
    """Suggest the known names most like an unknown one, or list all."""
    question, everything = did_you_mean(name, known), ", ".join(known)
    if not question:
        return f"there are {everything}"
    return f"{question} There are {everything}" if len(known) <= FEW else question


def did_you_mean(name: object, known: Sequence[str]) -> str:
    """Ask for the known names most like this one; empty if none is similar."""
    said = str(name)
    alike = get_close_matches(said, known, ALIKE_MOST) if len(said) <= MAX_CHARS else []
    return f"did you mean {' or '.join(alike)}?" if alike else ""
