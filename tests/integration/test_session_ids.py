"""The id of a session is a secret of its client and the daemon: nothing that people can ask for, or read, has it."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.cli.main import main
from tests.integration.conftest import DaemonFactory, PeerFactory

LOOKS = (
    "status",
    "status --json",
    "fetchers",
    "fetchers --json",
    "task show news held",
    "task show news failed --json",
    "task list news --state processing",
    "task list news --state failed --json",
    "why news",
    "why news held",
    "failures --by fetcher",
    "project show news",
    "operation list",
    "log --json",
    "stats",
)
"""Commands by which people look at what a fetcher does."""


def test_no_command_and_no_line_of_the_log_has_the_id_of_a_session(
    daemon: DaemonFactory, peer: PeerFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = daemon(log_level="debug", projects={"news": {}})
    monkeypatch.setenv("TASKQUEUE_URL", it.url)
    fetcher = peer(it)
    fetcher.push("news", "held", "failed", retries=0)
    fetcher.send("hello", capacity=2)
    tasks: list[dict[str, Any]] = []
    while len(tasks) < 2:
        message = fetcher.receive()
        tasks += message.get("tasks", [])
    failed = next(task for task in tasks if task["taskid"] == "failed")
    fetcher.ask("done", tasks=[{"project": "news", "taskid": "failed", "token": failed["token"], "ok": False}])
    fetcher.ask("project-do", project="news", action="pause")
    (shown,) = fetcher.ask("status")["fetchers"]

    printed = ""
    for look in LOOKS:
        assert main(look.split()) == 0, look
        printed += "".join(capsys.readouterr())
    it.stop()

    assert printed.count(shown["session"]) >= 6
    assert f"request type=hello session={shown['session']} n=2" in it.log()
    assert fetcher.session not in printed
    assert fetcher.session not in it.log()
