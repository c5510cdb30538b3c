"""The keys of a terminal, one by one, as they are pressed.

The terminal is asked for bytes at once and unechoed (termios' cbreak mode) for as long as the block lasts; Ctrl-C stays
a signal. A key that is no character comes as an escape sequence, which terminals send in one piece.
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
from typing import Final, Self

READ_BYTES: Final = 1024

NAMED: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "page-up", "\x1b[6~": "page-down",
    "\x1b[H": "home", "\x1b[F": "end", "\x1b[1~": "home", "\x1b[4~": "end", "\x1bOH": "home", "\x1bOF": "end",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace",
}  # fmt: skip
"""Names of keys that are no characters, by their escape sequences; other such keys have no name."""

PIECE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)


class Keys:
    """Reads keys from a terminal's descriptor; a context manager."""

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
        """The next key: its character, or a name in NAMED; empty if none is pressed within ``seconds``.

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
    """The keys in what a terminal has sent, without those that have no name."""
    named = (NAMED.get(piece, piece) for piece in PIECE.findall(text))
    return [key for key in named if not key.startswith("\x1b")]
