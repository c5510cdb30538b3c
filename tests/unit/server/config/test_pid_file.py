"""A pid file where there is no room for it; all else about pid files is tested with real daemons (test_running.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NO_ROOM = """
import resource, sys
from taskqueue.server.config.pid_file import pid_file
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
