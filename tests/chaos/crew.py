"""Producers and fetchers around a daemon in trouble, and what was acknowledged to them.

They are processes that keep to the protocol, or use the real client, and write down every answer, so that
acknowledgements are known whatever happens to the daemon.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from tests.integration.conftest import ROOT
from tests.integration.nursery import Forked

PROJECT: Final = "news"
Commands = dict[str, tuple[str, ...]]
"""Python arguments that start a producer and a fetcher."""

BY_THE_PROTOCOL: Final[Commands] = {kind: ("-m", f"tests.integration.{kind}_main") for kind in ("producer", "fetcher")}
BY_THE_CLIENT: Final[Commands] = {kind: ("-m", "tests.chaos.client_main", kind) for kind in ("producer", "fetcher")}
FETCHERS: Final = 2
CAPACITY: Final = 100
PATIENCE_SECONDS: Final = 30
"""Time without progress after which the crew gives up: it waits for something lost."""


class Ledger(NamedTuple):
    """Acknowledged facts.

    Attributes:
        pushed: taskids of answered pushes.
        done: number of acknowledged dones, by taskid.
        started: number of dispatches, by taskid.
        tokens: number of dispatches, by token; more than one is an error.
    """

    pushed: set[str]
    done: Counter[str]
    started: Counter[str]
    tokens: Counter[str]

    @property
    def lost(self) -> int:
        """Number of acknowledged tasks never done, and of acknowledged dones forgotten."""
        return len(self.pushed - self.done.keys()) + sum(times - 1 for times in self.done.values())

    @property
    def twice(self) -> int:
        """Number of repeated dispatches; no fetcher dies, so the daemon's troubles are the reason."""
        return sum(times - 1 for times in self.started.values())


class Crew:
    """Producers and fetchers of one daemon; the context ends by killing all of them.

    Args:
        commands: commands that start them.

    Attributes:
        counted: tasks answered as done, as the fetchers have reported so far.
    """

    def __init__(self, url: str, folder: Path, seed: int, commands: Commands = BY_THE_PROTOCOL) -> None:
        self.counted = 0
        self._commands = commands
        self._url = url
        self._folder = folder
        self._pushes = 0
        self._producers: list[subprocess.Popen[bytes]] = []
        self._read_end, self._write_end = os.pipe()
        self._told = b""
        self._fetchers = [self._start("fetcher", CAPACITY, folder / f"fetched-{n}", seed + n) for n in range(FETCHERS)]

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._producers, *self._fetchers):
            process.kill()
            process.wait()
        os.close(self._read_end)
        os.close(self._write_end)

    def push(self, count: int) -> None:
        """Start a producer of ``count`` tasks."""
        name = f"p{len(self._producers)}"
        self._pushes += count
        self._producers.append(self._start("producer", name, count, self._folder / f"pushed-{name}"))

    def wait_until_done(self, count: int) -> bool:
        """Wait until ``count`` tasks have been answered as done; return False if none was for PATIENCE_SECONDS."""
        while self.counted < count:
            if not select.select([self._read_end], [], [], PATIENCE_SECONDS)[0]:
                return False
            lines = (self._told + os.read(self._read_end, 1 << 16)).split(b"\n")
            self._told = lines.pop()
            self.counted += sum(map(int, lines))
        return True

    def finish(self) -> Ledger:
        """Wait until everything that was pushed is done, if it ever is; return the ledger."""
        self.wait_until_done(self._pushes)
        for process in self._fetchers:
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            for process in (*self._producers, *self._fetchers):
                process.wait(PATIENCE_SECONDS)
        return self.ledger()

    def ledger(self) -> Ledger:
        """Read what was acknowledged so far."""
        pushed = [line.split() for path in self._folder.glob("pushed-*") for line in path.read_text().splitlines()]
        fetched = [line.split() for path in self._folder.glob("fetched-*") for line in path.read_text().splitlines()]
        return Ledger(
            pushed={line[0] for line in pushed},
            done=Counter(line[1] for line in fetched if line[0] == "done" and line[2] == "done"),
            started=Counter(line[1] for line in fetched if line[0] == "start"),
            tokens=Counter(line[2] for line in fetched if line[0] == "start"),
        )

    def _start(self, what: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, *self._commands[what], self._url, PROJECT, *map(str, arguments)]
        return Forked[bytes](command, cwd=ROOT, stdout=self._write_end)
