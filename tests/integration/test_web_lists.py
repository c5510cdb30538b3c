"""The dashboard's pages of fetchers, flows, changes and slots, of a real daemon."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from taskqueue import Client
from taskqueue.cli.output.fetcher_tables import of_fetchers
from taskqueue.cli.output.flow_tables import of_flows
from taskqueue.cli.output.slot_tables import of_slots
from taskqueue.cli.output.top_screen import FETCHER_CELLS, FETCHER_NAME
from taskqueue.display.fetchers import held
from taskqueue.web.pages.fetchers import SPEED
from tests.integration.conftest import Daemon
from tests.integration.web_pages import Pages, pages_of, table, words

HOSTILE = "../..?x=1#y/z <b>bold</b>\"'"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Client of a daemon with two fetchers, one of which holds a task, three flows and a few changes."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    try:
        with Client(daemon.url, name="anna@web1") as it, Client(daemon.url, name=HOSTILE) as other:
            for name in ("nightly", "weekly"):
                flow = it.flow("shop", name)
                flow.task(f"http://shop/{name}/b", after=[flow.task(f"http://shop/{name}/a")])
                flow.submit()
            gone = it.flow("news", "gone")
            gone.task("http://news/gone")
            gone.submit()
            it.flows.cancel("news", "gone")
            first, _ = other.select(2, projects=["shop"])
            other.done(first)
            it.projects.set("news", {"rate": 5.0})
            it.projects.set("shop", {"rate": 3.0})
            it.fetchers.drain("spare <i>one</i>")
            yield it
    finally:
        daemon.kill()


@pytest.fixture(scope="module")
def pages(client: Client) -> Iterator[Pages]:
    with pages_of(client.daemon_address) as it:
        yield it


# ------------------------------------------------------------------------------------------------ fetchers


def test_the_page_of_fetchers_has_the_words_of_top_and_of_the_table(client: Client, pages: Pages) -> None:
    page = pages.page("/fetchers")

    heads, *rows = table(page, "Fetchers")

    assert [head for head in heads[:-1] if head != SPEED] == [FETCHER_NAME.head, *(cell.head for cell in FETCHER_CELLS)]
    assert [head for head in heads[:-1] if head != SPEED] == [column.header for column in of_fetchers([]).columns]
    (view,) = client.fetchers.list(filter="bold").fetchers
    told = dict(zip(heads, next(row for row in rows if row[0] == HOSTILE), strict=True))
    for cell in FETCHER_CELLS:
        if cell.head not in ("oldest", "silent"):
            assert told[cell.head] == cell.cell(view, None).plain
    assert words(page.get_element_by_id("summary")) == held(client.fetchers.list())


def test_a_fetcher_is_found_by_its_name_and_by_whose_tasks_it_wants(pages: Pages) -> None:
    def names(query: str) -> list[str]:
        return [row[0] for row in table(pages.page(f"/fetchers?{query}"), "Fetchers")[1:]]

    assert names("filter=BOLD") == names("project=shop") == [HOSTILE]
    assert names("filter=ghost") == names("skip=100") == []
    assert HOSTILE in names("sort=nonsense")
    assert "No fetcher matches." in words(pages.page("/fetchers?filter=ghost"))


def test_whatever_a_fetcher_is_called_its_page_is_found_and_it_can_be_drained(pages: Pages) -> None:
    page = pages.page("/fetchers")
    (link,) = [each.get("href") for each in page.iter("a") if words(each) == HOSTILE]

    one = pages.page(link)

    assert words(one.find(".//h1")) == " ".join(HOSTILE.split())
    assert [row[0] for row in table(one, "Held tasks")[1:]] == ["http://shop/weekly/a"]
    buttons = {each.get("data-api") for each in one.iter("button")}
    assert f"/api/v1{link}/drain" in buttons
    assert not page.xpath("//b | //i")


def test_who_is_drained_and_not_connected_is_told(pages: Pages) -> None:
    away = pages.page("/fetchers").get_element_by_id("away")

    assert words(away).startswith("Drained, and not connected spare <i>one</i>")


def test_what_changes_of_a_fetcher_is_sent_and_its_row_but_once(client: Client, pages: Pages) -> None:
    change = pages.first_change("/fetchers?filter=bold")

    (session,) = change["order"]["fetchers"]
    assert change["cells"][f"{session}/holds"] == "1/1"
    assert change["cells"][f"{session}/state"] == {"text": "", "data-state": ""}
    assert "1/1" not in change["rows"][session]
    assert "&lt;b&gt;bold" in change["rows"][session]
    assert "<b>" not in change["rows"][session]


def test_a_fetcher_that_nobody_knows_has_no_page(pages: Pages) -> None:
    assert "ghost" in words(pages.page("/fetchers/ghost", 404))


# ------------------------------------------------------------------------------------------------ flows


def test_the_page_of_flows_has_the_words_of_the_table(client: Client, pages: Pages) -> None:
    heads, *rows = table(pages.page("/flows"), "Flows")

    assert [head for head in heads if head != "progress"] == [column.header for column in of_flows([]).columns]
    assert {(row[0], row[1], row[2]) for row in rows} == {
        ("shop", "nightly", "running"), ("shop", "weekly", "running"), ("news", "gone", "cancelled"),
    }  # fmt: skip
    nightly = dict(zip(heads, next(row for row in rows if row[1] == "nightly"), strict=True))
    assert (nightly["tasks"], nightly["finished"], nightly["failed"]) == ("2", "1", "0")
    assert nightly["progress"] == "1 success, 1 ready"


def test_flows_are_found_by_project_name_and_state(pages: Pages) -> None:
    def names(path: str) -> list[str]:
        page = pages.page(path)
        return sorted(words(each) for each in page.iter("a") if "/flows/" in each.get("href"))

    assert names("/projects/shop/flows") == names("/flows?state=running") == ["nightly", "weekly"]
    assert names("/flows?filter=NIGHT") == ["nightly"]
    assert names("/flows?filter=night&state=failed") == []


def test_how_far_flows_are_is_sent(pages: Pages) -> None:
    assert "1 success, 1 ready" in pages.first_change("/flows")["blocks"]["flows"]


# ------------------------------------------------------------------------------------------------ log


def test_the_page_of_changes_says_who_changed_what(pages: Pages) -> None:
    heads, *rows = table(pages.page("/log"), "Changes")

    assert heads == ["when", "who", "change"]
    assert [row[1:] for row in rows] == [
        ["anna@web1 127.0.0.1", "fetcher drain: spare <i>one</i> (was not drained)"],
        ["anna@web1 127.0.0.1", "project set shop: rate=3 (was inf)"],
        ["anna@web1 127.0.0.1", "project set news: rate=5 (was inf)"],
        ["anna@web1 127.0.0.1", "flow cancel news: gone"],
    ]


def test_changes_are_found_by_project_and_time(pages: Pages) -> None:
    def changes(query: str) -> int:
        return len(table(pages.page(f"/log?{query}"), "Changes")) - 1

    assert [changes("project=news"), changes("project=ghost"), changes("since=1d"), changes("since=0s")] == [
        2,
        0,
        4,
        0,
    ]
    assert changes("since=nonsense&before=x") == 4


def test_a_query_that_the_daemon_refuses_is_told(pages: Pages) -> None:
    assert "project" in words(pages.page("/log?project=a%20b", 400))


@pytest.mark.parametrize("path", ["/log?before=", "/flows?skip=", "/fetchers?skip=", "/?skip="])
@pytest.mark.parametrize("number", ["9" * 18, "9" * 5000, "-1", "\u0663", "x", ""])
def test_a_number_that_is_none_is_left_out(pages: Pages, path: str, number: str) -> None:
    assert pages.get(path + number).status_code == 200


def test_older_changes_are_a_page_further(client: Client, pages: Pages) -> None:
    for _ in range(100):
        client.projects.set("shop", {"rate": 3.0})

    page = pages.page("/log?project=shop")
    (older,) = page.xpath("//a[@rel='next']/@href")

    assert re.fullmatch(r"/log\?project=shop&before=\d+", older)
    assert [row[2] for row in table(pages.page(older), "Changes")[1:]] == ["project set shop: rate=3 (was inf)"]


# ------------------------------------------------------------------------------------------------ slots


def test_the_page_of_a_project_tells_its_slots_in_the_words_of_the_table(client: Client, pages: Pages) -> None:
    client.projects.set("hosts", {"slot": {"by": "host", "delay": "auto"}})
    client.push_many("hosts", ["http://a.example/", "http://b.example/"])

    heads, *rows = table(pages.page("/projects/hosts"), "Slots")

    listed = of_slots(client.slots.list("hosts").slots)
    cells = zip(*([str(cell) for cell in column.cells] for column in listed.columns[:-1]), strict=True)
    assert heads == ["host", *(column.header for column in listed.columns[1:-1])]
    assert sorted(rows) == sorted(map(list, cells))
    assert all(row[-1].endswith("(auto)") for row in rows)
