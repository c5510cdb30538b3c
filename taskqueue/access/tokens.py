"""Tokens of users of the dashboard and the HTTP API, and their digests, which the access file has.

A token has 256 random bits and can't be guessed, so no slow hash and no salt are needed. Digests are looked up in a
dict: how long a look-up takes tells of the digest of a guess, from which no better guess follows.
"""

from __future__ import annotations

import re
import secrets
from hashlib import blake2b
from typing import Annotated, Final

import msgspec

from taskqueue.protocol.fields import WORDS

PREFIX: Final = "tq_"
"""Prefix of tokens, by which users and secret scanners recognise them."""

TOKEN_PATTERN: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
_RANDOM_BYTES: Final = 32
_PERSON: Final = b"taskqueue token"

TokenDigest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$", extra={WORDS: "64 hex digits"})]


def new_token() -> str:
    """Make a token."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def digest_of(token: str) -> str:
    """Return the digest of a text, in hex; empty if it has not the form of a token."""
    if not TOKEN_PATTERN.fullmatch(token):
        return ""
    return blake2b(token.encode(), digest_size=32, person=_PERSON).hexdigest()
