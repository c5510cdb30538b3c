"""Machines of a walk: network namespaces of this one, joined by a bridge, and the transcript of what each is told.

Linux with `ip` and `unshare` is needed, and either root or user namespaces that users may make. Nothing is left behind:
the namespaces end with their processes, and all files are in a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]
INSIDE: Final = "--inside"
"""Argument of the process that has a network namespace of its own."""
URL: Final = "tcp://192.0.2.1:7400"
"""Address of the daemon on the first machine."""
REFUSED: Final = 77
WAIT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.1
SHOWN_LINES: Final = 40


class Machine:
    """Network namespace with an address and a folder.

    Attributes:
        python: interpreter of its commands.
        variables: variables of its processes, besides those of this one.
    """

    def __init__(self, name: str, number: int, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.address = f"192.0.2.{number}"
        self.folder = folder / name
        self.folder.mkdir()
        self.python = sys.executable
        self.variables: dict[str, str] = {}
        holder = stack.enter_context(running(["unshare", "--net", "sleep", "infinity"]))
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            time.sleep(LOOK_SECONDS)
        self.enter = ["nsenter", "--net", "--target", str(holder.pid)]
        for command in (
            f"ip link add tq{number} type veth peer name eth0 netns {holder.pid}",
            f"ip link set tq{number} master bridge up",
        ):
            subprocess.run(command.split(), check=True)
        for command in ("ip link set lo up", f"ip address add {self.address}/24 dev eth0", "ip link set eth0 up"):
            subprocess.run([*self.enter, *command.split()], check=True)

    def command(self, *words: str) -> list[str]:
        """Make a command that runs on this machine."""
        program = [self.python, "-m", *words] if words[0] == "taskqueue" else [self.python, *words]
        return [*self.enter, *program]

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

    Args:
        names: names of the machines; the first one has the daemon.

    Attributes:
        machines: machines in the order of their names.
        daemon: the first one.
        unexpected: commands whose exit status was not the expected one.
    """

    def __init__(self, names: Sequence[str], folder: Path, stack: ExitStack) -> None:
        self.unexpected: list[str] = []
        self._stack = stack
        for command in ("ip link add bridge type bridge", "ip link set bridge up", "ip link set lo up"):
            subprocess.run(command.split(), check=True)
        self.machines = [Machine(name, number, folder, stack) for number, name in enumerate(names, start=1)]
        self.daemon = self.machines[0]

    def run(self, at: Machine, *words: str, status: int = 0, why: str = "") -> str:
        """Run a command on a machine, print it with what it said, and return its stdout."""
        shown = shown_as(words)
        said = self._said(at, words)
        print(f"\n[{at.name} {at.address}] {why}\n$ {shown}")
        lines = (said.stdout + said.stderr).splitlines()
        for line in lines[:SHOWN_LINES]:
            print(f"    {line}")
        if len(lines) > SHOWN_LINES:
            print(f"    … {len(lines) - SHOWN_LINES} more lines")
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
        print(f"\n[{at.name} {at.address}] in the background\n$ {shown_as(words)}", flush=True)
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


def shown_as(words: Sequence[str]) -> str:
    """Return a command as the transcript shows it."""
    return "python -c …" if words[0] == "-c" else " ".join(words)


def begin(module: str, walk: Callable[[Path, ExitStack], Walk]) -> int:
    """Run a module as ``python -m`` with a network of its own, and there walk; return the process's exit code."""
    about = sys.modules["__main__"].__doc__
    parser = ArgumentParser(f"python -m {module}", description=about, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument(INSIDE, action="store_true", help=SUPPRESS)
    if not vars(parser.parse_args())["inside"]:
        kind = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
        return subprocess.call(["unshare", *kind, sys.executable, "-m", module, INSIDE], cwd=ROOT)
    with TemporaryDirectory(prefix="taskqueue-walk-") as folder, ExitStack() as stack:
        it = walk(Path(folder), stack)
    print("\n" + ("\n".join(it.unexpected) or "each command ended as expected"))
    return 1 if it.unexpected else 0
