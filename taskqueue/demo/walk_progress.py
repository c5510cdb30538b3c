"""Shows progress while the links in a folder are followed before its crawl; for a large folder that takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from taskqueue.demo.page import Progress
from taskqueue.terminal.screen import Text

LINE_SECONDS = 1.0
"""Where there is no terminal, a line comes so often."""


@contextmanager
def show_walk(console: Console, folder: Path, clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """Show progress, in place on a terminal, elsewhere a line a second; yields the function to report it with.

    Args:
        clock: returns seconds.
    """
    said = f"Following the links in {folder} ..."
    if console.is_terminal:
        with console.status(Text(said)) as status:
            yield lambda read, waiting: status.update(Text(f"{said} {_progress_text(read, waiting)}"))
        return
    console.print(said, markup=False, highlight=False, soft_wrap=True)
    since = last = clock()

    def progress(read: int, waiting: int) -> None:
        nonlocal last
        if (now := clock()) >= last + LINE_SECONDS:
            last = now
            console.print(f"{now - since:6.1f} s  {_progress_text(read, waiting)}", highlight=False, soft_wrap=True)

    yield progress


def _progress_text(read: int, waiting: int) -> str:
    return f"{read:,} pages read, {waiting:,} to go"
