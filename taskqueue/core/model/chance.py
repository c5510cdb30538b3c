"""What looks like chance and is none: jitter of times, pseudonyms of sessions, masks of tokens; all are hashes.

    crc32(what it is of) ──► 0.9 … 1.1: jitter
    blake2b(id of a session, key = the store's secret) ──► 6 bytes: pseudonym   8 bytes: mask

Jitter makes a time a few per cent longer or shorter, so that what began at one time does not come back at one time.

Whoever knows the id of a session can speak in it: take its tasks, end its waits, use up its numbers. So an id is shown
to nobody, but by name or, where there is no name, as its pseudonym: a keyed hash, from which nobody finds the id and
which, with the same store, is always the same.

Whoever knows the token of a lease can end it, from any session, because answers may come from another process. Numbers
are in sequence, and people are told some of them, so a token is a number that is masked by what only the session's
fetcher could find out, from its own tokens:

    token = number ^ mask(session)

Rules:
1. In one session no token comes twice, as no number does.
2. A lease in one session has the token of a given lease in another with a chance of 1 to 2^63. That matters only if
   both are of the same task: of a task that was handed out a million times it has happened with a chance of 1 to
   2 * 10^7. Among the leases of a project that are in force it never does: see ``handout``.
3. Tokens are compared, and never taken apart, but for the order in which leases were given (``State.lease_number``).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

JITTER: Final = 0.1
"""The part by which a time is longer or shorter at most."""


def jitter(*of: object) -> float:
    """A factor from 1 - JITTER to 1 + JITTER, always the same of the same values, and evenly spread over others."""
    return 1.0 + JITTER * (crc32(repr(of).encode()) / 2**31 - 1.0)


SECRET_BYTES: Final = 32
"""Length of the hash's key, which is created with the store and leaves it only in a backup."""

_PSEUDONYM_BYTES: Final = 6
"""12 hex digits: among ten thousand sessions two collide with a chance of 1 to 5 million."""

_MASK_BYTES: Final = 8


class Derived(NamedTuple):
    """What is derived from a session's id.

    Attributes:
        pseudonym: 12 hex digits.
        mask: 63 bits, so that tokens stay positive as signed 64-bit numbers.
    """

    pseudonym: str
    mask: int


def derive(secret: bytes, session: str) -> Derived:
    """Derive pseudonym and mask; costs 2 µs."""
    digest = blake2b(session.encode(), key=secret, digest_size=_PSEUDONYM_BYTES + _MASK_BYTES).digest()
    return Derived(digest[:_PSEUDONYM_BYTES].hex(), int.from_bytes(digest[_PSEUDONYM_BYTES:], "big") >> 1)
