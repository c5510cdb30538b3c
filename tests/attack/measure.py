"""One row: what a daemon and its polite client go through before, during and after an attack.

before   the polite client alone
during   the attack, from the moment at which it is prepared until it is over
after    the attackers are gone, and REST_SECONDS have passed
end      the attack once more, and SIGTERM in the midst of it
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
"""Done by the polite client before anything is measured."""
BEFORE_SECONDS: Final = 2.0
REST_SECONDS: Final = 5.0
AFTER_SECONDS: Final = 3.0
AGAIN_SECONDS: Final = 3.0
"""Of the second attack, before SIGTERM."""
GRACE_SECONDS: Final = 20.0
"""For an attacker to end by itself when its time is over."""
PREPARE_SECONDS: Final = 120.0
NEWCOMER_MS: Final = 5_000

MEMORY_MOST_MIB: Final = 1024
LEFT_MOST_MIB: Final = 256
"""More than before, some seconds after the attackers are gone: the store's cache (128 MiB) and its write buffers may
have filled meanwhile."""
P50_MOST_MS: Final = 50.0
STOP_MOST_SECONDS: Final = 5.0
LEAST_FREE_MIB: Final = 384
"""Three quarters of ``store.min_free``, below which only what ends tasks is written."""


class Figures(Struct):
    """What was measured. Memory in MiB, what the polite client waits for in ms.

    Attributes:
        newcomer_ms: of a new client that asks something in the midst of the attack; None: it got no answer.
        stop_seconds: from SIGTERM to the daemon's end; None: it was not heard.
        ended: how the daemon ended before its time; empty: it did not.
        note: what the attackers had to tell.
        harm: they reached what they were after.
        least_free: MiB of the disk, if the store has one of its own.
        p50_times: bound of the median during the attack, in multiples of that before; 0: none but P50_MOST_MS.
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
        """The bounds that did not hold, in words."""
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
    """How a row is measured.

    Attributes:
        python: has the ``taskqueue`` that is attacked.
        scale: the share of the usual number of requests, tasks or bytes.
    """

    python: str
    seconds: float
    kill_above: int
    scale: float = 1.0


def measure(row: Row, under: Conditions) -> Figures:
    """Attack a new daemon."""
    with ExitStack() as stack:
        folder = stack.enter_context(_disk(row.disk)) if row.disk else None
        it = stack.enter_context(target(under.python, under.kill_above, row.files, row.hard, folder))
        polite = stack.enter_context(polite_client(it.url))
        if not polite.wait_for_tasks(WARM_TASKS, PREPARE_SECONDS):
            raise SystemExit("the polite client is not served before there is an attack")
        before, memory_before = _alone(polite, BEFORE_SECONDS), it.memory()

        with attacker(row, it, under) as attacking:
            began = attacking.begin()
            newcomer = _newcomer(it, under.seconds / 2)
            note = attacking.wait(under.seconds)
            during, seconds = polite.waits(began, time.monotonic()), time.monotonic() - began
        # What the attack made it take, even if that was only when its connections were closed.
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
        raise SystemExit("a file system of its own can be mounted by root only")
    with TemporaryDirectory(prefix="taskqueue-attack-disk-") as folder, mounted(Path(folder), mib):
        yield Path(folder)


def _mebibytes(count: int) -> float:
    return round(count / MIB, 1)


class Attacking:
    """An attack that goes on in another process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def begin(self) -> float:
        """Wait until it is prepared; the moment at which it was."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"begin\n":
            raise SystemExit(f"{self._process.args!r} did not begin")
        return time.monotonic()

    def wait(self, seconds: float) -> str:
        """Wait for its end; the last line that it wrote."""
        try:
            said, _ = self._process.communicate(timeout=6 * seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return "cut off"
        return (said.decode().splitlines() or ["the attacker failed"])[-1]


@contextmanager
def attacker(row: Row, it: Target, under: Conditions, errors: int | None = None) -> Iterator[Attacking]:
    """One at work; ``errors`` is where its stderr goes, as for a subprocess."""
    arguments = [row.name, it.url, str(under.seconds), str(under.scale)]
    command = [sys.executable, "-m", "tests.attack.attacker", *arguments]
    # Without a buffer, so that what it says soon after its beginning is not read with that, and lost.
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
    """After so many seconds a new client asks something; milliseconds until it was answered."""
    time.sleep(seconds)
    peer, began = Peer(it.url), time.monotonic()
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
