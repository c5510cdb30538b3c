"""Tasks pushed and run by programs that speak HTTP: outcomes, streams, keys, leases."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskqueue import Client
from tests.integration.conftest import Daemon
from tests.integration.http_interface import Web, web_of

LINES = {"Content-Type": "application/x-ndjson"}
RUN = {"action": "reschedule", "project": "moved", "filter": {"states": ["delayed"]}}
"""Operation that runs delayed tasks now."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    it = Daemon(tmp_path_factory.mktemp("daemon"), fetcher_timeout=4.0).start()
    try:
        yield it
    finally:
        it.stop()


@pytest.fixture(scope="module")
def web(daemon: Daemon) -> Iterator[Web]:
    with web_of(daemon) as it:
        yield it


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.url) as it:
        yield it


def pushed(web: Web, project: str, content: bytes, **headers: str) -> list[dict[str, Any]]:
    """Push lines; return their outcomes."""
    answer = web.api.post(f"/projects/{project}/tasks", content=content, headers={**LINES, **headers})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_one_task_is_pushed_with_all_that_can_be_said_of_it(web: Web, client: Client) -> None:
    said = {
        "url": "http://one/a", "taskid": "a", "priority": 5, "delay": "1h", "save": {"page": 1},
        "schedule": {"retries": 7}, "age": "30d", "expires_at": "2199-01-31T18:00:00+01:00",
    }  # fmt: skip

    assert web.got("POST", "/projects/one/tasks", said) == {"outcome": "new"}
    assert web.got("POST", "/projects/one/tasks", said) == {"outcome": "ignored"}
    task = client.tasks.get("one", "a")
    assert (task.state, task.schedule.priority, task.schedule.retries) == ("delayed", 5, 7)
    assert (task.schedule.age, task.schedule.expires_at) == (30 * 86_400, 7_229_235_600)
    assert task.body == {"save": {"page": 1}}


def test_what_json_cannot_say_is_pushed_as_it_is_shown(web: Web, client: Client) -> None:
    client.push("bytes", "http://bytes/a", taskid="a", body={"page": b"\xff"})
    shown = web.got("GET", "/projects/bytes/tasks/a")["body"]
    web.got("POST", "/projects/bytes/tasks", {"url": "http://bytes/b", "taskid": "b", "body": shown})

    assert client.tasks.get("bytes", "b").body == client.tasks.get("bytes", "a").body


def test_several_are_pushed_and_each_has_its_outcome(web: Web) -> None:
    items = ["http://several/a", {"url": "http://several/b", "priority": "high"}, {"url": "http://several/c"}, 7]
    outcomes = web.got("POST", "/projects/several/tasks", items)["outcomes"]

    assert [each["outcome"] for each in outcomes] == ["new", "rejected", "new", "rejected"]
    assert [each.get("field") for each in outcomes] == [None, "schedule.priority", None, "task"]


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ({}, "url"),
        ({"url": "/relative"}, "url"),
        ({"url": "http://x/", "colour": 1}, "colour"),
        ({"url": "http://x/", "retries": -1}, "schedule.retries"),
        ({"url": "http://x/", "exetime": "soon"}, "exetime"),
        ({"url": "http://x/", "exetime": "2027-01-31T18:00:00"}, "exetime"),
        ({"url": "http://x/", "delay": "soon"}, "schedule.delay"),
        ({"url": "http://x/", "schedule": 3}, "schedule"),
        ({"url": "http://x/", "body": {"$msgpack": "!"}}, "body"),
        ({"url": "http://x/", "taskid": "ä" * 100}, "taskid"),
        ({"url": "http://x/", "depends_on": "a"}, "depends_on"),
        ({"url": "http://x/", "repeat": 3}, "schedule.repeat"),
        ({"url": "http://x/", "on_parent_failure": "only"}, "on_parent_failure"),
        ({"url": "http://x/", "on_parent_failure": "onyl"}, "on_parent_failure"),
        (None, "task"),
    ],
)
def test_a_task_that_is_none_is_refused_with_its_field(web: Web, task: Any, field: str) -> None:
    answer = web.api.post("/projects/one/tasks", content=json.dumps(task), headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


def test_a_task_of_a_project_that_is_unknown_is_refused(tmp_path: Path) -> None:
    strict = Daemon(tmp_path, auto_create=False).start()
    try:
        with web_of(strict) as web:
            answer = web.ask("POST", "/projects/ghost/tasks", "http://ghost/")
    finally:
        strict.stop()

    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (404, "unknown-project", "project")


def test_lines_are_answered_in_order_each_with_its_number(web: Web) -> None:
    content = (
        b'http://lines/a\n\n{"url": "http://lines/b", "priority": 3}\r\n"http://lines/c"\n{"url": 3}\n{"url"\n\xff'
    )

    assert [(each["line"], each["outcome"], each.get("field")) for each in pushed(web, "lines", content)] == [
        (1, "new", None), (3, "new", None), (4, "new", None), (5, "rejected", "url"), (6, "rejected", "line"),
        (7, "rejected", "line"),
    ]  # fmt: skip


def test_thousands_of_lines_in_pieces_of_any_size_lose_nothing(web: Web, client: Client) -> None:
    content = b"".join(b"http://many/%d\n" % number for number in range(5_000))

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(content), 7_001):
            yield content[start : start + 7_001]

    answer = web.api.post("/projects/many/tasks", content=pieces(), headers=LINES)

    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {"line": number, "outcome": "new"} for number in range(1, 5_001)
    ]
    assert client.projects.get("many").counts.ready == 5_000


