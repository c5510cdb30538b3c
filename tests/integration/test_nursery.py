"""The nursery that forks test programs reports what it can't do, instead of running something else or hanging."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.nursery import Forked, Nursery

NOTHING = [sys.executable, "-c", ""]


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (["sh", "-c", ""], {}),
        (NOTHING, {"executable": "/bin/sh"}),
        (NOTHING, {"preexec_fn": os.getpid}),
        (NOTHING, {"pass_fds": (0,)}),
        (NOTHING, {"user": os.getuid()}),
        (NOTHING, {"umask": 0o077}),
        (NOTHING, {"process_group": 0}),
        (NOTHING, {"shell": True}),
        (NOTHING, {"env": {"PYTHONUTF8": "0"}}),
    ],
    ids=["program", "executable", "preexec_fn", "pass_fds", "user", "umask", "process_group", "shell", "PYTHON…"],
)
def test_a_program_that_can_not_be_forked_as_is_asked_is_refused(command: list[str], asked: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"can be forked|a forked program|already started"):
        Forked(command, **asked)


def test_a_child_that_dies_before_it_has_told_the_pid_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.write = lambda *_: os._exit(1)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    nursery = Nursery("")
    try:
        with pytest.raises(ChildProcessError):
            nursery.fork(json.dumps([NOTHING[1:], str(tmp_path), {}, False]).encode(), (0, 1, 2))
    finally:
        nursery.end()
