"""Shows that the links in a folder are being followed, before its crawl begins: for a large one that takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from taskqueue.demo.page import Tell
from taskqueue.terminal.screen import Text

LINE_SECONDS = 1.0
"""Where there is no terminal, a line comes so often."""


@contextmanager
def following(console: Console, folder: Path, clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """Say that it begins; what this yields says how far it is, in place on a terminal, elsewhere in a line a second.

    Args:
        clock: seconds.
    """
    said = f"Following the links in {folder} ..."
    if console.is_terminal:
        with console.status(Text(said)) as status:
            yield lambda read, waiting: status.update(Text(f"{said} {_far(read, waiting)}"))
        return
    console.print(said, markup=False, highlight=False, soft_wrap=True)
    since = last = clock()

    def tell(read: int, waiting: int) -> None:
        nonlocal last
        if (now := clock()) >= last + LINE_SECONDS:
            last = now
            console.print(f"{now - since:6.1f} s  {_far(read, waiting)}", highlight=False, soft_wrap=True)

    yield tell


def _far(read: int, waiting: int) -> str:
    return f"{read:,} pages read, {waiting:,} to go"
