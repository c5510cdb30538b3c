"""Requests in one turn with the end or the start of their project get the same reply as a turn later.

Their lookups come before the turn decides anything, so they may be of a project that is gone by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from taskqueue.core.request_rules import RULES
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.daemon import DaemonHistory, DaemonShow, KeyList, StatusShow, Verify
from taskqueue.protocol.exports import ExportedProject, ProjectImport
from taskqueue.protocol.fetchers import Extend, FetcherDo, Fetchers, FetcherShow, Hello, Note, Release
from taskqueue.protocol.flows import FlowCancel, FlowList, FlowShow, FlowStage, FlowSubmit, FlowTasks
from taskqueue.protocol.insight import FailureList, JobCounts, Log, Stats, StatsHistory, Watch, Why
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import (
    Bulk,
    OperationCancel,
    OperationList,
    OperationShow,
    OperationUndo,
    Rerun,
)
from taskqueue.protocol.projects import (
    GroupDo,
    GroupSet,
    ProjectDo,
    ProjectHold,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
)
from taskqueue.protocol.slots import SlotList, SlotSet, SlotShow
from taskqueue.protocol.tasks import (
    Done,
    NewTasks,
    TaskCancel,
    TaskChildren,
    TaskList,
    TaskParents,
    TaskReprioritise,
    TaskRetry,
    TaskShow,
    TaskWait,
)
from taskqueue.protocol.values import Action
from taskqueue.settings.settings import CoreConfig, Layer
from tests.unit.core.conftest import World, packed, task
from tests.unit.core.requests.test_task_parents import run, waiting

HOT: Final = {NewTasks, Hello, Done, Extend, Note, Release}

WHO: Final[dict[str, Any]] = {"session": "person", "n": 1}
NEWS: Final[dict[str, Any]] = {**WHO, "project": "news"}
SHOP: Final[dict[str, Any]] = {**WHO, "project": "shop"}


class Row(NamedTuple):
    """Request and its result: the code of a refusal, or ``ok``.

    Attributes:
        gone: result after a deletion of its project.
        begun: result after a start of its project, which creates it.
    """

    request: AnyRequest
    gone: str
    begun: str


ROWS: Final = (
    Row(TaskShow(**NEWS, taskid="a"), "unknown-project", "unknown-task"),
    Row(TaskRetry(**NEWS, taskids=["a", "b"]), "unknown-project", "ok"),
    Row(TaskCancel(**NEWS, taskids=["d"]), "unknown-project", "ok"),
    Row(TaskReprioritise(**NEWS, taskids=["d"], priority=3), "unknown-project", "ok"),
    Row(TaskWait(**NEWS, taskid="a"), "unknown-project", "unknown-task"),
    Row(TaskParents(**NEWS, taskid="c"), "unknown-project", "unknown-task"),
    Row(TaskChildren(**NEWS, taskid="a"), "unknown-project", "unknown-task"),
    Row(TaskList(**NEWS, state="delayed"), "unknown-project", "ok"),
    Row(TaskList(**NEWS), "unknown-project", "ok"),
    Row(SlotShow(**SHOP, slot="a.org"), "unknown-project", "unknown-slot"),
    Row(SlotSet(**SHOP, slot="a.org", delay=5.0), "unknown-project", "ok"),
    Row(SlotList(**SHOP), "unknown-project", "ok"),
    Row(SlotList(**SHOP, all=True), "unknown-project", "ok"),
    Row(ProjectShow(**NEWS), "unknown-project", "ok"),
    Row(ProjectSet(**NEWS, settings={"rate": 2.0}), "ok", "ok"),
    Row(ProjectUnset(**NEWS), "unknown-project", "ok"),
    Row(ProjectDo(**NEWS, action="pause"), "unknown-project", "ok"),
    Row(ProjectWait(**NEWS, seconds=0.0), "unknown-project", "ok"),
    Row(ProjectHold(**NEWS, seconds=5.0), "unknown-project", "ok"),
    Row(GroupSet(**WHO, group="g", settings={"rate": 2.0}), "unknown-group", "ok"),
    Row(GroupDo(**WHO, group="g", action="pause"), "unknown-group", "ok"),
    Row(FlowStage(**NEWS, flow="f", first=1, tasks=[task("y")]), "unknown-project", "state"),
    Row(FlowSubmit(**NEWS, flow="f", count=1), "unknown-project", "unknown-flow"),
    Row(FlowShow(**NEWS, flow="f"), "unknown-project", "unknown-flow"),
    Row(FlowList(**NEWS), "unknown-project", "ok"),
    Row(FlowTasks(**NEWS, flow="f"), "unknown-project", "unknown-flow"),
    Row(FlowCancel(**NEWS, flow="f"), "unknown-project", "unknown-flow"),
    Row(Bulk(**NEWS, action="cancel"), "unknown-project", "ok"),
    Row(Rerun(**NEWS, taskid="a"), "unknown-project", "unknown-task"),
    Row(OperationCancel(**WHO, id=1), "unknown-operation", "unknown-operation"),
    Row(OperationUndo(**WHO, id=1), "unknown-operation", "unknown-operation"),
    Row(OperationShow(**WHO, id=1), "unknown-operation", "unknown-operation"),
    Row(OperationList(**WHO), "ok", "ok"),
    Row(Log(**NEWS), "ok", "ok"),
    Row(Stats(**WHO), "ok", "ok"),
    Row(JobCounts(**NEWS, job="monday"), "unknown-project", "ok"),
    Row(StatsHistory(**NEWS), "unknown-project", "ok"),
    Row(FailureList(**NEWS), "unknown-project", "ok"),
    Row(Why(**NEWS, taskid="c"), "unknown-project", "ok"),
    Row(Why(**NEWS), "unknown-project", "ok"),
    Row(Watch(**WHO), "ok", "ok"),
    Row(FetcherDo(**WHO, fetcher="fetcher", action="drain"), "ok", "ok"),
    Row(FetcherShow(**WHO, fetcher="fetcher"), "ok", "ok"),
    Row(Fetchers(**NEWS), "unknown-project", "ok"),
    Row(DaemonHistory(**WHO), "ok", "ok"),
    Row(KeyList(**WHO), "ok", "ok"),
    Row(DaemonShow(**WHO, projects=["news"]), "ok", "ok"),
    Row(StatusShow(**WHO, projects=["news"]), "unknown-project", "ok"),
    Row(Verify(**WHO), "ok", "ok"),
    Row(ProjectImport(**NEWS, export="x", begin=ExportedProject(1)), "ok", "state"),
)
"""Every type of cold request."""

each_row = pytest.mark.parametrize("row", ROWS, ids=[type(row.request).__name__ for row in ROWS])


def lived() -> World:
    """Make a world in which each request finds something, little of it in memory."""
    projects: dict[str, Layer] = {"news": {"group": "g"}, "shop": {"slot": {"by": "host"}}}
    world = World(CoreConfig(defaults={"rate": inf}, projects=projects, head_tasks=2), rarely=True)
    fetcher = world.fetcher(capacity=1, projects=["news"])
    world.push("news", task("a"), task("b"))
    run(fetcher, "a", result=packed("old"))
    run(fetcher, "b", ok=False, retry=False, error="boom")
    world.push("news", waiting("c", "a", "b"), *(task(taskid, delay=999, job="monday") for taskid in "defg"))
    world.push("shop", task("a", url="http://a.org/"))
    world.turn(FlowStage(**NEWS | {"n": world.n()}, flow="f", first=0, tasks=[task("x")]))
    world.advance(120)
    fetcher.hello()
    world.turn(Watch(**WHO, seconds=0.0))
    return world


def acts(world: World, row: Row, actions: Sequence[Action]) -> list[ProjectDo]:
    """Make the actions on the project of the request."""
    project = getattr(row.request, "project", "news")
    return [ProjectDo(session="owner", n=world.n(), project=project, action=action) for action in actions]


def heard(row: Row, *actions: Action, before: Sequence[Action] = (), together: bool) -> list[AnyReply]:
    """Return the replies after some actions, in one turn with them or in a turn of the request's own."""
    world = lived()
    world.turn(*acts(world, row, before))
    world.settle()
    requests = acts(world, row, actions)
    request = replace(row.request, n=world.n())
    if together:
        world.turn(*requests, request)
    else:
        world.turn(*requests)
        world.turn(request)
    world.settle()
    world.check_rest()
    return [each for each in world.inbox if each.n == request.n]


def said(replies: list[AnyReply]) -> str:
    [reply] = replies
    return reply.code if isinstance(reply, ErrorReply) else "ok"


def test_each_type_of_cold_request_has_a_row() -> None:
    assert {type(row.request) for row in ROWS} == set(RULES) - HOT


@each_row
def test_behind_the_deletion_of_its_project_a_request_is_answered_as_a_turn_later(row: Row) -> None:
    replies = heard(row, "delete", together=True)

    assert said(replies) == row.gone
    assert replies == heard(row, "delete", together=False)


@each_row
def test_behind_the_start_of_its_project_a_request_is_answered_as_a_turn_later(row: Row) -> None:
    replies = heard(row, "start", before=["delete"], together=True)

    assert said(replies) == row.begun
    assert replies == heard(row, "start", before=["delete"], together=False)


@each_row
@pytest.mark.parametrize("actions", [("delete", "start"), ("reset",)], ids=["anew", "reset"])
def test_of_a_project_that_the_very_turn_makes_anew_a_request_finds_nothing_of_before(
    row: Row, actions: Sequence[Action]
) -> None:
    replies = heard(row, *actions, together=True)

    assert said(replies) == row.begun
    assert replies == heard(row, *actions, together=False)
