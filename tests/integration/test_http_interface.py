"""The HTTP interface of a real web process: all queries and changes, and all refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from taskqueue import Client
from taskqueue.display.json_values import as_plain
from taskqueue.protocol.choices import STATES
from taskqueue.web.main import make_app
from taskqueue.web.options import WebOptions
from tests.integration.conftest import Daemon
from tests.integration.http_interface import Web, web_of

RUN: Final = {"action": "reschedule", "filter": {"states": ["delayed"]}}
"""Operation that runs delayed tasks now."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    it = Daemon(tmp_path_factory.mktemp("daemon")).start()
    try:
        yield it
    finally:
        it.stop()


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.url, name="anna@web1") as it:
        it.push("news", "http://news/a", taskid="a/b?c", save={"page": 1, "bytes": b"\xff"})
        it.push("news", "http://news/b", priority=3)
        it.push("news", "http://news/later", delay="1d")
        it.push("shop", "http://shop/")
        yield it


@pytest.fixture(scope="module")
def web(daemon: Daemon, client: Client) -> Iterator[Web]:
    with web_of(daemon) as it:
        yield it


def refused(web: Web, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, str]:
    """Return status, code and field of a refusal."""
    answer = web.ask(method, path, body, **headers)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    return answer.status_code, problem["code"], problem.get("field", "")


def test_a_project_is_told_with_every_field_of_the_daemons_view(web: Web, client: Client) -> None:
    told = web.got("GET", "/projects/shop")["project"]

    assert told.keys() == as_plain(client.projects.get("shop")).keys()
    assert (told["name"], told["counts"]["ready"], told["settings"]["rate"]) == ("shop", 1, "inf")


def test_pages_are_followed_by_their_next_address_alone(web: Web) -> None:
    answer = web.ask("GET", "/projects?limit=1")
    following = answer.json()["next"]
    second = web.api.get(f"{web.address}{following}").json()

    assert [project["name"] for project in answer.json()["projects"]] == ["news"]
    assert answer.headers["link"] == f'<{following}>; rel="next"'
    assert ([project["name"] for project in second["projects"]], second["next"]) == (["shop"], None)


def test_a_taskid_may_have_a_slash_and_a_body_bytes(web: Web) -> None:
    task = web.got("GET", "/projects/news/tasks/a%2Fb%3Fc")

    assert (task["taskid"], task["state"]) == ("a/b?c", "ready")
    assert task["body"].keys() == {"$msgpack"}


def test_a_task_named_as_an_address_is_found(web: Web, client: Client) -> None:
    client.push("named", "http://named/", taskid="retry")

    assert web.got("GET", "/projects/named/tasks/retry")["url"] == "http://named/"


def test_settings_are_changed_and_forgotten_and_the_log_says_by_whom(web: Web) -> None:
    changed = web.got("PATCH", "/projects/set/settings", {"rate": 5, "burst": 10, "max_processing": "inf"})["project"]
    forgotten = web.got("DELETE", "/projects/set/settings?keys=rate&keys=max_processing")["project"]

    assert (changed["overrides"]["rate"], changed["overrides"]["max_processing"]) == (5, "inf")
    assert forgotten["overrides"] == {"burst": 10}
    entry = web.got("GET", "/log?project=set&limit=1")["entries"][0]
    assert entry["actor"].startswith("web@") or " via " in entry["actor"]
    assert isinstance(entry["number"], str)


def test_a_cron_entry_is_made_shown_and_forgotten(web: Web) -> None:
    daily = {"cron": "0 3 * * *", "zone": "Europe/Berlin"}
    made = web.got("PUT", "/projects/set/cron/daily", daily)["project"]
    entries = web.got("GET", "/projects/set/cron")["entries"]
    shown = web.got("GET", "/projects/set/cron/daily")
    gone = web.got("DELETE", "/projects/set/cron/daily")["project"]

    assert [entry["entry"] for entry in made["cron"]] == ["daily"]
    assert entries == [shown]
    assert (shown["entry"], shown["setting"], shown["ran"]) == ("daily", daily | {"task": {}}, 0)
    assert shown["next_at"] == made["cron"][0]["next_at"] > 0
    assert gone["cron"] == web.got("GET", "/projects/set/cron")["entries"] == []
    assert refused(web, "GET", "/projects/set/cron/daily") == (404, "unknown-entry", "entry")


