"""``taskqueue log`` of a real daemon: who changed what."""

from __future__ import annotations

import getpass
import json
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from taskqueue.cli.main import main
from tests.integration.conftest import DaemonFactory, PeerFactory

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; return exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    return run


def logged(run: Run, *arguments: str) -> list[dict[str, Any]]:
    status, out, _ = run("log", "--json", *arguments)
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_who_deleted_a_project_is_logged_and_kept(
    daemon: DaemonFactory, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = daemon()
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    me = f"{getpass.getuser()}@{socket.gethostname()}"
    run("push", "news", "http://a/1", "http://a/2")
    run("project", "set", "shop", "rate=5")

    run("project", "delete", "news", "--yes")
    line = it.wait_for_log("project delete")
    it.stop()
    it.start()
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)

    (entry,) = logged(run, "news")
    assert f'INFO    change what="project delete" project=news tasks=2 actor={me} address=127.0.0.1' in line
    assert (entry["what"], entry["count"], entry["actor"], entry["address"]) == ("project delete", 2, me, "127.0.0.1")
    status, out, _ = run("log", "--since", "1h")
    assert status == 0
    assert [row for row in out.splitlines() if "project delete news, 2 tasks" in row and f"{me} 127.0.0.1" in row]
    assert "rate=5" in out


def test_a_reload_of_the_config_is_logged_with_what_it_changed(
    daemon: DaemonFactory, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = daemon(projects={"news": {"rate": 5}})
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)

    it.configure(projects={"news": {"rate": 7}})
    it.hangup()
    line = it.wait_for_log("config reload")

    assert 'change what="config reload" actor=SIGHUP detail="projects.news.rate=7 (was 5)"' in line
    assert logged(run)[-1]["detail"] == "projects.news.rate=7 (was 5)"


def test_a_program_is_known_by_the_name_of_its_client_and_by_its_address(
    daemon: DaemonFactory, peer: PeerFactory, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = daemon()
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    raw = peer(it, session="5f0c", routing_id=b"own")

    raw.ask("project-do", project="news", action="start", actor="deploy script")
    raw.ask("project-do", project="news", action="pause")

    named, unnamed = logged(run)
    assert (named["actor"], named["address"]) == ("deploy script", "127.0.0.1")
    # A client without a name is shown as a pseudonym, never by its session id, which would let others speak for it.
    assert re.fullmatch("[0-9a-f]{12}", str(unnamed["actor"]))
    assert unnamed["address"] == "127.0.0.1"


def test_the_newest_changes_come_last_and_there_may_be_older_ones(
    daemon: DaemonFactory, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", daemon().url)
    for name in "abc":
        run("project", "start", name)

    status, out, error = run("log", "--limit", "2")

    assert status == 0
    assert [row.partition("project start ")[2][0] for row in out.splitlines()[1:]] == ["b", "c"]
    assert "older" in error


def test_what_happened_is_drawn_over_time_also_after_a_restart(
    daemon: DaemonFactory, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = daemon()
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    run("push", "news", "http://a/1", "http://a/2", "http://a/3")
    run("push", "shop", "http://b/1")
    it.stop()
    it.start()
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)

    status, out, _ = run("stats", "--history", "--since", "1h")
    one = run("stats", "--history", "news")[1]
    plain = json.loads(run("stats", "--history", "--json", "news")[1])

    of_all, of_news = (next(row for row in text.splitlines() if row.startswith("new ")) for text in (out, one))
    assert status == 0
    assert "all projects" in out
    assert "█" in of_all
    assert [row.split()[-2] for row in (of_all, of_news)] == ["4", "3"]
    assert [point["new"] for point in plain["history"][0]["points"]] == [3]
    assert plain["history"][0]["every"] == "minute"


def test_since_without_history_is_a_misunderstanding(
    daemon: DaemonFactory, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKQUEUE_DAEMON", daemon().url)

    status, _, error = run("stats", "--since", "1h")

    assert status == 2
    assert "--window" in error
