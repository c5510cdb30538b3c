"""The dashboard's pages of tasks, failures and operations, of a real daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from taskqueue import Client
from taskqueue.client.tasks.new_task import default_taskid, new_task
from taskqueue.display.operations import outcome, undo_lines
from taskqueue.web.addresses import task_page
from tests.integration.conftest import Daemon
from tests.integration.web_pages import Pages, pages_of, table, words

MARKUP = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
HOSTILE_URL = f"javascript:alert(1)//{MARKUP}\u202e\x00"
HOSTILE_ERROR = f"{MARKUP}\x00\x1b[31m\n\u202eValueError: {MARKUP}"
HOSTILE_IDS = (
    "a/b",
    "..",
    ".",
    "x/parents",
    "50%/é?#&=+ ;",
    "a\\..\\b",
    MARKUP[:60],
    "\u202eb\x00c\n",
    "a\r\n\nb/c",
    "q" * 128,
)
"""Taskids that a path, a query, a header or a page might misread."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Client of a daemon with tasks in all states."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    try:
        with Client(daemon.url, name="anna@web1") as it:
            it.projects.set("news", {"rate": 1e6, "burst": 1e6, "retry_delay": [3600]})
            it.push_many("news", (f"http://news/{number:03d}" for number in range(130)))
            for place, task in enumerate(it.select(6, projects=["news"])):
                if place < 2:
                    it.done(task, result={"words": place})
                elif place < 5:
                    it.failed(task, f"HTTP 503 for item {place}1234", retry=place < 3)
                else:
                    it.note(task, 0.25)
            it.push_many("jobs", (new_task(f"http://jobs/{number}", job="monday") for number in (1, 2)))
            it.push("jobs", "http://jobs/3", job="tuesday")
            flow = it.flow("shop", "nightly")
            flow.task("http://shop/b", after=[flow.task("http://shop/a")])
            flow.submit()
            hostile = [new_task(HOSTILE_URL, taskid=each, body={MARKUP: MARKUP}) for each in HOSTILE_IDS]
            it.push_many("hostile", hostile)
            for task in it.select(len(HOSTILE_IDS), projects=["hostile"]):
                it.failed(task, HOSTILE_ERROR, retry=False)
            yield it
    finally:
        daemon.kill()


@pytest.fixture(scope="module")
def pages(client: Client) -> Iterator[Pages]:
    with pages_of(client.daemon_address) as it:
        yield it


def listed(pages: Pages, query: str, project: str = "news") -> list[str]:
    page = pages.page(f"/projects/{project}/tasks?{query}")
    return [words(link) for link in page.xpath("//td[contains(@class, 'what')]/a")]


def facts(page: Any) -> dict[str, str]:
    return {words(each.find("dt")): words(each.find("dd")) for each in page.xpath("//dl/div")}


# ------------------------------------------------------------------------------------------------ tasks


def test_tasks_are_found_by_state_url_error_and_age(pages: Pages) -> None:
    assert len(listed(pages, "state=failed")) == 2
    assert listed(pages, "state=ready&url=*/12?") == [f"http://news/12{digit}" for digit in range(10)]
    assert len(listed(pages, "state=delayed&error=*item%2021234")) == 1
    assert len(listed(pages, "error=HTTP%20503*")) == 3
    assert (len(listed(pages, "state=success&since=1h")), listed(pages, "state=success&since=0s")) == (2, [])


def test_a_list_of_any_state_goes_through_all_of_them_page_by_page(pages: Pages) -> None:
    path, found = "/projects/news/tasks", []
    for _ in range(2):
        page = pages.page(path)
        found += [words(link) for link in page.xpath("//td[contains(@class, 'what')]/a")]
        path = next(iter(page.xpath("//a[@rel='next']/@href")), "")

    assert not path
    assert sorted(found) == sorted(f"http://news/{number:03d}" for number in range(130))


