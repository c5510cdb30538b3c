"""The dashboard's pages of all projects and of one, of a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from lxml import html

from taskqueue import Client
from taskqueue.cli.output.top_screen import PROJECT_CELLS
from taskqueue.display.projects import remaining_text, said_by
from taskqueue.web.pages.projects import COLUMNS
from tests.integration.conftest import Daemon
from tests.integration.web_pages import Pages, pages_of, table, words

HOSTILE = "<img src=x onerror=alert(1)>\"'&/?#%"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Client of a daemon with a project that has tasks in several states, two projects of a group, and 60 others."""
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
    with pages_of(client.daemon_address) as it:
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
        assert words(cell(page, "news", f"{window}-told")) == f"{window}: 1 success, 0 retried, 1 failed"


def test_the_columns_are_called_as_top_calls_them(pages: Pages) -> None:
    heads = table(pages.page("/"), "Projects")[0]

    told = {"state", "ready", "delayed", "processing"}
    assert told <= set(heads) & {column.head for column in PROJECT_CELLS}
    assert heads[:3] == ["project", "state", "rate burst"]


def test_projects_are_found_by_a_part_of_their_name_by_their_group_and_by_their_state(pages: Pages) -> None:
    assert names(pages.page("/?filter=SHOP")) == ["shop-a", "shop-b"]
    assert names(pages.page("/?group=shops")) == ["shop-a"]
    assert names(pages.page("/?state=paused")) == ["shop-a"]
    assert "No project matches" in words(pages.page("/?filter=nothing").get_element_by_id("pages"))


def test_projects_are_sorted_by_any_column_and_shown_in_pages(pages: Pages) -> None:
    assert names(pages.page("/?sort=ready"))[0] == "news"
    assert names(pages.page("/?sort=group"))[0] == "shop-a"
    first, second = names(pages.page("/")), names(pages.page("/?skip=50"))
    assert (len(first), len(second)) == (50, 13)
    assert first + second == sorted(first + second)


def test_what_will_happen_is_said_with_the_tasks_that_it_is_about(pages: Pages) -> None:
    page = pages.page("/?filter=news")

    assert (
        cell(page, "news", "retry").get("data-will") == "Failed tasks (1) run again, at its pace and with all retries."
    )
    assert json.loads(cell(page, "news", "retry").get("data-body")) == {
        "action": "retry", "project": "news", "filter": {"states": ["failed"]},
    }  # fmt: skip
    expected = "Delayed tasks (1) become ready now and run at the project's pace."
    assert cell(page, "news", "run").get("data-will") == expected


def test_the_actions_of_a_group_are_there_when_it_is_chosen(pages: Pages) -> None:
    (pause,) = (
        each for each in pages.page("/?group=shops").iter("button") if each.get("data-ask", "").startswith("Pause all")
    )

    assert pause.get("data-api") == "/api/v1/groups/shops/pause"


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


# ------------------------------------------------------------------------------------------------ one project


def test_a_project_tells_why_nothing_is_handed_out_and_what_is_due_next(client: Client, pages: Pages) -> None:
    page = pages.page("/projects/news")

    assert client.why("shop-a") == words(pages.page("/projects/shop-a").find_class("because")[0])
    assert "http://news/later" in words(page.get_element_by_id("next"))
    counts = dict(zip(*(map(words, page.get_element_by_id("queue").iter(tag)) for tag in ("dt", "dd")), strict=True))
    assert {state: counts[state] for state in COLUMNS} == {
        "ready": "3", "delayed": "1", "blocked": "0", "processing": "0", "failed": "1",
    }  # fmt: skip


def test_a_project_that_is_paused_for_a_time_says_until_when(client: Client, pages: Pages) -> None:
    until = client.projects.pause("shop-b", 86_400.0).paused_until

    about = pages.page("/projects/shop-b").get_element_by_id("about")
    assert [each.get("data-unix") for each in about.iter("time")] == [str(until)]
    assert "it resumes in" in words(about)
    client.projects.resume("shop-b")


def test_a_project_tells_how_far_it_is(client: Client, pages: Pages) -> None:
    remaining = client.projects.get("news").remaining

    assert remaining is not None
    (told,) = pages.page("/projects/news").find_class("remaining")
    assert words(told) == remaining_text(remaining)


def test_each_setting_stands_with_who_said_it(client: Client, pages: Pages) -> None:
    (region,) = (each for each in pages.page("/projects/news").iter("div") if each.get("aria-label") == "Settings")

    rows = [list(row) for row in region.iter("tr")][1:]
    told = {words(name): words(source) for name, source, *_ in rows}
    assert told == {name: said_by(client.projects.get("news"), name) for name in told}
    assert (told["rate"], told["retries"]) == ("project set", "default")
    assert [each.get("value") for each in region.iter("input") if each.get("name") == "rate"] == ["5"]


def test_what_failed_is_grouped_by_error_and_by_host(pages: Pages) -> None:
    failed = words(pages.page("/projects/news").get_element_by_id("failed"))

    assert "by error 1 503" in failed
    assert "by host 1 news" in failed


def test_what_loses_tasks_says_how_many_first_and_is_for_admins(pages: Pages) -> None:
    buttons = {each.get("data-ask"): each.get("data-will") for each in pages.page("/projects/news").iter("button")}

    assert buttons["Clear news?"] == "Its unfinished tasks are dropped at once: 4. Finished tasks stay known."
    assert buttons["Retry failed tasks of news?"].startswith("Failed tasks (1) run again")


def test_a_project_that_is_not_there_is_said_to_be_unknown(pages: Pages) -> None:
    page = pages.page("/projects/ghost", status=404)

    assert 'project: "ghost" is unknown' in words(page)


def test_every_block_of_a_project_is_live(pages: Pages) -> None:
    page = pages.page("/projects/news")

    blocks = pages.first_change("/projects/news")["blocks"]
    assert {name for name in blocks if page.get_element_by_id(name, None) is None} == set()
    assert "drawn" not in blocks
