"""Real daemons, and peers that speak the protocol with plain zmq and msgpack.

daemon()                    a started daemon on a free loopback port with a store of its own
daemon(durability=...)      settings of [daemon], [store], [limits] and [advanced] by their names; projects={...}
it.kill() it.start()        kill -9, and start again on the same port and store
it.hangup() it.stop()       SIGHUP; SIGTERM, which returns the exit code
peer(it)                    a DEALER of a session of its own: ask(), receive()
authorise(name, role)       a key that a daemon with keys lets in
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgpack
import pytest
import zmq

from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, make_key, server_key
from taskqueue.client.connection.connection import present_key
from taskqueue.protocol.callers import Role
from taskqueue.store.postgres.postgres_snapshot import DatabaseSnapshot
from taskqueue.store.postgres.session import Target, target_of
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from tests.faults.shim import Shim, build
from tests.integration.nursery import WAIT_SECONDS as WAIT_SECONDS
from tests.integration.nursery import Forked
from tests.postgres import QUICK, Cluster, drop_schema, new_target, postgres_url

STORE: Final = os.environ.get("TASKQUEUE_TEST_STORE", "folder")
"""Kind of store of daemons whose test names none; with ``postgres``, tests run on a database, more than are made for
it."""

ROOT = Path(__file__).parents[2]

ENTRY = "import sys; from taskqueue.server.main import run; sys.exit(run(sys.argv[1]))"

NOTHING_SAID: Final[Mapping[str, str]] = MappingProxyType({})

SECTION_OF = {
    "bind": "daemon", "web": "daemon", "max_message": "daemon", "log_level": "daemon", "auto_create": "daemon",
    "keys": "daemon", "insecure": "daemon", "ipc_role": "daemon", "ipc_group": "daemon",
    "fetcher_timeout": "daemon", "session_timeout": "daemon", "max_sessions": "daemon",
    "path": "store", "durability": "store", "handout": "store", "cache": "store", "min_free": "store",
    "url": "store", "schema": "store", "timeout": "store",
    "memory": "limits", "max_leases": "limits", "max_projects": "limits",
    "head_tasks": "advanced", "head_bytes": "advanced", "turn_tasks": "advanced", "select_bytes": "advanced",
    "queue_bytes": "advanced",
}  # fmt: skip

Message = dict[str, Any]


class Daemon:
    """Daemon in a process of its own.

    Attributes:
        url: address that it listens on; survives restarts.
        binds: addresses to listen on instead; empty: ``url``.
        urls: all addresses that it listens on.
        config_file, log_file, store_path: its files, in a private folder.
        started_with: line that it printed at its last start.
        process: current or last process.
        entry: module that it runs; its argument is the config file.
        environment: variables besides those of the tests.
        is_forked: True if the process is forked with modules imported; False if a new Python starts.
    """

    def __init__(
        self, folder: Path, *, entry: str = ENTRY, environment: Mapping[str, str] = NOTHING_SAID,
        is_forked: bool = True, **settings: Any,
    ) -> None:  # fmt: skip
        self.entry = entry
        self.environment = environment
        self.is_forked = is_forked
        self.config_file = folder / "taskqueue.toml"
        self.log_file = folder / "stderr"
        self.store_path = Path(settings.get("path", folder / "data"))
        self.url = "tcp://127.0.0.1:*"
        self.binds: list[str] = []
        self.urls: list[str] = []
        self.started_with = ""
        self.process: subprocess.Popen[str] | None = None
        self._settings: dict[str, Any] = {"path": str(self.store_path), "auto_create": True} | settings
        self._peers: list[Peer] = []

    def start(self) -> Daemon:
        """Start the process, and wait until the daemon serves."""
        self.launch()
        return self.serving()

    def launch(self) -> None:
        """Start the process without waiting."""
        self.configure(bind=self.binds or self.url)
        variables = {**os.environ, **self.environment}
        command = [sys.executable, "-c", self.entry, str(self.config_file)]
        begin: type[subprocess.Popen[str]] = Forked if self.is_forked else subprocess.Popen
        with self.log_file.open("a") as log:
            self.process = begin(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)

    def serving(self) -> Daemon:
        """Wait until the daemon serves."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.started_with = self.process.stdout.readline()
        assert " listens on " in self.started_with, self.log()
        self.urls = self.started_with.split(" listens on ")[1].split(",")[0].split(" and ")
        self.url = self.urls[0]
        return self

    def configure(self, **settings: Any) -> None:
        """Write the config file; earlier settings stay, and None removes one."""
        self._settings |= settings
        lines = []
        for section in ("daemon", "store", "limits", "advanced"):
            lines.append(f"[{section}]")
            lines += [_line(key, value) for key, value in self._settings.items() if SECTION_OF.get(key) == section]
        lines += ["[defaults]", *_lines({"rate": float("inf")} | self._settings.get("defaults", {}))]
        for name, layer in self._settings.get("projects", {}).items():
            lines += [f'[projects."{name}"]', *_lines(layer)]
        for name, layer in self._settings.get("buckets", {}).items():
            lines += [f'[buckets."{name}"]', *_lines(layer)]
        self.config_file.write_text("\n".join(lines) + "\n")

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """Stop the daemon with a signal; return its exit code."""
        return self._end(with_signal)

    def ended(self) -> int:
        """Wait until the daemon ends by itself; return its exit code."""
        assert self.process is not None
        assert self.process.stdout is not None
        code = self.process.wait(WAIT_SECONDS)
        self.process.stdout.close()
        return code

    def hangup(self) -> None:
        """Make the daemon read its config file again; its log says when it has (``wait_for_log``)."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def log(self) -> str:
        """All stderr of the daemon since its first start."""
        return self.log_file.read_text()

    def wait_for_log(self, text: str) -> str:
        """Wait for a line of the daemon log with this text; return the first."""
        assert self.process is not None
        command = ["timeout", str(WAIT_SECONDS), "tail", "-n", "+1", "-F", str(self.log_file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tail:
            assert tail.stdout is not None
            line = next((line for line in tail.stdout if text in line), "")
            tail.kill()
        assert line, f"{text!r} is not in the log:\n{self.log()}"
        return line

    def reader(self) -> ReadOnlyStore | DatabaseSnapshot:
        """Open a read-only view of the store as it is now."""
        if self._settings.get("url"):
            return DatabaseSnapshot(target_of(self._settings["url"], self._settings["schema"]))
        return ReadOnlyStore(str(self.store_path))

    def cpu_seconds(self) -> float:
        """CPU time used so far, in user and system mode."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _end(self, with_signal: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(with_signal)
        return self.ended()


