"""A pid file on a full disk; all else about pid files is tested with real daemons (test_running.py)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from taskqueue.server.pid_file import RunningDaemon

HOLDER = """
import os, signal, sys
from taskqueue.server.pid_file import pid_file

def tell(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")  # print may be what is interrupted

signal.signal(signal.SIGHUP, tell)
with pid_file(sys.argv[1]):
    print("holds", flush=True)
    while True:
        signal.pause()
"""
WAIT_SECONDS = 30

NO_ROOM = """
import resource, sys
from taskqueue.server.pid_file import pid_file
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with pid_file(sys.argv[1]):
    print("goes on")
"""


def test_a_daemon_without_room_for_its_pid_goes_on_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "pid"

    ended = subprocess.run([sys.executable, "-c", NO_ROOM, str(path)], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (0, "goes on\n")
    assert ended.stderr.startswith(f"pid-not-written file={path} error=File too large; ")
    assert not path.exists()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_has_no_pidfd_a_daemon_is_signalled_and_waited_for_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def pidfd_open(pid: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "pid")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        with closing(RunningDaemon(str(tmp_path / "pid"))) as daemon:
            daemon.send(signal.SIGHUP)
            told = holder.stdout.readline()
            ended = daemon.ends_within(0)
            daemon.send(signal.SIGTERM)

            assert (told, ended, daemon.ends_within(WAIT_SECONDS)) == ("SIGHUP\n", False, True)
