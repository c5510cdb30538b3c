"""Hung handlers in every view of one daemon: of a fetcher that reports its own, and of one that does not."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from taskqueue import Client
from taskqueue.cli.input.top_keys import View
from taskqueue.cli.main import main
from taskqueue.cli.output.top_screen import Snapshot, render_screen
from taskqueue.protocol.daemon import StatusShow
from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory
from tests.integration.web_pages import Pages, pages_of, table, words

FOR = r"for 9 min( \d+ s)?: http://site/a"
TELLS = rf"the only place of web2 is occupied by a handler whose lease has ended, {FOR}"
SILENT = (
    r"the only place of foreign is occupied by a handler whose lease has ended, "
    r'for [\d.]+ s: task "b" of project "news"'
)
ALL = rf"2 of the 2 places of web2, foreign are occupied by handlers whose lease has ended, the longest {FOR}"

HUNG = {"places": 1, "seconds": 540.0, "project": "news", "taskid": "a", "url": "http://site/a"}


def busy(it: Daemon, peer: PeerFactory, name: str, taskid: str) -> tuple[Peer, int]:
    """Start a fetcher with one place; return it with the token of its task."""
    fetcher = peer(it)
    fetcher.push("news", taskid)
    fetcher.ask("hello", capacity=1, projects=["news"], name=name)
    (handed,) = fetcher.receive()["tasks"]
    return fetcher, handed["token"]


def hang(fetcher: Peer, token: int, name: str, **facts: Any) -> None:
    """Answer a wish for a hello: the fetcher still runs the task."""
    assert fetcher.receive()["type"] == "hello-wanted"
    welcome = fetcher.ask("hello", capacity=1, projects=["news"], name=name, holds=[token], running=[token], seen=1)
    assert welcome["ended"] == [token]
    fetcher.ask("hello", capacity=1, projects=["news"], name=name, running=[token], seen=1, **facts)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command; return its output with single spaces."""
    assert main(arguments) == 0
    return " ".join(capsys.readouterr().out.split())


def top(url: str) -> str:
    """Draw the screen of ``taskqueue top`` with its fetchers."""
    view = View("name", "")
    view.fetchers_seen = True
    with Client(url) as client:
        snapshot = Snapshot(client._ask(StatusShow()), client.fetchers.list(sort="hung"), {})
    console = Console(file=StringIO(), width=80, height=24, color_system=None)
    with console.capture() as seen:
        console.print(render_screen(url, snapshot, view, 80, 24))
    return seen.get()


def check_pages(pages: Pages) -> None:
    """Check the list of fetchers, each fetcher's page, the HTTP interface and the metrics."""
    fetchers = pages.page("/fetchers?sort=hung")
    heads, *rows = table(fetchers, "Fetchers")
    at = heads.index("hung")
    assert [row[0] for row in rows] == ["web2", "foreign"]
    assert re.fullmatch(r"1 for 9 min( \d+ s)?", rows[0][at])
    assert re.fullmatch(r"1 for [\d.]+ s", rows[1][at])
    assert words(fetchers.get_element_by_id("summary")) == "2 fetchers hold 0 of 2, 2 hung"
    for name, told, taskid in (("web2", TELLS, "a"), ("foreign", SILENT, "b")):
        page = pages.page(f"/fetchers/{name}")
        assert "holds0 of 1 hung1" in words(page.get_element_by_id("figures"))
        assert re.search(told, words(page.get_element_by_id("held")))
        assert f"/projects/news/tasks/{taskid}" in {each.get("href") for each in page.iter("a")}
    hung = {each["name"]: each["hung"] for each in pages.get("/api/v1/fetchers").json()["fetchers"]}
    assert hung["web2"] | {"seconds": 540.0} == HUNG
    assert (hung["foreign"]["places"], hung["foreign"]["taskid"]) == (1, "b")
    assert "\ntaskqueue_fetcher_places_hung 2.0\n" in pages.get("/metrics").text


def test_after_one_hello_every_view_tells_of_a_hung_handler(
    daemon: DaemonFactory, peer: PeerFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    it = daemon(fetcher_timeout=3600)
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    (web2, a), (foreign, b) = busy(it, peer, "web2", "a"), busy(it, peer, "foreign", "b")
    peer(it).ask("task-cancel", project="news", taskids=["a", "b"])
    hang(web2, a, "web2", hung=HUNG)
    hang(foreign, b, "foreign")
    peer(it).push("news", "c")

    listed = command(capsys, "fetcher", "list", "--sort", "hung")
    assert re.search(rf"web2 0/1 1 for 9 min.* foreign 0/1 1 for .*{TELLS} {SILENT}", listed)
    assert re.search(rf"web2 0/1 1 for 9 min.*{TELLS}", command(capsys, "fetcher", "show", "web2"))
    assert json.loads(command(capsys, "fetcher", "show", "foreign", "--json"))["fetchers"][0]["hung"]["taskid"] == "b"
    full = 'project "news" has tasks to dispatch, but all fetchers that ask for them are full'
    assert re.fullmatch(rf"{full}: {ALL}", command(capsys, "why", "news"))
    assert "2, which hold 0 of 2; handlers whose lease has ended occupy 2 more" in command(capsys, "daemon", "show")
    assert re.search(r"2 fetchers hold 0 of 2, 2 hung(.|\n)*web2 +0/1 +1 for 9 min", top(it.url))
    with pages_of(it.url) as pages:
        check_pages(pages)
    assert re.search(rf"{TELLS} {SILENT}", command(capsys, "status"))
    assert "All invariants hold." in command(capsys, "daemon", "verify")

    web2.ask("hello", capacity=1, projects=["news"], name="web2", seen=1)
    (handed,) = web2.receive()["tasks"]
    assert handed["taskid"] == "c"
    assert "web2 1/1" in command(capsys, "fetcher", "list")