def test_the_status_has_no_pages(web: Web) -> None:
    status = web.got("GET", "/status")

    assert status["projects"] == len(web.got("GET", "/projects")["projects"])
    assert status["counts"]["ready"] >= 1
    assert not status.keys() & {"fetchers", "more", "next"}
    assert refused(web, "GET", "/status?limit=5") == (400, "malformed", "limit")


def test_a_state_is_repeated_for_tasks_of_several(web: Web, client: Client) -> None:
    client.push("states", "http://states/", taskid="now")
    client.push("states", "http://states/", taskid="later", delay="1d")
    client.push("states", "http://states/", taskid="gone")
    client.tasks.cancel("states", ["gone"])

    def listed(query: str) -> list[str]:
        found, following = [], f"/api/v1/projects/states/tasks?limit=1&{query}"
        while following:
            page = web.api.get(f"{web.address}{following}").json()
            found += [task["taskid"] for task in page["tasks"]]
            following = page["next"]
        return found

    assert listed("state=cancelled&state=ready") == ["now", "gone"]
    assert listed("state=delayed") == ["later"]
    assert listed("") == ["now", "later", "gone"]


def test_a_project_and_a_group_are_removed_by_delete(web: Web) -> None:
    for name in ("removed", "member"):
        web.got("POST", f"/projects/{name}/start")
    web.got("PATCH", "/projects/member/settings", {"group": "removing"})

    assert web.got("DELETE", "/projects/removed") == {"project": None}
    assert web.got("DELETE", "/groups/removing")["operation"]["action"] == "delete"
    assert web.ask("GET", "/projects/removed").status_code == web.ask("GET", "/projects/member").status_code == 404


def test_what_was_said_of_a_slot_is_forgotten_key_by_key_or_whole(web: Web) -> None:
    web.got("PATCH", "/projects/slots/settings", {"slot": {"by": "host"}})
    said = web.got("PATCH", "/projects/slots/slots/host", {"delay": 5, "max_processing": 2})["chosen"]
    less = web.got("DELETE", "/projects/slots/slots/host?keys=delay")["chosen"]
    none = web.got("DELETE", "/projects/slots/slots/host")["chosen"]

    assert (said, less, none) == ({"delay": 5, "max_processing": 2}, {"max_processing": 2}, {})
    assert refused(web, "PATCH", "/projects/slots/slots/host", {"unset": ["delay"]}) == (400, "malformed", "unset")


def test_a_project_is_paused_resumed_and_what_is_delayed_runs_now(web: Web) -> None:
    web.got("POST", "/projects/news/pause")
    paused = web.got("GET", "/projects/news")["project"]
    web.got("POST", "/projects/news/resume")
    operation = web.got("POST", "/operations", RUN | {"project": "news"})["operation"]
    ended = web.got("GET", f"/operations/{operation['id']}?seconds=10")["operation"]

    assert paused["state"] == "paused"
    assert (ended["action"], ended["matched"]) == ("reschedule", 1)
    assert web.got("GET", "/projects/news/tasks?state=delayed")["tasks"] == []


def test_a_project_a_group_and_all_projects_are_paused_for_a_time(web: Web) -> None:
    one = web.got("POST", "/projects/news/pause", {"seconds": 600})["project"]
    all_ = web.got("POST", "/projects/pause", {"seconds": 60})["operation"]
    others = web.got("POST", "/projects/resume")["operation"]

    assert one["paused_until"] > time.time() + 300
    assert all_["until"] < one["paused_until"]
    assert all_["matched"] == others["matched"] == len(web.got("GET", "/projects")["projects"])
    assert web.got("GET", "/projects/news")["project"]["state"] == "running"
    web.got("PATCH", "/projects/news/settings", {"group": "papers"})
    assert web.got("POST", "/groups/papers/pause", {"seconds": 60})["operation"]["until"] > 0
    web.got("POST", "/groups/papers/resume")
    web.got("DELETE", "/projects/news/settings?keys=group")


