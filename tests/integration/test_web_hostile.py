"""A browser that follows every link of the dashboard, on a daemon whose texts from outside all attack it."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import pytest
from lxml import html

from tests.integration.conftest import Daemon, Peer
from tests.integration.web_pages import ADDRESS, Pages, pages_of

MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)><svg/onload=alert(1)>{{7*7}}{%x%}-->]]>&amp;"
"""Markup that ends attributes, elements and comments, runs a script, and is a template."""

EVIL = f"{MARKUP}\x1b[31m\x07\u202e\u2066\u200b\u2028\x00\x9b"
"""Markup with characters that reverse and hide text."""

URLS = [
    "javascript:alert(1)",
    "JaVaScRiPt://site/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//evil.example/x",
    f"http://site/{EVIL}",
    "http://site/?a=1&b=<b>#c",
    " javascript:alert(1)",
]

TASKIDS = [
    EVIL,
    "a/b",
    "a%2fb",
    "a?b=c#d",
    "..",
    ".",
    "../..",
    "a b",
    "a\\b",
    "/",
    "//evil.example",
    "%",
    "%00",
    "ä漢🙂",
    "a\nb",
]

HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028\u202a-\u202e\u2066-\u2069]")

MOST_ADDRESSES = 600


def accepted(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["type"] != "error", answer
    return answer


def tell(daemon: Daemon) -> list[Peer]:
    """Put hostile texts wherever the daemon accepts any; return peers that must stay connected."""
    fetcher = Peer(daemon.url)
    settings = {
        "fetch": {EVIL: EVIL}, "group": "papers", "retries": 0, "slot": {"by": "named"}, "fail_pause_num": 0,
        "cron": {"daily": {"every": "1d", "task": {"url": URLS[0]}}},
    }  # fmt: skip
    accepted(fetcher.ask("project-set", project="news", settings=settings))
    tasks = [
        {"taskid": taskid, "url": URLS[at % len(URLS)], "body": {EVIL: [EVIL]}} for at, taskid in enumerate(TASKIDS)
    ]
    accepted(fetcher.ask("new-task", project="news", tasks=tasks))
    accepted(fetcher.ask("hello", capacity=8, name=EVIL[:40], projects=["news"]))
    handed = fetcher.receive()["tasks"]
    over = [{key: task[key] for key in ("project", "taskid", "token")} for task in handed[: len(handed) // 2]]
    accepted(fetcher.ask("done", tasks=[task | {"ok": False, "error": f"{EVIL}\n{EVIL}"} for task in over]))
    members = [
        {"taskid": "f" + EVIL, "url": URLS[0]},
        {"taskid": "g" + EVIL, "url": URLS[2], "depends_on": ["f" + EVIL]},
    ]
    accepted(fetcher.ask("flow-stage", project="news", flow="night", first=0, tasks=members))
    accepted(fetcher.ask("flow-submit", project="news", flow="night", count=2))
    chosen = {"states": ["failed"], "url": f"*{MARKUP}*", "error": "*"}
    accepted(fetcher.ask("bulk", action="retry", project="news", filter=chosen, dry_run=True))
    return [fetcher]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    peers = tell(daemon)
    with pages_of(daemon.url) as found:
        yield found
    for peer in peers:
        peer.close()
    daemon.kill()


def harm_in(page: html.HtmlElement) -> list[str]:
    """List what a browser would run, load from another host, or show misleadingly."""
    found = [f"<{each.tag}>" for each in page.iter("script", "style", "iframe", "object", "embed", "base", "img")
             if not str(each.get("src", "")).startswith("/static/")]  # fmt: skip
    for each in page.iter(html.etree.Element):
        for name, value in each.attrib.items():
            if str(name).startswith("on") or name in ("style", "srcdoc") or HIDDEN.search(str(value)):
                found.append(f"{each.tag} {name}={value}")
            if name in ("href", "src", "action", "formaction", "xlink:href", "data-api", "data-then"):
                if not re.match(r"/(?!/)|#|\?|https?://", str(value)):
                    found.append(f"{each.tag} {name}={value}")
                if str(value).startswith("http") and "noopener" not in str(each.get("rel")):
                    found.append(f"{each.tag} {name}={value} without rel")
    return found


def test_no_page_runs_loads_or_hides_what_somebody_else_wrote_and_every_link_leads_somewhere(pages: Pages) -> None:
    waiting, seen, bad = deque(["/"]), {"/"}, []
    while waiting:
        path = waiting.popleft()
        answer = pages.get(path)
        if answer.status_code != 200:
            bad.append((path, answer.status_code, answer.text[-300:]))
            continue
        if "text/html" not in answer.headers["Content-Type"]:
            continue
        if HIDDEN.search(answer.text) or "{{7*7}}".replace("7*7", "") in answer.text or ">49<" in answer.text:
            bad.append((path, 0, "hides something"))
        page = html.document_fromstring(answer.text)
        bad += [(path, 0, harm) for harm in harm_in(page)]
        for link in page.iter("a"):
            target = urlsplit(urljoin(f"{ADDRESS}{path}", link.get("href", "")))
            address = f"{target.path}?{target.query}" if target.query else target.path
            if target.netloc == urlsplit(ADDRESS).netloc and address not in seen and len(seen) < MOST_ADDRESSES:
                seen.add(address)
                waiting.append(address)

    assert not bad, json.dumps(bad[:20], indent=1)
    assert len(seen) > 30


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/fetchers",
        "/flows",
        "/failures",
        "/operations",
        "/log",
        "/daemon",
        "/projects/news",
        "/projects/news/flows/night",
    ],
)
def test_what_changes_in_a_page_hides_nothing_either(pages: Pages, path: str) -> None:
    change = pages.first_change(path)

    assert change
    for section, part in change.items():
        for name, value in part.items():
            assert not HIDDEN.search(json.dumps(value, ensure_ascii=False).replace("\\n", "")), (section, name, value)
            if isinstance(value, dict) and "href" in value:
                assert re.match(r"/(?!/)|#", value["href"])
            if section in ("blocks", "rows") and value.strip():
                assert harm_in(html.fragment_fromstring(value, create_parent="table")) == []


@pytest.mark.parametrize("taskid", [taskid for taskid in TASKIDS if taskid not in ("..", ".")], ids=ascii)
def test_the_interface_finds_every_task_by_its_name(pages: Pages, taskid: str) -> None:
    answer = pages.get(f"/api/v1/projects/news/tasks/{quote(taskid, safe='')}")

    assert answer.status_code == 200
    assert answer.json()["taskid"] == taskid
    assert answer.headers["Content-Type"] == "application/json"


def test_what_a_task_was_named_and_why_it_failed_is_shown_as_it_is(pages: Pages) -> None:
    shown = pages.page("/failures").text_content()

    assert MARKUP.replace("1", "*").replace("7", "*")[:20] in shown or MARKUP[:20] in shown
    assert "\\u202e" in shown
