"""Habits of pyspider users, as docs/start/from-pyspider.md describes them, against a real daemon."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from taskqueue import AsyncClient, Client, Task, Worker
from tests.integration.nursery import WAIT_SECONDS

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory

DOCUMENT = Path(__file__).parents[2] / "docs" / "start" / "from-pyspider.md"


def test_a_returned_result_fails_its_task_and_says_what_to_do(daemon: DaemonFactory) -> None:
    async def error_of_the_task() -> str:
        async with AsyncClient(daemon(defaults={"retries": 0}).url) as client:
            worker = Worker(lambda task: {"url": task.url, "title": "A"}, ["news"], client=client)
            serving = asyncio.create_task(worker.serve())
            await client.push("news", "http://a/")
            assert await client.projects.wait("news", WAIT_SECONDS)
            worker.stop()
            await serving
            return (await client.tasks.get("news", url="http://a/")).error

    error = asyncio.run(error_of_the_task())

    assert "title: unknown field; a map is a new task; return a result as Result(...); there are age, " in error


def test_a_recurring_task_that_remembers_lets_its_project_finish(daemon: DaemonFactory) -> None:
    front_page = callback_of_the_document()
    page = SimpleNamespace(links=lambda: ["http://a/1"])
    with Client(daemon().url) as client:
        client.push("news", "http://a/", age=86400, auto_recrawl=True)

        first, found = front(client)
        client.done(first, new=front_page(first, page))
        (link,) = client.select(projects=["news"])
        client.done(link)

        assert found == {}
        assert client.projects.wait("news", 0)
        assert client.push("news", "http://a/") == "ignored"
        client.tasks.retry("news", [first.taskid])
        again, found = front(client)
        assert found == {"seen": ["http://a/1"]}
        assert [new.url for new in front_page(again, page)] == ["http://a/"]


def front(client: Client) -> tuple[Task, Any]:
    """Take the next task; return it with its ``save``."""
    (task,) = client.select(projects=["news"])
    return task, task.save


def callback_of_the_document() -> Callable[..., Any]:
    """Load ``front_page`` from the document."""
    [code] = re.findall(r"```python\n([^`]*\nDAY = .*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    callback: Callable[..., Any] = names["front_page"]
    return callback