def test_operations_are_started_on_what_a_filter_names(web: Web) -> None:
    wanted = {"action": "reprioritise", "project": "shop", "priority": 7, "filter": {"url": "http://shop/*"}}
    operation = web.got("POST", "/operations", wanted)["operation"]

    assert web.got("GET", f"/operations/{operation['id']}?seconds=10")["operation"]["matched"] == 1
    assert web.got("GET", "/projects/shop/tasks?state=ready")["tasks"][0]["priority"] == 7


def test_tasks_of_a_job_are_pushed_counted_and_listed(web: Web) -> None:
    pushed = [{"url": "http://jobs/1", "job": "monday"}, {"url": "http://jobs/2", "schedule": {"job": "monday"}}]
    web.got("POST", "/projects/jobs/tasks", [*pushed, "http://jobs/3"])

    counted = web.got("GET", "/projects/jobs/jobs/monday")
    assert (counted["counts"]["ready"], counted["next"]) == (2, None)
    listed = web.got("GET", "/projects/jobs/tasks?job=monday")["tasks"]
    assert [(row["url"], row["job"]) for row in listed] == [("http://jobs/1", "monday"), ("http://jobs/2", "monday")]
    assert refused(web, "GET", "/projects/jobs/jobs/a%20b") == (400, "malformed", "job")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "field"),
    [
        ("GET", "/projects/none", None, 404, "unknown-project", "project"),
        ("GET", "/projects/a%2Fb", None, 400, "malformed", "project"),
        ("GET", "/projects/news/tasks?state=odd", None, 400, "malformed", "state[0]"),
        ("GET", "/projects/news/tasks?state=ready&more=1", None, 400, "malformed", "more"),
        ("GET", "/projects?limit=1000", None, 400, "malformed", "limit"),
        ("GET", "/projects?limit=1&limit=2", None, 400, "bad-request", "limit"),
        ("GET", "/projects?session=x", None, 400, "malformed", "session"),
        ("GET", "/operations/x", None, 400, "malformed", "id"),
        ("GET", "/projects/news/tasks/%FF", None, 400, "malformed", "taskid"),
        ("GET", f"/projects/news/tasks/{'%C3%A4' * 100}", None, 400, "malformed", "taskid"),
        ("PATCH", "/projects/news/settings", {"rate": "fast"}, 400, "setting", "rate"),
        ("PATCH", "/projects/news/settings", [1], 400, "malformed", "settings"),
        ("POST", "/projects/news/tasks/retry", {}, 400, "malformed", "taskids"),
        ("POST", "/projects/news/tasks/retry", {"taskids": [1]}, 400, "malformed", "taskids[0]"),
        ("POST", "/projects/news/tasks/retry", [], 400, "malformed", "body"),
        ("POST", "/operations", {"action": "retry", "filter": {"state": "failed"}}, 400, "malformed", "filter.state"),
        ("POST", "/nowhere", {}, 404, "not-found", ""),
        ("DELETE", "/projects", None, 405, "method-not-allowed", ""),
    ],
)
def test_a_refusal_over_http_names_the_field(
    web: Web, method: str, path: str, body: Any, status: int, code: str, field: str
) -> None:
    assert refused(web, method, path, body) == (status, code, field)


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        (
            "GET",
            "/projects/news/tasks?state=redy",
            None,
            f"state[0]: 'redy' is none of {', '.join(sorted(STATES))}; did you mean ready?",
        ),
        (
            "POST",
            "/operations",
            {"action": "retri", "project": "news"},
            "action: 'retri' is none of cancel, reprioritise, reschedule, retry; did you mean retry?",
        ),
        (
            "POST",
            "/projects/news/tasks",
            {"url": "http://news/", "on_parent_failure": "onyl"},
            "on_parent_failure: 'onyl' is none of fail, only, run, wait; did you mean only?",
        ),
        (
            "PATCH",
            "/projects/news/settings",
            {"keep": {"then": "forgt"}},
            'keep.then must be one of "forget", "remember", not "forgt"; did you mean forget?',
        ),
        (
            "GET",
            "/projects/news/slots/a%09b",
            None,
            "slot: expected 1 to 253 characters without control characters, such as line ends and tabs",
        ),
    ],
)
def test_a_wrong_text_over_http_is_answered_with_what_is_taken(
    web: Web, method: str, path: str, body: Any, detail: str
) -> None:
    assert web.ask(method, path, body).json()["detail"] == detail


