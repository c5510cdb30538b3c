"""Hashes in place of random numbers: jitter of times, pseudonyms of sessions, masks of tokens.

    crc32(values) ──► 0.9 … 1.1: jitter
    blake2b(id of a session, key = the store's secret) ──► 6 bytes: pseudonym   8 bytes: mask

Jitter makes a time a few per cent longer or shorter, so that waits that began together don't end together.

A client that knows the id of a session can act as it: take its tasks, end its waits, use up its numbers. So ids are
never shown. Sessions are shown by name or, without a name, by pseudonym: a keyed hash that does not reveal the id and
is always the same with the same store.

A client that knows the token of a lease can end it, from any session, because answers may come from another process.
Numbers are in sequence, and some are shown, so a token is a number behind a mask that only the session's
fetcher could find out, from its own tokens:

    token = number ^ mask(session)

A task that the daemon makes for a failure has part of a keyed hash in its taskid, so that no client can push a task of
that taskid before.

Rules:
1. In one session no token comes twice, as no number does.
2. A lease in one session has the token of a given lease in another with a chance of 1 to 2^63. That matters only if
   both are of the same task: of a task that was dispatched a million times it has happened with a chance of 1 to
   2 * 10^7. Among the leases of a project that are in force it never does: see ``dispatch``.
3. Tokens are only compared, never taken apart, except to find the order of leases (``State.lease_number``).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

JITTER: Final = 0.1
"""Largest part by which a time is made longer or shorter."""


def jitter(*of: object) -> float:
    """Return a factor from 1 - JITTER to 1 + JITTER, evenly spread, and always the same for equal values."""
    return 1.0 + JITTER * (crc32(repr(of).encode()) / 2**31 - 1.0)


SECRET_BYTES: Final = 32
"""Length of the hash's key, which is created with the store and leaves it only in a backup."""

_PSEUDONYM_BYTES: Final = 6
"""12 hex digits; among ten thousand sessions two collide with a chance of 1 to 5 million."""

_MASK_BYTES: Final = 8


def unguessable(secret: bytes, number: int) -> str:
    """Return 16 hex digits for a number, which no client can find out; not those of any session."""
    return blake2b(number.to_bytes(8, "big"), key=secret, digest_size=_MASK_BYTES, person=b"on_failure").hexdigest()


class Derived(NamedTuple):
    """Values derived from a session's id.

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
