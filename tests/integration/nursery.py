"""Python programs forked from a process with all modules imported, since imports are most of the CPU of a start.

    tests ──program, environment, streams──► nursery ──fork──► a child ──fork──► the program
      ▲                                         └──its pid──►    └─ ends at once      │
      └──────────────────────────── becomes their parent ◄────────────────────────────┘

The nursery has one thread, no ZeroMQ socket and no store, so a program inherits nothing but modules.
multiprocessing's forkserver doesn't fit: its children are not children of the tests, which must kill them, wait for
them and count their CPU, and they skip Python's shutdown.

``Forked`` refuses a program that must not find anything imported, or whose environment changes Python itself
(``PYTHON…``), and everything else that it can't do; use ``subprocess`` for these.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, AnyStr, Final

WAIT_SECONDS: Final = 60
"""Seconds that a test waits for something that must happen; it goes on as soon as it does."""
ROOT: Final = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER: Final = 36
MAX_BYTES: Final = 1 << 18
"""Size of a program's arguments and environment."""
END_SECONDS: Final = 10.0
PRELOAD: Final = "LD_PRELOAD"
NOT_ASKED: Final = (None, None, True, (), False, True, None, None, None, -1, -1)
"""Popen's defaults of executable, preexec_fn, close_fds, pass_fds, shell, restore_signals, gid, gids, uid, umask and
process_group.
"""
IMPORTED: Final = (
    "taskqueue.cli.commands.daemon",
    "taskqueue.cli.commands.work",
    "taskqueue.client.blocking.client",
    "taskqueue.server.main",
    "taskqueue.store.postgres.postgres_store",
    "taskqueue.store.rocksdb.rocks_store",
    "tests.integration.line",
)


class Forked(subprocess.Popen[AnyStr]):
    """Popen that forks a command ``[sys.executable, …]``; of Python's options it may have -m and -c."""

    def _execute_child(
        self, args: Sequence[object], executable: None, preexec_fn: None, close_fds: bool, pass_fds: object,
        cwd: str | Path | None, env: dict[str, str] | None, startupinfo: None, creationflags: int, shell: bool,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: bool, gid: None, gids: None, uid: None, umask: int, start_new_session: bool,
        process_group: int,
    ) -> None:  # fmt: skip
        """Replace Popen's own method, the only one that starts a process."""
        streams = [number if given == -1 else given for number, given in enumerate((p2cread, c2pwrite, errwrite))]
        environment = dict(os.environ if env is None else env)
        assert args[0] == sys.executable, f"only this Python can be forked, not {args[0]}"
        asked: tuple[object, ...] = (executable, preexec_fn, close_fds, pass_fds, shell, restore_signals)
        asked += (gid, gids, uid, umask, process_group)
        assert asked == NOT_ASKED, "a forked program supports only some options of Popen"
        ours = {name: value for name, value in environment.items() if name.startswith("PYTHON")}
        assert ours.items() <= os.environ.items(), f"Python has already started, and ignores {ours}"
        said = json.dumps([[*map(str, args[1:])], str(cwd or Path.cwd()), environment, start_new_session])
        self.pid = nursery(environment.get(PRELOAD, "")).fork(said.encode(), streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def run_forked(
    command: Sequence[object], *, timeout: float = WAIT_SECONDS, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Fork a program, wait for its end, and return its output, as ``subprocess.run`` does."""
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with Forked[str]([*map(str, command)], text=True, **pipes | options) as process:
        try:
            said = process.communicate(timeout=timeout)
        finally:
            process.kill()
    done = subprocess.CompletedProcess([*map(str, command)], process.returncode, *said)
    if check:
        done.check_returncode()
    return done


class Nursery:
    """Process that forks the programs."""

    def __init__(self, preloaded: str) -> None:
        # A process whose parent has ended becomes a child of this one.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.integration.nursery", str(theirs.fileno())]
        variables = os.environ | ({PRELOAD: preloaded} if preloaded else {})
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=(theirs.fileno(),), env=variables)
        theirs.close()

    def fork(self, said: bytes, streams: Sequence[int]) -> int:
        """Start a program with these stdin, stdout and stderr; return its pid.

        Raises:
            ChildProcessError: the program, or the child that was to start it, has died; stderr may say why.
        """
        socket.send_fds(self._socket, [said], streams)
        if not (pid := self._socket.recv(64)):
            raise ChildProcessError("the nursery could not start a program")
        return int(pid)

    def end(self) -> None:
        """End the nursery, killing it after END_SECONDS; forked programs go on."""
        self._socket.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@cache
def nursery(preloaded: str) -> Nursery:
    """Return this process's nursery whose programs have this library preloaded; it ends with this process."""
    made = Nursery(preloaded)
    atexit.register(made.end)
    return made


def main(descriptor: int) -> None:
    """Fork for the process at the other end, until that process closes the socket."""
    for module in IMPORTED:
        import_module(module)
    # Unfrozen, the modules cost four times as much as all else when the garbage collector scans them at a program's
    # end.
    gc.freeze()
    # pytest's own processes have reset what the shell left; ``python -m`` of tests.chaos, attack and politeness have
    # not, and a script may have started them with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=descriptor) as asked:
        while True:
            said, given, _, _ = socket.recv_fds(asked, MAX_BYTES, 3)
            if not said:
                return
            if is_program := _fork(asked):
                break
            for each in given:
                os.close(each)
    if is_program:
        _run(given, *json.loads(said))


def _fork(asked: socket.socket) -> bool:
    """Fork; send the program's pid, or nothing if the child in between died. Returns True in the program."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child and (program := os.fork()):
        os.write(writing, str(program).encode())
        os._exit(0)
    os.close(writing)
    if child:
        os.waitpid(child, 0)
        asked.send(os.read(reading, 64))
    os.close(reading)
    return not child


def _run(streams: list[int], arguments: list[str], cwd: str, environment: dict[str, str], is_leader: bool) -> None:
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    sys.stdin, sys.stdout, sys.stderr = _open(0, "r"), _open(1, "w"), _open(2, "w")
    if is_leader:
        os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    if PRELOAD in environment:
        ctypes.CDLL(environment[PRELOAD]).begin_faults()
    _run_python(arguments)


def _open(number: int, mode: str) -> IO[str]:
    errors = "backslashreplace" if number == 2 else None
    return open(number, mode, buffering=1 if number == 2 else -1, errors=errors, closefd=False)


def _run_python(arguments: list[str]) -> None:
    """Act as ``python`` does with these arguments."""
    option, *rest = arguments
    if option == "-c":
        code, *rest = rest
        sys.argv, sys.path[0] = [option, *rest], ""
        exec(code, {"__name__": "__main__"})
        sys.stdout.flush()  # as Python does before it waits for threads
    elif option == "-m":
        module, *rest = rest
        sys.argv, sys.path[0] = [module, *rest], str(Path.cwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments, str(Path(option).resolve().parent)
        runpy.run_path(option, run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]))
