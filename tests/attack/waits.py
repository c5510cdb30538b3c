"""Waits of a polite client, read from its output."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from threading import Thread
from typing import Final, NamedTuple

from taskqueue.access.key_file import KeyFile, key_line
from tests.integration.nursery import Forked

EVERY_SECONDS: Final = 0.05
"""Distance of corrected waits: a waiting client asks nothing more, so a wait stands for all that would have begun
during it. (Gil Tene, 'How NOT to Measure Latency', 2013: coordinated omission.)
"""


class Step(NamedTuple):
    """Step of the client: when it ended, in seconds of the monotonic clock, and how long it took."""

    ended: float
    seconds: float
    name: str


class Waits(NamedTuple):
    """Waits for answers and tasks, median and longest in milliseconds, and number of tasks done meanwhile."""

    p50_ms: float
    max_ms: float
    tasks: int


class Listener:
    """Reader of a polite client's output, while it works."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._steps: list[Step] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def waits(self, since: float, until: float) -> Waits:
        """Return waits that ended between two moments, and those in progress at the second."""
        steps = list(self._steps)
        inside = [step for step in steps if since <= step.ended < until]
        begun = max((step.ended for step in steps if step.ended < until), default=since)
        goes_on = until - max(begun, since)
        waited = [step.seconds for step in inside]
        if goes_on > EVERY_SECONDS or not waited:
            waited.append(goes_on)
        waits = corrected(waited)
        tasks = sum(step.name == "done" for step in inside)
        return Waits(round(1000 * median(waits), 2), round(1000 * max(waits), 1), tasks)

    def wait_for_tasks(self, count: int, seconds: float) -> bool:
        """Wait until ``count`` more tasks are done; return False if they are not after ``seconds``."""
        until, wanted = time.monotonic() + seconds, self._tasks() + count
        while self._tasks() < wanted:
            if time.monotonic() > until or self.process.poll() is not None:
                return False
            time.sleep(EVERY_SECONDS)
        return True

    def _tasks(self) -> int:
        return sum(step.name == "done" for step in self._steps)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            ended, seconds, name = line.split()
            self._steps.append(Step(float(ended), float(seconds), name))


def corrected(seconds: Sequence[float]) -> list[float]:
    """Add the waits that would have begun during each of these."""
    return [left for each in seconds for left in _during(each)]


def _during(seconds: float) -> Iterator[float]:
    yield seconds
    while (seconds := seconds - EVERY_SECONDS) > 0:
        yield seconds


@contextmanager
def polite_client(url: str, key: KeyFile | None = None) -> Iterator[Listener]:
    """Run a polite client in a process of its own."""
    command = [sys.executable, "-m", "tests.attack.polite", url]
    with Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(key_line(key).decode() if key else "")
        try:
            yield Listener(process)
        finally:
            process.kill()
