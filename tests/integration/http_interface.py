"""Web process beside a real daemon, asked over a socket."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from taskqueue import Client
from taskqueue.access import access_file
from taskqueue.access.key_file import LOCAL_KEY, KeyFile, write_new_key
from taskqueue.protocol.callers import Role
from tests.integration.conftest import ROOT, WAIT_SECONDS, Daemon, authorised
from tests.integration.nursery import Forked


class Web:
    """Web process.

    Attributes:
        address: address that it listens on.
        api: client of its HTTP interface, by paths below /api/v1.
    """

    def __init__(self, daemon_url: str, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "taskqueue", "web", "start", "--daemon", daemon_url, "--bind", "127.0.0.1:0"]
        self.process = Forked[str](
            command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        assert self.process.stderr is not None
        self.address = self.process.stderr.readline().split()[0].rstrip("/")
        self.api = httpx.Client(base_url=f"{self.address}/api/v1", timeout=WAIT_SECONDS)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request; a body is sent as JSON."""
        return self.api.request(method, path, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def got(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """Return the decoded answer, asserting its status."""
        answer = self.ask(method, path, body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.api.close()
        self.process.kill()
        self.process.communicate()


@contextmanager
def web_of(daemon: Daemon) -> Iterator[Web]:
    """Run a web process of this daemon."""
    web = Web(daemon.url)
    try:
        yield web
    finally:
        web.kill()


class Keyed:
    """A daemon with keys, and web processes of their own.

    Attributes:
        path: access file.
    """

    def __init__(self, made: Daemon, folder: Path) -> None:
        self.daemon = made
        self.path = folder / "access.json"
        self._folder = folder
        made.configure(keys=str(self.path))

    def key(self, name: str, role: Role) -> KeyFile:
        """Authorise a key."""
        return authorised(self._folder, name, role)

    def key_file(self, name: str, role: Role) -> Path:
        """Authorise a key, and write its file."""
        path = self._folder / f"{name}.key"
        write_new_key(path, self.key(name, role))
        return path

    def token(self, name: str = "anna", role: Role = "viewer") -> str:
        """Authorise a token; a daemon that runs knows it afterwards."""
        token = access_file.authorise_token(self.path, name, role)
        if self.daemon.process is not None:
            with Client(self.daemon.url, key=self._folder / LOCAL_KEY, timeout=WAIT_SECONDS) as local:
                while name not in {use.name for use in local.daemon.key_uses()}:
                    pass
        return token

    @contextmanager
    def web(self, name: str = "web1", **environment: str) -> Iterator[Web]:
        """Run a web process with a key of its own."""
        web = Web(self.daemon.url, {"TASKQUEUE_KEY": str(self.key_file(name, "web")), **environment})
        try:
            yield web
        finally:
            web.kill()