class Peer:
    """DEALER socket with a session of its own.

    Attributes:
        aside: messages that arrived while the peer waited for another one.
        seen: number of the last ``select`` that ``receive`` returned.
    """

    def __init__(
        self, url: str, session: str | None = None, routing_id: bytes = b"", key: KeyFile | None = None
    ) -> None:
        self.session = session or uuid.uuid4().hex
        self.n = self.seen = 0
        self.aside: list[Message] = []
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        for direction in (zmq.RCVTIMEO, zmq.SNDTIMEO):
            self.socket.setsockopt(direction, WAIT_SECONDS * 1000)
        if routing_id:
            self.socket.setsockopt(zmq.ROUTING_ID, routing_id)
        if key is not None:
            present_key(self.socket, key)
        self.socket.connect(url)

    def send(self, kind: str, **fields: Any) -> int:
        """Send a request and return its number."""
        self.n += 1
        request = {"type": kind, "v": 1, "session": self.session, "n": self.n} | fields
        self.send_raw(msgpack.packb(request))
        return self.n

    def send_raw(self, *frames: bytes) -> None:
        """Send any frames."""
        self.socket.send_multipart(frames)

    def receive(self) -> Message:
        """Return the next message."""
        message = self.aside.pop(0) if self.aside else self._receive()
        if message["type"] == "select":
            self.seen = message["number"]
        return message

    def has_message(self, milliseconds: int) -> bool:
        """Whether a message is there, or comes within ``milliseconds``."""
        return bool(self.aside or self.socket.poll(milliseconds))

    def ask(self, kind: str, **fields: Any) -> Message:
        """Send a request and return its answer; other messages are put aside."""
        n = self.send(kind, **fields)
        while (message := self._receive()).get("n") != n:
            self.aside.append(message)
        return message

    def push(self, project: str, *taskids: str, **schedule: Any) -> list[str]:
        """Push tasks with these taskids and return their outcomes."""
        tasks = [{"taskid": each, "url": f"http://site/{each}", "schedule": schedule} for each in taskids]
        return list(self.ask("new-task", project=project, tasks=tasks)["outcomes"])

    def shell(self) -> dict[str, float]:
        """Fetch the daemon's counters."""
        return dict(self.ask("status")["shell"])

    def close(self) -> None:
        """Disconnect without a ``bye``."""
        self.socket.close()

    def _receive(self) -> Message:
        return dict(msgpack.unpackb(self.socket.recv()))


