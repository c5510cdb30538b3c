"""Retries with another body, and failures with new tasks, while daemon and fetchers are killed: none lost, none twice.

As in ``test_lifecycle``, facts are read from the fetchers' ledgers: starts, and answers to their reports.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from taskqueue import Client, new_task
from tests.integration.nursery import WAIT_SECONDS, Forked
from tests.nightly import usually

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]

RUNS = 6
"""Runs of each task: five retries, and a failure for good."""
TASKS = usually(500, nightly=2000)
ALL_RUNS = TASKS * RUNS
FETCHERS = 3
KILLS = 3
"""Kills of the daemon, and of a fetcher, each."""

Run = tuple[str, int]


class Retriers:
    """Fetcher processes, and their ledgers."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self._url = url
        self._folder = folder
        self._stack = stack
        read_end, self._write_end = os.pipe()
        self._told: IO[str] = stack.enter_context(os.fdopen(read_end))
        stack.callback(os.close, self._write_end)
        self._processes: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self) -> None:
        record = self._folder / f"retrier-{len(self._processes)}"
        arguments = [self._url, "parents", str(RUNS), str(record)]
        command = [sys.executable, "-m", "tests.integration.retrier_main", *arguments]
        process = Forked[bytes](command, cwd=ROOT, stdout=self._write_end)
        self._stack.callback(process.wait, WAIT_SECONDS)
        self._stack.callback(process.kill)
        self._processes.append((process, record))

    def wait_for(self, reports: int) -> None:
        """Wait until ``reports`` more reports have been answered."""
        while reports > 0:
            reports -= int(self._told.readline())

    def kill_first(self) -> set[Run]:
        """Kill the oldest fetcher with SIGKILL; return the runs that it held, or whose reports were unanswered."""
        place = next(n for n, (process, _) in enumerate(self._processes) if process.poll() is None)
        process, _ = self._processes[place]
        process.kill()
        process.wait(WAIT_SECONDS)
        return set(self.started(place)) - {run for run, _ in self.told(place)}

    def started(self, place: int | None = None) -> list[Run]:
        return [(taskid, int(run)) for taskid, run in self._lines("start", place)]

    def told(self, place: int | None = None) -> list[tuple[Run, str]]:
        return [((taskid, int(run)), " ".join(said)) for taskid, run, *said in self._lines("told", place)]

    def _lines(self, kind: str, place: int | None) -> list[list[str]]:
        records = [record for n, (_, record) in enumerate(self._processes) if place is None or n == place]
        lines = [line.split() for record in records if record.exists() for line in record.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == kind]


@pytest.mark.parametrize(
    ("daemon", "seed"), [("folder", 1), *usually([], nightly=[("folder", 2)])], indirect=["daemon"]
)
def test_whoever_is_killed_each_retry_runs_with_its_body_and_each_failure_brings_its_new_task(
    daemon: DaemonFactory, tmp_path: Path, seed: int
) -> None:
    # Long enough that a busy machine's living fetchers aren't taken as silent, short enough to wait for tasks of killed
    # ones.
    it = daemon(head_tasks=300, fetcher_timeout=15)
    chance, held = random.Random(seed), set[Run]()
    with ExitStack() as stack, Client(it.url) as client:
        client.projects.set("parents", {"retries": RUNS, "fail_pause_num": 0, "max_crashes": 15})
        client.push_many("parents", [new_task(f"http://p/{n}", taskid=f"p{n}", body={"run": 0}) for n in range(TASKS)])
        retriers = Retriers(it.url, tmp_path, stack)
        for _ in range(FETCHERS):
            retriers.start()

        for victim in ("daemon", "fetcher") * KILLS:
            retriers.wait_for(chance.randrange(1, ALL_RUNS // (2 * KILLS + 2)))
            if victim == "daemon":
                it.kill()
                it.start()
            else:
                held |= retriers.kill_first()
                retriers.start()
        while not client.projects.wait("parents", timeout=WAIT_SECONDS):
            pass
        every = {(f"p{n}", run) for n in range(TASKS) for run in range(RUNS)}
        # The last answers may still be on their way.
        while not every - {run for run, _ in retriers.told()} <= held:
            retriers.wait_for(1)

        started, told = Counter(retriers.started()), Counter(retriers.told())
        assert started.keys() == every
        twice = {run for run, times in started.items() if times > 1}
        assert (twice <= held, max(started.values()) <= 1 + KILLS) == (True, True)
        # A killed fetcher gets no answer; every other report is answered once: it counted, and brought a new task.
        assert {said for _, said in told} == {"done new"}
        assert max(told.values()) == 1
        parents, children = client.projects.get("parents"), client.projects.get("children")
        assert (parents.counts.failed, parents.totals.retried, parents.totals.failed) == (
            TASKS,
            TASKS * (RUNS - 1),
            TASKS,
        )
        assert (children.counts.ready, children.totals.new) == (ALL_RUNS, ALL_RUNS)
        shown = client.tasks.get("parents", "p0")
        assert (shown.retried, shown.body) == (RUNS // 2, {"run": 5})
        assert client.daemon.verify() == []
    assert "Traceback" not in it.log()
    assert it.stop() == 0
