"""Dashboard and HTTP interface behind a reverse proxy that shows them below a path, and strips it or not."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx
import pytest
from lxml import html

from taskqueue import Client, new_task
from taskqueue.web.addresses import segment
from tests.integration.browser.crawl import crawl
from tests.integration.conftest import WAIT_SECONDS, Daemon
from tests.integration.http_interface import Keyed, Web
from tests.integration.reverse_proxy import Proxy, proxy

PATH: Final = "/tools/taskqueue"
OPTION: Final = {"TASKQUEUE_WEB_ROOT_PATH": f"{PATH}/"}
PREFIX: Final = {"X-Forwarded-Prefix": PATH}
TRUSTED: Final = {
    "TASKQUEUE_WEB_TRUST_PROXY": "127.0.0.1",
    "TASKQUEUE_WEB_PROXY_HEADER": "X-Forwarded-User",
}
ANNA: Final = {"X-Forwarded-User": "anna"}

NAMES: Final = (".", "..", "~.", "~~..", "...", "a/b?c#d", "a%2Fb", "%2e%2e", "//evil", "/", "\\", "é\nü ", "x" * 128)
"""Taskids that a path could change the meaning of."""

IMPORTED: Final = re.compile(r"""(?:from|import) "(\./[^"]+)"|@import url\("([^"]+)"\)""")


class Way(NamedTuple):
    """Configuration of a proxy: whether it strips the path, and whether the path is an option or a header of each
    request."""

    strips: bool
    is_option: bool


WAYS: Final = [Way(strips, is_option) for strips in (False, True) for is_option in (False, True)]

IN_TWO_WAYS: Final = pytest.mark.parametrize("site", [WAYS[1], WAYS[2]], ids=str, indirect=True)
"""Mark of tests that cover each choice once: kept and an option, stripped and a header."""


class Site(NamedTuple):
    """Web process behind a proxy, and its clients.

    Attributes:
        web: client that bypasses the proxy.
        secret: token of an admin.
    """

    web: Web
    secret: str
    proxy: Proxy
    browser: httpx.Client
    client: Client

    @property
    def address(self) -> str:
        """URL of the dashboard, without a trailing slash."""
        return self.proxy.address


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("daemon")
    it = Keyed(Daemon(folder), folder)
    it.daemon.start()
    try:
        yield it
    finally:
        it.daemon.kill()


@pytest.fixture(scope="module")
def client(keyed: Keyed) -> Iterator[Client]:
    key, url = keyed.key_file("ops", "admin"), keyed.daemon.url
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TASKQUEUE_KEY", str(key))
        with Client(url, name="anna@web1") as it, crawl(it), Client(url, name="..") as dots:
            it.push_many("names", [new_task(f"http://names/{place}", taskid=name) for place, name in enumerate(NAMES)])
            dots.select(2, projects=["names"])
            yield it


@pytest.fixture(scope="module")
def web_for(keyed: Keyed) -> Iterator[Callable[[Way], tuple[Web, str]]]:
    """Start a web process, or return the earlier one of this way; with the token of anna."""
    started: dict[bool, Web] = {}
    token = keyed.token("anna", "admin")

    def web_for(way: Way) -> tuple[Web, str]:
        if way.is_option not in started:
            key = {"TASKQUEUE_KEY": str(keyed.key_file(f"web{len(started)}", "web"))}
            started[way.is_option] = Web(keyed.daemon.url, TRUSTED | key | (OPTION if way.is_option else {}))
        return started[way.is_option], token

    yield web_for
    for web in started.values():
        web.kill()


@pytest.fixture(scope="module", params=WAYS, ids=str)
def site(request: pytest.FixtureRequest, web_for: Callable[[Way], tuple[Web, str]], client: Client) -> Iterator[Site]:
    way: Way = request.param
    web, secret = web_for(way)
    says = ANNA if way.is_option else ANNA | PREFIX
    with proxy(web.address, PATH, says, strips=way.strips) as it, httpx.Client(timeout=WAIT_SECONDS) as browser:
        yield Site(web, secret, it, browser, client)


class Walk:
    """Crawler of the dashboard that follows all links from the first page on.

    Attributes:
        wrong: links that lead out of the path, or nowhere.
        pages: addresses of pages that were read.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ahead = [f"{site.address}/"]
        self._known = {*self._ahead}
        self.wrong: list[str] = []
        self.pages: list[str] = []

    def go(self, most: int) -> None:
        """Walk until no link is new, ``most`` steps at most."""
        while self._ahead and most:
            most -= 1
            steps, self._ahead = self._ahead, []
            for address in steps:
                self._read(address)

    def _read(self, address: str) -> None:
        answer = self._site.browser.get(address, follow_redirects=True)
        if answer.status_code != 200:
            self.wrong.append(f"{answer.status_code} {address}")
            return
        kind = answer.headers["content-type"]
        if kind.startswith("text/html"):
            self.pages.append(address)
            self._look_at(address, html.document_fromstring(answer.text))
        elif kind.startswith(("text/css", "text/javascript")):
            for found in IMPORTED.finditer(answer.text):
                self._note(address, found[1] or found[2])

    def _look_at(self, address: str, page: html.HtmlElement) -> None:
        for element in page.iter():
            for name in ("href", "src", "action"):
                if element.get("method") != "post" and element.get("target") is None and element.get(name):
                    self._note(address, element.get(name))
            if api := element.get("data-api"):
                self._ask(f"{self._site.address}{api}")
        root = page.get("data-root")
        if live := page.find("body").get("data-live"):
            self._listen(address, root + live)

    def _note(self, address: str, said: str) -> None:
        target = urldefrag(urljoin(address, said)).url
        if not f"{target}/".startswith(f"{self._site.address}/") and not target.startswith(f"{self._site.address}?"):
            self.wrong.append(f"{said} of {address}")
        elif (shape := _shape(target)) not in self._known:
            self._known.add(shape)
            self._ahead.append(target)

    def _ask(self, api: str) -> None:
        if (shape := _shape(api)) not in self._known:
            self._known.add(shape)
            if self._site.browser.options(api).status_code != 204:
                self.wrong.append(f"OPTIONS {api}")

    def _listen(self, address: str, live: str) -> None:
        """Read the first change of a page's stream, which has all live links."""
        with self._site.browser.stream("GET", urljoin(address, live)) as answer:
            if answer.status_code != 200:
                self.wrong.append(f"{answer.status_code} {live}")
                return
            change = next(line for line in answer.iter_lines() if line.startswith("data: "))
        for said in re.findall(r'(?:href|src|action)="([^"]*)"', " ".join(_texts(json.loads(change[6:])))):
            self._note(address, html.fromstring(f"<p>{said}</p>").text or "")


def _shape(target: str) -> str:
    """Return what addresses of one kind share: the path without usual taskids, and the query without values."""
    parts = urlsplit(target)
    return (
        f"{re.sub('[0-9a-f]{32}', '*', parts.path)}?{sorted(part.partition('=')[0] for part in parts.query.split('&'))}"
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(href := value.get("href"), str):
            yield f'href="{href}"'
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


def test_no_link_of_the_first_page_and_of_those_it_leads_to_leaves_the_path(site: Site) -> None:
    walk = Walk(site)
    walk.go(2)

    assert walk.wrong == []
    assert site.proxy.outside == []
    assert len(walk.pages) > 10


@IN_TWO_WAYS
def test_no_link_of_any_page_leaves_the_path_or_leads_to_nothing(site: Site) -> None:
    walk = Walk(site)
    walk.go(100)

    assert walk.wrong == []
    assert site.proxy.outside == []
    assert {urlsplit(page).path for page in walk.pages} >= {f"{PATH}/projects/names/tasks/{segment(n)}" for n in NAMES}


def test_a_redirect_stays_below_the_path(site: Site) -> None:
    led = [
        site.browser.get(f"{site.address}{path}", follow_redirects=False).headers["location"]
        for path in (
            "/flows/?state=running",
            "/projects/names/find?q=..",
            "/projects/names/find?q=none",
            "/login?next=/log",
        )
    ]

    assert led == [
        f"{PATH}/flows?state=running",
        f"{PATH}/projects/names/tasks/~..",
        f"{PATH}/projects/names/tasks?url=%2Anone%2A",
        f"{PATH}/log",
    ]


def test_addresses_that_the_interface_tells_are_below_the_path(site: Site) -> None:
    answer = site.browser.get(f"{site.address}/api/v1/projects/news/tasks?state=delayed&limit=2")
    following = answer.json()["next"]
    described = site.browser.get(f"{site.address}/api/v1/openapi.json").json()

    assert following.startswith(f"{PATH}/api/v1/projects/news/tasks?")
    assert answer.headers["link"] == f'<{following}>; rel="next"'
    assert site.browser.get(urljoin(site.address, following)).status_code == 200
    assert described["servers"] == [{"url": f"{PATH}/api/v1"}]


def test_metrics_are_below_the_path(site: Site) -> None:
    assert site.browser.get(f"{site.address}/metrics").text.count("taskqueue_up 1.0") == 1
    assert site.browser.get(f"{site.address}/healthz").text == "well\n"


@IN_TWO_WAYS
@pytest.mark.parametrize("name", NAMES)
def test_a_task_of_any_name_has_a_page_and_addresses_of_the_interface(site: Site, name: str) -> None:
    there = f"/projects/names/tasks/{segment(name)}"
    page = site.browser.get(f"{site.address}{there}")
    api = f"{site.address}/api/v1{there}"

    assert page.status_code == 200
    assert json.loads(html.document_fromstring(page.text).xpath("//@data-body")[0]) == {"taskids": [name]}
    assert site.browser.get(api).json()["taskid"] == name
    assert site.browser.get(f"{api}/parents").json() == {"parents": [], "next": None}
    assert "sentence" in site.browser.get(f"{api}/why").json()
    assert site.browser.post(f"{api}/retry").json() == {"outcomes": ["ignored"]}


@IN_TWO_WAYS
def test_slots_and_fetchers_may_be_named_by_dots(site: Site) -> None:
    api = f"{site.address}/api/v1"
    site.client.projects.set("slotted", {"slot": {"by": "host"}})

    for name in (".", ".."):
        slot = f"{api}/projects/slotted/slots/{segment(name)}"
        assert site.browser.patch(slot, json={"delay": 2}).status_code == 200, name
        assert site.browser.get(slot).json()["slot"]["name"] == name
    assert site.browser.get(f"{api}/fetchers/~..").json()["fetcher"] == ".."
    assert site.browser.get(f"{site.address}/fetchers/~..").status_code == 200


@IN_TWO_WAYS
@pytest.mark.parametrize(
    "path",
    [
        "/projects/names/tasks/%FF", "/projects/%FF", "/projects/names/tasks/%7e", "/projects/~../tasks",
        "/projects//tasks", "//evil.example/", "/%2F/evil.example", "/projects/names/tasks/" + "y" * 9000, "/%",
        "/fetchers/%ff%fe", "/projects/names/tasks/", "/static/../app.py",
        "/static/%2e%2e/app.py", "/api/v1/projects/names/tasks/%FF", "/api/v1/projects/names/tasks//why", "/api/v1/%00",
        "/projects/names/flows/%0d%0aSet-Cookie:%20a=b",
    ],
)  # fmt: skip
def test_a_path_that_says_no_name_of_ours_is_refused_and_leads_nowhere(site: Site, path: str) -> None:
    there = ("127.0.0.1", site.proxy.server_address[1])
    with socket.create_connection(there, WAIT_SECONDS) as peer:  # a client would normalise the path
        peer.sendall(f"GET {PATH}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = b"".join(iter(lambda: peer.recv(65_536), b"")).partition(b"\r\n\r\n")[0].decode("latin-1")

    assert head.split(" ")[1] in ("400", "404"), head
    assert "\r\nlocation:" not in head.lower()
    assert "\r\nset-cookie:" not in head.lower()


def test_who_signs_in_below_a_path_gets_a_cookie_of_that_path(site: Site) -> None:
    says = {name: said for name, said in site.proxy.says.items() if name not in ANNA}
    with (
        proxy(site.web.address, PATH, says, strips=site.proxy.strips) as it,
        httpx.Client(timeout=WAIT_SECONDS) as browser,
    ):
        asked = browser.get(f"{it.address}/log", headers={"Accept": "text/html"}, follow_redirects=True)
        form = html.document_fromstring(asked.text).xpath("//form[@action=$there]", there=f"{PATH}/login")[0]
        fields = {**form.fields, "token": site.secret}
        ours = {"Origin": it.address.removesuffix(PATH)}
        let_in = browser.post(urljoin(it.address, form.get("action")), data=fields, headers=ours)
        page = browser.get(urljoin(it.address, let_in.headers["location"]))
        (csrf,) = html.document_fromstring(page.text).xpath("//meta[@name='csrf']/@content")
        let_out = browser.post(f"{it.address}/logout", data={"csrf": csrf}, headers=ours)

        assert [urlsplit(str(asked.url)).path, let_in.headers["location"]] == [f"{PATH}/login", f"{PATH}/log"]
        assert page.status_code == 200
        assert re.findall("path=[^;]*", let_in.headers["set-cookie"], re.IGNORECASE) == [f"Path={PATH}"] * 2
        assert let_out.headers["location"] == f"{PATH}/login"
        assert browser.get(f"{it.address}/log").status_code == 401


@pytest.mark.parametrize("site", [WAYS[2]], ids=str, indirect=True)
def test_who_looks_at_one_page_below_two_paths_gets_links_of_the_own_one(site: Site) -> None:
    with ExitStack() as stack:
        told, streams = [], []
        for path in ("/a", "/b"):
            it = stack.enter_context(proxy(site.web.address, path, ANNA | {"X-Forwarded-Prefix": path}, strips=True))
            answer = stack.enter_context(site.browser.stream("GET", f"{it.address}/live/projects/news?"))
            streams.append(answer.iter_lines())  # the stream ends with its last reference
            told.append(next(line for line in streams[-1] if line.startswith("data: ")))

        assert ["/a/projects/news/" in told[0], "/b/projects/news/" in told[0]] == [True, False]
        assert ["/a/projects/news/" in told[1], "/b/projects/news/" in told[1]] == [False, True]
