"""How a daemon is started, told to read its config again, and stopped: files, variables and commands around it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]
WAIT_SECONDS = 30

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Run ``taskqueue scheduler`` on a free port, in a folder of its own; ``line`` is what it says when it listens."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:

        def start(*options: object, **variables: str) -> subprocess.Popen[str]:
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            command = [*COMMAND, "scheduler", "--bind", "tcp://127.0.0.1:*", *map(str, options)]
            it = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(it.communicate, timeout=WAIT_SECONDS)
            stack.callback(it.kill)
            return it

        yield start


def line(daemon: subprocess.Popen[str]) -> str:
    """What it says when it listens."""
    assert daemon.stdout is not None
    return daemon.stdout.readline()


# ---------------------------------------------------------------------------------------- where its store is


def test_the_daemon_says_the_whole_path_of_its_store_which_lies_beside_its_config_file(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "here.toml").write_text('[store]\npath = "crawl"\n')

    said = line(start("-c", "conf/here.toml"))

    assert f" store={tmp_path}/conf/crawl " in said
    assert (tmp_path / "conf" / "crawl" / "CURRENT").is_file()


def test_a_store_that_an_option_names_lies_in_the_working_directory(start: Start, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "here.toml").write_text('[store]\npath = "crawl"\n')

    assert f" store={tmp_path}/mine " in line(start("-c", "conf/here.toml", "--store", "mine"))
    assert f" store={tmp_path}/data/store " in line(start())


# ---------------------------------------------------------------------------------------- what the environment says


def test_the_environment_wins_over_the_file_and_the_options_win_over_both(start: Start, tmp_path: Path) -> None:
    config = tmp_path / "taskqueue.toml"
    config.write_text('[server]\nbind = "tcp://127.0.0.1:1"\n[store]\npath = "file"\ndurability = "commit"\n')

    said = line(start(TASKQUEUE_CONFIG=str(config), TASKQUEUE_STORE="variable", TASKQUEUE_DURABILITY="interval"))
    also = line(start("--durability", "none", "--store", "option"))

    assert f" store={tmp_path}/variable durability=interval " in said
    assert f" store={tmp_path}/option durability=none " in also


def test_a_variable_that_cant_be_used_is_named(start: Start) -> None:
    ended = start(TASKQUEUE_LIMITS_MAX_LEASES="many")

    said = ended.communicate(timeout=WAIT_SECONDS)[1]

    assert ended.returncode == 1
    assert said.startswith("taskqueue: TASKQUEUE_LIMITS_MAX_LEASES must be a whole number")


def test_commands_of_the_store_find_it_by_the_same_variables(start: Start) -> None:
    assert "listens" in line(start(TASKQUEUE_STORE="variable", TASKQUEUE_STORE_CACHE="2 MiB"))

    done = subprocess.run(
        [*COMMAND, "store", "check"], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
    )

    assert done.stdout.startswith("variable: ")
