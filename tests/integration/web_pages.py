"""Dashboard of a real daemon, asked for without a socket in between, and first messages of its streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

import httpx
from lxml import html
from starlette.applications import Starlette

from taskqueue.web.main import make_app
from taskqueue.web.options import WebOptions

ADDRESS = "http://127.0.0.1:7401"


class Pages:
    """Web process whose only browser is the test; it goes on while a page is requested."""

    def __init__(self, app: Starlette, runner: asyncio.Runner) -> None:
        self._app = app
        self._runner = runner

    def get(self, path: str) -> httpx.Response:
        """Return the answer to a request."""
        return self._runner.run(self._get(path))

    async def _get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url=ADDRESS) as browser:
            return await browser.get(path)

    def page(self, path: str, status: int = 200) -> html.HtmlElement:
        """Return a page, parsed as a browser would."""
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        return html.document_fromstring(answer.text)

    def first_change(self, path: str) -> dict[str, Any]:
        """Return the first message of a page's stream: everything that is live in it."""
        found: dict[str, Any] = self._runner.run(self._first_event(self.page(path).find("body").get("data-live")))
        return found

    async def _first_event(self, address: str) -> Any:
        path, _, query = address.partition("?")
        scope = {
            "type": "http", "method": "GET", "http_version": "1.1", "scheme": "http", "path": unquote(path),
            "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 9),
            "server": ("127.0.0.1", 7401), "headers": [(b"host", b"127.0.0.1:7401")],
        }  # fmt: skip
        sent: asyncio.Queue[bytes] = asyncio.Queue()

        async def receive() -> dict[str, str]:
            await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.put_nowait(message.get("body", b""))

        answering = asyncio.create_task(_answer(self._app, scope, receive, send))
        try:
            while not (body := await sent.get()).startswith(b"event: change"):
                pass
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
        return json.loads(body.split(b"data: ", 1)[1])


async def _answer(app: Starlette, scope: Any, receive: Any, send: Any) -> None:
    await app(scope, receive, send)


def words(element: html.HtmlElement) -> str:
    """Return its text, with single spaces."""
    return " ".join(element.text_content().split())


def table(page: html.HtmlElement, label: str) -> list[list[str]]:
    """Return the cells of a table by the name of its region, headers first."""
    (region,) = [each for each in page.iter("div", "section") if each.get("aria-label") == label]
    return [[words(cell) for cell in row.iter("th", "td")] for row in region.iter("tr")]


@contextmanager
def pages_of(url: str) -> Iterator[Pages]:
    """Serve the dashboard of the daemon at this address."""
    app = make_app(WebOptions(url))
    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        try:
            yield Pages(app, runner)
        finally:
            runner.run(lifespan.__aexit__(None, None, None))
