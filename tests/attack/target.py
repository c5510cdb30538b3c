"""Target of attacks: a real ``taskqueue daemon start`` with a store and a port of its own.

A watch reads its memory all the time, and kills it before it takes the machine's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Final

from taskqueue.access.key_file import LOCAL_KEY, KeyFile, read_key
from tests.attack.polite import PROJECT

LOOK_SECONDS: Final = 0.02
"""Time between two readings of its memory."""
MIB: Final = 1 << 20
ADDRESS_SPACE_BYTES: Final = 12 << 30
"""Limit of the system, if the watch is too slow."""
STOP_SECONDS: Final = 10.0
"""Time after which a SIGTERM counts as ignored."""

CONFIG: Final = """\
[daemon]
bind = "tcp://127.0.0.1:*"
{daemon}
[store]
path = "{store}"
{settings}
[defaults]
rate = inf
[projects.{project}]
rate = inf
"""

LIMITED: Final = """\
import sys
del sys.path[0]  # this folder, whose taskqueue may be another one
from resource import RLIMIT_AS, RLIMIT_NOFILE, getrlimit, setrlimit
files, is_hard, space, *arguments = sys.argv[1:]
setrlimit(RLIMIT_NOFILE, (int(files), int(files) if is_hard == "True" else getrlimit(RLIMIT_NOFILE)[1]))
setrlimit(RLIMIT_AS, (int(space), int(space)))
from taskqueue.cli.main import main
sys.exit(main(arguments))
"""


class Target:
    """Running daemon.

    Attributes:
        url: address that it listens on.
        peak_bytes: most memory so far.
        least_free_bytes: least free space of its store's disk so far.
        killed: True if the watch had to kill it.
        key: key of clients that it lets in; None if it has no keys.
    """

    def __init__(
        self, process: subprocess.Popen[str], url: str, kill_above: int, folder: Path, key: KeyFile | None = None
    ) -> None:
        self.process = process
        self.url = url
        self.peak_bytes = 0
        self.least_free_bytes = 1 << 62
        self.killed = False
        self.key = key
        self._folder = folder
        self._kill_above = kill_above
        self._end = Event()
        self._watch = Thread(target=self._look_again, daemon=True)
        self._watch.start()

    def memory(self) -> int:
        """Resident memory in bytes; 0 if it has gone."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)

    def comes_below(self, memory: int, seconds: float) -> bool:
        """Wait until it has less than ``memory`` bytes in memory; return False if it has more after ``seconds``."""
        until = time.monotonic() + seconds
        while self.memory() >= memory and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        return self.memory() < memory

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def stop(self) -> float | None:
        """Send SIGTERM; return the seconds until its end, or None if it was killed after STOP_SECONDS, or had gone."""
        if not self.alive():
            return None
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        return time.monotonic() - began

    def close(self) -> None:
        """Kill the process if it still runs."""
        self._end.set()
        self._watch.join()
        if self.alive():
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _look_again(self) -> None:
        while not self._end.wait(LOOK_SECONDS) and self.alive():
            memory = self.memory()
            self.peak_bytes = max(self.peak_bytes, memory)
            disk = os.statvfs(self._folder)
            self.least_free_bytes = min(self.least_free_bytes, disk.f_bavail * disk.f_frsize)
            if memory > self._kill_above:
                self.killed = True
                self.process.kill()


@contextmanager
def target(
    python: str,
    kill_above: int,
    files: int = 0,
    hard: bool = False,
    folder: Path | None = None,
    settings: str = "",
    start: type[subprocess.Popen[str]] = subprocess.Popen,
    *,
    has_keys: bool = False,
) -> Iterator[Target]:
    """Start a daemon, in a folder that is deleted with it.

    Args:
        python: interpreter of the daemon, with its own ``taskqueue``.
        kill_above: bytes of memory at which it is killed.
        files: files that it may open at first; 0: as many as this process.
        hard: True if it can't raise that.
        folder: parent of its folder; None: where temporary files are.
        settings: lines of its config, of [store] or with their sections.
        start: function that starts the process.
        has_keys: it lets in only clients with a key.
    """
    with TemporaryDirectory(prefix="taskqueue-attack-", dir=folder) as made:
        config = Path(made) / "taskqueue.toml"
        keys = f'keys = "{made}/access.json"' if has_keys else ""
        config.write_text(CONFIG.format(daemon=keys, store=Path(made) / "store", project=PROJECT, settings=settings))
        limits = [str(files or os.sysconf("SC_OPEN_MAX")), str(hard), str(ADDRESS_SPACE_BYTES)]
        program = [python, "-c", LIMITED, *limits]
        with (Path(made) / "log").open("w") as log:
            process = start(
                [*program, "daemon", "start", "-c", str(config), "--log-level", "error"],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert process.stdout is not None
        said = process.stdout.readline()
        if " listens on " not in said:
            process.kill()
            process.wait()
            raise SystemExit(f"the daemon of {python} did not start: {said}{(Path(made) / 'log').read_text()}")
        key = read_key(Path(made) / LOCAL_KEY) if has_keys else None
        it = Target(process, said.split(" listens on ")[1].split(",")[0], kill_above, Path(made), key)
        try:
            yield it
        finally:
            it.close()
