"""A small application behind the real gate, with a real file of tokens.

site()                        on loopback; site(host="0.0.0.0", hosts=(...), proxies=(...)) elsewhere
site.get, site.post ...       as httpx has them; site.sign_in(secret) as a browser does
site.token("anna", "admin")   makes a token, and returns it
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from taskqueue.web.access.token_file import add_token
from taskqueue.web.access.visitors import visitor_of
from taskqueue.web.app import make_app
from taskqueue.web.options import AccessOptions, WebOptions
from taskqueue.web.routes import WebRoute, to_starlette

HOST = "127.0.0.1:7401"

BROWSER = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
"""What a browser says when a page of ours changes something."""


async def tell_who(request: Request) -> Response:
    """Who asks."""
    visitor = visitor_of(request)
    return JSONResponse({"name": visitor.name, "role": visitor.role, "actor": visitor.actor, "csrf": visitor.csrf})


async def break_down(request: Request) -> Response:
    """A bug."""
    raise ZeroDivisionError("secret\x1b[31m")


ROUTES = (
    WebRoute("/who", tell_who, methods=("GET", "POST")),
    WebRoute("/run", tell_who, "operator", ("POST",)),
    WebRoute("/api/v1/set", tell_who, "admin", ("PATCH", "POST")),
    WebRoute("/broken", break_down, "anyone"),
    WebRoute("/api/v1/broken", break_down, "anyone"),
)


class Site:
    """The application, as one browser or program sees it.

    Attributes:
        tokens: the file of tokens.
        served: the application.
        headers: that each request has.
        cookies: that the browser keeps.
    """

    def __init__(self, tokens: Path, *, host: str = "127.0.0.1", peer: str = "127.0.0.1", **chosen: Any) -> None:
        networks = tuple(map(ip_network, chosen.pop("proxies", ())))
        self.tokens = tokens
        access = AccessOptions(tokens=tokens, proxies=networks, **chosen)
        self.served: Starlette = make_app(WebOptions("tcp://127.0.0.1:1", host, access=access))
        self.served.router.routes[:0] = map(to_starlette, ROUTES)
        transport = httpx.ASGITransport(self.served, raise_app_exceptions=False, client=(peer, 4711))
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}")
        self.headers, self.cookies = self._client.headers, self._client.cookies
        self._runner = asyncio.Runner()
        self._running = self.served.router.lifespan_context(self.served)
        self._runner.run(self._running.__aenter__())

    def close(self) -> None:
        """End it."""
        self._runner.run(self._client.aclose())
        self._runner.run(self._running.__aexit__(None, None, None))
        self._runner.close()

    def request(self, method: str, path: str, **said: Any) -> httpx.Response:
        """Ask."""
        return self._runner.run(self._client.request(method, path, **said))

    def get(self, path: str, **said: Any) -> httpx.Response:
        """Ask for something."""
        return self.request("GET", path, **said)

    def post(self, path: str, **said: Any) -> httpx.Response:
        """Change something."""
        return self.request("POST", path, **said)

    def patch(self, path: str, **said: Any) -> httpx.Response:
        """Change something."""
        return self.request("PATCH", path, **said)

    def call_it(self, base_url: str) -> None:
        """Call it by another address."""
        self._client.base_url = base_url

    def token(self, name: str = "anna", role: Any = "admin", expires_at: float | None = None) -> str:
        """Make a token."""
        return add_token(self.tokens, name, role, expires_at)

    def sign_in(self, secret: str, target: str = "/who") -> httpx.Response:
        """What a browser does that shows a token."""
        page = self.get("/login", params={"next": target})
        csrf = re.findall(r'name="csrf" value="(\w+)"', page.text)[0]
        headers = {"Origin": str(self._client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        return self.post("/login", data={"csrf": csrf, "token": secret, "next": target}, headers=headers)


MakeSite = Callable[..., Site]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[MakeSite]:
    """Makes sites that share a file of tokens."""
    made: list[Site] = []

    def make(**chosen: Any) -> Site:
        made.append(Site(tmp_path / "tokens.json", **chosen))
        return made[-1]

    yield make
    for each in made:
        each.close()
