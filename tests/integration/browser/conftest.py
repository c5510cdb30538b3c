"""Debian's Chromium in front of a daemon that serves its pages: what a reader sees, clicks and types.

site      a daemon, its web process and a client, for all tests of a module; nothing in it is expected to be first
browser   a Chromium without a window, for all modules that a process of pytest runs one after the other
reader    a window of it, for all tests of a module that ask for the same: a new one takes a process of the browser, and
          twice the CPU of a page. It watches what must not happen: a script of somebody else, a request to elsewhere,
          an error in the console, a violation of the content-security policy. A test in which one does, fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, ViewportSize, expect, sync_playwright

from taskqueue import Client
from tests.integration.browser.crawl import crawl
from tests.integration.conftest import NOTHING_SAID, Daemon

CHROMIUM: Final = Path("/usr/bin/chromium")
OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""root has no sandbox; and nothing that leaves this machine."""

WAIT_MS: Final = 60_000
"""How long something that must be seen is waited for; it goes on as soon as it is."""
expect.set_options(timeout=WAIT_MS)

VIOLATED: Final = """
window.violated = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.violated.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""


LINKS: Final = """() => [...document.querySelectorAll("a[href], form[action]")].map(
  (one) => new URL(one.href?.baseVal ?? one.href ?? one.action, location).href)"""
FOREIGN: Final = """() => {
  const ours = (one) => one.matches("script") && one.src.startsWith(`${location.origin}/static/`);
  const foreign = "script, img, iframe, object, embed, base, b, h1 + h1, [style], [onload], [onerror]";
  return [...document.querySelectorAll(foreign)].filter((one) => !ours(one)).map((one) => one.outerHTML.slice(0, 120));
}"""
"""Elements and attributes that no template of ours has."""


class Site(NamedTuple):
    """A daemon and its pages.

    Attributes:
        address: of the pages, without a slash at its end.
        client: of the daemon, of an operator called anna@web1.
    """

    address: str
    daemon: Daemon
    client: Client


class Reader:
    """A window.

    Attributes:
        page: what is in it.
        wrong: what must not happen, and has.
    """

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        self._address = address
        self._origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        self._size = page.viewport_size
        self._browser = page.context.new_cdp_session(page)
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(VIOLATED)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._dismiss)
        page.on("request", self._see)

    def open(self, path: str) -> Page:
        """Go to an address of the site, and wait until its stream, if it has one, is heard."""
        self.look()
        self.page.goto(self._address + path, wait_until="load")
        if self.page.locator("body").get_attribute("data-live"):
            self.page.locator('#pulse[data-state="live"]').wait_for()
        return self.page

    def expected(self, *words: str) -> None:
        """Of what went wrong, what has one of these words was meant to."""
        self.wrong = [wrong for wrong in self.wrong if not any(word in wrong for word in words)]

    def look(self) -> None:
        """Take down what the page says of its content-security policy, before it goes away."""
        if self.page.url.startswith(self._address):
            self.wrong += self.page.evaluate("window.violated ?? []")

    def leave(self) -> list[str]:
        """Go away from the page at the end of a test; returns what has gone wrong in it.

        The next test finds the window as it was when it was new: of its size, without cookies and choices.
        """
        self.look()
        self.page.goto("about:blank")
        if self._size and self.page.viewport_size != self._size:
            self.page.set_viewport_size(self._size)
        self.page.context.clear_cookies()
        stored = {"origin": self._origin, "storageTypes": "local_storage"}
        self._browser.send("Storage.clearDataForOrigin", stored)
        wrong, self.wrong = self.wrong, []
        return wrong

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _see(self, request: Request) -> None:
        if not request.url.startswith((f"{self._address}/", "data:image/")):
            self.wrong.append(f"request: {request.url}")


Open = Callable[..., Reader]


def assert_tame(page: Page) -> None:
    """Nothing of what it shows has become anything but text."""
    assert page.title() != "hacked"
    assert page.evaluate(FOREIGN) == []
    assert {urlsplit(link).scheme for link in page.evaluate(LINKS)} <= {"http", "https"}


@contextmanager
def serving(folder: Path, chosen: Mapping[str, str] = NOTHING_SAID, **settings: Any) -> Iterator[Site]:
    """A daemon that serves its pages, and in which a crawl has begun; ``chosen``: variables of its own."""
    daemon = Daemon(folder, web="127.0.0.1:0", environment={"HOME": str(folder), **chosen}, **settings).start()
    try:
        line = daemon.wait_for_log("shows the daemon at")
        address = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert address is not None, line
        with Client(daemon.url, name="anna@web1") as client:
            yield Site(address[0], daemon, client)
    finally:
        daemon.kill()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium without a window."""
    assert CHROMIUM.exists(), "tests of pages need Debian's Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        it = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield it
        it.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site")) as it, crawl(it.client):
        yield it


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with the package, since no other test could run an event loop beside Playwright's."""
    with chromium() as it:
        yield it


@pytest.fixture(scope="module")
def windows(browser: Browser, site: Site) -> Iterator[Open]:
    """Open a window of the module, or find it again."""
    opened: dict[str, Reader] = {}

    def window(**how: Any) -> Reader:
        if (key := repr(how)) not in opened:
            context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB", **how)
            opened[key] = Reader(context.new_page(), site.address)
        return opened[key]

    yield window
    for reader in opened.values():
        reader.page.context.close()


@pytest.fixture
def reads(windows: Open) -> Iterator[Open]:
    """Take a window: its width, and what else ``Browser.new_context`` takes."""
    taken: list[Reader] = []

    def take(width: int = 1280, height: int = 900, **how: Any) -> Reader:
        reader = windows(viewport=ViewportSize(width=width, height=height), **how)
        assert reader not in taken, f"a test has one window of a kind: {how}"
        taken.append(reader)
        return reader

    yield take
    assert [wrong for reader in taken for wrong in reader.leave()] == []


@pytest.fixture
def reader(reads: Open) -> Reader:
    """A window of a laptop."""
    return reads()
