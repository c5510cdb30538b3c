"""Walk over an open network: five machines, each a network namespace of this one, and what each of them is told.

    python -m tests.walk        print each command, what it printed, and its exit status; 1 if one was not expected

    daemon 192.0.2.1 ──┐
    fetcher       .2 ──┤
    processor     .3 ──┼── bridge
    operator      .4 ──┤
    stranger      .5 ──┘

It needs Linux with `ip` and `unshare`, and either root or user namespaces that users may make. Nothing is left behind:
the namespaces end with their processes, and all files are in a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]
INSIDE: Final = "--inside"
"""Argument of the process that has a network namespace of its own."""
MACHINES: Final = ("daemon", "fetcher", "processor", "operator", "stranger")
URL: Final = "tcp://192.0.2.1:7400"
REFUSED: Final = 77
WAIT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.1

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


class Machine:
    """Network namespace with an address and a folder."""

    def __init__(self, name: str, number: int, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.address = f"192.0.2.{number}"
        self.folder = folder / name
        self.folder.mkdir()
        self.variables: dict[str, str] = {}
        holder = stack.enter_context(running(["unshare", "--net", "sleep", "infinity"]))
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            time.sleep(LOOK_SECONDS)
        self._enter = ["nsenter", "--net", "--target", str(holder.pid)]
        for command in (
            f"ip link add tq{number} type veth peer name eth0 netns {holder.pid}",
            f"ip link set tq{number} master bridge up",
        ):
            subprocess.run(command.split(), check=True)
        for command in ("ip link set lo up", f"ip address add {self.address}/24 dev eth0", "ip link set eth0 up"):
            subprocess.run([*self._enter, *command.split()], check=True)

    def command(self, *words: str) -> list[str]:
        """Make a command that runs on this machine."""
        program = [sys.executable, "-m", *words] if words[0] == "taskqueue" else [sys.executable, *words]
        return [*self._enter, *program]

    def environment(self) -> dict[str, str]:
        """Variables of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKQUEUE_")}
        limits = {"TASKQUEUE_DAEMON": URL, "TASKQUEUE_TIMEOUT": "10s", "PYTHONPATH": str(ROOT)}
        return kept | limits | self.variables

    def log(self, name: str) -> str:
        """Output of a process in the background so far."""
        return (self.folder / name).read_text()


class Walk:
    """Walk with its transcript.

    Attributes:
        unexpected: commands whose exit status was not the expected one.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.unexpected: list[str] = []
        self._stack = stack
        for command in ("ip link add bridge type bridge", "ip link set bridge up", "ip link set lo up"):
            subprocess.run(command.split(), check=True)
        machines = [Machine(name, number, folder, stack) for number, name in enumerate(MACHINES, start=1)]
        self.daemon, self.fetcher, self.processor, self.operator, self.stranger = machines

    def run(self, at: Machine, *words: str, status: int = 0, why: str = "") -> str:
        """Run a command on a machine, print it with what it said, and return its stdout."""
        shown = "python report.py TASK" if words[0] == "-c" else " ".join(words)
        said = self._said(at, words)
        print(f"\n[{at.name} {at.address}] {why}\n$ {shown}")
        for line in (said.stdout + said.stderr).splitlines():
            print(f"    {line}")
        print(f"    → status {said.returncode}", flush=True)
        if said.returncode != status:
            self.unexpected.append(f"{shown}: {said.returncode} instead of {status}")
        return said.stdout.strip()

    def await_output(self, at: Machine, text: str, *words: str, why: str) -> None:
        """Run a command until it prints a text, and then as ``run`` does."""
        until = time.monotonic() + WAIT_SECONDS
        while text not in self._said(at, words).stdout and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        if text not in self.run(at, *words, why=why):
            self.unexpected.append(f"{' '.join(words)}: no {text}")

    def _said(self, at: Machine, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            at.command(*words), cwd=at.folder, env=at.environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def begin(self, at: Machine, log: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a command in the background."""
        print(f"\n[{at.name} {at.address}] in the background\n$ {' '.join(words)}", flush=True)
        with (at.folder / log).open("w") as out:
            command = running(at.command(*words), cwd=at.folder, env=at.environment(), stdout=out, stderr=out)
            return self._stack.enter_context(command)

    def await_log(self, at: Machine, log: str, text: str) -> None:
        """Wait for a text in the output of a process, and print its lines with that text."""
        until = time.monotonic() + WAIT_SECONDS
        while text not in at.log(log):
            if time.monotonic() > until:
                raise SystemExit(f"{text!r} did not come:\n{at.log(log)}")
            time.sleep(LOOK_SECONDS)
        self.show_log(at, log, text)

    def show_log(self, at: Machine, log: str, *texts: str) -> None:
        """Print the lines of a log with one of these texts."""
        print(f"\n[{at.name} {at.address}] {log}")
        for line in at.log(log).splitlines():
            if any(text in line for text in texts):
                print(f"    {line}", flush=True)

    def new_key(self, at: Machine, name: str, server: str, *authorise: str) -> str:
        """Make a key on a machine, and let it in if there are options for that; return the public half."""
        public = self.run(at, "taskqueue", "key", "generate", name, "--server", server, why="a key").split()[-1]
        if authorise:
            self.run(self.daemon, "taskqueue", "key", "authorise", name, public, *authorise, why="lets it in")
            at.variables["TASKQUEUE_KEY"] = f"{name}.key"
        return public


@contextmanager
def running(command: Sequence[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the end of the block."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def walk(it: Walk) -> None:
    """Walk from a daemon without keys to a key that was revoked and let in again."""
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


def work(it: Walk) -> None:
    """Fetch on one machine and process on another, with two keys."""
    it.run(it.daemon, "taskqueue", "project", "start", "news", why="local.key is an admin's")
    it.run(it.operator, "taskqueue", "push", "news", "http://site/1", why="an operator pushes")
    (it.fetcher.folder / "handlers.py").write_text(HANDLERS)
    fetched = it.begin(it.fetcher, "fetched", "taskqueue", "work", "handlers:pass_on", "news", "--max-tasks", "1")
    fetched.wait(WAIT_SECONDS)
    task = next(line for line in it.fetcher.log("fetched").splitlines() if set(line) <= set("0123456789abcdef"))
    it.run(it.processor, "-c", REPORT, task, why="another key reports the fetcher's task")
    it.run(it.operator, "taskqueue", "status", why="one task is done, its link is ready")
    it.run(it.fetcher, "taskqueue", "project", "pause", "news", status=1, why="a fetcher may not pause")
    it.run(it.operator, "taskqueue", "project", "pause", "news", why="an operator may")
    it.run(it.operator, "taskqueue", "project", "resume", "news", why="and resume")
    it.run(it.operator, "taskqueue", "project", "set", "news", "rate=5", status=REFUSED, why="settings are an admin's")


def strangers(it: Walk, server: str) -> None:
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


def other_daemon(it: Walk) -> str:
    """Make the pair of another daemon; return its public key."""
    return it.run(it.stranger, "taskqueue", "key", "server", why="the public key of another daemon").split()[-1]


def revoked(it: Walk, server: str) -> None:
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


def main() -> int:
    """Make a network of this process's own, and walk."""
    if INSIDE not in sys.argv:
        kind = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
        return subprocess.call(["unshare", *kind, sys.executable, "-m", "tests.walk", INSIDE], cwd=ROOT)
    with TemporaryDirectory(prefix="taskqueue-walk-") as folder, ExitStack() as stack:
        it = Walk(Path(folder), stack)
        walk(it)
    print("\n" + ("\n".join(it.unexpected) or "each command ended as expected"))
    return 1 if it.unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
