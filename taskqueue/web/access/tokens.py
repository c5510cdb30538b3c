"""The tokens as they are now: the file is read again when it is another one."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Final

from taskqueue.errors import ConfigError
from taskqueue.web.access.token_file import Token, TokenList, read_tokens

log = logging.getLogger("taskqueue.web")

NOBODY: Final = TokenList("0" * 64)


class Tokens:
    """Who may come in.

    Attributes:
        trouble: why the file can't be read, for whoever runs the process; empty: it can. Meanwhile nobody comes in:
            what the file was to forbid is not known.
    """

    def __init__(self, path: Path) -> None:
        self.trouble = ""
        self._path = path
        self._read: tuple[int, ...] | None = None
        self._list = NOBODY

    def any(self) -> bool:
        """Whether there is a token at all, or a file that can't be read."""
        return bool(self._now().tokens or self.trouble)

    def of_secret(self, secret: str) -> Token | None:
        """The token that somebody shows; None: there is none, or it has expired."""
        return self.of_digest(self._now().digest_of(secret))

    def of_digest(self, digest: str) -> Token | None:
        """The token with this digest; None: there is none any more, or it has expired."""
        token = self._now().find(digest)
        return token if token and token.is_valid(time.time()) else None

    def _now(self) -> TokenList:
        if (seen := self._seen()) != self._read:
            self._read = seen
            try:
                self._list, self.trouble = read_tokens(self._path) or NOBODY, ""
            except ConfigError as error:
                self._list, self.trouble = NOBODY, str(error)
                log.error("tokens-unreadable reason=%s", error)
        return self._list

    def _seen(self) -> tuple[int, ...]:
        """What differs if the file is another one, or has other rights."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
