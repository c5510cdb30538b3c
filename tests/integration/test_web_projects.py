"""The page of all projects, of a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from lxml import html

from taskqueue import Client
from taskqueue.cli.top.screen import PROJECT_CELLS
from tests.integration.conftest import Daemon
from tests.integration.web_pages import Pages, pages_of, table, words

HOSTILE = "<img src=x onerror=alert(1)>\"'&/?#%"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a daemon with a project that has tasks in several states, two of a group, and 60 others."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    try:
        with Client(daemon.url, name="anna@web1") as it:
            it.projects.set("news", {"rate": 5.0, "burst": 10})
            it.push_many("news", [f"http://news/{n}" for n in range(5)])
            it.push("news", "http://news/later", delay=3600)
            done, failed = it.select(2, projects=["news"])
            it.done(done)
            it.failed(failed, "503", retry=False)
            for name, group in (("shop-a", "shops"), ("shop-b", "")):
                it.projects.set(name, {"group": group})
            it.projects.pause("shop-a")
            for number in range(60):
                it.projects.start(f"site-{number:02}")
            yield it
    finally:
        daemon.kill()


@pytest.fixture(scope="module")
def pages(client: Client) -> Iterator[Pages]:
    with pages_of(client.url) as it:
        yield it


def cell(page: html.HtmlElement, project: str, name: str) -> html.HtmlElement:
    (row,) = (row for row in page.iter("tr") if row.get("data-row") == project)
    (found,) = (each for each in row.iter() if each.get("data-cell") == name)
    return found


def names(page: html.HtmlElement) -> list[str]:
    return [row.get("data-row") for row in page.get_element_by_id("projects")]


def test_a_row_tells_state_pace_tasks_by_state_and_how_attempts_ended(pages: Pages) -> None:
    page = pages.page("/?filter=news")

    told = {
        state: words(cell(page, "news", state)) for state in ("ready", "delayed", "blocked", "processing", "failed")
    }
    assert told == {"ready": "3", "delayed": "1", "blocked": "0", "processing": "0", "failed": "1"}
    assert [cell(page, "news", name).get("value") for name in ("rate", "burst")] == ["5", "10"]
    assert words(cell(page, "news", "state")) == "running"
    for window in ("5m", "1h", "1d", "all"):
        assert cell(page, "news", window).get("aria-label") == f"{window}: 1 success, 0 retried, 1 failed"


def test_the_columns_are_called_as_top_calls_them(pages: Pages) -> None:
    heads = table(pages.page("/"), "Projects")[0]

    told = {"state", "ready", "delayed", "processing"}
    assert told <= set(heads) & {column.head for column in PROJECT_CELLS}
    assert heads[:3] == ["project", "state", "rate burst"]


def test_projects_are_found_by_a_part_of_their_name_by_their_group_and_by_their_state(pages: Pages) -> None:
    assert names(pages.page("/?filter=SHOP")) == ["shop-a", "shop-b"]
    assert names(pages.page("/?group=shops")) == ["shop-a"]
    assert names(pages.page("/?state=paused")) == ["shop-a"]
    assert "No project is like that" in words(pages.page("/?filter=nothing").get_element_by_id("pages"))


def test_projects_are_sorted_by_any_column_and_shown_in_pages(pages: Pages) -> None:
    assert names(pages.page("/?sort=ready"))[0] == "news"
    assert names(pages.page("/?sort=group"))[0] == "shop-a"
    first, second = names(pages.page("/")), names(pages.page("/?skip=50"))
    assert (len(first), len(second)) == (50, 13)
    assert first + second == sorted(first + second)


def test_what_will_happen_is_said_with_the_tasks_that_it_is_about(pages: Pages) -> None:
    page = pages.page("/?filter=news")

    assert (
        cell(page, "news", "retry").get("data-will")
        == "What failed, 1 task, runs again, at its pace, with all retries."
    )
    assert json.loads(cell(page, "news", "retry").get("data-body")) == {
        "action": "retry", "project": "news", "filter": {"states": ["failed"]},
    }  # fmt: skip
    assert cell(page, "news", "run").get("data-will") == "What is delayed, 1 task, may go at once, at its pace."


def test_the_actions_of_a_group_are_there_when_it_is_chosen(pages: Pages) -> None:
    (pause,) = (
        each for each in pages.page("/?group=shops").iter("button") if each.get("data-ask", "").startswith("Pause all")
    )

    assert pause.get("data-api") == "/api/v1/groups/shops/actions/pause"


def test_the_stream_has_the_cells_and_the_order_and_rows_that_are_empty(pages: Pages) -> None:
    change = pages.first_change("/?filter=news")

    assert change["order"] == {"projects": ["news"]}
    assert change["cells"]["news/ready"] == {"text": "3", "data-state": ""}
    assert 'data-row="news"' in change["rows"]["news"]


def test_what_a_link_to_the_page_says_stays_text(pages: Pages) -> None:
    page = pages.page(f"/?{urlencode({'filter': HOSTILE, 'group': HOSTILE, 'sort': HOSTILE, 'skip': '-1'})}")

    assert not list(page.iter("img"))
    (filtered,) = (each for each in page.iter("input") if each.get("name") == "filter")
    assert filtered.get("value") == HOSTILE
