"""Kinds of errors: a report names the kind, or the text shows it, in all views and filters."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.insight import FailureGroup, FailureList, FailuresReply, Why, WhyReply
from taskqueue.protocol.operations import Bulk, OperationReply, OperationShow
from taskqueue.protocol.tasks import TaskList, TaskListReply
from taskqueue.protocol.values import TaskFilter
from tests.unit.core.conftest import MakeWorld, World, task

TRACEBACK = """Traceback (most recent call last):
  File "shop.py", line 7, in handle
    stored.add(page)
OSError: no such table
[SQL: insert]
(Background on this error at: https://e.example/20/e3q8)"""
KIND = "OSError: no such table"

SAID = {"error": "no such table\nServer: nginx\n" + "<td></td>\n" * 90, "kind": KIND}
"""Report with a kind that its text does not show."""

SAID_SHORTLY = {"error": "no such table\nServer: nginx", "kind": KIND}

REPORTS = pytest.mark.parametrize(
    "report", [{"error": TRACEBACK}, SAID, SAID_SHORTLY], ids=["told by its text", "said", "said shortly"]
)


@pytest.fixture
def failed(world: World, report: dict[str, Any]) -> World:
    """Let a task fail for good with this report, and one with another error; then restart the daemon."""
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher(capacity=2)
    fetcher.fail("a", retry=False, **report)
    fetcher.fail("b", retry=False, error="HTTP 503")
    world.crash()
    return world


def groups(world: World) -> list[FailureGroup]:
    asked = FailureList(session="person", n=world.n())
    world.turn(asked)
    world.settle()
    [reply] = [one for one in world.inbox if one.n == asked.n]
    assert isinstance(reply, FailuresReply)
    return reply.groups


def listed(world: World, error: str = "", state: Any = "failed") -> list[tuple[str, str]]:
    wanted = TaskList(session="person", n=world.n(), project="news", state=state, error=error)
    return [(row.taskid, row.kind) for row in world.ask(TaskListReply, wanted).tasks]


def matched(world: World, error: str) -> int:
    """Count failed tasks that a retry by this glob matches."""
    wanted = Bulk(session="person", n=world.n(), project="news", action="retry", filter=TaskFilter(error=error))
    (begun,) = world.turn(wanted)
    assert isinstance(begun, OperationReply)
    world.settle()
    (ended,) = world.turn(OperationShow(session="person", n=world.n(), id=begun.operation.id))
    assert isinstance(ended, OperationReply)
    return ended.operation.matched


@REPORTS
def test_failures_are_grouped_by_it(failed: World) -> None:
    assert sorted(group.name for group in groups(failed)) == ["HTTP 503", KIND]
    assert {group.error for group in groups(failed)} == {"HTTP 503", KIND}


@REPORTS
def test_a_history_has_it_beside_the_text(failed: World, report: dict[str, Any]) -> None:
    [attempt] = failed.show("a").history

    assert (attempt.error, attempt.kind) == (report["error"], KIND)


@REPORTS
def test_a_list_has_it_and_a_glob_matches_it(failed: World) -> None:
    assert sorted(listed(failed)) == [("a", KIND), ("b", "HTTP 503")]
    assert listed(failed, error="OSError: no such *") == [("a", KIND)]
    assert listed(failed, error="OSError") == []


@REPORTS
def test_a_glob_still_matches_the_whole_text(failed: World, report: dict[str, Any]) -> None:
    assert listed(failed, error=f"*{report['error'][-12:]}") == [("a", KIND)]


@REPORTS
def test_what_is_done_to_all_tasks_with_such_an_error_is_done_to_it(failed: World) -> None:
    assert matched(failed, "OSError: no such *") == 1


@REPORTS
def test_a_glob_matches_it_while_the_task_waits(make_world: MakeWorld, report: dict[str, Any]) -> None:
    world = make_world({"retry_delay": [60]})
    world.push("news", task("a"))
    world.fetcher().fail("a", **report)

    assert listed(world, error="OSError: no such *", state="delayed") == [("a", KIND)]


@REPORTS
def test_why_quotes_it_and_nothing_else_of_the_error(failed: World) -> None:
    (reply,) = failed.turn(Why(session="person", n=failed.n(), project="news", taskid="a"))

    assert isinstance(reply, WhyReply)
    assert f'failed for good now ago: "{KIND}"; push it' in reply.sentence.replace("0 s ago", "now ago")


@REPORTS
def test_a_project_that_pauses_itself_says_it(make_world: MakeWorld, report: dict[str, Any]) -> None:
    world = make_world({"fail_pause_num": 1})
    world.push("news", task("a"))
    world.fetcher().fail("a", **report)

    [event] = [event for event in world.happened if event.kind == "paused"]
    assert event.reason == f"1 failure in a row, the last one: {KIND}"


def test_of_a_text_that_the_daemon_cuts_it_is_what_the_whole_text_told(world: World) -> None:
    text = "é" * 400 + "\nOSError: no such table\n" + "é" * 1600
    world.push("news", task("a"))
    world.fetcher().fail("a", error=text)

    [attempt] = world.show("a").history
    assert "OSError" not in attempt.error
    assert attempt.kind == KIND


def test_a_kind_alone_is_an_error(world: World) -> None:
    world.push("news", task("a"))
    world.fetcher().fail("a", kind="HTTP 503\nServer: nginx")

    assert world.show("a").history[0].kind == "HTTP 503"