def test_each_state_says_how_many_tasks_it_has_and_its_list_is_a_link(pages: Pages) -> None:
    page = pages.page("/projects/news/tasks?url=*1*")

    told = {words(link): link.get("href") for link in page.xpath("//nav[@id='tabs']/a")}
    assert set(told) == {
        "any state", "processing 1", "ready 124", "delayed 1", "blocked 0", "failed 2", "success 2", "cancelled 0",
    }  # fmt: skip
    assert told["failed 2"] == "/projects/news/tasks?state=failed&url=%2A1%2A"


def test_how_many_tasks_there_are_is_sent_when_it_changes_but_no_list(pages: Pages) -> None:
    (blocks,) = [pages.first_change("/projects/news/tasks?state=ready")["blocks"]]

    assert list(blocks) == ["tabs"]
    assert '<span class="tally">124</span>' in blocks["tabs"]


def test_what_a_filter_chooses_is_said_for_operations_as_the_interface_takes_it(pages: Pages) -> None:
    page = pages.page("/projects/news/tasks?state=failed&error=*503*")

    acts = page.get_element_by_id("acts")
    assert json.loads(acts.get("data-filter")) == {"states": ["failed"], "error": "*503*"}
    assert [each.get("data-act") for each in acts.iter("button")] == ["retry"]
    aged = pages.page("/projects/news/tasks?since=1h").get_element_by_id("acts")
    assert time.time() - 3700 < json.loads(aged.get("data-filter"))["since"] < time.time() - 3500


def test_tasks_of_a_job_are_listed_and_each_leads_to_the_others(pages: Pages) -> None:
    assert listed(pages, "job=monday", "jobs") == ["http://jobs/1", "http://jobs/2"]
    assert listed(pages, "job=wednesday&state=ready", "jobs") == []
    acts = pages.page("/projects/jobs/tasks?job=monday").get_element_by_id("acts")
    assert json.loads(acts.get("data-filter")) == {"job": "monday"}

    page = pages.page(task_page("jobs", default_taskid("http://jobs/3")))
    assert facts(page)["Job"] == "tuesday"
    assert page.xpath("//dl[@class='facts']//a/@href") == ["/projects/jobs/tasks?job=tuesday"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=x", "state"), ("since=x", "since"), ("state=ready&url=" + "a" * 300, "url"), ("job=a%20b", "job")],
)
def test_a_search_that_makes_no_sense_is_refused_by_its_field(pages: Pages, query: str, field: str) -> None:
    assert field in words(pages.page(f"/projects/news/tasks?{query}", 400))


def test_a_project_that_nobody_knows_has_no_tasks(pages: Pages) -> None:
    assert "ghost" in words(pages.page("/projects/ghost/tasks", 404))


@pytest.mark.parametrize(
    ("said", "leads"),
    [
        ("http://news/001", task_page("news", default_taskid("http://news/001"))),
        (default_taskid("http://news/001"), task_page("news", default_taskid("http://news/001"))),
        ("/12", "/projects/news/tasks?url=%2A%2F12%2A"),
        ("a[b]?", "/projects/news/tasks?url=%2Aa%5B%5B%5Db%5D%5B%3F%5D%2A"),
        ("", "/projects/news/tasks"),
    ],
)
def test_a_task_is_found_by_its_id_or_url_and_others_by_a_part_of_it(pages: Pages, said: str, leads: str) -> None:
    answer = pages.get(f"/projects/news/find?q={quote(said, safe='')}")

    assert (answer.status_code, answer.headers["location"]) == (303, leads)


def test_whatever_is_looked_for_there_is_an_answer(pages: Pages) -> None:
    for said in ("é" * 2000, "[" * 300, "\x00", "*" * 250):
        assert (
            pages.get(pages.get(f"/projects/news/find?q={quote(said, safe='')}").headers["location"]).status_code == 200
        )


# ------------------------------------------------------------------------------------------------ task


