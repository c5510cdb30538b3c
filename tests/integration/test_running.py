"""Starting, reloading and stopping a daemon: files, variables and commands around it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskqueue import Client
from taskqueue.server.main import run as run_daemon
from tests.integration.nursery import WAIT_SECONDS, Forked, run_forked

COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Run ``taskqueue daemon start`` on a free port, in a private folder; ``line`` is its message when it listens."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:

        def start(*options: object, **variables: str) -> subprocess.Popen[str]:
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            command = [*COMMAND, "daemon", "start", "--bind", "tcp://127.0.0.1:*", *map(str, options)]
            it = Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(it.communicate, timeout=WAIT_SECONDS)
            stack.callback(it.kill)
            return it

        yield start


def line(daemon: subprocess.Popen[str]) -> str:
    """Return its message when it listens."""
    assert daemon.stdout is not None
    return daemon.stdout.readline()


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command; return exit status, stdout and stderr."""
    command = [*COMMAND, *map(str, arguments)]
    done = run_forked(command)
    return done.returncode, done.stdout, done.stderr


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
    config.write_text('[daemon]\nbind = "tcp://127.0.0.1:1"\n[store]\npath = "file"\ndurability = "commit"\n')

    said = line(start(TASKQUEUE_CONFIG=str(config), TASKQUEUE_STORE="variable", TASKQUEUE_DURABILITY="interval"))
    also = line(start("--durability", "none", "--store", "option"))

    assert f" store={tmp_path}/variable durability=interval " in said
    assert f" store={tmp_path}/option durability=none " in also


def test_a_variable_that_cant_be_used_is_named(start: Start) -> None:
    ended = start(TASKQUEUE_LIMITS_MAX_LEASES="many")

    said = ended.communicate(timeout=WAIT_SECONDS)[1]

    assert ended.returncode == 2
    assert said.startswith("taskqueue: TASKQUEUE_LIMITS_MAX_LEASES must be a whole number")


def test_commands_of_the_store_find_it_by_the_same_variables(start: Start) -> None:
    assert "listens" in line(start(TASKQUEUE_STORE="variable", TASKQUEUE_STORE_CACHE="2 MiB"))

    done = run_forked([*COMMAND, "store", "check"], check=True)

    assert done.stdout.startswith("variable: ")


# ---------------------------------------------------------------------------------------- the pid file


def test_stop_ends_the_daemon_that_has_the_pid_file_and_returns_when_it_has_ended(start: Start, tmp_path: Path) -> None:
    daemon, other = start("--pid-file", "it.pid"), start("--pid-file", "other.pid", "--store", "other")
    assert "listens" in line(daemon)
    assert "listens" in line(other)
    assert Path("it.pid").read_text() == f"{daemon.pid}\n"

    assert run("daemon", "stop", "--pid-file", "it.pid") == (0, f"the daemon with pid {daemon.pid} has stopped\n", "")

    assert daemon.wait(WAIT_SECONDS) == 0
    assert not Path("it.pid").exists()
    assert other.poll() is None


def test_reload_has_the_daemon_read_its_file_again(start: Start, tmp_path: Path) -> None:
    config = tmp_path / "taskqueue.toml"
    config.write_text("")
    daemon = start("-c", config, TASKQUEUE_PID_FILE="it.pid")
    assert "listens" in line(daemon)
    config.write_text("[projects.news]\n")

    status, shown, _ = run("daemon", "reload", "-c", config)

    assert (status, shown.split(";")[0]) == (0, f"the daemon with pid {daemon.pid} reads its config again")
    assert daemon.stderr is not None
    assert (
        next(told for told in daemon.stderr if "config-re" in told).strip().endswith(f"config-reloaded file={config}")
    )


def test_reload_tells_nobody_of_a_file_with_a_mistake(start: Start, tmp_path: Path) -> None:
    daemon = start("--pid-file", "it.pid")
    assert "listens" in line(daemon)
    (tmp_path / "bad.toml").write_text("[servers]\n")

    status, shown, said = run("daemon", "reload", "-c", "bad.toml", "--pid-file", "it.pid")

    assert (status, shown) == (2, "")
    assert said.startswith("taskqueue: bad.toml: servers is not a section")
    run("daemon", "stop", "--pid-file", "it.pid")
    assert "config-" not in daemon.communicate(timeout=WAIT_SECONDS)[1]


@pytest.mark.parametrize("command", ["reload", "stop"])
def test_the_pid_of_a_daemon_that_was_killed_is_not_signalled(start: Start, command: str) -> None:
    daemon = start("--pid-file", "it.pid")
    assert "listens" in line(daemon)
    daemon.kill()
    daemon.wait(WAIT_SECONDS)
    # As if the pid had become that of another process: this one.
    Path("it.pid").write_text(f"{os.getpid()}\n")

    reason = f"no daemon is running with this pid file; if pid {os.getpid()} was one, it has ended"
    assert run("daemon", command, "--pid-file", "it.pid") == (1, "", f"taskqueue: it.pid: {reason}\n")


