"""The keys that may connect at this moment: those of the access file, and two that the daemon makes for itself.

    local   for clients on the daemon's machine, in local.key beside the access file
    web     for the web process that the daemon starts, in memory only

1. The guard's thread reads the file again when it has changed; the loop's thread looks keys up. A list is never
   changed, only replaced.
2. Of each name it counts what ``key-list`` tells, from the start of the daemon on. Each count has one writer. Users by
   ipc, who are in no file, are counted from their first connection on, COUNTED_USERS_MOST of them.
3. While the file can't be read, or has vanished, what it allows is not known: no key of it may begin a connection.
   Connections that exist go on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final

from taskqueue.access.access_file import AccessList, Entry, read_entries
from taskqueue.access.key_file import KeyFile, local_key, make_key, server_key
from taskqueue.errors import ConfigError
from taskqueue.protocol.callers import RIGHTS_OF, USER, Caller
from taskqueue.protocol.daemon import KEYS_MOST, KeyUse

COUNTED_USERS_MOST: Final = 1000
"""Users by ipc who are counted, at most."""


@dataclass(slots=True)
class Use:
    """Use of the keys of one name since the daemon's start.

    Attributes:
        seen_at: unix seconds at which its last connection began or ended.
        address: where its last connection came from.
        forbidden: its requests that were refused.
        refused: its connections that were refused; the only count of the guard's thread.
    """

    seen_at: float = 0.0
    address: str = ""
    forbidden: int = 0
    refused: int = 0


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
        self._uses: dict[str, Use] = {}
        self._own = (
            Entry("local", "admin", (local_key(path.parent, self.server.public).public,), 0.0),
            Entry("web", "web", (self.web.public,), 0.0),
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
        for name in [name for name in list(self._uses) if not (self._list.has(name) or name.startswith(USER))]:
            del self._uses[name]

    def admit(self, public: str) -> Entry | None:
        """The holder of a key that wants to connect; None: refuse it."""
        entry = self.holder(public)
        if entry is not None and (not self.trouble or entry in self._own):
            return entry
        if (known := self._list.entry(public)) is not None:
            self._use(known.name).refused += 1
        return None

    def holder(self, public: str) -> Entry | None:
        """The entry with this public key; None if there is none, or it has expired."""
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

    def user(self, digest: str, name: str) -> Entry | None:
        """The user with this token or, without a digest, of this name; None if there is none.

        While the file can't be read there is none: which tokens were revoked is not known.
        """
        return None if self.trouble else self._list.user(digest, name, time.time())

    def speaker(self, name: str) -> Caller | None:
        """The caller for whom a web process speaks; None if no user has this name."""
        return None if self.user("", name) is None else self._list.caller_of(name)

    def owners(self) -> dict[str, Entry]:
        """Return the entries that are valid, by owner and the last reading of the file."""
        return self._list.owners(time.time())

    def without_work(self, owners: Iterable[str]) -> list[str]:
        """Return those of the owners who may not take tasks any more; those by ipc may always come back."""
        present = self.owners()
        return [
            owner
            for owner in owners
            if not owner.startswith(USER)
            and ((entry := present.get(owner)) is None or "work" not in RIGHTS_OF[entry.role])
        ]

    def note_begin(self, name: str, address: str) -> None:
        """Note where the newest connection of a name comes from."""
        use = self._use(name)
        use.seen_at, use.address = time.time(), address

    def note_end(self, name: str, at: float) -> None:
        """Note when a connection of a name ended."""
        use = self._use(name)
        use.seen_at = max(use.seen_at, at)

    def note_forbidden(self, name: str) -> None:
        """Count a request that was refused."""
        self._use(name).forbidden += 1

    def page(self, after: str, connected: Iterable[str]) -> tuple[list[KeyUse], str]:
        """Return up to KEYS_MOST names behind ``after``, in their order, and ``after`` of the next page, if any.

        Args:
            connected: name of each open connection.
        """
        counts, now = Counter(connected), time.time()
        known = {entry.name for entry in self._list.entries}.union(list(self._uses))
        names = sorted(name for name in known if name > after)
        page = [self._key_use(name, counts[name], now) for name in names[:KEYS_MOST]]
        return page, page[-1].name if len(names) > KEYS_MOST else ""

    def _key_use(self, name: str, connections: int, now: float) -> KeyUse:
        use = self._uses.get(name) or Use()
        seen_at = now if connections else use.seen_at
        return KeyUse(name, connections, seen_at, use.address, use.forbidden, use.refused)

    def _use(self, name: str) -> Use:
        """The counts of a name; a revoked one has none that last."""
        if name not in self._uses and not self._list.has(name):
            users = sum(each.startswith(USER) for each in list(self._uses))
            if not name.startswith(USER) or users >= COUNTED_USERS_MOST:
                return Use()
        return self._uses.setdefault(name, Use())

    def names(self) -> int:
        """Number of names in the file."""
        return len(self._list.entries) - len(self._own)

    def seconds_to_expiry(self) -> float:
        """Seconds until the next key expires; inf: none does."""
        now = time.time()
        at = self._list.next_expiry(now)
        return inf if at == inf else max(0.0, at - now)
