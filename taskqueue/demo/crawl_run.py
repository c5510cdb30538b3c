"""What is remembered of a crawl from one start of the demo to the next: a small file in its data folder.

The state of the crawl itself is in the scheduler's store and nowhere else. This file only tells which crawl it is, so
that the next start can go on with it: at the same address of the site, since that is in the urls of all tasks.

    none ──start──► unfinished ──all pages fetched──► finished ──start──► the next one, unfinished
                     ▲    │
                     └────┘ start again: goes on

The file is replaced as a whole, after the scheduler has acknowledged the first page and before a fetcher starts.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from taskqueue.errors import ConfigError

FILE = "run.json"


class Run(Struct, frozen=True):
    """A crawl, as stored between starts of the demo.

    Attributes:
        number: counts the crawls of this data folder, from 1.
        site: the folder that is served; empty: the bundled site.
        port: of the site.
        starts: how often the demo was started for it; each start has an access log of its own.
        finished_at: unix seconds, or 0.
    """

    number: int
    site: str
    port: int
    starts: int = 1
    finished_at: float = 0.0

    @property
    def is_finished(self) -> bool:
        return self.finished_at > 0


def load(folder: Path) -> Run | None:
    """The last crawl of this data folder, or None.

    Raises:
        ConfigError: the file isn't one of ours.
    """
    file = folder / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Run)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: {error}; remove {folder} to start over") from None


def save(folder: Path, run: Run) -> None:
    """Store the crawl atomically."""
    fresh = folder / f"{FILE}.new"
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(run)) + b"\n")
    os.replace(fresh, folder / FILE)


def access_log(folder: Path, start: int) -> Path:
    """The site's access log for one start of the demo, counted from 1."""
    return folder / f"access-{start}.log"


def forget_access(folder: Path) -> None:
    """Delete the access logs of the previous crawl."""
    for log in folder.glob("access-*.log"):
        log.unlink()
