"""The daemon that is attacked: a real ``taskqueue daemon start`` with a store and a port of its own.

A watch looks at its memory all the time, and kills it before it takes the machine's.
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

from tests.attack.polite import PROJECT

LOOK_SECONDS: Final = 0.02
"""Between two looks at its memory."""
MIB: Final = 1 << 20
ADDRESS_SPACE_BYTES: Final = 12 << 30
"""The system refuses it more, should the watch be too slow."""
STOP_SECONDS: Final = 10.0
"""How long a SIGTERM may take to be heard before that counts as never."""

CONFIG: Final = """\
[daemon]
bind = "tcp://127.0.0.1:*"
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
    """A running daemon.

    Attributes:
        url: where it listens.
        peak_bytes: the most memory that it had so far.
        least_free_bytes: of the disk of its store.
        killed: the watch had to kill it.
    """

    def __init__(self, process: subprocess.Popen[str], url: str, kill_above: int, folder: Path) -> None:
        self.process = process
        self.url = url
        self.peak_bytes = 0
        self.least_free_bytes = 1 << 62
        self.killed = False
        self._folder = folder
        self._kill_above = kill_above
        self._end = Event()
        self._watch = Thread(target=self._look_again, daemon=True)
        self._watch.start()

    def memory(self) -> int:
        """Bytes that it has in memory now; 0: it is gone."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)

    def comes_below(self, memory: int, seconds: float) -> bool:
        """Wait until it has less than so many bytes in memory; False: it still has more after so many seconds."""
        until = time.monotonic() + seconds
        while self.memory() >= memory and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        return self.memory() < memory

    def alive(self) -> bool:
        """It runs."""
        return self.process.poll() is None

    def stop(self) -> float | None:
        """SIGTERM; seconds until it had ended. None: it had not after STOP_SECONDS and was killed, or was gone."""
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
        """Kill it if it still runs."""
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
) -> Iterator[Target]:
    """A started daemon, in a folder that goes when it goes.

    Args:
        python: runs the daemon, with the ``taskqueue`` that is installed for it.
        kill_above: bytes of memory at which it is killed.
        files: that it may open at first; 0: as many as this process.
        hard: it can't raise that.
        folder: that its own is made in; None: where temporary files are.
        settings: lines of its config, of [store] or with their sections.
        start: starts the process.
    """
    with TemporaryDirectory(prefix="taskqueue-attack-", dir=folder) as made:
        config = Path(made) / "taskqueue.toml"
        config.write_text(CONFIG.format(store=Path(made) / "store", project=PROJECT, settings=settings))
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
        it = Target(process, said.split(" listens on ")[1].split(",")[0], kill_above, Path(made))
        try:
            yield it
        finally:
            it.close()
