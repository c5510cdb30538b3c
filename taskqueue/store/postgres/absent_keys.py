"""Keys that a read has found absent, so that what is put there is known to be new.

Whoever looks a task up before it is made has asked for its key already; the answer holds until somebody writes it, and
only one daemon writes. Bounded by two generations: the older one is forgotten when the younger one is full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from taskqueue.store.contract import Entry

KEYS_MOST: Final = 1 << 15
"""Of a generation; a key is some tens of bytes, so that both take some megabytes at most."""


class AbsentKeys:
    """Those of one family."""

    def __init__(self) -> None:
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def note(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Note which keys have no value."""
        if None not in values:
            return
        self._young.update([key for key, value in zip(keys, values, strict=True) if value is None])
        if len(self._young) > KEYS_MOST:
            self._old, self._young = self._young, set()

    def divide(self, entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Entries that are new, and those of which that is not known; they are about to be written."""
        new: list[Entry] = []
        others: list[Entry] = []
        for entry in entries:
            (new if self._take(entry[0]) else others).append(entry)
        return new, others

    def forget(self, keys: Collection[bytes]) -> None:
        """They are about to be written."""
        self._young.difference_update(keys)
        self._old.difference_update(keys)

    def _take(self, key: bytes) -> bool:
        """Whether the key is absent; from now on it is not."""
        for keys in (self._young, self._old):
            if key in keys:
                self.forget((key,))
                return True
        return False
