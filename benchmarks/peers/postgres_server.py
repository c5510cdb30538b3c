"""PostgreSQL server in a temporary folder, on a free loopback port.

Debian's package ``postgresql`` puts its commands into a folder of its version, which is searched. initdb refuses to run
as root, so it runs as the user that the package has made.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from benchmarks import processes
from benchmarks.peers.service import Service

DEBIAN: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"
AS_USER: Final = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
COMMAND: Final = ["-D", "{folder}/data", "-h", "127.0.0.1", "-p", "{port}", "-k", "{folder}"]


class Postgres(Service):
    """Server with its defaults but for the named settings, such as ``shared_buffers=1GB``."""

    end_signal = signal.SIGQUIT  # at once, and its children first: after SIGKILL they would go on for a while

    def __init__(self, settings: Sequence[str], core: str) -> None:
        said = [part for setting in settings for part in ("-c", setting)]
        super().__init__([*_as_user(), _command("postgres"), *COMMAND, *said], core)
        self.address = f"postgres://{USER}@{self.address}/postgres"

    def __enter__(self) -> Self:
        data = str(self.folder / "data")
        if _as_user():
            shutil.chown(self.folder, USER)
        run([*_as_user(), _command("initdb"), "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"])
        return super().__enter__()

    def cpu_seconds(self) -> float:
        """Sum the CPU time of its processes, one per connection."""
        return processes.cpu_seconds_with_children(self.pid)

    def listens(self) -> bool:
        """Whether it accepts connections."""
        ready = subprocess.run([_command("pg_isready"), "-q", "-d", self.address], check=False)
        return ready.returncode == 0

    def ask(self, statement: str) -> str:
        """Run a statement; return its result as text."""
        return run([_command("psql"), "-At", "-c", statement, self.address]).strip()


def unavailable() -> str:
    """Return why it can't be started here; empty if it can."""
    return "" if _command("postgres") else "PostgreSQL is not installed"


def run(command: list[str]) -> str:
    """Run a command; return its output.

    Raises:
        SystemExit: it failed.
    """
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd="/")
    if ended.returncode:
        raise SystemExit(f"{command!r} failed with {ended.returncode}")
    return ended.stdout.decode()


def _as_user() -> list[str]:
    """Return the beginning of a command that refuses to run as root."""
    return [] if os.geteuid() else AS_USER


def _command(name: str) -> str:
    """Find a command on PATH, or in the folder of the newest version; empty if there is none."""
    versions = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: float(path.parents[1].name))
    return shutil.which(name) or (str(versions[-1]) if versions else "")
