"""The soak in small: it works, and its books balance."""

from __future__ import annotations

import subprocess
import sys

from tests.integration.conftest import ROOT

SMALL = ("--minutes", "0.3", "--warm-up", "1", "--rate", "300", "--workers", "3")


def test_a_soak_of_seconds_loses_nothing_when_the_daemon_and_workers_are_killed() -> None:
    command = [sys.executable, "-m", "benchmarks.soak", *SMALL]

    # Not forked: it forks processes of its own, which need a process with one thread.
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " pushes were acknowledged: 0 lost, 0 done twice" in ran.stdout
    assert "Problem" not in ran.stdout