def test_a_task_says_everything_that_is_known_of_it(client: Client, pages: Pages) -> None:
    (row,) = client.tasks.list("news", "delayed").items
    page = pages.page(task_page("news", row.taskid))

    assert words(page.find(".//h1")) == row.url
    assert client.why("news", row.taskid)[:40] in words(page.get_element_by_id("standing"))
    told = facts(page)
    assert (told["Retried"], told["taskid"], told["url"]) == ("1", row.taskid, row.url)
    assert "Due" in told
    (attempt,) = page.xpath("//table[@class='attempts']/tbody/tr")
    assert "failed" in words(attempt)
    assert "HTTP 503 for item 21234" in words(attempt)
    assert len(page.xpath("//svg[@class='attempt-line']/rect")) == 2


def test_a_task_that_runs_has_its_note_with_a_progress_bar_and_so_has_its_fetcher(client: Client, pages: Pages) -> None:
    (row,) = client.tasks.list("news", "processing").items
    page = pages.page(task_page("news", row.taskid))

    assert facts(page)["Note"] == "25%"
    (bar,) = page.xpath("//dl[@class='facts']//progress")
    assert (bar.get("value"), bar.get("max")) == ("0.25", "1")
    assert "[#....] 25%" in [words(cell) for cell in pages.page("/fetchers").xpath("//td[@data-cell='note']")]


def test_a_task_that_is_over_has_its_result_and_can_be_retried(client: Client, pages: Pages) -> None:
    row = client.tasks.list("news", "success").items[0]
    page = pages.page(task_page("news", row.taskid))

    (result,) = page.xpath("//pre[@aria-label='Result']")
    assert json.loads(result.text) == {"words": 0}
    (retry,) = page.xpath("//button[@id='retry']")
    assert retry.get("data-api") == "/api/v1/projects/news/tasks/retry"
    assert json.loads(retry.get("data-body")) == {"taskids": [row.taskid]}
    assert not page.xpath("//button[@id='cancel']")


def test_a_task_names_what_it_waits_for_and_what_waits_for_it(pages: Pages) -> None:
    first, second = (task_page("shop", default_taskid(f"http://shop/{name}")) for name in "ab")

    for path, title, relative in ((second, "Waits for", first), (first, "Waited for by", second)):
        assert pages.page(path).xpath("//ul[@aria-label=$title]/li/a/@href", title=title) == [relative]


def test_a_task_for_failures_says_so_on_its_page(client: Client, pages: Pages) -> None:
    client.push("alarms", "http://alarms/a", taskid="a")
    client.push("alarms", "http://alarms/b", taskid="b", depends_on=["a"], on_parent_failure="only")

    page = pages.page(task_page("alarms", "b"))

    assert facts(page)["Parents"] == "it runs only if one fails"
    assert "it runs only if a parent fails" in words(page.xpath("//*[@class='sentence']")[0])
    assert "Parents" not in facts(pages.page(task_page("alarms", "a")))


def test_only_a_url_that_leads_to_the_web_is_a_link_out(client: Client, pages: Pages) -> None:
    row = client.tasks.list("news", "success").items[0]

    (link,) = pages.page(task_page("news", row.taskid)).xpath("//a[@target='_blank']")
    assert link.get("href") == row.url
    assert {"noopener", "noreferrer"} <= set(link.get("rel").split())
    assert not pages.page(task_page("hostile", "a/b")).xpath("//a[@target='_blank']")


def test_a_task_that_nobody_knows_has_no_page(pages: Pages) -> None:
    assert "unknown" in words(pages.page("/projects/news/tasks/nothing", 404))


# ------------------------------------------------------------------------------------------------ failures


def test_failures_are_counted_by_what_they_have_in_common_and_lead_to_the_tasks(pages: Pages) -> None:
    page = pages.page("/failures?project=news")

    heads, row = table(page, "Failures")
    assert heads == ["Failures", "Share", "Error", "Last seen", "Last failure", "Tasks"]
    assert (row[0], row[1], row[2]) == ("3", "100%", "HTTP 503 for item #")
    failed, waiting = page.xpath("//td[@class='does']/a/@href")
    assert len(listed(pages, failed.partition("?")[2])) == 2
    assert len(listed(pages, waiting.partition("?")[2])) == 1


