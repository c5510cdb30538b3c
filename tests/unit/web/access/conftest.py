"""Small application behind the real gate, with a real access file, of which a daemon says who a user is.

site()                        on loopback without keys; site(host="0.0.0.0", hosts=(...), proxies=(...)) elsewhere
site(keys=True)               beside a daemon with keys
site.get, site.post ...       as in httpx; site.sign_in(secret) as a browser does
site.token("anna", "admin")   creates a token, and returns it
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from taskqueue.access import access_file
from taskqueue.access.checks import who_is
from taskqueue.access.key_file import make_key
from taskqueue.protocol.daemon import WhoIs, WhoReply
from taskqueue.server.network.key_ring import KeyRing
from taskqueue.web.access import users
from taskqueue.web.access.visitors import visitor_of
from taskqueue.web.main import make_app
from taskqueue.web.options import AccessOptions, WebOptions
from taskqueue.web.routes import WebRoute, to_starlette

HOST = "127.0.0.1:7401"

BROWSER = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
"""Headers of a browser when our page changes something."""


async def tell_who(request: Request) -> Response:
    """Answer with the visitor."""
    visitor = visitor_of(request)
    return JSONResponse({"name": visitor.name, "role": visitor.role, "actor": visitor.actor, "csrf": visitor.csrf})


async def break_down(request: Request) -> Response:
    """Fail by a bug."""
    raise ZeroDivisionError("secret\x1b[31m")


async def stream(request: Request) -> Response:
    """Answer with a stream that never ends by itself."""

    async def parts() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"part"
            await asyncio.sleep(0)

    return StreamingResponse(parts())


async def stay_silent(request: Request) -> Response:
    """Answer with a stream that is silent after its first part."""

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"part"
        await asyncio.Event().wait()

    return StreamingResponse(parts())


async def wait_for_ever(request: Request) -> Response:
    """Never answer."""
    request.app.state.asked.set()
    await asyncio.Event().wait()
    return Response()


ROUTES = (
    WebRoute("/stream", stream, is_long=True),
    WebRoute("/silent", stay_silent, is_long=True),
    WebRoute("/wait", wait_for_ever, is_long=True),
    WebRoute("/for-ever", wait_for_ever),
    WebRoute("/who", tell_who, methods=("GET", "POST")),
    WebRoute("/run", tell_who, "run", ("POST",)),
    WebRoute("/api/v1/set", tell_who, "rule", ("PATCH", "POST")),
    WebRoute("/broken", break_down, None),
    WebRoute("/api/v1/broken", break_down, None),
)


T = TypeVar("T")


class Site:
    """The application, as one browser or program sees it.

    Attributes:
        path: access file.
        served: ASGI application.
        headers: headers of each request.
        cookies: cookies of the browser.
    """

    def __init__(
        self, path: Path, *, host: str = "127.0.0.1", peer: str = "127.0.0.1", keys: bool = False, **chosen: Any
    ) -> None:
        networks = tuple(map(ip_network, chosen.pop("proxies", ())))
        self.path = path
        self._ring = KeyRing(path)
        access = AccessOptions(proxies=networks, **chosen)
        options = WebOptions("tcp://127.0.0.1:1", host, access=access, key=make_key("web", "") if keys else None)
        self.served: Starlette = make_app(options, self._ask)
        self.served.state.asked = asyncio.Event()
        self.served.router.routes[:0] = map(to_starlette, ROUTES)
        transport = httpx.ASGITransport(self.served, raise_app_exceptions=False, client=(peer, 4711))
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}")
        self.headers, self.cookies = self._client.headers, self._client.cookies
        self._runner = asyncio.Runner()
        self._running = self.served.router.lifespan_context(self.served)
        self._runner.run(self._running.__aenter__())

    async def _ask(self, asked: WhoIs) -> WhoReply:
        self._ring.read_again()
        return who_is(self._ring, asked)

    def close(self) -> None:
        """Stop the application."""
        self._runner.run(self._client.aclose())
        self._runner.run(self._running.__aexit__(None, None, None))
        self._runner.close()

    def request(self, method: str, path: str, **said: Any) -> httpx.Response:
        """Send a request, and return the answer."""
        return self._runner.run(self._client.request(method, path, **said))

    def get(self, path: str, **said: Any) -> httpx.Response:
        """Send a GET."""
        return self.request("GET", path, **said)

    def post(self, path: str, **said: Any) -> httpx.Response:
        """Send a POST."""
        return self.request("POST", path, **said)

    def patch(self, path: str, **said: Any) -> httpx.Response:
        """Send a PATCH."""
        return self.request("PATCH", path, **said)

    def run(self, asking: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the application's event loop."""
        return self._runner.run(asking)

    async def parts(self, path: str, headers: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the parts of a stream while it lasts."""
        scope = {
            "type": "http", "method": "GET", "http_version": "1.1", "scheme": "http", "path": path, "root_path": "",
            "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 1),
            "headers": [(name.lower().encode(), value.encode()) for name, value in ({"Host": HOST} | headers).items()],
        }  # fmt: skip
        sent: asyncio.Queue[Any] = asyncio.Queue(1)
        answering = asyncio.create_task(self.served(scope, asyncio.Event().wait, sent.put))  # type: ignore[arg-type]
        while (message := await sent.get())["type"] != "http.response.body" or message.get("more_body"):
            if message.get("body"):
                yield message["body"]
        await answering

    def cookie(self) -> dict[str, str]:
        """Return the header with the browser's cookies."""
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}

    def call_it(self, base_url: str) -> None:
        """Use another address from now on."""
        self._client.base_url = base_url

    def token(self, name: str = "anna", role: Any = "admin", expires_at: float | None = None) -> str:
        """Create a token."""
        return access_file.authorise_token(self.path, name, role, expires_at)

    def revoke(self, name: str = "anna") -> None:
        """Revoke a token."""
        access_file.revoke(self.path, name)

    def sign_in(self, secret: str, target: str = "/who") -> httpx.Response:
        """Sign in with a token, as a browser does."""
        page = self.get("/login", params={"next": target})
        csrf = re.findall(r'name="csrf" value="(\w+)"', page.text)[0]
        headers = {"Origin": str(self._client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        return self.post("/login", data={"csrf": csrf, "token": secret, "next": target}, headers=headers)


MakeSite = Callable[..., Site]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeSite]:
    """Make sites that share an access file, and ask anew each time."""
    monkeypatch.setattr(users, "FRESH_SECONDS", 0.0)
    made: list[Site] = []

    def make(**chosen: Any) -> Site:
        made.append(Site(tmp_path / "access.json", **chosen))
        return made[-1]

    yield make
    for each in made:
        each.close()