DaemonFactory = Callable[..., Daemon]
PeerFactory = Callable[..., Peer]


@pytest.fixture
def target() -> Iterator[Target]:
    """Private schema in the shared database."""
    found = new_target()
    yield found
    drop_schema(found)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Database cluster behind ``server``."""
    made = Cluster(*QUICK)
    yield made
    made.stop()


@pytest.fixture
def server(shared_cluster: Cluster) -> Cluster:
    """Empty database server that the test may kill."""
    shared_cluster.clear()
    return shared_cluster


@pytest.fixture
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonFactory]:
    """Start a daemon, or make one to ``launch``; daemons still running at the end of the test are killed."""
    with ExitStack() as stack:

        def make(*, start: bool = True, **settings: Any) -> Daemon:
            if getattr(request, "param", STORE) == "postgres":
                target = new_target()
                stack.callback(drop_schema, target)
                settings = {"url": postgres_url(), "schema": target.schema} | settings
            it = Daemon(tmp_path_factory.mktemp("daemon"), **settings)
            stack.callback(lambda: it.kill() if it.process and it.process.poll() is None else None)
            return it.start() if start else it

        yield make


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Library that ``Shim`` preloads; a test that needs it fails without a C compiler."""
    return build(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Shim:
    """Shim for a daemon started with its ``environment`` and ``path=str(shim.store)``."""
    return Shim(shim_library, tmp_path, tmp_path / "data")


@pytest.fixture
def peer() -> Iterator[PeerFactory]:
    """Connect a peer to a daemon, or to an address."""
    with ExitStack() as stack:

        def connect(
            to: Daemon | str, session: str | None = None, routing_id: bytes = b"", key: KeyFile | None = None
        ) -> Peer:
            it = Peer(to if isinstance(to, str) else to.url, session, routing_id, key)
            stack.callback(it.close)
            return it

        yield connect


Authorise = Callable[..., KeyFile]


def authorised(folder: Path, name: str, role: Role = "admin", *projects: str) -> KeyFile:
    """Make a key of a name, and let it in at the daemon whose access file is in this folder.

    Args:
        projects: patterns of the projects that it reaches; none: all.
    """
    made = make_key(name, server_key(folder).public)
    access_file.authorise(folder / "access.json", name, made.public, role, projects=projects or ("*",))
    return made


@pytest.fixture
def authorise(tmp_path: Path) -> Authorise:
    """Make keys, and let them in at the daemon whose access file is in the test's folder: see ``authorised``."""
    return partial(authorised, tmp_path)


def _lines(layer: dict[str, Any]) -> list[str]:
    return [_line(key, value) for key, value in layer.items()]


def _line(key: str, value: Any) -> str:
    return f"{key} = {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_shown(part)}" for key, part in value.items()) + "}"
    return "inf" if value == float("inf") else json.dumps(value)
