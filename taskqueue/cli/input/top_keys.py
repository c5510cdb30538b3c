"""Keys of ``taskqueue top`` and what they change: which list is shown, in which order, from which row on.

    terminal ──bytes──► Keys ──key──► View

During the block the terminal sends bytes at once and unechoed (termios' cbreak mode); Ctrl-C stays
a signal. A special key comes as an escape sequence, which terminals send in one piece.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import termios
import tty
from collections import deque
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from taskqueue.protocol.choices import FetcherSort, ProjectSort

Sort = TypeVar("Sort", bound=str)

READ_BYTES: Final = 1024

NAMED: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "page-up", "\x1b[6~": "page-down",
    "\x1b[H": "home", "\x1b[F": "end", "\x1b[1~": "home", "\x1b[4~": "end", "\x1bOH": "home", "\x1bOF": "end",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace",
}  # fmt: skip
"""Names of special keys by their escape sequences; other special keys have no name."""

PIECE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)


class Keys:
    """Reader of keys from a terminal's descriptor; a context manager."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: deque[str] = deque()

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def next(self, seconds: float) -> str:
        """Wait for the next key: its character, or a name in NAMED; empty if none is pressed within ``seconds``.

        Raises:
            EOFError: the terminal is closed.
        """
        if not self._waiting and select.select([self._terminal], [], [], max(0.0, seconds))[0]:
            self._waiting.extend(keys(self._decoder.decode(self._read())))
        return self._waiting.popleft() if self._waiting else ""

    def _read(self) -> bytes:
        try:
            pressed = os.read(self._terminal, READ_BYTES)
        except OSError:
            pressed = b""
        if not pressed:
            raise EOFError
        return pressed


def keys(text: str) -> list[str]:
    """Split what a terminal sent into keys, leaving out those without a name."""
    named = (NAMED.get(piece, piece) for piece in PIECE.findall(text))
    return [key for key in named if not key.startswith("\x1b")]


PROJECT_SORTS: Final[tuple[ProjectSort, ...]] = (
    "selected_5m", "retried_5m", "failed_5m", "new_5m", "success_5m", "ready", "delayed", "processing", "name",
)  # fmt: skip
FETCHER_SORTS: Final[tuple[FetcherSort, ...]] = (
    "oldest", "silent", "hung", "holds", "capacity", "failed", "done", "name",
)  # fmt: skip

PART_CHARS: Final = 64
"""Longest filter, in characters."""

HELP: Final = "q quit  s sort  / filter  f {other}  j k scroll"


class ListView(Generic[Sort]):
    """Visible part of a list, and its order.

    Attributes:
        sorts: the possible orders; ``sort`` is the current one.
        part: filter: names contain it.
        skip: rows above the first visible one.
        seen: rows that fit on the screen.
        found: rows of the whole list.
    """

    def __init__(self, sorts: tuple[Sort, ...], sort: Sort, part: str) -> None:
        self.sorts = sorts
        self.sort = sort
        self.part = part
        self.skip = 0
        self.seen = 1
        self.found = 0

    def turn(self, by: int) -> None:
        """Switch to the order ``by`` places further, and go to the first row."""
        at = self.sorts.index(self.sort) if self.sort in self.sorts else -by
        self.sort = self.sorts[(at + by) % len(self.sorts)]
        self.skip = 0

    def scroll(self, by: int) -> None:
        """Scroll down by ``by`` rows, within the list."""
        self.skip = max(0, min(self.skip + by, self.found - self.seen))

    def narrow(self, part: str) -> None:
        """Change the filter, and go to the first row."""
        self.part = part[:PART_CHARS]
        self.skip = 0


class View:
    """Lists of projects and of fetchers, and which of them is visible.

    Attributes:
        fetchers_seen: whether the list of fetchers is visible.
        typing: whether keys edit the filter.
        ended: whether the user has quit.
    """

    def __init__(self, sort: ProjectSort, part: str) -> None:
        self.projects: ListView[ProjectSort] = ListView(PROJECT_SORTS, sort, part)
        self.fetchers: ListView[FetcherSort] = ListView(FETCHER_SORTS, "oldest", "")
        self.fetchers_seen = False
        self.typing = False
        self.ended = False

    @property
    def rows(self) -> ListView[ProjectSort] | ListView[FetcherSort]:
        """The visible list."""
        return self.fetchers if self.fetchers_seen else self.projects

    def press(self, key: str) -> None:
        """Apply a key; a key without meaning changes nothing."""
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
        """Rows that a key scrolls down."""
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
