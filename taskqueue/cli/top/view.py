"""What ``taskqueue top`` is looking at, and how keys change it."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from taskqueue.protocol.choices import FetcherSort, ProjectSort

PROJECT_SORTS: Final[tuple[ProjectSort, ...]] = (
    "selected_5m", "retried_5m", "failed_5m", "new_5m", "success_5m", "ready", "delayed", "processing", "name",
)  # fmt: skip
FETCHER_SORTS: Final[tuple[FetcherSort, ...]] = (
    "oldest", "silent", "holds", "capacity", "failed", "done", "name",
)  # fmt: skip

PART_CHARS: Final = 64
"""Of a filter."""

HELP: Final = "q quit  s sort  / filter  f {other}  j k scroll"

Sort = TypeVar("Sort", bound=str)


class Rows(Generic[Sort]):
    """A list that is looked at: in which order, which part of it.

    Attributes:
        sorts: the orders that it can have; ``sort`` is the one that it has.
        part: of the names that it is about.
        skip: rows above the first one that is seen.
        seen: rows that fit on the screen.
        found: rows that there are.
    """

    def __init__(self, sorts: tuple[Sort, ...], sort: Sort, part: str) -> None:
        self.sorts = sorts
        self.sort = sort
        self.part = part
        self.skip = 0
        self.seen = 1
        self.found = 0

    def turn(self, by: int) -> None:
        """Take the order that is so many further, from the first row on."""
        at = self.sorts.index(self.sort) if self.sort in self.sorts else -by
        self.sort = self.sorts[(at + by) % len(self.sorts)]
        self.skip = 0

    def scroll(self, by: int) -> None:
        """Go so many rows down, as far as there are any."""
        self.skip = max(0, min(self.skip + by, self.found - self.seen))

    def narrow(self, part: str) -> None:
        """Be about other names, from the first row on."""
        self.part = part[:PART_CHARS]
        self.skip = 0


class View:
    """Both lists, and which one is seen.

    Attributes:
        fetchers_seen: it is that of the fetchers.
        typing: keys are those of a filter.
        ended: it has been looked at for long enough.
    """

    def __init__(self, sort: ProjectSort, part: str) -> None:
        self.projects: Rows[ProjectSort] = Rows(PROJECT_SORTS, sort, part)
        self.fetchers: Rows[FetcherSort] = Rows(FETCHER_SORTS, "oldest", "")
        self.fetchers_seen = False
        self.typing = False
        self.ended = False

    @property
    def rows(self) -> Rows[ProjectSort] | Rows[FetcherSort]:
        """The list that is seen."""
        return self.fetchers if self.fetchers_seen else self.projects

    def press(self, key: str) -> None:
        """Do what a key says; one that says nothing changes nothing."""
        if self.typing:
            self._type(key)
        elif key == "q":
            self.ended = True
        elif key == "f":
            self.fetchers_seen = not self.fetchers_seen
        elif key == "/":
            self.typing = True
        elif key == "escape":
            self.rows.narrow("")
        elif key in ("s", "S"):
            self.rows.turn(1 if key == "s" else -1)
        else:
            self.rows.scroll(self._rows_of(key))

    def _type(self, key: str) -> None:
        rows = self.rows
        if key in ("enter", "escape"):
            self.typing = False
        if key == "escape":
            rows.narrow("")
        elif key == "backspace":
            rows.narrow(rows.part[:-1])
        elif len(key) == 1 and key.isprintable():
            rows.narrow(rows.part + key)

    def _rows_of(self, key: str) -> int:
        """By how many rows a key goes down."""
        rows = self.rows
        match key:
            case "down" | "j":
                return 1
            case "up" | "k":
                return -1
            case "page-down" | " ":
                return rows.seen
            case "page-up" | "b":
                return -rows.seen
            case "end" | "G":
                return rows.found
            case "home" | "g":
                return -rows.found
        return 0
