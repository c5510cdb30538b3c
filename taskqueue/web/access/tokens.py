"""Tokens of users: the file with names, roles and digests, and the valid tokens now.

A token has 256 random bits and can't be guessed, so no slow hash is needed: the file has its BLAKE2b digest, keyed with
random bytes of the file's own. Reading the file lets no user in, but writing it can add a token; so it is only accepted
if no user but its owner may read or write it. It is read again when it has changed.

    {"salt": "…", "tokens": [{"name": "anna", "role": "admin", "digest": "…", "created_at": …, "expires_at": …}]}
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from taskqueue.access.private_file import locked_folder, read_private, write_private
from taskqueue.errors import ConfigError

log = logging.getLogger("taskqueue.web")

PREFIX: Final = "tq_"
"""Prefix of tokens, by which users and secret scanners recognise them."""

MAX_TOKENS: Final = 1000
MAX_BYTES: Final = 1 << 20
_RANDOM_BYTES: Final = 32
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}"
_HEX: Final = r"^[0-9a-f]{64}$"


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token of a user.

    Attributes:
        digest: digest of the token, in hex.
        created_at: unix seconds.
        expires_at: unix seconds; None: never.
    """

    name: Annotated[str, msgspec.Meta(pattern=f"^{_NAME}$")]
    role: Literal["viewer", "operator", "admin"]
    digest: Annotated[str, msgspec.Meta(pattern=_HEX)]
    created_at: float
    expires_at: float | None = None

    def is_valid(self, now: float) -> bool:
        """Return whether the token has not expired."""
        return self.expires_at is None or now < self.expires_at


class TokenList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of a file."""

    salt: Annotated[str, msgspec.Meta(pattern=_HEX)]
    tokens: Annotated[tuple[Token, ...], msgspec.Meta(max_length=MAX_TOKENS)] = ()

    def digest_of(self, secret: str) -> str:
        """Return the digest of a secret, which may be any text."""
        return blake2b(secret.encode(errors="replace"), key=bytes.fromhex(self.salt), digest_size=32).hexdigest()

    def find(self, digest: str) -> Token | None:
        """Return the token with this digest, in constant time."""
        found = None
        for token in self.tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def read_tokens(path: Path) -> TokenList | None:
    """Read the file; None if there is none.

    Raises:
        ConfigError: other users may read or write the file, or it is damaged.
    """
    written = read_private(path, MAX_BYTES, "tokens")
    if written is None:
        return None
    try:
        return msgspec.json.decode(written, type=TokenList)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged: {error}; put a copy back, or remove it and make new tokens") from None


def add_token(path: Path, name: str, role: Literal["viewer", "operator", "admin"], expires_at: float | None) -> str:
    """Create a token and return its secret, which is stored nowhere else.

    Raises:
        ConfigError: the name is invalid or has a token, or the file can't be read or written.
    """
    if not re.fullmatch(_NAME, name):
        raise ConfigError(f'"{name}" is not a valid name: at most 64 letters, digits and _ . @ -')
    with _changing(path) as found:
        if any(token.name == name for token in found.tokens):
            raise ConfigError(f'{path}: "{name}" has a token; remove it first')
        if len(found.tokens) >= MAX_TOKENS:
            raise ConfigError(f"{path}: there are {MAX_TOKENS} tokens, which is the most")
        secret = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        token = Token(name, role, found.digest_of(secret), time.time(), expires_at)
        _write(path, msgspec.structs.replace(found, tokens=(*found.tokens, token)))
    return secret


def remove_token(path: Path, name: str) -> None:
    """Revoke a token.

    Raises:
        ConfigError: no token has this name, or the file can't be read or written.
    """
    with _changing(path) as found:
        left = tuple(token for token in found.tokens if token.name != name)
        if len(left) == len(found.tokens):
            raise ConfigError(f'{path}: there is no token of "{name}"')
        _write(path, msgspec.structs.replace(found, tokens=left))


@contextmanager
def _changing(path: Path) -> Iterator[TokenList]:
    """Yield the tokens of the file, locked against other changes."""
    with locked_folder(path):
        yield read_tokens(path) or TokenList(secrets.token_hex(_RANDOM_BYTES))


def _write(path: Path, tokens: TokenList) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(tokens), indent=1) + b"\n", "tokens")


# ------------------------------------------------------------------------------------------------------ as they are now

NO_TOKENS: Final = TokenList("0" * 64)


class Tokens:
    """Tokens that are valid now.

    Attributes:
        trouble: why the file can't be read, for the operator; empty if it can. Meanwhile no token is valid, because it
            is not known which ones were revoked.
    """

    def __init__(self, path: Path) -> None:
        self.trouble = ""
        self._path = path
        self._read: tuple[int, ...] | None = None
        self._list = NO_TOKENS

    def any(self) -> bool:
        """Return whether there is a token at all, or a file that can't be read."""
        return bool(self._now().tokens or self.trouble)

    def of_secret(self, secret: str) -> Token | None:
        """Return the token with this secret; None if there is none, or it has expired."""
        return self.of_digest(self._now().digest_of(secret))

    def of_digest(self, digest: str) -> Token | None:
        """Return the token with this digest; None if it was revoked or has expired."""
        token = self._now().find(digest)
        return token if token and token.is_valid(time.time()) else None

    def _now(self) -> TokenList:
        if (seen := self._seen()) != self._read:
            self._read = seen
            try:
                self._list, self.trouble = read_tokens(self._path) or NO_TOKENS, ""
            except ConfigError as error:
                self._list, self.trouble = NO_TOKENS, str(error)
                log.error("tokens-unreadable reason=%s", error)
        return self._list

    def _seen(self) -> tuple[int, ...]:
        """Return values that differ once the file is replaced or its permissions change."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
