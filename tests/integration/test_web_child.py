"""The dashboard that a daemon serves itself, by a process that it starts, watches and stops."""

from __future__ import annotations

import os
import re
import select
import signal
import urllib.request
from pathlib import Path

import pytest

from taskqueue import Client
from taskqueue.server.web_child import reachable
from tests.integration.conftest import WAIT_SECONDS, Daemon, DaemonFactory


def pid_of_web(it: Daemon) -> int:
    """Return the pid of the first web process that it started."""
    return int(it.wait_for_log("web-started pid=").split("web-started pid=")[1])


def has_ended(pid: int) -> bool:
    """Wait for the end of a process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(descriptor) as process:
        return bool(select.select([process], [], [], WAIT_SECONDS)[0])


def test_a_daemon_serves_the_page_and_ends_it_with_itself(daemon: DaemonFactory) -> None:
    it = daemon(web="127.0.0.1:0")
    line = it.wait_for_log("shows the daemon at")
    found = re.search(r"http://127\.0\.0\.1:\d+/", line)
    assert found is not None
    assert line.endswith(f"shows the daemon at {it.url}\n")
    with urllib.request.urlopen(f"{found[0]}daemon") as page:
        assert b"running for" in page.read()

    assert it.stop() == 0
    assert has_ended(pid_of_web(it))


def test_the_dashboard_of_a_daemon_without_keys_shows_it_none_whatever_the_environment_says(
    daemon: DaemonFactory,
) -> None:
    it = daemon(web="127.0.0.1:0", environment={"TASKQUEUE_KEY": "missing.key"})

    it.wait_for_log("shows the daemon at")


def test_a_web_process_that_dies_is_started_again(daemon: DaemonFactory) -> None:
    it = daemon(web="127.0.0.1:0")
    first = pid_of_web(it)
    it.wait_for_log("shows the daemon at")
    os.kill(first, signal.SIGKILL)

    it.wait_for_log(f"web-ended pid={first} exit=-9; started again in 0.5 s")
    again = re.compile(rf"web-started pid=(?!{first}\b)(\d+)")
    while (found := again.search(it.log())) is None:
        select.select([], [], [], 0.01)
    assert it.stop() == 0
    assert has_ended(int(found[1]))


def test_a_daemon_that_is_killed_leaves_no_web_process_behind(daemon: DaemonFactory) -> None:
    it = daemon(web="127.0.0.1:0")
    it.wait_for_log("shows the daemon at")
    pid = pid_of_web(it)
    it.kill()

    assert has_ended(pid)


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("tcp://0.0.0.0:7400", "tcp://127.0.0.1:7400"),
        ("tcp://[::]:7400", "tcp://127.0.0.1:7400"),
        ("tcp://[::1]:7400", "tcp://[::1]:7400"),
        ("tcp://10.0.0.5:7400", "tcp://10.0.0.5:7400"),
        ("ipc:///run/taskqueue", "ipc:///run/taskqueue"),
    ],
)
def test_the_page_reaches_the_daemon_where_it_listens(endpoint: str, address: str) -> None:
    assert reachable(endpoint) == address


@pytest.mark.parametrize("lacks", ["starlette", "prometheus_client"])
def test_a_daemon_without_the_extra_says_once_what_to_install_and_runs_without_the_page(
    daemon: DaemonFactory, tmp_path: Path, lacks: str
) -> None:
    (tmp_path / f"{lacks}.py").write_text(f"raise ModuleNotFoundError('No module named {lacks}', name='{lacks}')\n")
    it = daemon(web="127.0.0.1:0", environment={"PYTHONPATH": str(tmp_path)}, is_forked=False)
    it.wait_for_log("exit=2; not started again")
    with Client(it.url) as client:
        assert client.projects.list().items == []

    assert it.stop() == 0
    assert it.log().count("pip install 'taskqueue-scheduler[web]'") == 1
    assert it.log().count("web-started") == 1


def test_a_web_process_with_an_option_that_can_not_be_is_not_started_again(daemon: DaemonFactory) -> None:
    it = daemon(web="127.0.0.1:0", environment={"TASKQUEUE_WEB_ROOT_PATH": "//evil"})
    it.wait_for_log("exit=2; not started again")

    assert it.stop() == 0
    assert it.log().count('"//evil" is not a path') == 1
