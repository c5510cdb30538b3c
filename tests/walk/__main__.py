"""Walk over an open network: five machines, and what each of them is told.

python -m tests.walk        print each command, what it printed, and its exit status; 1 if one was not expected

daemon 192.0.2.1 ──┐
fetcher       .2 ──┤
processor     .3 ──┼── bridge
operator      .4 ──┤
stranger      .5 ──┘
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.walk.machines import REFUSED, WAIT_SECONDS, Walk, begin

MACHINES: Final = ("daemon", "fetcher", "processor", "operator", "stranger")

CONFIG: Final = """\
[daemon]
bind = "tcp://192.0.2.1:7400"
{keys}
[store]
path = "store"
"""

HANDLERS: Final = """\
import time
from taskqueue import PassedOn

def pass_on(task):
    print(task.to_bytes().hex(), flush=True)
    raise PassedOn

def hang(task):
    time.sleep(3600)
"""
REPORT: Final = (
    "import sys; from taskqueue import Client, Task\n"
    "with Client() as client:\n"
    "    print(client.done(Task.from_bytes(bytes.fromhex(sys.argv[1])), new=['http://site/2']))"
)


class OpenNetwork(Walk):
    """Walk over an open network."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(MACHINES, folder, stack)
        _, self.fetcher, self.processor, self.operator, self.stranger = self.machines


def walk(folder: Path, stack: ExitStack) -> Walk:
    """Walk from a daemon without keys to a key that was revoked and let in again."""
    it = OpenNetwork(folder, stack)
    config = it.daemon.folder / "taskqueue.toml"
    config.write_text(CONFIG.format(keys=""))
    start = ("taskqueue", "daemon", "start", "-c", "taskqueue.toml")
    it.run(it.daemon, *start, status=2, why="without keys, beyond loopback")

    config.write_text(CONFIG.format(keys='keys = "data/access.json"'))
    server = it.run(it.daemon, "taskqueue", "key", "server", why="its public key").split()[-1]
    it.begin(it.daemon, "log", *start)
    it.await_log(it.daemon, "log", "listens on")
    it.new_key(it.fetcher, "web1", server, "--role", "fetcher", "--projects", "news*")
    it.new_key(it.processor, "parser1", server, "--role", "fetcher", "--projects", "news*")
    it.new_key(it.operator, "ops", server, "--role", "operator")
    it.run(it.daemon, "taskqueue", "key", "list", why="who may come in")

    work(it)
    strangers(it, server)
    revoked(it, server)
    it.show_log(it.daemon, "log", "key-", "keys-", "connections-")
    return it


def work(it: OpenNetwork) -> None:
    """Fetch on one machine and process on another, with two keys."""
    it.run(it.daemon, "taskqueue", "project", "start", "news", why="local.key is an admin's")
    it.run(it.operator, "taskqueue", "push", "news", "http://site/1", why="an operator pushes")
    (it.fetcher.folder / "handlers.py").write_text(HANDLERS)
    fetched = it.begin(it.fetcher, "fetched", "taskqueue", "work", "handlers:pass_on", "news", "--max-tasks", "1")
    fetched.wait(WAIT_SECONDS)
    task = next(line for line in it.fetcher.log("fetched").splitlines() if set(line) <= set("0123456789abcdef"))
    it.run(it.processor, "-c", REPORT, task, why="another key reports the fetcher's task")
    it.run(it.operator, "taskqueue", "status", why="one task is done, its link is ready")
    it.run(it.fetcher, "taskqueue", "project", "pause", "news", status=REFUSED, why="a fetcher may not pause")
    it.run(it.operator, "taskqueue", "project", "pause", "news", why="an operator may")
    it.run(it.operator, "taskqueue", "project", "resume", "news", why="and resume")
    it.run(it.operator, "taskqueue", "project", "set", "news", "rate=5", status=REFUSED, why="settings are an admin's")


def strangers(it: OpenNetwork, server: str) -> None:
    """Try to come in without a key, with an unknown one, and to the wrong daemon."""
    other, status = it.stranger, ("taskqueue", "status")
    it.run(other, *status, status=REFUSED, why="no key")
    it.new_key(other, "ben", server)
    it.run(other, *status, "--key", "ben.key", status=REFUSED, why="a key that the daemon does not know")
    it.new_key(other, "eve", other_daemon(it))
    it.run(other, *status, "--key", "eve.key", status=REFUSED, why="a key of another daemon's clients")
    it.run(other, *status, "--key", "ben.key", "--daemon", "tcp://192.0.2.1:7401", status=1, why="the wrong port")
    it.begin(other, "keyless", "taskqueue", "daemon", "start", "--bind", "tcp://127.0.0.1:7400", "--store", "store")
    it.await_log(other, "keyless", "listens on")
    here = ("--daemon", "tcp://127.0.0.1:7400")
    it.run(other, *status, "--key", "ben.key", *here, status=REFUSED, why="a key, at a daemon without keys")
    (other.folder / "ben.key").chmod(0o644)
    it.run(other, *status, "--key", "ben.key", status=1, why="a key file that others may read")


def other_daemon(it: OpenNetwork) -> str:
    """Make the pair of another daemon; return its public key."""
    return it.run(it.stranger, "taskqueue", "key", "server", why="the public key of another daemon").split()[-1]


def revoked(it: OpenNetwork, server: str) -> None:
    """Revoke the key of a fetcher that holds a task, and let another key of the same name in."""
    it.begin(it.fetcher, "worker", "taskqueue", "work", "handlers:hang", "news", "-j", "1")
    it.await_output(it.operator, "1/1", "taskqueue", "fetcher", "list", why="the fetcher holds the task")
    it.run(it.daemon, "taskqueue", "key", "revoke", "web1", why="the key is stolen")
    it.await_log(it.daemon, "log", "key-revoked")
    it.run(it.operator, "taskqueue", "task", "list", "news", "--state", "ready", why="the task went back")
    it.run(it.fetcher, "taskqueue", "status", status=REFUSED, why="the revoked key")
    it.await_log(it.fetcher, "worker", "authorise")
    it.new_key(it.fetcher, "web2", server, "--role", "fetcher")
    it.run(it.fetcher, "taskqueue", "status", why="another key")


if __name__ == "__main__":
    sys.exit(begin("tests.walk", walk))
