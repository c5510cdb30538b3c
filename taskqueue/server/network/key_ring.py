"""The keys that may connect at this moment: those of the access file, and two that the daemon makes for itself.

    local   for commands on the daemon's machine, in local.key beside the access file
    web     for the web process that the daemon starts, in memory only

1. The guard's thread reads the file again when it has changed; the loop's thread looks keys up. A list is never
   changed, only replaced.
2. While the file can't be read, or has vanished, what it allows is not known: no key of it may begin a connection.
   Connections that exist go on.
"""

from __future__ import annotations

import time
from math import inf
from pathlib import Path

from taskqueue.access.access_file import AccessList, Entry, read_entries
from taskqueue.access.key_file import KeyFile, local_key, make_key, server_key
from taskqueue.errors import ConfigError
from taskqueue.protocol.callers import Caller


class KeyRing:
    """Keys by what the file said when it was last read.

    Args:
        path: of the access file, which may be missing; server.key and local.key are beside it.

    Attributes:
        path: of the access file.
        server: the daemon's own pair.
        web: pair of the daemon's web process.
        trouble: why the file can't be read; empty: it can.

    Raises:
        ConfigError: the file, or one beside it, can't be read or made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.server = server_key(path.parent)
        self.web: KeyFile = make_key("web", self.server.public)
        self.trouble = ""
        self._own = (
            Entry("local", "admin", (local_key(path.parent, self.server.public).public,), 0.0),
            Entry("web", "admin", (self.web.public,), 0.0),
        )
        found = read_entries(path)
        self._is_there = found is not None
        self._list = AccessList((*self._own, *(found or ())))

    def read_again(self) -> None:
        """Read the file; if that fails, ``trouble`` says why, and the former list stays in force."""
        try:
            found = read_entries(self.path)
            if found is None and self._is_there:
                raise ConfigError(f"{self.path} has vanished; put a copy back, or restart the daemon")
        except ConfigError as error:
            self.trouble = str(error)
            return
        self._list = AccessList((*self._own, *(found or ())))
        self._is_there = found is not None
        self.trouble = ""

    def admit(self, public: str) -> Entry | None:
        """The holder of a key that wants to connect; None: refuse it."""
        entry = self.holder(public)
        return None if self.trouble and entry not in self._own else entry

    def holder(self, public: str) -> Entry | None:
        """The entry with this public key; None: there is none, or it has expired."""
        return self._list.holder(public, time.time())

    def still_has(self, entry: Entry, public: str) -> bool:
        """Whether the key belongs to the same owner as before."""
        return self.latest(entry, public) is not None

    def latest(self, entry: Entry, public: str) -> Entry | None:
        """The present entry of the same owner; None: the key is not the owner's any more."""
        now = self.holder(public)
        return now if now is not None and (now.name, now.created_at) == (entry.name, entry.created_at) else None

    def caller_of(self, name: str) -> Caller:
        """Return the caller with the key of this name, by the last reading of the file."""
        return self._list.caller_of(name)

    def owners(self) -> frozenset[str]:
        """Return the owners of the keys that may connect, by the last reading of the file."""
        return self._list.owners(time.time())

    def names(self) -> int:
        """Number of names in the file."""
        return len(self._list.entries) - len(self._own)

    def seconds_to_expiry(self) -> float:
        """Seconds until the next key expires; inf: none does."""
        now = time.time()
        at = self._list.next_expiry(now)
        return inf if at == inf else max(0.0, at - now)
