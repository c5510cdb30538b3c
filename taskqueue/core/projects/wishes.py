"""Which projects fetchers want tasks of: each distinct set of names is in memory once, however many fetchers state it.

    hello ──names──► exchange ──► the set that the session, and its ring, use
                        │ the last session with a set is gone, or states another: the set is dropped
                        │ over NAMES_MOST names in all sets together: refused

What peers state must not fill the memory: a thousand names in each of ten thousand hellos would be some gigabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskqueue.core.projects.session import Interest
from taskqueue.errors import Rejected

NAMES_MOST: Final = 100_000
"""Names in all sets together; each takes about 0.4 KiB, with its entries in the rings."""

NO_WISHES: Final[frozenset[str]] = frozenset()
"""The set of a session that takes no tasks."""


class Wishes:
    """The sets in use.

    Attributes:
        names: number of names in all sets together.
    """

    __slots__ = ("_held", "_holders", "names")

    def __init__(self) -> None:
        self._held: dict[frozenset[str], frozenset[str]] = {}
        self._holders: dict[frozenset[str], int] = {}
        self.names = 0

    def exchange(self, former: Interest, names: Sequence[str] | None) -> Interest:
        """Replace a session's former set by one of these names; None: any project, which is no set.

        Raises:
            Rejected: there are too many names; nothing has changed.
        """
        stated = None if names is None else frozenset(names)
        if stated and stated not in self._held:
            freed = len(former) if former and self._holders[former] == 1 else 0
            if self.names - freed + len(stated) > NAMES_MOST:
                raise Rejected(
                    "full",
                    f"projects: fetchers name {self.names} projects in all, and at most {NAMES_MOST}; "
                    "name fewer, or none to take tasks of any",
                )
        new = self._hold(stated) if stated else stated
        self.release(former)
        return new

    def release(self, wished: Interest) -> None:
        """A session no longer uses this set."""
        if not wished:
            return
        self._holders[wished] -= 1
        if not self._holders[wished]:
            del self._holders[wished], self._held[wished]
            self.names -= len(wished)

    def _hold(self, stated: frozenset[str]) -> frozenset[str]:
        same = self._held.setdefault(stated, stated)
        if same is stated:
            self.names += len(same)
        self._holders[same] = self._holders.get(same, 0) + 1
        return same
