"""``taskqueue flow`` against a scripted daemon: what is sent, what is printed, and the exit statuses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from taskqueue.cli.main import main
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import FlowState
from taskqueue.protocol.flows import (
    Flow,
    FlowCancel,
    FlowList,
    FlowReply,
    FlowShow,
    FlowsReply,
    FlowStage,
    FlowStaged,
    FlowSubmit,
    FlowTasks,
    FlowTasksReply,
    FlowTaskStatus,
)
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.values import TaskCounts
from tests.unit.client.conftest import Daemon, friendly

Run = Callable[..., tuple[int, str, str]]

NIGHTLY = """
flow = "nightly"
[tasks.D]
url = "http://d/"
after = ["A"]
[tasks.A]
url = "http://a/"
"""


def view(project: str = "shop", name: str = "nightly", state: FlowState = "running", **counts: int) -> Flow:
    ended_at = 1_700_000_060.0 if state in ("success", "failed", "cancelled") else 0.0
    return Flow(project, name, state, 2, TaskCounts(**counts), 2, 1_700_000_000.0, ended_at)


class Flows:
    """Answers of a daemon that has these flows."""

    def __init__(self) -> None:
        self.views = [view(success=1, ready=1)]

    def __call__(self, request: AnyRequest) -> Iterable[AnyOutgoing]:
        match request:
            case FlowStage(n=n, first=first, tasks=tasks):
                return [FlowStaged(n=n, staged=first + len(tasks))]
            case FlowSubmit(n=n, project=project, flow=flow):
                return [FlowReply(n=n, flow=view(project, flow, "unrolling"))]
            case FlowList(n=n):
                return [FlowsReply(n=n, flows=self.views, more=False)]
            case FlowShow(n=n, project=project, flow=flow) | FlowCancel(n=n, project=project, flow=flow):
                found = [each for each in self.views if (each.project, each.flow) == (project, flow)]
                refused = ErrorReply(n=n, code="unknown-flow", reason=f"flow {flow!r} is unknown")
                return [FlowReply(n=n, flow=found[0]) if found else refused]
            case FlowTasks(n=n):
                a, d = FlowTaskStatus(0, "A", "http://a/", "success"), FlowTaskStatus(1, "D", "http://d/", "ready", [0])
                return [FlowTasksReply(n=n, tasks=[a, d])]
        return friendly(request)


@pytest.fixture
def flows() -> Flows:
    return Flows()


@pytest.fixture
def daemon(flows: Flows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Daemon]:
    double = Daemon()
    double.script = flows
    monkeypatch.setenv("TASKQUEUE_DAEMON", double.url)
    monkeypatch.chdir(tmp_path)
    yield double
    double.stop()


@pytest.fixture
def run(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["flow", *arguments])
        return status, *capsys.readouterr()

    return run


def test_a_file_is_submitted_parents_first(daemon: Daemon, run: Run) -> None:
    Path("nightly.toml").write_text(NIGHTLY)

    assert run("submit", "shop", "nightly.toml") == (0, "shop/nightly: 2 tasks accepted\n", "")

    staged, submitted = daemon.hear(FlowStage), daemon.hear(FlowSubmit)
    assert [(task.taskid, task.depends_on) for task in staged.tasks] == [("A", ()), ("D", ("A",))]
    assert (submitted.project, submitted.flow, submitted.reuse) == ("shop", "nightly", False)


def test_options_say_other_than_the_file(daemon: Daemon, run: Run) -> None:
    Path("nightly.toml").write_text(NIGHTLY)

    status, out, _ = run("submit", "news", "nightly.toml", "--name", "once", "--reuse", "--json")

    assert (status, json.loads(out)["flow"]) == (0, "once")
    submitted = daemon.hear(FlowSubmit)
    assert (submitted.project, submitted.flow, submitted.reuse) == ("news", "once", True)


def test_a_flow_may_come_from_stdin(daemon: Daemon, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"tasks": {"A": {"url": "http://a/"}}}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(said).encode())))

    status, out, _ = run("submit", "shop", "-")

    assert status == 0
    assert out.startswith("shop/flow-")
    assert daemon.hear(FlowStage).tasks[0].taskid == "A"


def test_a_file_that_is_wrong_is_not_sent(daemon: Daemon, run: Run) -> None:
    Path("x.toml").write_text(NIGHTLY.replace('["A"]', '["A", "X"]'))

    status, _, err = run("submit", "shop", "x.toml")

    assert (status, err.partition("; ")[0]) == (
        1,
        'taskqueue: x.toml: tasks.D.after[1]: no task of this file is called "X"',
    )
    assert daemon.heard == []


def test_a_file_does_not_say_the_project(daemon: Daemon, run: Run) -> None:
    Path("x.toml").write_text("project = 'shop'\n[tasks.A]\nurl = 'http://a/'")

    status, _, err = run("submit", "shop", "x.toml")

    assert (status, err) == (
        1,
        "taskqueue: x.toml: project: it is said by the command: taskqueue flow submit PROJECT FILE\n",
    )
    assert daemon.heard == []


def test_a_dry_run_shows_the_graph_without_a_daemon(daemon: Daemon, run: Run) -> None:
    Path("nightly.toml").write_text(NIGHTLY)

    status, out, _ = run("submit", "shop", "nightly.toml", "--dry-run")

    lines = [line.rstrip() for line in out.splitlines()]
    assert (status, lines[0]) == (0, "shop/nightly  staged  0 of 2 tasks finished, not submitted yet")
    assert lines[5:] == ["1     A    staged", "2     D    staged      A"]
    assert daemon.heard == []


def test_flows_are_listed_the_newest_first(flows: Flows, run: Run) -> None:
    newer = view("news", "weekly")
    flows.views.append(replace(newer, began_at=newer.began_at + 1))

    assert [line.split()[1] for line in run("list")[1].splitlines()] == ["flow", "weekly", "nightly"]
    assert [json.loads(line)["flow"] for line in run("list", "--json")[1].splitlines()] == ["weekly", "nightly"]


def test_flows_of_some_projects_are_listed_together(flows: Flows, run: Run) -> None:
    assert len(run("list", "shop", "shop")[1].splitlines()) == 1 + len(flows.views)


def test_a_flow_is_shown_by_project_and_name(run: Run) -> None:
    status, out, _ = run("show", "shop", "nightly")

    assert (status, out.splitlines()[2].strip()) == (0, "1 success, 1 ready")


def test_a_flow_that_is_not_there_is_told(run: Run) -> None:
    assert run("show", "shop", "x")[::2] == (1, "taskqueue: flow 'x' is unknown\n")
    assert run("wait", "shop", "x")[::2] == (1, "taskqueue: flow 'x' is unknown\n")
    assert run("show", "shop", "a/b")[0] == 2


def test_a_flow_is_shown_to_programs_with_its_tasks(run: Run) -> None:
    said = json.loads(run("show", "shop", "nightly", "--json")[1])

    assert (said["state"], said["tasks"], [each["depends_on"] for each in said["members"]]) == ("running", 2, [[], [0]])
    assert said["layers"] == [
        {"states": {"success": 1}, "members": [0]}, {"states": {"ready": 1}, "members": [1]},
    ]  # fmt: skip
    assert said["critical_path"].keys() == {"seconds", "members"}


@pytest.mark.parametrize(
    ("state", "status", "told"),
    [
        ("success", 0, ""),
        ("failed", 3, "taskqueue flow wait: shop/nightly: failed, 2 of 2 tasks finished (1 failed)\n"),
        ("cancelled", 4, "taskqueue flow wait: shop/nightly: cancelled, 2 of 2 tasks finished (1 cancelled)\n"),
    ],
)
def test_the_exit_status_of_wait_says_how_a_flow_ended(
    flows: Flows, run: Run, state: FlowState, status: int, told: str
) -> None:
    counts = {"success": 2} if state == "success" else {"success": 1, str(state): 1}
    flows.views = [view("shop", "nightly", state, **counts)]

    assert run("wait", "shop", "nightly") == (status, "", told)


def test_waiting_ends_with_its_time(run: Run) -> None:
    assert run("wait", "shop", "nightly", "--timeout", "0") == (
        1,
        "",
        "taskqueue flow wait: shop/nightly has not ended, 1 of 2 tasks finished\n",
    )


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("running", "shop/nightly: unfinished tasks are being cancelled; 0 of 2 tasks finished"),
        ("staged", "shop/nightly: dropped"),
        ("success", "shop/nightly: success, 0 of 2 tasks finished"),
    ],
)
def test_a_flow_is_cancelled(flows: Flows, run: Run, state: FlowState, told: str) -> None:
    flows.views = [view(state=state)]

    assert run("cancel", "shop", "nightly") == (0, f"{told}\n", "")
