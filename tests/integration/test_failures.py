"""Recent failures of a real daemon, shown by the command and by the client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from taskqueue import Client, RequestRejected
from taskqueue.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def it(daemon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Daemon with the projects news and shop, named by the environment."""
    it = daemon(auto_create=False, defaults={"fail_pause_num": 0}, projects={"news": {}, "shop": {}})
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    return it


@pytest.fixture
def run(it: Any, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; return exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    return run


def fail(it: Any, project: str, errors: dict[str, str], fetcher: str = "crawler:1", **outcome: Any) -> None:
    """Push these urls, and report them as failed with these errors."""
    with Client(it.url, name=fetcher) as client:
        client.push_many(project, list(errors))
        left = len(errors)
        while left:
            for task in client.select(left, projects=[project]):
                client.failed(task, errors[task.url], **outcome)
                left -= 1


@pytest.fixture
def failed(it: Any) -> Any:
    """Daemon with seven failures: of two hosts in news, by two fetchers, and one in shop."""
    fail(it, "news", {f"http://a.org/{n}": f"HTTP 503 at http://a.org/{n}" for n in range(4)})
    fail(it, "news", {f"http://b.org/{n}": "Traceback\nValueError: no title" for n in range(2)}, "crawler:2")
    fail(it, "shop", {"http://a.org/x": "HTTP 404"}, retry=False)
    return it


def as_json(run: Run, *arguments: str) -> dict[str, Any]:
    status, out, _ = run("failures", *arguments, "--json")
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_what_failed_in_the_last_hour_and_why_is_one_command(failed: Any, run: Run) -> None:
    status, out, err = run("failures", "--since", "1h")

    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert [row[:4] for row in rows] == [
        ["failures", "share", "error", "last"],
        ["4", "57%", "HTTP", "503"],
        ["2", "29%", "ValueError:", "no"],
        ["1", "14%", "HTTP", "404"],
    ]
    assert "HTTP 503 at <url>" in out
    assert err.startswith("7 failed attempts since ")


def test_which_host_is_in_trouble_is_one_command(failed: Any, run: Run) -> None:
    found = as_json(run, "--by", "host")

    assert [(group["name"], group["failures"]) for group in found["groups"]] == [("a.org", 5), ("b.org", 2)]
    assert found["failures"] == 7


def test_a_project_and_a_time_narrow_it_down(failed: Any, run: Run) -> None:
    assert as_json(run, "shop", "--by", "host")["failures"] == 1
    assert as_json(run, "news", "--by", "fetcher")["groups"][0]["name"] == "crawler:1"
    assert as_json(run, "--by", "project", "--limit", "1")["count"] == 2
    both = as_json(run, "news", "shop", "--by", "host")
    assert [(each["name"], each["failures"]) for each in both["groups"]] == [("a.org", 5), ("b.org", 2)]
    assert (both["failures"], both["count"]) == (7, 2)
    assert both["groups"][0]["project"] == "shop"
    assert as_json(run, "--since", "2100-01-01")["failures"] == 0


def test_without_failures_there_are_none(run: Run) -> None:
    assert run("failures") == (0, "none\n", "")


def test_failures_of_an_unknown_project_are_refused(run: Run) -> None:
    status, _, err = run("failures", "ghost")

    assert status == 1
    assert 'project: "ghost" is unknown' in err


@pytest.mark.parametrize("option", [("--since", "soon"), ("--by", "weekday"), ("--limit", "0")])
def test_what_can_not_be_asked_is_refused(run: Run, option: tuple[str, str]) -> None:
    assert run("failures", *option)[0] == 2


def test_failures_are_there_after_kill_9(failed: Any, run: Run) -> None:
    failed.kill()
    failed.start()

    assert as_json(run)["failures"] == 7


def test_the_client_has_them_as_values(failed: Any) -> None:
    with Client(failed.url) as client:
        found = client.failures("news", by="error", since=time.time() - 3600, limit=1)

        [group] = found.groups
        assert (group.name, group.failures, group.host) == ("HTTP 503 at <url>", 4, "a.org")
        assert client.tasks.get("news", group.taskid).error == group.error
        assert (found.failures, found.count) == (6, 2)
        with pytest.raises(RequestRejected, match="unknown"):
            client.failures("ghost")


# ------------------------------------------------------------------------------------------------ single tasks


def rows(run: Run, *arguments: str) -> list[dict[str, Any]]:
    status, out, _ = run("task", "list", "news", *arguments, "--json")
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_tasks_that_failed_are_listed_with_their_errors_the_newest_first(it: Any, run: Run) -> None:
    for n in range(3):
        fail(it, "news", {f"http://a.org/{n}": f"Traceback\nHTTP {(503, 404, 503)[n]}"}, retry=False)
    failed = ("--state", "failed")

    assert [row["url"][-1] for row in rows(run, *failed, "--newest")] == ["2", "1", "0"]
    assert [row["url"][-1] for row in rows(run, *failed, "--error-glob", "*503", "--since", "1h")] == ["0", "2"]
    assert rows(run, *failed, "--since", "2100-01-01") == []
    table = run("task", "list", "news", *failed, "--newest", "--limit", "1")
    assert table[1].splitlines()[1].endswith("http://a.org/2 HTTP 503")
    assert "--limit shows them" in table[2]


def test_who_holds_what_is_being_processed_for_how_long_is_listed(it: Any, run: Run) -> None:
    with Client(it.url, name="crawler:7") as client:
        client.push_many("news", ["http://a.org/1", "http://a.org/2"])
        held = [task.url for _ in range(2) for task in client.select(1)]

        found = rows(run, "--state", "processing", "--oldest")
        assert [row["url"] for row in found] == held
        assert {row["fetcher"] for row in found} == {"crawler:7"}
        assert all(0 < row["lease_seconds"] <= 600 for row in found)
        newest = run("task", "list", "news", "--state", "processing", "--newest", "--limit", "1")
        assert newest[1].split()[0] == "held"
        assert held[1] in newest[1]


def test_a_list_that_makes_no_sense_is_one_line(run: Run) -> None:
    status, _, err = run("task", "list", "news", "--state", "ready", "--newest")

    assert status == 1
    assert "newest: ready tasks are listed in the order of dispatch only" in err
