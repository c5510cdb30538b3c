"""Readiness of a daemon whose store has failed and is loaded again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from taskqueue import AsyncClient
from taskqueue.errors import StoreError
from taskqueue.web import metrics
from taskqueue.web.metrics import Scrape
from tests.unit.server.test_loop import Client, Trouble, serve


def test_a_daemon_is_not_ready_while_its_store_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SOONEST_SECONDS", 0.0)
    trouble = Trouble()

    async def look(client: Client) -> list[str]:
        monkeypatch.setattr(metrics, "READY_SECONDS", 20.0)
        async with AsyncClient(client.url, timeout=1) as asking:
            looking = Scrape(asking, 0)
            troubles = [await looking.trouble()]
            monkeypatch.setattr(metrics, "READY_SECONDS", 0.05)
            trouble.let_fail("open", *[StoreError("no such disk")] * 100)
            trouble.let_fail("write", StoreError("no such disk"))
            client.send("project-do", project="news", action="start")
            while not troubles[-1]:
                troubles.append(await looking.trouble())
            trouble.let_recover()
            monkeypatch.setattr(metrics, "READY_SECONDS", 20.0)
            while troubles[-1]:
                troubles.append(await looking.trouble())
            return troubles

    def script(client: Client) -> None:
        troubles = asyncio.run(look(client))

        assert (troubles[0], troubles[-1]) == ("", "")
        assert client.ask("status")["shell"]["reloads"] == 1

    serve(tmp_path, trouble, script)
