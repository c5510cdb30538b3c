"""Which projects changed when, while somebody watches; and who waits to be told.

    a project changes ──► its number goes to the end of the log, under the next version
    it is deleted ──────► its name does, in place of its number
    who knows version v is told what stands behind v; a version says everything up to it

A log is made when somebody asks who brings no version of it, and begins with all projects, so that whoever knows
nothing has to be told just what is in it. Nothing of it is stored: after a restart there is another, with another id.
It has one entry a project and GONE_MOST for deleted ones; when it forgets one of these, versions before that are void.

Changes become *published* PUBLISH_SECONDS apart. Who does not know what was published is told at once; who does waits
for the next time. So a session that asks again and again is told four times a second, however much changes.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Final

from taskqueue.core.model.project import Project
from taskqueue.core.model.waiters import Waiter, Waiters
from taskqueue.protocol.fields import Boot

PUBLISH_SECONDS: Final = 0.25

KEPT_SECONDS: Final = 60.0
"""A log is kept for so long after somebody watched."""

GONE_MOST = 1024
"""Names of deleted projects that are remembered; of 64 characters each."""


class WatchLog:
    """The log, and the waiters.

    Attributes:
        version: of the latest change.
        published: the version up to which changes are published; ``published_at``: when that was (boot-clock seconds).
        asked_at: when somebody asked or was told last, likewise.
        quiet: who waits for something to be published.
        telling: who is to be told now, some in a turn, because ten thousand may wait.
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
        """The project has changed, or is new."""
        changes = self._changes
        changes.pop(project.number, None)
        self.version += 1
        changes[project.number] = self.version
        if self._gone and project.name in self._gone:
            self._remember(project.name)

    def remove(self, project: Project) -> None:
        """The project is no more."""
        self._changes.pop(project.number, None)
        self._remember(project.name)
        self.version += 1
        self._changes[project.name] = self.version
        self._gone[project.name] = None
        if len(self._gone) > GONE_MOST:
            forgotten, _ = self._gone.popitem(last=False)
            self._forgotten = self._changes.pop(forgotten)

    def _remember(self, name: str) -> None:
        """The name is not that of a deleted project."""
        if name in self._gone:
            del self._gone[name]
            del self._changes[name]

    # ------------------------------------------------------------------------------------ versions

    def known(self, since: str) -> int:
        """The version that somebody knows by what a reply said; 0: none, so he has to be told everything."""
        id, _, number = since.partition(".")
        if id != str(self._id) or not (number.isascii() and number.isdecimal()):
            return 0
        version = int(number)
        return version if self._forgotten <= version <= self.version else 0

    def since(self, version: int) -> str:
        """What is said of a version."""
        return f"{self._id}.{version}"

    def after(self, version: int, most: int) -> tuple[list[tuple[int | str, int]], bool]:
        """Numbers of projects, and names of deleted ones, that changed after a version, each with its own, the oldest
        first; and whether there are further ones.
        """
        news = []
        for change in reversed(self._changes.items()):
            if change[1] <= version:
                break
            news.append(change)
        return list(islice(reversed(news), most)), len(news) > most

    # ------------------------------------------------------------------------------------ waiters

    def leave(self, key: str) -> Waiter | None:
        """Remove the waiter of that key and return it; None: there is none."""
        for waiters in (self.quiet, self.telling):
            if (waiter := waiters.of(key)) is not None:
                waiters.drop(key)
                return waiter
        return None

    def publish(self, now: Boot) -> None:
        """Publish what has changed, if it is time and somebody wants to know."""
        if self.version == self.published or now < self._publishes_at():
            return
        if self.quiet and self.telling:
            return  # those who were to be told before come first
        if self.quiet or self.telling:
            self.published, self.published_at = self.version, now
        if self.quiet:
            self.quiet, self.telling = self.telling, self.quiet

    def next_at(self) -> float:
        """When there is something to do next (boot-clock seconds)."""
        if not self.quiet:
            return self.asked_at + KEPT_SECONDS
        ends = self.quiet.next_at()
        return min(ends, self._publishes_at()) if self.version > self.published else ends

    def is_over(self, now: Boot) -> bool:
        """Whether nobody has watched for so long that it need not be kept."""
        return not self.quiet and not self.telling and now >= self.asked_at + KEPT_SECONDS

    def _publishes_at(self) -> float:
        return self.published_at + PUBLISH_SECONDS
