"""Suggestions for mistyped names, such as ``rate`` for ``rat``."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

MAX_CHARS: Final = 64
"""Longest mistyped name that is compared with the known ones: a name of megabytes, which a request may have, would take
a second."""


def there_are(name: object, known: Sequence[str]) -> str:
    """Say what to write instead of a name that is none of those known: the one that is most like it, and all."""
    said = str(name)
    alike = get_close_matches(said, known, 1) if len(said) <= MAX_CHARS else []
    return f"did you mean {alike[0]}? There are {', '.join(known)}" if alike else f"there are {', '.join(known)}"