def test_after_kill_9_the_next_daemon_takes_the_pid_file_over(start: Start) -> None:
    killed = start("--pid-file", "it.pid")
    assert "listens" in line(killed)
    killed.kill()
    killed.wait(WAIT_SECONDS)

    daemon = start("--pid-file", "it.pid")

    assert "listens" in line(daemon)
    assert Path("it.pid").read_text() == f"{daemon.pid}\n"


def test_a_pid_file_that_another_daemon_has_is_refused_and_stays_as_it_is(start: Start) -> None:
    daemon = start("--pid-file", "it.pid")
    assert "listens" in line(daemon)

    second = start("--pid-file", "it.pid", "--store", "other")

    said = second.communicate(timeout=WAIT_SECONDS)[1]
    assert (second.returncode, said) == (
        1, f"taskqueue: it.pid: the process with pid {daemon.pid} uses this pid file; name another one\n",
    )  # fmt: skip
    assert Path("it.pid").read_text() == f"{daemon.pid}\n"


def test_a_file_of_another_kind_is_no_pid_file(start: Start) -> None:
    Path("taskqueue.toml").write_text("[daemon]\n")

    ended = start("--pid-file", "taskqueue.toml")

    assert "taskqueue.toml: this is not a pid file; it was not changed" in ended.communicate(timeout=WAIT_SECONDS)[1]
    assert Path("taskqueue.toml").read_text() == "[daemon]\n"
    assert run("daemon", "stop", "--pid-file", "taskqueue.toml")[0] == 1


def test_a_process_that_has_the_lock_of_a_file_that_says_something_else_is_not_signalled(start: Start) -> None:
    with open("lock", "w+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)

        status, _, said = run("daemon", "stop", "--pid-file", "lock")

    assert status == 1
    assert said == f"taskqueue: lock: it names no pid, but process {os.getpid()} uses it; no process is signalled\n"


def test_a_pid_file_that_is_not_there_is_said(start: Start) -> None:
    assert "gone: it does not exist; name a daemon's --pid-file" in run("daemon", "stop", "--pid-file", "gone")[2]
    assert "Missing option '--pid-file'" in run("daemon", "stop")[2]


def test_a_daemon_that_does_not_end_in_time_is_said(start: Start) -> None:
    daemon = start("--pid-file", "it.pid")
    assert "listens" in line(daemon)
    daemon.send_signal(signal.SIGSTOP)

    status, shown, said = run("daemon", "stop", "--pid-file", "it.pid", "--timeout", "0.05s")

    daemon.send_signal(signal.SIGCONT)
    assert (status, shown) == (1, "")
    assert said == f"taskqueue: the daemon with pid {daemon.pid} was told to stop, and runs after 0.05 s\n"
    assert daemon.wait(WAIT_SECONDS) == 0


def test_a_system_without_what_the_daemon_needs_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "eventfd")
    monkeypatch.delattr(select, "epoll")
    monkeypatch.setattr(sys, "platform", "darwin")

    assert run_daemon(None) == 1
    assert capfd.readouterr().err == "taskqueue: the daemon runs on Linux; darwin has no os.eventfd, select.epoll\n"


def test_an_address_of_ipv6_without_brackets_is_told_how_it_is_written(tmp_path: Path) -> None:
    status, _, said = run("daemon", "start", "--bind", "tcp://::1:7400", "--store", tmp_path / "store")

    assert status == 1
    assert said.startswith("taskqueue: can't listen on tcp://::1:7400: ")
    assert "tcp://[::1]:7400" in said


# -------------------------------------------------------------------------------------- its standard streams


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_daemon_without_standard_streams_serves_and_has_none_of_its_files_in_their_places(
    tmp_path: Path, closed: str
) -> None:
    url = f"ipc://{tmp_path}/socket"
    command = [*COMMAND, "daemon", "start", "--bind", url, "--store", str(tmp_path / "store")]
    it = subprocess.Popen(["sh", "-c", f'exec "$@" {closed}', "sh", *command], stdin=subprocess.DEVNULL)
    try:
        with Client(url, timeout=WAIT_SECONDS) as client:
            client.projects.start("news")
            files = [os.readlink(f"/proc/{it.pid}/fd/{descriptor}") for descriptor in range(3)]
        it.terminate()

        assert it.wait(WAIT_SECONDS) == 0
    finally:
        it.kill()
        it.wait()
    assert [file for file in files if str(tmp_path) in file or "socket" in file] == []
