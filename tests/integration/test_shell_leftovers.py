"""Tests pass however they are started: their processes inherit nothing of the shell that would change them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
WAIT_SECONDS: Final = 100

CHILD: Final = """
import subprocess, sys
import pytest
from tests.integration.nursery import run_forked

def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)

@pytest.mark.parametrize("start", [run, run_forked])
def test_what_a_child_inherits(start):
    said = start([sys.executable, "-c", '''
import os, signal
print([number for number in (1, 2, 3, 10, 15, 17) if signal.getsignal(number) is signal.SIG_IGN])
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), oct(os.umask(0)))
print({name for name in os.environ if "_PROXY" in name.upper() or name in ("COLUMNS", "NO_COLOR", "TASKQUEUE_DAEMON")})
print(os.environ["TERM"], os.environ["TZ"], os.environ["LC_ALL"])
''']).stdout
    assert said.splitlines() == ["[]", "set() 0o22", "set()", "xterm UTC C.UTF-8"]
"""

ODD: Final = {
    "COLUMNS": "40", "NO_COLOR": "1", "TERM": "dumb", "TZ": "Asia/Tokyo", "LC_ALL": "POSIX",
    "http_proxy": "http://127.0.0.1:1", "TASKQUEUE_DAEMON": "tcp://127.0.0.1:1",
}  # fmt: skip

PARENT: Final = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
os.umask(0o077)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_a_child_of_a_test_gets_no_signal_mask_or_variable_that_the_shell_left(tmp_path: Path) -> None:
    (tmp_path / "test_child.py").write_text(CHILD)
    (tmp_path / "conftest.py").write_text("import tests.conftest\n")
    pytest = ["-m", "pytest", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)]

    done = subprocess.run(
        [sys.executable, "-c", PARENT, *pytest],
        cwd=ROOT, env=os.environ | ODD, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
