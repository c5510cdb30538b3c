"""A session's id is a secret of its client and the daemon: no reply and no log has it.

Even a peer that knows it can't silence the session for good.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskqueue import AsyncClient
from taskqueue.cli.main import main
from tests.integration.conftest import DaemonFactory, PeerFactory

LOOKS = (
    "status",
    "status --json",
    "fetcher list",
    "fetcher list --json",
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
"""Commands that show a fetcher's activity."""


def test_no_command_and_no_line_of_the_log_has_the_id_of_a_session(
    daemon: DaemonFactory, peer: PeerFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = daemon(log_level="debug", projects={"news": {}})
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
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


def test_a_hello_with_a_number_far_away_does_not_silence_the_worker_whose_session_it_is(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon()
    worker, producer = peer(it), peer(it)
    attacker = peer(it, session=worker.session)
    worker.ask("hello", capacity=1)

    for kind, fields in (("hello", {}), ("new-task", {"project": "news", "tasks": []})):
        attacker.n = 2**63 - 2
        assert attacker.ask(kind, **fields)["code"] == "too-far"
    worker.ask("hello", capacity=1)
    producer.push("news", "a")
    (task,) = worker.receive()["tasks"]

    report = {key: task[key] for key in ("project", "taskid", "token")}
    assert worker.ask("done", tasks=[report])["outcomes"] == ["done"]


def test_a_worker_in_whose_session_somebody_else_speaks_goes_on_in_another(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(fetcher_timeout=3)

    async def work() -> list[str]:
        async with AsyncClient(it.url) as worker, AsyncClient(it.url) as producer:
            tasks = worker.stream(places=1)
            await producer.push("news", "http://a/1")
            first = await anext(tasks)
            attacker = peer(it, session=worker._exchange._session.id)
            attacker.n = 1000
            assert attacker.ask("hello", capacity=0)["type"] == "welcome"
            finish = await worker.done(first)
            await producer.push("news", "http://a/2")
            second = await asyncio.wait_for(anext(tasks), 60)
            await worker.done(second)
            return [finish.outcome, second.url]

    assert asyncio.run(work()) == ["done", "http://a/2"]
