"""Server process of another project, in a temporary folder on a free loopback port, and a socket for pipelining."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks import processes

START_SECONDS: Final = 120.0
CHUNK_BYTES: Final = 1 << 18


def not_on_path(command: str) -> str:
    """Return why a command can't be started; empty if it can."""
    return "" if shutil.which(command) else f"the command {command} is not on PATH"


class Service:
    """Server process.

    Args:
        command: its command, in which {port} and {folder} are replaced.
        core: cores that it runs on; empty: any.

    Attributes:
        address: host:port.
        end_signal: signal that ends it.
    """

    end_signal = signal.SIGKILL

    def __init__(self, command: Sequence[str], core: str) -> None:
        self._command = command
        self._core = core
        self.port = processes.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = tempfile.TemporaryDirectory(prefix="taskqueue-bench-")
        self.folder = Path(self._folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [part.format(port=self.port, folder=self.folder) for part in self._command]
        with (self.folder / "log").open("wb") as log:
            self._process = processes.start(command, self._core, log)
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.send_signal(self.end_signal)
        self._process.wait()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """Pid of the running process."""
        assert self._process is not None
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU time used since its start."""
        return processes.cpu_seconds(self.pid)

    def meters(self) -> dict[str, float]:
        """Return no meters."""
        return {}

    def listens(self) -> bool:
        """Whether it accepts connections."""
        try:
            connect(self.address).close()
        except OSError:
            return False
        return True

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.listens():
                return
            time.sleep(0.01)
        raise SystemExit(f"{self._command[0]} does not listen: {(self.folder / 'log').read_text()}")


def connect(address: str) -> socket.socket:
    """Connect without delayed sending."""
    host, _, port = address.rpartition(":")
    made = socket.create_connection((host, int(port)))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
