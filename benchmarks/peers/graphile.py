"""Graphile Worker in the contest: jobs in PostgreSQL, fetched by Node, with its local queue and batched completion.

    push   add_jobs([...])                                          N jobs a call, WINDOW calls at once
    take   a local queue of WINDOW × N jobs, 24 of them at once     one statement each time that it is empty
    done   all that have ended since the last time                  one statement

Options are those with which the project publishes its figures; producer and fetcher are ``graphile.js``. PostgreSQL is
the server that has a core for itself; all else that the package does, it does in the fetcher. The setting is
``synchronous_commit``: ``on`` or ``off``, which may lose what was committed in the last 0.6 s. Nothing is looked up
before a push, nothing is paced, and nothing is known of what is done.

Debian's package ``postgresql`` puts its commands into a folder of its version, where they are looked for; initdb
refuses to be root, so that root lends it the user that the package has made.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from benchmarks import processes
from benchmarks.contest import WINDOW, Load
from benchmarks.peers.service import Service, not_on_path

SCRIPT: Final = Path(__file__).with_suffix(".js")
DEBIAN: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"
AS_USER: Final = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
COMMAND: Final = ["-D", "{folder}/data", "-h", "127.0.0.1", "-p", "{port}", "-k", "{folder}", "-c"]


class Postgres(Service):
    """The server, as a Server."""

    end_signal = signal.SIGQUIT  # at once, but its children first: if it were killed, they would go on for a while

    def __init__(self, setting: str, core: str) -> None:
        super().__init__([*_as_user(), _command("postgres"), *COMMAND, f"synchronous_commit={setting}"], core)
        self.address = f"postgres://{USER}@{self.address}/postgres"

    def __enter__(self) -> Self:
        data = str(self.folder / "data")
        if _as_user():
            shutil.chown(self.folder, USER)
        _run([*_as_user(), _command("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync"])
        super().__enter__()
        node("schema", self.address)
        return self

    def cpu_seconds(self) -> float:
        """See ``Server``. Each connection has a process."""
        return processes.cpu_seconds_with_children(self.pid)

    def check(self, load: Load) -> None:
        """See ``Server``."""
        left = self._psql("select count(*) from graphile_worker.jobs")
        if left != "0":
            raise SystemExit(f"graphile worker has {left} jobs left")

    def listens(self) -> bool:
        ready = subprocess.run([_command("pg_isready"), "-q", "-d", self.address], check=False)
        return ready.returncode == 0

    def _psql(self, statement: str) -> str:
        return _run([_command("psql"), "-At", "-c", statement, self.address]).strip()


def unavailable() -> str:
    """See ``Peer``."""
    if not _command("postgres"):
        return "PostgreSQL is not installed"
    if why := not_on_path("node"):
        return why
    found = subprocess.run(["node", "-e", "require.resolve('graphile-worker')"], check=False, stderr=subprocess.DEVNULL)
    return "the package graphile-worker is not in NODE_PATH" if found.returncode else ""


def serve(setting: str, core: str) -> Postgres:
    """See ``Peer``."""
    return Postgres(setting, core)


def produce(address: str, load: Load) -> dict[str, Any]:
    """See ``Peer``."""
    return node("produce", address, *load, WINDOW)


def fetch(address: str, load: Load) -> dict[str, Any]:
    """See ``Peer``."""
    return node("fetch", address, *load, WINDOW)


def node(*arguments: str | int) -> dict[str, Any]:
    """Run the script; what it says at its end."""
    result: dict[str, Any] = json.loads(_run(["node", str(SCRIPT), *map(str, arguments)]))
    return result


def _run(command: list[str]) -> str:
    """What it prints.

    Raises:
        SystemExit: it failed.
    """
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd="/")
    if ended.returncode:
        raise SystemExit(f"{command!r} failed with {ended.returncode}")
    return ended.stdout.decode()


def _as_user() -> list[str]:
    """What comes before a command that refuses to be root."""
    return [] if os.geteuid() else AS_USER


def _command(name: str) -> str:
    """Where it is: on PATH, or in the folder of the newest version; empty: nowhere."""
    versions = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: float(path.parents[1].name))
    return shutil.which(name) or (str(versions[-1]) if versions else "")
