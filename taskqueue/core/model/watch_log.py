"""Log of changed projects while clients watch, and the requests that wait for changes.

    a project changes ──► its number goes to the end of the log, under the next version
    it is deleted ──────► its name replaces its number
    a client that knows version v gets the entries behind v; a version covers everything up to it

A log is made by the first request without a version of it, and begins with all projects, so that a client that knows
nothing gets just its entries. It is not stored: after a restart there is another log, with another id.
It has one entry per project and GONE_MOST for deleted ones; when it forgets one of these, earlier versions are void.

Changes become *published* PUBLISH_SECONDS apart. A client that does not know the published ones gets them at once;
others wait for the next time. So a session that asks again and again gets four replies a second, however much changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final

from taskqueue.core.model.project import Project
from taskqueue.core.model.waiters import Waiter, Waiters
from taskqueue.protocol.fields import Boot

PUBLISH_SECONDS: Final = 0.25

KEPT_SECONDS: Final = 60.0
"""Seconds that a log is kept after the last request."""

GONE_MOST = 1024
"""Names of deleted projects that are remembered, at most; of up to 64 characters each."""


class WatchLog:
    """Log of changes, and its waiters.

    Attributes:
        version: version of the latest change.
        published: version up to which changes are published; ``published_at``: when that was (boot-clock seconds).
        asked_at: time of the last request or reply (boot-clock seconds).
        quiet: requests that wait for changes to be published.
        telling: requests to be answered now, some in each turn, because ten thousand may wait.
    """

    __slots__ = ("_changes", "_forgotten", "_gone", "_id", "asked_at", "published", "published_at", "quiet", "telling",
                 "version")  # fmt: skip

    def __init__(self, id: int, projects: list[Project], now: Boot) -> None:
        self._id = id
        self._changes: dict[int | str, int] = {each.number: n for n, each in enumerate(projects, 2)}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._forgotten = 0
        self.version = self.published = len(projects) + 1
        self.published_at = self.asked_at = now
        self.quiet = Waiters()
        self.telling = Waiters()

    # ------------------------------------------------------------------------------------ changes

    def note(self, project: Project) -> None:
        """Log that the project has changed, or is new."""
        changes = self._changes
        changes.pop(project.number, None)
        self.version += 1
        changes[project.number] = self.version
        if self._gone and project.name in self._gone:
            self._remember(project.name)

    def remove(self, project: Project) -> None:
        """Log that the project was deleted."""
        self._changes.pop(project.number, None)
        self._remember(project.name)
        self.version += 1
        self._changes[project.name] = self.version
        self._gone[project.name] = None
        if len(self._gone) > GONE_MOST:
            forgotten, _ = self._gone.popitem(last=False)
            self._forgotten = self._changes.pop(forgotten)

    def _remember(self, name: str) -> None:
        """Remove the name from those of deleted projects."""
        if name in self._gone:
            del self._gone[name]
            del self._changes[name]

    # ------------------------------------------------------------------------------------ versions

    def known(self, since: str) -> int:
        """Return the version in ``since`` of a request; 0 if it is unknown, so that the client needs everything."""
        id, _, number = since.partition(".")
        if id != str(self._id) or not (number.isascii() and number.isdecimal()):
            return 0
        version = int(number)
        return version if self._forgotten <= version <= self.version else 0

    def since(self, version: int) -> str:
        """Return the text of a version in replies."""
        return f"{self._id}.{version}"

    def after(
        self, version: int, most: int, is_meant: Callable[[int | str], bool] | None = None
    ) -> tuple[list[tuple[int | str, int]], bool]:
        """Return the changes after a version, the oldest first, and whether there are more.

        Each is the number of a project, or the name of a deleted one, with its version.

        Args:
            is_meant: whether a change is among those to be returned; None: all are.
        """
        news = []
        for change in reversed(self._changes.items()):
            if change[1] <= version:
                break
            if is_meant is None or is_meant(change[0]):
                news.append(change)
        return list(islice(reversed(news), most)), len(news) > most

    # ------------------------------------------------------------------------------------ waiters

    def leave(self, key: str) -> Waiter | None:
        """Remove and return the waiter of that key; None if there is none."""
        for waiters in (self.quiet, self.telling):
            if (waiter := waiters.of(key)) is not None:
                waiters.drop(key)
                return waiter
        return None

    def publish(self, now: Boot) -> None:
        """Publish changes, if it is time and requests wait for them."""
        if self.version == self.published or now < self._publishes_at():
            return
        if self.quiet and self.telling:
            return  # earlier waiters come first
        if self.quiet or self.telling:
            self.published, self.published_at = self.version, now
        if self.quiet:
            self.quiet, self.telling = self.telling, self.quiet

    def next_at(self) -> float:
        """Return when there is something to do next (boot-clock seconds)."""
        if not self.quiet:
            return self.asked_at + KEPT_SECONDS
        ends = self.quiet.next_at()
        return min(ends, self._publishes_at()) if self.version > self.published else ends

    def is_over(self, now: Boot) -> bool:
        """Return whether the last request was so long ago that the log need not be kept."""
        return not self.quiet and not self.telling and now >= self.asked_at + KEPT_SECONDS

    def _publishes_at(self) -> float:
        return self.published_at + PUBLISH_SECONDS