def test_a_key_that_comes_again_is_answered_again_and_nothing_is_done_twice(web: Web, client: Client) -> None:
    items = [{"url": f"http://keyed/{number}", "force_update": True} for number in range(3)]
    first = web.ask("POST", "/projects/keyed/tasks", items, Idempotency_Key="anna-1")
    again = web.ask("POST", "/projects/keyed/tasks", items, Idempotency_Key="anna-1")
    other = web.ask("POST", "/projects/keyed/tasks", items, Idempotency_Key="anna-2")

    assert first.json()["outcomes"] == [{"outcome": "new"}] * 3
    assert again.json() == first.json()
    assert other.json()["outcomes"] == [{"outcome": "replaced"}] * 3


def test_a_key_of_lines_or_of_a_change_is_answered_again_by_another_web_process(web: Web, daemon: Daemon) -> None:
    content = b"http://moved/a\n{}\nhttp://moved/b\n"
    first = pushed(web, "moved", content, **{"Idempotency-Key": "k"})
    run = web.ask("POST", "/operations", RUN, Idempotency_Key="run").json()
    with web_of(daemon) as other:
        again = pushed(other, "moved", content, **{"Idempotency-Key": "k"})
        rerun = other.ask("POST", "/operations", RUN, Idempotency_Key="run").json()

    assert [each["outcome"] for each in first] == ["new", "rejected", "new"]
    assert again == first
    assert rerun["operation"]["id"] == run["operation"]["id"]


def test_a_key_that_comes_with_something_else_is_refused(web: Web) -> None:
    for number in range(4):
        answer = web.ask("POST", "/projects/keyed/tasks", f"http://keyed/else/{number}", Idempotency_Key="once")

        expected = (200, None) if number == 0 else (422, "Idempotency-Key")
        assert (answer.status_code, answer.json().get("field")) == expected


def test_a_worker_takes_reports_prolongs_and_releases_by_http(web: Web, client: Client) -> None:
    client.projects.set("run", {"fetch": {"timeout": 20}})
    client.push_many("run", [f"http://run/{number}" for number in range(4)])

    tasks = web.got("POST", "/leases", {"limit": 4, "projects": ["run"], "seconds": 30})["tasks"]
    while len(tasks) < 4:
        tasks += web.got("POST", "/leases", {"limit": 4 - len(tasks), "projects": ["run"]})["tasks"]
    names = [{key: task[key] for key in ("project", "taskid", "token")} for task in tasks]
    success = {**names[0], "result": {"n": 1}, "new": ["http://run/next"]}
    done = web.got("POST", "/leases/done", {"tasks": [success, {**names[1], "ok": False, "error": "no"}]})
    notes = [{**names[2], "note": 0.25}, {**names[3], "note": "half"}, {**names[0], "note": "late"}]
    noted = web.got("POST", "/leases/note", {"notes": notes})
    shown = client.tasks.get("run", names[2]["taskid"]).note
    extended = web.got("POST", "/leases/extend", {"leases": [names[2]], "seconds": 60})
    released = web.got("POST", "/leases/release", {"leases": [names[3]]})

    assert tasks[0]["fetch"] == {"timeout": 20}
    assert all(isinstance(task["token"], str) for task in tasks)
    assert (done["outcomes"], done["new"]) == (["done", "done"], [["new"], []])
    assert (noted["outcomes"], shown) == (["noted", "noted", "stale"], 0.25)
    assert (extended["counted"], released["counted"]) == (1, 1)
    assert web.got("POST", "/leases/release", {"leases": [names[3]]}) == {"counted": 0, "stale": [names[3]["token"]]}
    assert client.tasks.get("run", names[0]["taskid"]).state == "success"


def test_a_report_by_http_may_come_in_parts(web: Web, client: Client) -> None:
    client.push("parts", "http://parts/", taskid="a")
    [task] = web.got("POST", "/leases", {"projects": ["parts"], "seconds": 30})["tasks"]
    report = {key: task[key] for key in ("project", "taskid", "token")}

    kept = web.got("POST", "/leases/done", {"tasks": [{**report, "new": ["http://parts/1"], "part": True}]})
    state = client.tasks.get("parts", "a").state
    done = web.got("POST", "/leases/done", {"tasks": [{**report, "new": ["http://parts/2"]}]})

    assert (kept["outcomes"], kept["new"], state) == (["kept"], [["new"]], "processing")
    assert (done["outcomes"], done["new"]) == (["done"], [["new"]])
    late = web.got("POST", "/leases/done", {"tasks": [{**report, "part": True}]})
    assert late["outcomes"] == ["stale"]


