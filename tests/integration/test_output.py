"""Output of commands, for programs and into pipes, and their exit statuses, on a real daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from taskqueue import Client
from taskqueue.cli.main import main
from tests.integration.nursery import WAIT_SECONDS

COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]

Daemon = Any
DaemonFactory = Callable[..., Any]
PeerFactory = Callable[..., Any]


class Ended(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def it(daemon: DaemonFactory, peer: PeerFactory) -> Daemon:
    """Daemon with something of each kind."""
    it = daemon(projects={"news": {"rate": 5}, "shop": {"group": "shops"}})
    fetcher = peer(it)
    fetcher.ask("project-set", project="news", settings={"cron": {"daily": {"every": "1d"}}})
    fetcher.push("news", "a", "b", "c")
    fetcher.ask("hello", capacity=1, name="web1:4711")
    fetcher.ask("bulk", action="retry", project="news", filter={"states": ["failed"]})
    fetcher.receive()
    return it


@pytest.fixture
def run(it: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)

    def run(*arguments: str) -> Ended:
        return Ended(main(arguments), *capsys.readouterr())

    return run


@pytest.fixture
def run_apart(it: Daemon) -> Run:
    """Run a command in a process of its own, with its own output."""

    def run_apart(*arguments: str, stdout: int = subprocess.PIPE) -> Ended:
        command = [*COMMAND, *arguments]
        environment = os.environ | {"TASKQUEUE_DAEMON": it.url}
        done = subprocess.run(
            command,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=WAIT_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout or "", done.stderr)

    return run_apart


def objects(text: str) -> list[dict[str, Any]]:
    """Decode the JSON object of each line."""
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------------------------------------------ for programs


LISTS: dict[str, dict[str, Any]] = {
    "project list": {"name": "news", "state": "running"},
    "cron list": {"project": "news", "entry": "daily", "skipped": 0},
    "operation list": {"action": "retry", "projects": ["news"], "matched": 0},
    "fetcher list": {"name": "web1:4711", "address": "127.0.0.1", "holds": 1, "capacity": 1, "failed": 0},
    "task list news --state ready": {"taskid": "b", "url": "http://site/b"},
    "task show news a b": {"taskid": "a", "state": "processing", "fetcher": "web1:4711", "body": None},
}
"""Some keys of the first line of each command."""


def test_a_list_is_an_object_a_line_for_programs(run: Run) -> None:
    ended = {command: run(*command.split(), "--json") for command in LISTS}
    first = {command: objects(out)[0] for command, (status, out, err) in ended.items() if (status, err) == (0, "")}

    assert {command: {name: first[command][name] for name in LISTS[command]} for command in LISTS} == LISTS


def test_one_thing_is_one_object_for_programs(run: Run) -> None:
    operation = objects(run("operation", "list", "--json").out)[0]

    assert json.loads(run("operation", "show", str(operation["id"]), "--json").out)["id"] == operation["id"]
    assert json.loads(run("project", "show", "news", "--json").out)["settings"]["rate"] == 5.0
    assert json.loads(run("why", "shop", "--json").out)["sentence"].startswith('project "shop"')
    assert json.loads(run("why", "news", "a", "--json").out)["taskid"] == "a"
    assert [each["name"] for each in json.loads(run("stats", "--json").out)["projects"]] == ["news", "shop"]
    assert json.loads(run("status", "--json").out)["fetchers"][0]["address"] == "127.0.0.1"


def test_the_body_of_a_task_is_json_as_far_as_json_can_hold_it(run: Run, peer: PeerFactory) -> None:
    url = json.loads(run("status", "--json").out)["daemon"]
    bodies = {"plain": {"save": [1, "é"]}, "bytes": {"page": b"\xff"}}
    tasks = [{"taskid": name, "url": "http://site/", "body": body} for name, body in bodies.items()]
    peer(url).ask("new-task", project="shop", tasks=tasks)

    plain, packed = objects(run("task", "show", "shop", "plain", "bytes", "--json").out)

    assert plain["body"] == {"save": [1, "é"]}
    assert list(packed["body"]) == ["$msgpack"]


def test_the_result_of_a_task_is_shown_as_its_body_is(run: Run) -> None:
    url = json.loads(run("status", "--json").out)["daemon"]
    with Client(url) as client:
        client.push("shop", "http://site/", taskid="left")
        (task,) = client.select(projects=["shop"])
        client.done(task, result={"pages": [1, "é"]})

    (shown,) = objects(run("task", "show", "shop", "left", "--json").out)

    assert (shown["result"], shown["result_bytes"]) == ({"pages": [1, "é"]}, 12)
    assert '{"pages": [1, "é"]}' in run("task", "show", "shop", "left").out


def test_the_parents_of_a_task_are_listed_with_their_results(run: Run) -> None:
    url = json.loads(run("status", "--json").out)["daemon"]
    with Client(url) as client:
        client.push("shop", "http://site/", taskid="left")
        (task,) = client.select(projects=["shop"])
        client.done(task, result={"pages": 2})
        client.push("shop", "http://site/end", depends_on=["left", "ghost"])

    rows = objects(run("task", "parents", "shop", "http://site/end", "--json").out)

    assert rows == [
        {"project": "shop", "taskid": "left", "state": "success", "satisfied": True, "result": {"pages": 2}},
        {"project": "shop", "taskid": "ghost", "state": "unknown", "satisfied": False, "result": None},
    ]
    shown = run("task", "parents", "shop", "http://site/end").out.splitlines()
    assert [line.split() for line in shown] == [
        ["state", "waited", "for", "task", "result"],
        ["success", "shop/left", '{"pages":', "2}"],
        ["unknown", "yes", "shop/ghost"],
    ]
    assert run("task", "parents", "shop", "left").out == "none\n"


def test_what_became_of_tasks_is_told_to_programs(run: Run) -> None:
    status, out, err = run("push", "shop", "http://a/", "http://b/", "nonsense", "--json")
    assert (status, json.loads(out)["new"], json.loads(out)["rejected"], err.count("\n")) == (1, 2, 1, 1)

    status, out, err = run("task", "cancel", "news", "b", "nothing", "--json")
    assert (status, err) == (1, "")
    assert objects(out) == [{"task": "b", "outcome": "done"}, {"task": "nothing", "outcome": "unknown"}]

    retried = json.loads(run("task", "retry", "news", "--state", "cancelled", "--yes", "--json").out)
    assert (retried["action"], retried["matched"], retried["ended_at"] > 0) == ("retry", 1, True)
    left_alone = run("task", "retry", "news", "--state", "failed", "--yes", "--json", "--no-wait").out
    assert json.loads(left_alone)["id"] > retried["id"]


def test_people_are_told_names_and_not_sessions(run: Run) -> None:
    assert "held by web1:4711" in run("task", "show", "news", "a").out
    assert run("fetcher", "list").out.splitlines()[1].split()[:2] == ["web1:4711", "1/1"]


# ------------------------------------------------------------------------------------------------ fetchers


def test_fetchers_are_sorted_filtered_and_limited(run: Run, peer: PeerFactory) -> None:
    url = json.loads(run("status", "--json").out)["daemon"]
    for name, capacity in (("big:1", 90), ("idle:2", 2), ("late:3", 3)):
        peer(url).ask("hello", capacity=capacity, name=name, projects=["shop"])

    def names(*options: str) -> list[str]:
        return [each["name"] for each in objects(run("fetcher", "list", "--json", *options).out)]

    assert names() == ["big:1", "idle:2", "late:3", "web1:4711"]
    assert names("--sort", "capacity", "--limit", "2") == ["big:1", "late:3"]
    assert names("--sort", "oldest", "--limit", "1") == ["web1:4711"]
    assert names("--filter", "LE:") == ["idle:2"]
    assert names("news") == ["web1:4711"]
    assert names("news", "shop", "--sort", "capacity", "--limit", "2") == ["big:1", "late:3"]
    assert names("--group", "shops") == ["big:1", "idle:2", "late:3", "web1:4711"]
    assert run("fetcher", "list", "--filter", "ghost") == (0, "none\n", "")
    assert run("fetcher", "list", "--group", "none")[2] == 'taskqueue: group: no project belongs to a group "none"\n'


# ------------------------------------------------------------------------------------------------ projects


def test_projects_are_sorted_filtered_and_limited_in_status_and_stats(run: Run) -> None:
    def names(command: str, *options: str) -> list[str]:
        return [each["name"] for each in json.loads(run(command, "--json", *options).out)["projects"]]

    for command, most in (("status", "new_5m"), ("stats", "new")):
        assert names(command, "--sort", most) == ["news", "shop"]
        assert names(command, "--filter", "SH") == ["shop"]
        assert names(command, "--limit", "1") == ["news"]
    run("push", "shop", *(f"http://site/{n}" for n in range(9)))
    assert names("status", "--sort", "ready", "--limit", "1") == ["shop"]
    assert names("stats", "--sort", "new", "--window", "all", "--limit", "1") == ["shop"]
    assert run("status", "--limit", "1").out.splitlines()[4] == "and 1 more"


def test_all_of_many_projects_and_fetchers_are_told_in_whatever_order(
    daemon: DaemonFactory, peer: PeerFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    it = daemon(projects={f"p{n:03}": {} for n in range(450)})
    for n in range(30):
        peer(it).ask("hello", capacity=1, name=f"web{n}")

    def told(*arguments: str) -> str:
        assert main((*arguments, "--daemon", it.url)) == 0
        return capsys.readouterr().out

    for sort in ("name", "ready"):
        reply = json.loads(told("status", "--json", "--sort", sort))
        assert [each["name"] for each in reply["projects"]] == [f"p{n:03}" for n in range(450)]
        assert len(reply["fetchers"]) == 30
    assert told("status").splitlines()[-1] == "and 10 more: taskqueue fetcher list"


# ------------------------------------------------------------------------------------------------ pipes, statuses


PRINTING = (
    "status", "status --json", "stats", "project list", "project show news", "project list --json", "cron list",
    "fetcher list", "fetcher list --json", "task list news --state ready", "task show news a", "operation list",
    "why news", "push shop http://a/", "--help", "status --help", "--version",
)  # fmt: skip


def test_a_pipe_that_nobody_reads_is_quiet_and_is_told_by_the_status(
    run_apart: Run, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_into_pipe(*arguments: str) -> Ended:
        with open(os.dup(writing), "w") as stdout, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            return run(*arguments)

    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = {command: run_into_pipe(*command.split()) for command in PRINTING}
        apart = run_apart("status", stdout=writing)
    finally:
        os.close(writing)

    assert ended == dict.fromkeys(PRINTING, (141, "", ""))
    assert apart == (141, "", "")


def test_a_file_that_takes_nothing_is_one_line(run_apart: Run) -> None:
    with open("/dev/full", "w") as full:
        assert run_apart("status", stdout=full.fileno()) == (1, "", "taskqueue: stdout: No space left on device\n")


def test_the_exit_status_is_what_the_documents_say(run: Run, run_apart: Run) -> None:
    assert run_apart("status").status == 0
    assert run("--help").status == 0
    assert run_apart("project", "show", "ghost").status == 1
    assert run("task", "show", "news", "nothing").status == 1
    assert run("status", "--daemon", "tcp://127.0.0.1:9", "--timeout", "0.05").status == 1
    assert run("fetcher", "list", "ghost").status == 1
    assert run("project", "stop", "ghost", "news").status == 1
    assert run("push", "news", "nonsense", "http://a/").status == 1
    assert run("store", "import", "/no/such/file", "--store", "/no/such/store") == (
        1,
        "",
        "taskqueue: /no/such/file: No such file or directory\n",
    )
    assert run("top").status == 1
    assert run("stats", "--window", "5y").status == 2
    assert run("project", "delete", "news").status == 2
    assert run_apart("fly").status == 2
    assert run().status == 2
