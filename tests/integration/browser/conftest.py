"""Debian's Chromium in front of a daemon with a dashboard: what a user sees, clicks and types.

site      a daemon, its web process and a client, shared by all tests of a module, which leave traces in it
browser   a headless Chromium, shared by all modules that a pytest process runs one after the other
reader    a browser window, shared by tests of a module that ask for the same: a new one takes a process of the
          browser, and twice the CPU of a page. A test fails if its window sees a foreign script, a request to
          another host, an error in the console, or a violation of the content-security policy.
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
"""The sandbox doesn't work for root; other options keep the browser from contacting other machines."""

WAIT_MS: Final = 60_000
"""Milliseconds to wait for something that must appear; tests go on as soon as it does."""
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
"""Script that finds elements and attributes that no template of the dashboard has."""


class Site(NamedTuple):
    """Daemon and its dashboard.

    Attributes:
        address: URL of the dashboard, without a trailing slash.
        client: client of the daemon, named as operator anna@web1.
    """

    address: str
    daemon: Daemon
    client: Client


class Reader:
    """Browser window.

    Attributes:
        page: page in it.
        wrong: forbidden events seen so far.
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
        """Go to an address of the site, and wait until its stream, if it has one, delivers."""
        self.look()
        self.page.goto(self._address + path, wait_until="load")
        if self.page.locator("body").get_attribute("data-live"):
            self.page.locator('#pulse[data-state="live"]').wait_for()
        return self.page

    def expected(self, *words: str) -> None:
        """Drop expected faults, those with one of these words, from ``wrong``."""
        self.wrong = [wrong for wrong in self.wrong if not any(word in wrong for word in words)]

    def look(self) -> None:
        """Record violations of the content-security policy before the page is left."""
        if self.page.url.startswith(self._address):
            self.wrong += self.page.evaluate("window.violated ?? []")

    def leave(self) -> list[str]:
        """Leave the page at the end of a test; return what has gone wrong.

        The next test finds the window as new: its size, no cookies, no choices.
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
    """Assert that everything shown is text."""
    assert page.title() != "hacked"
    assert page.evaluate(FOREIGN) == []
    assert {urlsplit(link).scheme for link in page.evaluate(LINKS)} <= {"http", "https"}


@contextmanager
def serving(folder: Path, chosen: Mapping[str, str] = NOTHING_SAID, **settings: Any) -> Iterator[Site]:
    """Run a daemon with a dashboard and a crawl that has begun; ``chosen`` are variables of the web process."""
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
    """Run a headless Chromium."""
    assert CHROMIUM.exists(), "tests of the dashboard need Debian's Chromium: apt-get install chromium"
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
    """Chromium that ends with the package, since no other test could run an event loop beside Playwright's."""
    with chromium() as it:
        yield it


@pytest.fixture(scope="module")
def windows(browser: Browser, site: Site) -> Iterator[Open]:
    """Open a window of the module, or return the one with these options."""
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
    """Open a window by its width and options of ``Browser.new_context``."""
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
    """Laptop-sized window."""
    return reads()