def test_a_failure_by_http_may_bring_new_tasks_and_say_how_the_next_attempt_differs(web: Web, client: Client) -> None:
    client.push("again", "http://again/", taskid="a", save={"proxy": 1})
    [task] = web.got("POST", "/leases", {"projects": ["again"], "seconds": 30})["tasks"]
    report = {key: task[key] for key in ("project", "taskid", "token")} | {"ok": False, "new": ["http://again/1"]}
    again = {"counts": True, "body": {"save": {"proxy": 2}}, "priority": 5}

    done = web.got("POST", "/leases/done", {"tasks": [{**report, "retry_after": 3600, "again": again}]})
    late = web.got("POST", "/leases/done", {"tasks": [{**report, "new": ["http://again/2"]}]})

    assert (done["outcomes"], done["new"]) == (["done"], [["new"]])
    assert (late["outcomes"], late["new"]) == (["stale"], [[]])
    shown = client.tasks.get("again", "a")
    assert (shown.state, shown.retried, shown.priority) == ("delayed", 1, 5)
    assert shown.body == {"save": {"proxy": 2}}


def test_nothing_to_run_is_an_empty_list(web: Web) -> None:
    assert web.got("POST", "/leases", {"projects": ["ghost"], "seconds": 0}) == {"tasks": []}


def test_who_hangs_up_while_he_waits_for_a_task_is_handed_none(web: Web, client: Client) -> None:
    with pytest.raises(httpx.ReadTimeout):
        web.api.post("/leases", json={"projects": ["hung"], "seconds": 60}, timeout=0.2)
    client.push("hung", "http://hung/", taskid="a")

    tasks = web.got("POST", "/leases", {"projects": ["hung"], "seconds": 30})["tasks"]
    assert [(task["taskid"], task["retried"]) for task in tasks] == [("a", 0)]


def test_whoever_sends_and_reads_nothing_stops_himself(web: Web) -> None:
    host, port = web.address.removeprefix("http://").split(":")
    lines = b"".join(b"http://mute/%d\n" % number for number in range(4_000))
    head = f"POST /api/v1/projects/mute/tasks HTTP/1.1\r\nHost: {host}:{port}\r\nTransfer-Encoding: chunked\r\n"
    with socket.create_connection((host, int(port))) as mute:
        mute.sendall(f"{head}Content-Type: application/x-ndjson\r\n\r\n".encode())
        mute.settimeout(1.0)
        with pytest.raises(TimeoutError):
            send_for_ever(mute, b"%x\r\n%s\r\n" % (len(lines), lines))

        while web.ask("GET", "/projects/mute").status_code != 200:
            pass
        while not web.got("GET", "/projects/mute")["project"]["counts"]["ready"]:
            pass


def send_for_ever(sending: socket.socket, piece: bytes) -> None:
    """Send until the server stops reading; 200 MB are more than any buffer in between."""
    for _ in range(200_000_000 // len(piece)):
        sending.sendall(piece)


def test_a_lease_outlives_the_web_process_that_handed_it_out(web: Web, daemon: Daemon, client: Client) -> None:
    client.push("outlive", "http://outlive/", taskid="a")
    with web_of(daemon) as other:
        task = other.got("POST", "/leases", {"projects": ["outlive"], "seconds": 30})["tasks"][0]

    report = {key: task[key] for key in ("project", "taskid", "token")}
    assert web.got("POST", "/leases/done", {"tasks": [report]})["outcomes"] == ["done"]


def test_what_a_killed_web_process_had_handed_out_goes_back(web: Web, daemon: Daemon, client: Client) -> None:
    client.push("back", "http://back/", taskid="a")
    with web_of(daemon) as other:
        other.got("POST", "/leases", {"projects": ["back"], "seconds": 30})

    again = web.got("POST", "/leases", {"projects": ["back"], "seconds": 30})["tasks"]

    assert [(task["taskid"], task["retried"]) for task in again] == [("a", 0)]


def test_a_flow_is_staged_and_submitted(web: Web) -> None:
    tasks = [{"url": "http://flow/a", "taskid": "a"}, {"url": "http://flow/b", "taskid": "b", "depends_on": ["a"]}]

    assert web.got("POST", "/projects/flow/flows/nightly/stage", {"tasks": tasks})["staged"] == 2
    assert web.got("POST", "/projects/flow/flows/nightly/submit", {"count": 2})["flow"]["tasks"] == 2
    answer = web.ask("POST", "/projects/flow/flows/bad/stage", {"tasks": [{"url": "http://x/", "age": 0}]})
    assert (answer.status_code, answer.json()["field"]) == (400, "tasks[0].schedule.age")
