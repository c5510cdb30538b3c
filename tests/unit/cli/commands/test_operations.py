"""``taskqueue operation``: exit statuses of ``wait``, and the numbers that name operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.cli.main import main
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.operations import (
    OperationList,
    OperationReply,
    OperationShow,
    OperationsReply,
    OperationUndo,
)
from taskqueue.protocol.values import Operation, TaskCounts, UndoProgress
from tests.unit.client.conftest import Daemon, friendly

Run = Callable[..., tuple[int, str, str]]

RUNNING = Operation(17592186044417, "retry", ["news"], False, 100, 49, 7, began_at=1e9, number=3)

UNDONE = Operation(
    17592186044418, "undo", ["news"], False, 7, 7, 4, began_at=1e9, ended_at=2e9, number=4,
    undo=UndoProgress(
        3, "cancel", TaskCounts(ready=3, delayed=1), ran=2, changed=2, gone=1, children=3, children_named=["a", "b"],
        finished=1, finished_named=["news"], flows=1, flows_named=["night"],
    ),
)  # fmt: skip


@dataclass
class Operations:
    """Daemon with one operation."""

    view: Operation = RUNNING
    undo: Operation = UNDONE
    asked: list[int] = field(default_factory=list)

    def __call__(self, request: AnyRequest) -> list[AnyOutgoing]:
        match request:
            case OperationShow(n=n, id=id):
                self.asked.append(id)
                return [OperationReply(n=n, operation=self.view)]
            case OperationUndo(n=n, id=id):
                self.asked.append(id)
                self.view = self.undo
                return [OperationReply(n=n, operation=self.undo)]
            case OperationList(n=n):
                return [OperationsReply(n=n, operations=[self.view])]
        return friendly(request)


@pytest.fixture
def operations() -> Operations:
    return Operations()


@pytest.fixture
def run(operations: Operations, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    double = Daemon()
    double.script = operations
    monkeypatch.setenv("TASKQUEUE_DAEMON", double.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["operation", *arguments])
        return status, *capsys.readouterr()

    yield run
    double.stop()


@pytest.mark.parametrize(
    ("changes", "status", "out", "err"),
    [
        ({"ended_at": 2e9}, 0, "retried 7 tasks of 49 scanned (operation 3)\n", ""),
        (
            {"ended_at": 2e9, "cancelled": True},
            4,
            "cancelled: retried 7 tasks of 49 scanned (operation 3)\n",
            "",
        ),
        ({}, 1, "", "taskqueue operation wait: 3 has not ended, 49%\n"),
    ],
)
def test_the_exit_status_of_wait_says_how_an_operation_ended(
    operations: Operations, run: Run, changes: dict[str, Any], status: int, out: str, err: str
) -> None:
    operations.view = replace(RUNNING, **changes)

    assert run("wait", "3", "--timeout", "0") == (status, out, err)
    assert operations.asked[0] == 3


def test_an_operation_is_shown_with_its_number_and_its_id(run: Run) -> None:
    shown = [line.split() for line in run("show", "3")[1].splitlines()]

    assert shown[:2] == [["number", "3"], ["id", "17592186044417"]]
    assert run("list")[1].splitlines()[1].split()[:2] == ["3", "17592186044417"]


def test_an_operation_from_before_there_were_numbers_is_called_by_its_id(operations: Operations, run: Run) -> None:
    operations.view = replace(RUNNING, number=0, ended_at=2e9)

    assert "(operation 17592186044417)" in run("wait", "17592186044417")[1]
    assert run("list")[1].splitlines()[1].split()[0] == "17592186044417"


def test_an_undo_prints_what_came_back_and_what_did_not(operations: Operations, run: Run) -> None:
    assert run("undo", "3", "--yes") == (
        0,
        "brought back 4 of 7 tasks from cancel (operation 3): 3 ready, 1 delayed\n"
        "2 tasks of the ready ones had been running\n"
        "2 tasks left as they are: changed since\n"
        "1 task gone since\n"
        "3 tasks failed since because of a cancelled parent, until it has succeeded: a, b and 1 more\n"
        "projects that finished since, with event and on_finished, which stay: news\n"
        "flows that ended since, and run on: night\n",
        "",
    )
    assert operations.asked[0] == 3


def test_what_an_undo_has_brought_back_is_shown_on_one_line(run: Run) -> None:
    run("undo", "3", "--yes")

    shown = " ".join(run("show", "4")[1].split())
    assert "3 ready, 1 delayed; 2 tasks of the ready ones had been running; " in shown


def test_an_undo_asks_before_it_begins_unless_told(operations: Operations, run: Run) -> None:
    operations.view = replace(RUNNING, ended_at=2e9, rows=7)

    status, out, err = run("undo", "3")

    assert (status, out) == (2, "")
    assert "--yes" in err
    assert operations.view.action == "retry"


def test_an_undo_may_be_left_alone(run: Run) -> None:
    assert run("undo", "3", "--yes", "--no-wait") == (0, "4\n", "")


@pytest.mark.parametrize(("cancelled", "state"), [(False, "ended"), (True, "cancelled")])
def test_the_state_of_an_operation_says_whether_it_was_cancelled(
    operations: Operations, run: Run, cancelled: bool, state: str
) -> None:
    operations.view = replace(RUNNING, ended_at=2e9, cancelled=cancelled)

    assert f"state {state} " in " ".join(run("show", "3")[1].split())
    assert state in run("list")[1].splitlines()[1].split()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": 7}, "7 tasks, by: taskqueue operation undo 3"),
        ({"no_undo": "it ended more than 7 days ago"}, "not any more: it ended more than 7 days ago"),
        ({"undone_by": 4}, "operation 4 undoes it"),
    ],
)
def test_an_operation_says_whether_it_can_be_undone(
    operations: Operations, run: Run, changes: dict[str, Any], said: str
) -> None:
    operations.view = replace(RUNNING, ended_at=2e9, **changes)

    assert said in " ".join(run("show", "3")[1].split())
