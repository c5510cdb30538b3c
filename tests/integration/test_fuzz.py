"""Many frames thrown at a live daemon, most of them mutants of valid messages inside live sessions.

Meanwhile an honest producer and fetcher use the same daemon. Speed is not measured: the fuzzers stop after each chunk
until another honest round has run from end to end, so the test ends only if others are served all the time.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest

from tests.integration import fuzzer_main
from tests.integration.nursery import Forked
from tests.nightly import usually

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, Peer, PeerFactory

ROOT = Path(__file__).parents[2]
FRAMES = usually(5_000, nightly=50_000)
"""Frames of each of the two fuzzers."""
PROJECT = "honest-work"
ROUND = 20


class Fuzzer:
    """Process that throws frames, a chunk at a time.

    Attributes:
        thrown: number of frames by kind; empty until it has ended.
        heard: number of answers by type or error code.
    """

    def __init__(self, url: str, seed: int, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "tests.integration.fuzzer_main", url, str(FRAMES), str(seed)]
        self._process = stack.enter_context(
            Forked[bytes](command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        )
        stack.callback(self._process.kill)
        self.thrown: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()

    def next_chunk(self) -> None:
        """Let it throw the next chunk, if it has thrown the last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.thrown or not select.select([self._process.stdout], [], [], 0)[0]:
            return
        line = self._process.stdout.readline()
        assert line, "the fuzzer has ended; its stderr says why"
        if line == b"chunk\n":
            self._process.stdin.write(b"\n")
        else:
            ended = json.loads(line)
            self.thrown, self.heard = Counter(ended["thrown"]), Counter(ended["heard"])


class Honest:
    """Producer and fetcher, and the ledger of what they did."""

    def __init__(self, producer: Peer, fetcher: Peer) -> None:
        self._producer = producer
        self._fetcher = fetcher
        self.pushed: list[str] = []
        self.done: Counter[str] = Counter()
        self._seen = 0
        self.hello()

    def hello(self) -> None:
        """Say what the fetcher wants, at the start and after a restart of the daemon."""
        self._fetcher.ask("hello", capacity=ROUND, projects=[PROJECT], seen=self._seen)

    def round(self) -> None:
        """Push some tasks, take all of them, and report each of them done."""
        taskids = [f"task{len(self.pushed) + n}" for n in range(ROUND)]
        assert self._producer.push(PROJECT, *taskids) == ["new"] * ROUND
        self.pushed += taskids
        left = ROUND
        while left:
            message = self._fetcher.receive()
            self._seen, tasks = message["number"], message["tasks"]
            items = [{key: task[key] for key in ("project", "taskid", "token")} for task in tasks]
            assert self._fetcher.ask("done", tasks=items)["outcomes"] == ["done"] * len(tasks)
            self.done.update(task["taskid"] for task in tasks)
            left -= len(tasks)

    def assert_kept(self) -> None:
        """Assert that nothing was lost or done twice, by the ledger and by the daemon."""
        assert self.done == Counter(self.pushed)
        view = self._producer.ask("project-show", project=PROJECT)["project"]
        count = len(self.pushed)
        assert view["counts"] == {"success": count}
        assert view["totals"] == {"new": count, "selected": count, "success": count}


@pytest.mark.timeout(300)
def test_thousands_of_bad_frames_cost_nobody_anything(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    producer, fetcher = peer(it), peer(it)
    honest = Honest(producer, fetcher)
    process = it.process

    with ExitStack() as stack:
        fuzzers = [Fuzzer(it.url, seed, stack) for seed in (1, 2)]
        while not all(fuzzer.thrown for fuzzer in fuzzers):
            honest.round()
            for fuzzer in fuzzers:
                fuzzer.next_chunk()

    thrown, heard = fuzzers[0].thrown + fuzzers[1].thrown, fuzzers[0].heard + fuzzers[1].heard
    sent = thrown.total()
    assert sent >= 2 * FRAMES
    assert thrown["mutants"] >= FRAMES
    # The sessions were live: many frames were accepted, and sessions were given tasks.
    assert min(heard[kind] for kind in ("done-reply", "new-task-reply", "tokens-reply", "select")) >= FRAMES // 100
    honest.assert_kept()
    assert producer.ask("verify")["problems"] == []
    shell = producer.shell()
    assert shell["frames_in"] == sent + producer.n + fetcher.n
    # Everything has been answered, except this request while its answer was made.
    assert shell["frames_out"] + shell["undelivered"] >= shell["frames_in"] - 1
    assert shell["reloads"] == 0
    assert it.process is process
    assert process is not None
    assert process.poll() is None
    assert "Traceback" not in it.log()

    it.kill()
    it.start()

    honest.assert_kept()
    honest.hello()
    honest.round()
    assert producer.ask("verify")["problems"] == []


def test_a_fetcher_that_lies_about_what_it_has_seen_is_not_sent_all_that_lies_between(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    liar, fetcher = peer(it), peer(it)

    liar.ask("hello", capacity=1, projects=["none"], seen=2**62)
    liar.ask("hello", capacity=1, projects=["none"], seen=0)
    liar.ask("hello", capacity=1, projects=["none"], seen=2**63 - 1)
    liar.ask("hello", capacity=1, projects=["none"], seen=2)

    Honest(fetcher, fetcher).round()
    assert fetcher.shell()["frames_out"] < 1000


def test_a_fuzzer_goes_on_although_a_mutant_has_said_hello_in_its_next_session(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    mutant = peer(it, session="session-7-1")
    mutant.send("hello", n=100, capacity=0, projects=["none"])
    assert mutant.receive()["type"] == "welcome"

    with closing(fuzzer_main.Fuzzer(it.url, 7)) as fuzzer:
        session = fuzzer.begin(fuzzer.sockets[0])

        assert session.name == "session-7-2"
        assert fuzzer.heard == {"too-old": 1, "welcome": 1}


def test_a_fuzzer_settles_no_earlier_if_the_welcome_of_another_hello_is_on_its_way(daemon: DaemonFactory) -> None:
    it = daemon()

    with closing(fuzzer_main.Fuzzer(it.url, 7)) as fuzzer:
        session = fuzzer.begin(fuzzer.sockets[0])
        session.socket.send(msgpack.packb(session.hello()))
        fuzzer.settle()

        assert fuzzer.heard == {"welcome": fuzzer.thrown["hello"] + 1}


def test_a_fuzzer_that_leaves_a_session_is_heeded(daemon: DaemonFactory) -> None:
    it = daemon()

    with closing(fuzzer_main.Fuzzer(it.url, 7)) as fuzzer:
        session = fuzzer.begin(fuzzer.sockets[0])
        session.socket.send(msgpack.packb(session.bye()))
        fuzzer.settle()

        assert fuzzer.heard == {"welcome": fuzzer.thrown["hello"] + 1}
