"""Audit: hosts, a daemon and four fetchers, a fetcher and then the daemon are killed, and the hosts' logs are judged.

The daemon and the workers are the real ones. Tasks are pushed at once, for all hosts in turns, so that at any time most
ready tasks may not go yet.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from taskqueue import Client
from tests.integration.conftest import ROOT, Daemon, Peer
from tests.integration.nursery import Forked
from tests.politeness.hosts import Host, hosts_of, patterns, urls
from tests.politeness.laws import Visit, violations

PROJECT: Final = "polite"
FETCHERS: Final = ((16, None), (16, 16), (8, 8), (4, 8))
"""(concurrency, prefetch) of each fetcher; None: the default."""

FETCHER_TIMEOUT: Final = 4.0
"""Silence after which a fetcher is taken as dead: longer than its last requests, which thus overlap no others."""
REPORT_SECONDS: Final = 1.0
"""Age of the latest answers to a killed fetcher that may be unreported."""

FETCHER_KILLED_AT: Final = 0.2
DAEMON_KILLED_AT: Final = 0.5
"""Share of finished tasks at which the daemon is killed."""

LOOK_MS: Final = 100
PATIENCE_SECONDS: Final = 150.0
"""Time in which some task must end."""


class Audited(NamedTuple):
    """Result of the audit.

    Attributes:
        visits: requests of each host that had any, in the order of arrival.
        unreported: visits of which the daemon heard nothing.
        problems: lines that describe problems, such as a task that has not ended.
        seconds: length of the audit.
    """

    hosts: list[Host]
    visits: dict[str, list[Visit]]
    unreported: set[Visit]
    problems: list[str]
    seconds: float

    def violations(self, host: Host) -> list[str]:
        """List violations of a host's wishes."""
        return violations(host, self.visits.get(host.address, []), self.unreported)


def audit(folder: Path, part: float, seconds: float) -> Audited:
    """Fetch a part of all hosts for about ``seconds``, while a fetcher and the daemon are killed.

    Raises:
        AssertionError: a process ended, or did not start.
    """
    with Scene(folder, part) as scene:
        began_at = time.monotonic()
        pushed = scene.push(seconds)
        scene.wait_until_over(pushed * FETCHER_KILLED_AT)
        killed, killed_at = scene.kill_a_fetcher()
        scene.wait_until_over(pushed * DAEMON_KILLED_AT)
        scene.daemon.kill()
        scene.daemon.start()
        problems = [] if scene.wait_until_over(pushed) else [f"not all of {pushed} tasks have ended: {scene.counts()}"]
        problems += scene.problems()
        took = time.monotonic() - began_at
    visits = _visits(folder)
    unreported = {
        visit
        for each in visits.values()
        for visit in each
        if visit.fetcher == killed and visit.answered_at > killed_at - REPORT_SECONDS
    }
    return Audited(scene.hosts, visits, unreported, problems, took)


class Scene:
    """All processes; the context ends by killing all of them."""

    def __init__(self, folder: Path, part: float) -> None:
        self.hosts = hosts_of(part)
        self._folder = folder
        self._fetchers: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()
        with self._stack:
            self._begin(part)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> Scene:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def push(self, seconds: float) -> int:
        """Push tasks that keep each host busy for ``seconds``; return their number."""
        pages = list(urls(self.hosts, self._port, seconds))
        dead = [host.address for host in self.hosts if host.kind.is_dead]
        self._doomed = sum(urlsplit(url).hostname in dead for url in pages)
        with Client(self.daemon.url) as client:
            return client.push_many(PROJECT, pages).new

    def kill_a_fetcher(self) -> tuple[str, float]:
        """Kill the first fetcher, and start another in its place; return its name, and when it had gone."""
        killed = self._fetchers[0]
        killed.kill()
        killed.wait()
        killed_at = time.monotonic()
        self._start_fetcher(0)
        return "fetcher-0", killed_at

    def wait_until_over(self, count: float) -> bool:
        """Wait until ``count`` tasks have finished; return False if none has for PATIENCE_SECONDS."""
        before, since = 0, time.monotonic()
        peer = Peer(self.daemon.url)
        try:
            while (over := self._over(peer)) < count:
                if over > before:
                    before, since = over, time.monotonic()
                elif time.monotonic() > since + PATIENCE_SECONDS:
                    return False
                peer.has_message(LOOK_MS)
        finally:
            peer.close()
        return True

    def counts(self) -> dict[str, int]:
        """Count tasks by state."""
        peer = Peer(self.daemon.url)
        try:
            return dict(peer.ask("project-show", project=PROJECT)["project"]["counts"])
        finally:
            peer.close()

    def problems(self) -> list[str]:
        """List problems once all tasks have finished."""
        peer = Peer(self.daemon.url)
        found = [f"verify: {each}" for each in peer.ask("verify")["problems"]]
        peer.close()
        if self.counts().get("failed", 0) != self._doomed:
            found.append(f"{self._doomed} tasks are of dead hosts, and what became of all is {self.counts()}")
        if "Traceback" in (log := self.daemon.log()):
            found.append(log[log.index("Traceback") :][:2000])
        return found

    def _begin(self, part: float) -> None:
        server = self._start("server", self._folder / "visits", part, stdout=subprocess.PIPE)
        assert server.stdout is not None
        self._stack.callback(server.stdout.close)
        self._port = int(server.stdout.readline())
        layer = {"slot": {"by": "host"}, "retries": 0}
        self.daemon = Daemon(self._folder, fetcher_timeout=FETCHER_TIMEOUT, projects={PROJECT: layer})
        self.daemon.start()
        self._stack.callback(self._kill_daemon)
        with Client(self.daemon.url) as client:
            client.projects.set(PROJECT, {"slot": {"patterns": patterns()}})
        for n in range(len(FETCHERS)):
            self._start_fetcher(n)

    def _over(self, peer: Peer) -> int:
        counts = peer.ask("project-show", project=PROJECT)["project"]["counts"]
        return int(counts.get("success", 0) + counts.get("failed", 0))

    def _start_fetcher(self, n: int) -> None:
        concurrency, prefetch = FETCHERS[n]
        count = len(self._fetchers)
        arguments = (self.daemon.url, f"fetcher-{count}", concurrency, "" if prefetch is None else prefetch)
        self._fetchers.append(self._start("fetcher", *arguments, self._folder / f"attempts-{count}"))

    def _start(self, what: str, *arguments: object, stdout: int | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"tests.politeness.{what}_main", *map(str, arguments)]
        with (self._folder / f"{what}.log").open("a") as log:
            process = Forked[bytes](command, cwd=ROOT, stdout=stdout or log, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _kill_daemon(self) -> None:
        if self.daemon.process is not None and self.daemon.process.poll() is None:
            self.daemon.kill()


def _visits(folder: Path) -> dict[str, list[Visit]]:
    """Read the visits from the log of all hosts; for hosts that refused, from the fetchers' records."""
    visits: dict[str, list[Visit]] = defaultdict(list)
    for line in (folder / "visits").read_text().splitlines():
        address, arrived, answered, status, begun, fetcher = line.split()
        visits[address].append(Visit(address, float(arrived), float(answered), int(status), float(begun), fetcher))
    for path in folder.glob("attempts-*"):
        for line in path.read_text().splitlines():
            address, begun = line.split()
            visits[address].append(Visit(address, float(begun), float(begun), 0, float(begun), path.name))
    for each in visits.values():
        each.sort(key=lambda visit: visit.arrived_at)
    return visits
