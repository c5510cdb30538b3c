"""Measure a row: a daemon and its polite client before, during and after an attack.

before   the polite client alone
during   the attack, from the moment at which it is prepared until its end
after    the attackers are gone, and REST_SECONDS have passed
end      the attack once more, and SIGTERM in the middle of it
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import zmq
from msgspec import Struct

from tests.attack.rows import Row
from tests.attack.target import MIB, Target, target
from tests.attack.waits import Listener, Waits, polite_client
from tests.integration.conftest import Peer
from tests.integration.nursery import Forked
from tests.integration.small_disk import may_mount, mounted

WARM_TASKS: Final = 20
"""Tasks of the polite client before anything is measured."""
BEFORE_SECONDS: Final = 2.0
REST_SECONDS: Final = 5.0
AFTER_SECONDS: Final = 3.0
AGAIN_SECONDS: Final = 3.0
"""Length of the second attack, before SIGTERM."""
GRACE_SECONDS: Final = 20.0
"""Time for an attacker to end by itself after its time is up."""
PREPARE_SECONDS: Final = 120.0
NEWCOMER_MS: Final = 5_000

MEMORY_MOST_MIB: Final = 1024
LEFT_MOST_MIB: Final = 256
"""Most memory above that before the attack, some seconds after the attackers have gone: the store's cache (128 MiB) and
its write buffers may have filled meanwhile.
"""
P50_MOST_MS: Final = 50.0
STOP_MOST_SECONDS: Final = 5.0
LEAST_FREE_MIB: Final = 384
"""Least free space: three quarters of ``store.min_free``, below which the daemon writes only what ends tasks."""


class Figures(Struct):
    """Figures of a row: memory in MiB, waits of the polite client in ms.

    Attributes:
        newcomer_ms: wait of a new client's request during the attack; None if it got no answer.
        stop_seconds: time from SIGTERM to the daemon's end; None if the daemon did not obey.
        ended: how the daemon ended too early; empty if it did not.
        note: report of the attackers.
        harm: True if they reached their aim.
        least_free: MiB of the disk, if the store has one of its own.
        p50_times: bound of the median during the attack, in multiples of that before; 0: only P50_MOST_MS.
    """

    what: str
    seconds: float
    memory_before: float
    memory_peak: float
    memory_left: float
    before: Waits
    during: Waits
    after: Waits
    newcomer_ms: float | None
    stop_seconds: float | None
    ended: str
    note: str
    harm: bool
    least_free: float | None = None
    p50_times: float = 0.0

    def broken(self) -> list[str]:
        """List the bounds that did not hold, in words."""
        checks = [
            (bool(self.ended), self.ended),
            (self.memory_peak > MEMORY_MOST_MIB, "memory"),
            (not self.ended and self.memory_left - self.memory_before > LEFT_MOST_MIB, "not given back"),
            (self.during.p50_ms > P50_MOST_MS, "slow"),
            (0 < self.p50_times < self.during.p50_ms / self.before.p50_ms, f"slower than {self.p50_times:g} ×"),
            (not self.during.tasks and self.least_free is None, "no tasks"),
            (self.least_free is not None and self.least_free < LEAST_FREE_MIB, "disk"),
            (not self.ended and self.after.p50_ms > P50_MOST_MS, "slow afterwards"),
            (not self.ended and self.newcomer_ms is None, "newcomers not served"),
            (not self.ended and (self.stop_seconds or STOP_MOST_SECONDS + 1) > STOP_MOST_SECONDS, "SIGTERM unheard"),
            (self.harm, "harm"),
        ]
        return [word for is_broken, word in checks if is_broken]


class Conditions(Struct):
    """Conditions of a measurement.

    Attributes:
        python: interpreter with the ``taskqueue`` that is attacked.
        scale: share of the usual number of requests, tasks or bytes.
        has_keys: the daemon has keys, and the attackers none that it knows.
    """

    python: str
    seconds: float
    kill_above: int
    scale: float = 1.0
    has_keys: bool = False


def measure(row: Row, under: Conditions) -> Figures:
    """Attack a new daemon; return the figures."""
    with ExitStack() as stack:
        folder = stack.enter_context(_disk(row.disk)) if row.disk else None
        daemon = target(under.python, under.kill_above, row.files, row.hard, folder, has_keys=under.has_keys)
        it = stack.enter_context(daemon)
        polite = stack.enter_context(polite_client(it.url, it.key))
        if not polite.wait_for_tasks(WARM_TASKS, PREPARE_SECONDS):
            raise SystemExit("the polite client is not served before the attack")
        before, memory_before = _alone(polite, BEFORE_SECONDS), it.memory()

        with attacker(row, it, under) as attacking:
            began = attacking.begin()
            newcomer = _newcomer(it, under.seconds / 2)
            note = attacking.wait(under.seconds)
            during, seconds = polite.waits(began, time.monotonic()), time.monotonic() - began
        # Memory that the attack cost counts even if only the end of its connections took it.
        time.sleep(REST_SECONDS)
        after, left, peak = _alone(polite, AFTER_SECONDS), it.memory(), it.peak_bytes
        ended = _ended(it)
        stopped = None if ended else _stop_under_attack(row, it, under)

        return Figures(
            what=row.what,
            seconds=round(seconds, 1),
            memory_before=_mebibytes(memory_before),
            memory_peak=_mebibytes(peak),
            memory_left=_mebibytes(left),
            before=before,
            during=during,
            after=after,
            newcomer_ms=newcomer,
            stop_seconds=stopped,
            ended=ended,
            note=note.removeprefix("harm: "),
            harm=note.startswith("harm: "),
            least_free=round(it.least_free_bytes / MIB) if row.disk else None,
            p50_times=row.p50_times,
        )


@contextmanager
def _disk(mib: int) -> Iterator[Path]:
    if not may_mount():
        raise SystemExit("only root can mount a file system")
    with TemporaryDirectory(prefix="taskqueue-attack-disk-") as folder, mounted(Path(folder), mib):
        yield Path(folder)


def _mebibytes(count: int) -> float:
    return round(count / MIB, 1)


class Attacking:
    """Attack in another process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def begin(self) -> float:
        """Wait until it is prepared; return the time."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"begin\n":
            raise SystemExit(f"{self._process.args!r} did not begin")
        return time.monotonic()

    def wait(self, seconds: float) -> str:
        """Wait for its end; return the last line that it printed."""
        try:
            said, _ = self._process.communicate(timeout=6 * seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return "cut off"
        return (said.decode().splitlines() or ["the attacker failed"])[-1]


@contextmanager
def attacker(row: Row, it: Target, under: Conditions, errors: int | None = None) -> Iterator[Attacking]:
    """Run an attacker; ``errors`` is where its stderr goes, as for a subprocess."""
    arguments = [row.name, it.url, str(under.seconds), str(under.scale), *([it.key.server] if it.key else [])]
    command = [sys.executable, "-m", "tests.attack.attacker", *arguments]
    # Unbuffered, so that lines soon after ``begin`` are not read with it, and lost.
    start = Forked[bytes](command, stdout=subprocess.PIPE, stderr=errors, bufsize=0, start_new_session=True)
    with start as process:
        try:
            yield Attacking(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _alone(polite: Listener, seconds: float) -> Waits:
    began = time.monotonic()
    time.sleep(seconds)
    return polite.waits(began, time.monotonic())


def _newcomer(it: Target, seconds: float) -> float | None:
    """Connect a new client after ``seconds``; return milliseconds until its request was answered."""
    time.sleep(seconds)
    peer, began = Peer(it.url, key=it.key), time.monotonic()
    try:
        peer.socket.setsockopt(zmq.RCVTIMEO, NEWCOMER_MS)
        peer.ask("hello")
        return round(1000 * (time.monotonic() - began), 1)
    except zmq.Again:
        return None
    finally:
        peer.close()


def _stop_under_attack(row: Row, it: Target, under: Conditions) -> float | None:
    with attacker(row, it, under, errors=subprocess.DEVNULL) as attacking:
        with suppress(SystemExit):
            attacking.begin()
            time.sleep(AGAIN_SECONDS)
        took = it.stop()
        return None if took is None else round(took, 2)


def _ended(it: Target) -> str:
    if it.alive():
        return ""
    return "killed" if it.killed else f"died ({it.process.returncode})"
