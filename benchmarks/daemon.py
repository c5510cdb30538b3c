"""A real daemon for benchmarks, and peers that speak the protocol and do nothing else.

    with Daemon('[store]\\ndurability = "interval"\\n[projects.bench]\\nrate = inf\\n', core="0") as daemon:
        with Peer(daemon.address, "producer") as peer:
            peer.send(...)
        daemon.cpu_seconds(), daemon.rss_bytes(), daemon.status()

It listens on a free loopback port and keeps everything in a temporary folder, which is deleted with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import zmq

from benchmarks import processes
from taskqueue.access.key_file import LOCAL_KEY, read_key
from taskqueue.client.connection.connection import present_key
from taskqueue.protocol.codec import decode_outgoing, encode
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.messages import AnyRequest

SILENT_MS: Final = 60_000
"""Silence after which a peer raises ``zmq.Again``: a benchmark that goes wrong must end."""


class Daemon:
    """Process of ``taskqueue daemon start``.

    Args:
        config_text: text of its config file; ``bind``, ``log_level`` and ``path`` of the store may be left out.
        core: cores that it runs on, such as "0"; empty: any.
        python: interpreter of another build, which imports what is installed there; empty: this one.
        store: url of a database that is its store; empty: a folder.
        has_keys: it takes only clients with a key.

    Attributes:
        url: where the daemon listens, the same after restarts.
        folder: folder of its config file, ``log``, ``store`` and keys.
        access_file: its access file, which need not exist; None without keys.
        address: of the daemon, for ``Peer``.
    """

    def __init__(
        self, config_text: str, core: str = "0", python: str = "", store: str = "", has_keys: bool = False
    ) -> None:
        self.url = f"tcp://127.0.0.1:{processes.free_port()}"
        self._core = core
        self._python = [python, "-I"] if python else [sys.executable]
        self._store = store
        self._folder = tempfile.TemporaryDirectory(prefix="taskqueue-bench-")
        self.folder = Path(self._folder.name)
        self.access_file = self.folder / "access.json" if has_keys else None
        self.address = f"{self.url} {self.folder / LOCAL_KEY}" if has_keys else self.url
        (self.folder / "taskqueue.toml").write_text(config_text)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """Pid of the running process."""
        assert self._process is not None, "the daemon was not started"
        return self._process.pid

    def start(self) -> None:
        """Start the process without waiting; ``status`` waits until the daemon answers."""
        command = [
            *self._python,
            "-m",
            "taskqueue.cli.main",
            "daemon",
            "start",
            "-c",
            str(self.folder / "taskqueue.toml"),
        ]
        options = ["--bind", self.url, "--store", self._store or str(self.folder / "store")]
        environment = {"TASKQUEUE_DAEMON_KEYS": str(self.access_file)} if self.access_file else {}
        with (self.folder / "log").open("ab") as log:
            self._process = processes.start([*command, *options], self._core, log, environment)

    def stop(self) -> None:
        """Stop the daemon in order, with SIGTERM."""
        if self._process is not None:
            processes.stop(self._process)
            self._process = None

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def cpu_seconds(self) -> float:
        """CPU time of all its threads since its start."""
        return processes.cpu_seconds(self.pid)

    def rss_bytes(self) -> int:
        """Resident memory."""
        return processes.rss_bytes(self.pid)

    def disk_bytes(self) -> int:
        """Size of its store on disk."""
        return processes.disk_bytes(self.folder / "store")

    def wait(self) -> None:
        """Wait until the daemon listens: a ZeroMQ socket would try again every 100 ms only.

        Raises:
            SystemExit: it has ended instead.
        """
        if self._process is None:
            raise SystemExit("the daemon was not started")
        try:
            processes.wait_until_it_listens(self._process, urlsplit(self.url).port or 0)
        except SystemExit as error:
            raise SystemExit(f"{error}: {self.log()[-2000:]}") from None

    def status(self) -> StatusReply:
        """Fetch the status; waits until the daemon answers."""
        self.wait()
        with Peer(self.address, f"status-{os.urandom(8).hex()}") as peer:
            return peer.status()

    def log(self) -> str:
        """Output of the daemon so far."""
        return (self.folder / "log").read_text()


class Peer:
    """Session that speaks the protocol over one DEALER.

    Args:
        address: url of the daemon; if it has keys, a space and the path of a key file behind it; empty: the caller
            connects it later.
        session: its name; use a new one each time, because its requests are numbered from 1.
    """

    def __init__(self, address: str, session: str) -> None:
        self.session = session
        self.n = 0
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, SILENT_MS)
        if address:
            self.socket.connect(self.present_key(address))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def present_key(self, address: str) -> str:
        """Present the key of an address, if it has one; return the url to connect to."""
        url, _, key = address.partition(" ")
        if key:
            present_key(self.socket, read_key(Path(key)))
        return url

    def number(self) -> int:
        """Number of the next request."""
        self.n += 1
        return self.n

    def send(self, request: AnyRequest) -> None:
        """Send a request."""
        self.socket.send(encode(request))

    def receive(self) -> Any:
        """Return the next message."""
        return decode_outgoing(self.socket.recv())

    def status(self) -> StatusReply:
        """Fetch the daemon's status; waits until it listens."""
        self.send(StatusShow(session=self.session, n=self.number()))
        reply = self.receive()
        assert isinstance(reply, StatusReply)
        return reply