def test_a_body_of_another_type_is_refused(web: Web) -> None:
    answer = web.api.post("/operations", content=b"<x/>", headers={"Content-Type": "application/xml"})

    assert (answer.status_code, answer.headers["content-type"]) == (415, "application/problem+json")


def test_a_body_that_is_too_long_is_refused(web: Web) -> None:
    assert refused(web, "POST", "/operations", {"action": "x" * (9 << 20)}) == (413, "too-large", "body")


def test_an_address_says_which_methods_it_knows(web: Web) -> None:
    asked = web.ask("OPTIONS", "/projects/news/settings")
    head = web.ask("HEAD", "/projects/news")

    assert (asked.status_code, asked.headers["allow"]) == (204, "PATCH, DELETE, OPTIONS")
    assert (head.status_code, head.content) == (200, b"")
    assert web.ask("PUT", "/projects/news/settings", {}).headers["allow"] == "PATCH, DELETE, OPTIONS"


def test_who_waits_is_answered_when_it_has_happened(web: Web, client: Client) -> None:
    client.projects.start("quiet")

    told = web.got("GET", "/projects/quiet/wait?seconds=30")

    assert (told["finished"], told["unfinished"], told["times"]) == (True, 0, 0)
    assert told["remaining"]["reason"] == "nothing-left"


def test_two_who_wait_for_the_same_are_both_answered(web: Web, client: Client) -> None:
    client.push("awaited", "http://awaited/", taskid="a")

    with ThreadPoolExecutor(2) as threads:
        waits = [threads.submit(web.got, "GET", "/projects/awaited/wait?seconds=30") for _ in range(2)]
        client.tasks.cancel("awaited", ["a"])

    assert [wait.result()["finished"] for wait in waits] == [True, True]


def test_changes_of_projects_are_watched(web: Web, client: Client) -> None:
    known = web.got("GET", "/watch?seconds=0")
    while known["more"]:
        known = web.got("GET", f"/watch?seconds=0&since={known['since']}")
    client.push("watched", "http://watched/")
    changed = web.got("GET", f"/watch?since={known['since']}&seconds=30")

    assert "watched" in [project["name"] for project in changed["projects"]]


def test_while_the_daemon_is_away_it_is_said_when_to_try_again() -> None:
    app = make_app(WebOptions("tcp://127.0.0.1:9", timeout=0.1))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7401") as browser,
        ):
            return await browser.get("/api/v1/status")

    answer = asyncio.run(ask())

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["code"] == "unavailable"


@pytest.mark.parametrize(
    ("method", "path", "body", "meant"),
    [
        ("PATCH", "/projects/news/settings", {"rat": 3}, "rate"),
        ("PATCH", "/projects/news/slots/a", {"delya": 3}, "delay"),
        ("GET", "/projects/news/tasks?stat=failed", None, "state"),
        ("POST", "/projects/news/tasks", {"url": "http://a/", "prioritty": 3}, "priority"),
        ("POST", "/operations", {"action": "retry", "projekt": "news"}, "project"),
    ],
)
def test_a_name_that_is_mistyped_is_answered_by_the_one_that_is_meant(
    web: Web, method: str, path: str, body: Any, meant: str
) -> None:
    assert f"did you mean {meant}?" in web.got(method, path, body, status=400)["detail"]
