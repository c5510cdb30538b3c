"""What people are shown in place of a session's id.

Whoever knows the id of a session can speak in it: take its tasks, end its waits, use up its numbers. So an id is shown
to nobody, but by name or, where there is no name, as its pseudonym: a keyed hash, from which nobody finds the id and
which, with the same store, is always the same.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

SECRET_BYTES: Final = 32
"""Of the key of the hash, which is made with the store and never leaves it."""

_PSEUDONYM_BYTES: Final = 6
"""12 hex digits: of ten thousand sessions two have the same with a chance of 1 to 5 million."""


def pseudonym(secret: bytes, session: str) -> str:
    """The session's pseudonym, 12 hex digits."""
    return blake2b(session.encode(), key=secret, digest_size=_PSEUDONYM_BYTES).hexdigest()