@pytest.mark.parametrize(("by", "name"), [("host", "news"), ("fetcher", "anna@web1"), ("project", "news")])
def test_failures_are_counted_by_host_fetcher_and_project(pages: Pages, by: str, name: str) -> None:
    rows = table(pages.page(f"/failures?by={by}&since=5m"), "Failures")

    assert name in [row[2] for row in rows[1:]]


@pytest.mark.parametrize(("query", "field"), [("by=x", "by"), ("since=x", "since")])
def test_failures_that_make_no_sense_are_refused_by_the_field(pages: Pages, query: str, field: str) -> None:
    assert field in words(pages.page(f"/failures?{query}", 400))


# ------------------------------------------------------------------------------------------------ operations


def test_operations_are_told_in_the_words_of_the_command_line(client: Client, pages: Pages) -> None:
    began = client.operations.start("reprioritise", project="news", url="http://news/1*", priority=7)
    ended = client.operations.wait(began.id)
    dry = client.tasks.rerun("shop", default_taskid("http://shop/a"), scope="downstream", dry_run=True)
    client.operations.wait(dry.id)

    rows = table(pages.page("/operations"), "Operations")

    assert [row[0] for row in rows] == ["Operation", "dry rerun", "reprioritise"]
    assert rows[2][1] == "news"
    assert "url http://news/1* priority 7" in rows[2][2]
    assert outcome(ended) in rows[2][3]
    one = pages.page(f"/operations/{dry.id}")
    assert [words(each) for each in one.xpath("//ol[@class='layers']/li")] == [
        f"layer 1: {default_taskid('http://shop/a')}",
        f"layer 2: {default_taskid('http://shop/b')}",
    ]


def test_an_operation_that_can_be_undone_has_a_button_and_its_undo_says_what_came_back(
    client: Client, pages: Pages
) -> None:
    operation = client.operations.wait(client.operations.start("reprioritise", project="news", url="*", priority=3).id)
    address = f"/operations/{operation.id}"
    (button,) = pages.page(address).xpath("//button[text()='Undo']")
    assert button.get("data-api") == f"/api/v1{address}/undo"
    assert f"{operation.rows} tasks get back what they were" in button.get("data-will")

    undone = client.operations.wait(client.operations.undo(operation.id).id)

    assert not pages.page(address).xpath("//button[text()='Undo']")
    assert f"operation {undone.number}" in words(pages.page(address).get_element_by_id("operation"))
    assert undo_lines(undone)[0] in words(pages.page(f"/operations/{undone.id}").get_element_by_id("operation"))


def test_an_operation_that_nobody_knows_has_no_page(pages: Pages) -> None:
    for number in ("1000000", "x", "9" * 30):
        pages.page(f"/operations/{number}", 404)


# ------------------------------------------------------------------------------------------------ hostile texts


@pytest.mark.parametrize("taskid", HOSTILE_IDS)
def test_whatever_a_task_is_called_its_page_and_its_stream_are_found(pages: Pages, taskid: str) -> None:
    path = task_page("hostile", taskid)
    page = pages.page(path)

    assert json.loads(page.get_element_by_id("retry").get("data-body")) == {"taskids": [taskid]}
    assert "standing" in pages.first_change(path)["blocks"]


@pytest.mark.parametrize(
    "path", ["/projects/hostile/tasks", "/failures", "/failures?by=host", task_page("hostile", "..")]
)
def test_no_text_of_somebody_else_becomes_markup_or_a_link(pages: Pages, path: str) -> None:
    page, text = pages.page(path), pages.get(path).text

    for each in page.iter():
        assert each.tag != "img"
        assert not [name for name in each.attrib if name.startswith("on") or name == "style"]
        assert each.tag != "script" or each.get("src", "").startswith("/static/")
        assert not each.get("href", "/").lower().startswith(("javascript", "data"))
    assert "alert(" in text
    assert not {"\x00", "\x1b", "\u202e"} & set(text)
