"""The units of ``conf/``: the daemon as a service manager starts, watches, reloads and stops it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskqueue.errors import WRONG_SETTING
from tests.integration.conftest import ROOT, WAIT_SECONDS

CONF = ROOT / "conf"
UNITS = [CONF / "taskqueue.service", CONF / "taskqueue-worker@.service"]
INSTALLED = "/opt/taskqueue/bin/taskqueue"
CONFIG = "/etc/taskqueue/taskqueue.toml"

REPORTS_MOST = 600
"""Reports that are read for one; a watchdog of 0.2 s sends these in a minute."""


def setting_of(unit: Path, name: str) -> str:
    """Value of a setting that the unit has once."""
    (value,) = re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)
    return str(value)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Socket of a service manager, to which the service reports."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as at:
        at.bind(str(tmp_path / "notify"))
        at.settimeout(WAIT_SECONDS)
        yield at


@pytest.fixture
def service(tmp_path: Path, manager: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    """Daemon started by the unit's command line, with a watchdog of 0.2 s and a config of its own."""
    config = tmp_path / "taskqueue.toml"
    config.write_text('[daemon]\nbind = "tcp://127.0.0.1:*"\n[store]\npath = "store"\n')
    command = setting_of(UNITS[0], "ExecStart").replace(INSTALLED, f"{sys.executable} -m taskqueue")
    command = command.replace(CONFIG, str(config))
    environment = os.environ | {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "200000"}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(shlex.split(command), cwd=tmp_path, env=environment, stdout=log, stderr=log) as process,
    ):
        yield process
        process.kill()


def next_report(manager: socket.socket, *, besides: str = "") -> str:
    """Next report that does not begin with ``besides``."""
    for _ in range(REPORTS_MOST):
        if not (report := manager.recv(4096).decode()).startswith(besides or "\0"):
            return report
    raise AssertionError(f"{REPORTS_MOST} reports, and all of them are {besides}")


def test_the_unit_s_command_reports_that_it_serves_lives_reloads_and_stops(
    manager: socket.socket, service: subprocess.Popen[bytes]
) -> None:
    started = next_report(manager)
    beats = [next_report(manager), next_report(manager)]
    service.send_signal(signal.SIGHUP)
    reloads = next_report(manager, besides="WATCHDOG")
    reloaded = next_report(manager, besides="WATCHDOG")
    service.send_signal(signal.SIGTERM)
    stops = next_report(manager, besides="WATCHDOG")

    assert re.fullmatch(r"READY=1\nSTATUS=taskqueue .*listens on tcp://127\.0\.0\.1:\d+, store=.*", started)
    assert beats == ["WATCHDOG=1"] * 2
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloads)
    assert reloaded == "READY=1"
    assert stops == "STOPPING=1"
    assert service.wait(WAIT_SECONDS) == 0


def test_the_reload_of_the_unit_checks_the_config_before_it_signals_the_daemon() -> None:
    check, signalled = re.findall(r"^ExecReload=(.*)$", UNITS[0].read_text(), re.MULTILINE)

    assert check == f"{INSTALLED} config check {shlex.split(setting_of(UNITS[0], 'ExecStart'))[-1]}"
    assert signalled == "/bin/kill -HUP $MAINPID"


def test_the_daemon_s_unit_lets_it_give_its_socket_file_to_a_group() -> None:
    filters = re.findall(r"^SystemCallFilter=(.*)$", UNITS[0].read_text(), re.MULTILINE)

    assert filters == ["@system-service", "~@privileged", "@chown"]  # ~@privileged takes away @chown


def test_a_worker_s_unit_starts_it_again_after_each_status_but_that_of_a_wrong_option() -> None:
    assert setting_of(UNITS[1], "Restart") == "always"
    assert setting_of(UNITS[1], "RestartPreventExitStatus") == str(WRONG_SETTING)


@pytest.mark.parametrize(("unit", "most"), [(UNITS[0], 1.5), (UNITS[1], 2.5)], ids=str)
def test_a_unit_allows_its_service_little(unit: Path, most: float) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        assert "NoNewPrivileges=yes" in unit.read_text()
        return
    found = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", str(unit)], capture_output=True, text=True, check=False
    )

    exposure = re.search(r"Overall exposure level for .*: ([\d.]+)", found.stdout)
    assert exposure is not None, found.stderr
    assert float(exposure[1]) <= most


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_there_is(unit: Path) -> None:
    words = shlex.split(setting_of(unit, "ExecStart"))
    options = [word for word in words if word.startswith("-")]
    command = [word for word in words[1:3] if word.isalpha()]

    shown = subprocess.run(
        [sys.executable, "-m", "taskqueue", *command, "--help"], capture_output=True, text=True, check=True
    ).stdout

    assert words[0] == INSTALLED
    assert options
    assert all(option in shown for option in options)
