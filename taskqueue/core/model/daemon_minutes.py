"""History of the daemon itself: figures of its turns, disk and queues for each minute of a day.

The shell measures a minute and gives its figures to the first turn after it. The core adds its own, and writes
all with the batch of that turn. A minute without a turn has no figures.

    shell: turns, commits, syncs, memory ──► core: + events, queues ──► index of a ring, in memory and in the store

The ring has MINUTES_KEPT places, so old minutes never have to be deleted, and a wall clock that leaps
forward for a moment costs the one minute that it shows. ``steps/history`` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

MINUTES_KEPT: Final = 24 * 60


class DaemonMinute(NamedTuple):
    """Figures of a minute: whole numbers only, as stored; all but the first may be missing in the store.

    Attributes:
        minute: minutes since 1970.
        epoch: epoch of the daemon, which changes whenever the daemon reads its store again.
        turns, commits, syncs: their numbers.
        turn_p50, …, sync_most: microseconds within which 50 %, 99 % and all of them were done.
        resident_bytes: memory of the process at the end.
        new, selected, ended: new tasks, dispatches, and ended attempts of any outcome.
        ready, delayed, blocked, processing: tasks of all projects at the end.
    """

    minute: int
    epoch: int = 0
    turns: int = 0
    commits: int = 0
    syncs: int = 0
    turn_p50: int = 0
    turn_p99: int = 0
    turn_most: int = 0
    commit_p50: int = 0
    commit_p99: int = 0
    commit_most: int = 0
    sync_p50: int = 0
    sync_p99: int = 0
    sync_most: int = 0
    resident_bytes: int = 0
    new: int = 0
    selected: int = 0
    ended: int = 0
    ready: int = 0
    delayed: int = 0
    blocked: int = 0
    processing: int = 0


FIELDS: Final = DaemonMinute._fields

SUMMED: Final = ("turns", "commits", "syncs", "new", "selected", "ended")
LARGEST: Final = tuple(name for name in FIELDS if name.endswith(("_p50", "_p99", "_most")))


class DaemonMinutes:
    """Minutes of the last day.

    Attributes:
        by_place: minutes by ``minute % MINUTES_KEPT``, as in the store.
        events: event counts at the start of the present minute.
    """

    __slots__ = ("by_place", "events")

    def __init__(self, loaded: Iterable[DaemonMinute]) -> None:
        self.by_place = {each.minute % MINUTES_KEPT: each for each in loaded}
        self.events: tuple[int, ...] = ()

    def keep(self, minute: DaemonMinute) -> DaemonMinute:
        """Keep a minute in place of the one a day before; return the minute to be written."""
        place = minute.minute % MINUTES_KEPT
        before = self.by_place.get(place)
        if before is not None and before.minute == minute.minute and before.epoch != minute.epoch:
            minute = _joined(before, minute)
        self.by_place[place] = minute
        return minute

    def drop_after(self, minute: int) -> list[int]:
        """Drop minutes after ``minute``, from before the wall clock was put back; return their places."""
        later = [place for place, each in self.by_place.items() if each.minute > minute]
        for place in later:
            del self.by_place[place]
        return later

    def between(self, first: int, last: int) -> list[DaemonMinute]:
        """Return the minutes from ``first`` to ``last``, in order."""
        return sorted(each for each in self.by_place.values() if first <= each.minute <= last)


def _joined(before: DaemonMinute, after: DaemonMinute) -> DaemonMinute:
    """Join the two parts of a minute in which the daemon was restarted: sums of counts, and the slower times."""
    summed = {name: getattr(before, name) + getattr(after, name) for name in SUMMED}
    largest = {name: max(getattr(before, name), getattr(after, name)) for name in LARGEST}
    return after._replace(**summed, **largest)
