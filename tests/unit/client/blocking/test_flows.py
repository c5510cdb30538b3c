"""Listing flows, waiting for one, and iterating over its tasks, against a scripted daemon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from taskqueue import Client
from taskqueue.protocol.choices import FlowState
from taskqueue.protocol.flows import (
    Flow,
    FlowCancel,
    FlowList,
    FlowReply,
    FlowShow,
    FlowsReply,
    FlowTasks,
    FlowTasksReply,
    FlowTaskStatus,
)
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.values import TaskCounts
from tests.unit.client.conftest import Daemon, friendly


def flow(name: str = "nightly", over: int = 0, ended_at: float = 0.0) -> Flow:
    state: FlowState = "success" if ended_at else "running"
    return Flow("news", name, state, 3, TaskCounts(ready=3 - over, success=over), 3, 1.0, ended_at)


def task(index: int, *parents: int) -> FlowTaskStatus:
    return FlowTaskStatus(index, f"t{index}", f"http://a/{index}", "ready", list(parents))


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.url) as it:
        yield it


def test_all_flows_are_asked_for_page_by_page(daemon: Daemon, client: Client) -> None:
    pages = {"": ([flow("a"), flow("b")], True), "news/b": ([flow("c")], False)}

    def script(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowList):
            flows, more = pages[request.after]
            return [FlowsReply(n=request.n, flows=flows, more=more)]
        return friendly(request)

    daemon.script = script

    assert [each.flow for each in client.flows.iter("news")] == ["a", "b", "c"]
    assert daemon.hear(FlowList).project == "news"


def test_all_tasks_of_a_flow_are_asked_for_page_by_page_short_pages_too(daemon: Daemon, client: Client) -> None:
    pages = {None: ([task(0), task(1)], 2), 2: ([], 5), 5: ([task(2, 0, 1)], None)}

    def script(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowTasks):
            tasks, following = pages[request.after]
            return [FlowTasksReply(n=request.n, tasks=tasks, next=following)]
        return friendly(request)

    daemon.script = script

    assert list(client.flows.iter_tasks("news", "nightly")) == [task(0), task(1), task(2, 0, 1)]


def test_a_flow_is_waited_for_until_it_has_ended(daemon: Daemon, client: Client) -> None:
    views = iter([flow(), flow(over=1), flow(over=3, ended_at=9.0)])

    def script(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowShow):
            return [FlowReply(n=request.n, flow=next(views))]
        return friendly(request)

    daemon.script = script
    told: list[int] = []

    ended = client.flows.wait("news", "nightly", lambda view: told.append(view.counts.success))

    assert (ended.state, told) == ("success", [0, 1, 3])
    assert [daemon.hear(FlowShow).seconds for _ in range(3)] == [0, 0.5, 0.5]


def test_waiting_ends_after_its_time_with_the_flow_as_it_is(daemon: Daemon, client: Client) -> None:
    def script(request: AnyRequest) -> Iterable[AnyOutgoing]:
        match request:
            case FlowShow(seconds=0):
                return [FlowReply(n=request.n, flow=flow())]
            case FlowShow():
                return []
        return friendly(request)

    daemon.script = script

    assert client.flows.wait("news", "nightly", timeout=0.05) == flow()


def test_a_flow_is_cancelled_by_its_name(daemon: Daemon, client: Client) -> None:
    def script(request: AnyRequest) -> Iterable[AnyOutgoing]:
        if isinstance(request, FlowCancel | FlowShow):
            return [FlowReply(n=request.n, flow=flow())]
        return friendly(request)

    daemon.script = script

    assert client.flows.cancel("news", "nightly") == client.flows.get("news", "nightly") == flow()
    assert (daemon.hear(FlowCancel).project, daemon.hear(FlowShow).flow) == ("news", "nightly")
