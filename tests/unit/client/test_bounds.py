"""Requests larger than a message go in several, in every method; against a scripted daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TypeVar

import msgspec
import pytest

from taskqueue import AsyncClient, Client, MessageTooLarge, RequestRejected, Task, new_task
from taskqueue.client.tasks import reports
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.fetchers import Hello, Release, TokensReply, Welcome
from taskqueue.protocol.fields import MAX_BATCH, MAX_EDGES, Token
from taskqueue.protocol.flows import FlowStage, FlowStaged
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import (
    Done,
    DoneReply,
    ItemError,
    NewTasks,
    ReportOutcome,
    TaskCancel,
    TaskReprioritise,
    TaskRetry,
    TasksReply,
)
from taskqueue.protocol.values import Assignment, TaskReport
from tests.unit.client.conftest import Daemon, friendly

T = TypeVar("T")

URLS = [f"http://b/{number}" for number in range(8)]
LEAST = 512 << 10
"""Bytes of the smallest ``max_message`` that a daemon can have."""


def using(daemon: Daemon, use: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with AsyncClient(daemon.url, timeout=20) as client:
            return await use(client)

    return asyncio.run(main())


def given(token: int = 1) -> Task:
    return Task(Assignment("p", f"t{token}", f"http://a/{token}", Token(token), 600.0))


def heard(daemon: Daemon) -> list[TaskReport]:
    return [item for request in daemon.heard if isinstance(request, Done) for item in request.tasks if item]


def urls_of(item: TaskReport) -> list[str]:
    return [new.url for new in item.new if new]


def limited(max_message: int) -> Callable[[AnyRequest], list[AnyOutgoing]]:
    """Script of a daemon that accepts no longer messages."""

    def answer(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Hello):
            return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=max_message)]
        return friendly(request)

    return answer


# ---------------------------------------------------------------------------------------- reports


@pytest.fixture
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "PART_TASKS", 3)


def telling(request: AnyRequest) -> list[AnyOutgoing]:
    """Script of a daemon that rejects the second new task of each report."""
    if not isinstance(request, Done):
        return friendly(request)
    [item] = [each for each in request.tasks if each]
    outcome: ReportOutcome = "kept" if item.part else "done"
    new: list[PushOutcome] = ["new", "rejected", "merged"]
    error = ItemError(1, f"not {urls_of(item)[1]}", 0)
    return [DoneReply(n=request.n, outcomes=[outcome], new=[new[: len(item.new)]], errors=[error])]


@pytest.mark.usefixtures("_short_parts")
def test_done_with_many_new_tasks_reports_in_parts_and_tells_what_became_of_all(daemon: Daemon) -> None:
    daemon.script = telling

    said = using(daemon, lambda client: client.done(given(), iter(URLS), result=5))

    assert said.outcome == "done"
    assert said.new == ["new", "rejected", "merged", "new", "rejected", "merged", "new", "rejected"]
    assert said.reasons == {place: f"not {URLS[place]}" for place in (1, 4, 7)}
    assert [(item.part, urls_of(item)) for item in heard(daemon)] == [
        (True, URLS[:3]),
        (True, URLS[3:6]),
        (False, URLS[6:]),
    ]
    assert [msgspec.msgpack.decode(item.result) for item in heard(daemon)] == [None, None, 5]


@pytest.mark.usefixtures("_short_parts")
def test_done_of_a_blocking_client_reads_new_tasks_in_its_callers_thread_a_part_at_a_time(daemon: Daemon) -> None:
    read: list[int] = []

    def new() -> Iterator[str]:
        for url in URLS:
            read.append(len(heard(daemon)))
            yield url

    with Client(daemon.url, timeout=20) as client:
        assert client.done(given(), new()).outcome == "done"

    assert read == [0, 0, 0, 0, 1, 1, 1, 2]


@pytest.mark.usefixtures("_short_parts")
def test_after_a_stale_part_nothing_more_is_sent_and_asked_for(daemon: Daemon) -> None:
    outcomes: Iterator[ReportOutcome] = iter(("kept", "stale"))
    daemon.script = lambda request: (
        [DoneReply(n=request.n, outcomes=[next(outcomes)])] if isinstance(request, Done) else friendly(request)
    )
    asked = count()

    said = using(daemon, lambda client: client.done(given(), (URLS[next(asked)] for _ in URLS)))

    assert said.outcome == "stale"
    assert len(heard(daemon)) == 2
    assert next(asked) == 7


@pytest.mark.usefixtures("_short_parts")
def test_a_new_task_that_is_none_is_told_and_ends_nothing(daemon: Daemon) -> None:
    with pytest.raises(ValueError, match="relative"):
        using(daemon, lambda client: client.done(given(), [*URLS, "/relative"]))

    assert all(item.part for item in heard(daemon))


def test_a_report_of_more_bytes_than_the_daemon_takes_goes_in_parts(daemon: Daemon) -> None:
    daemon.script = limited(2000)
    tasks = [new_task(url, body=b"x" * 700) for url in URLS]

    said = using(daemon, lambda client: client.done(given(), tasks, result="y" * 1000))

    assert said.outcome == "done"
    assert [url for item in heard(daemon) for url in urls_of(item)] == URLS
    assert [item.part for item in heard(daemon)][-2:] == [True, False]


def test_a_report_with_more_edges_than_the_daemon_takes_goes_in_parts(daemon: Daemon) -> None:
    parents = [f"parent{number}" for number in range(1000)]

    said = using(daemon, lambda client: client.done(given(), [new_task(url, depends_on=parents) for url in URLS * 2]))

    assert said.outcome == "done"
    assert [len(item.new) for item in heard(daemon)] == [MAX_EDGES // 1000, 6]


def test_a_new_task_that_is_too_large_for_a_message_is_named_and_the_lease_is_the_callers_still(
    daemon: Daemon,
) -> None:
    daemon.script = limited(2000)
    new = [new_task(URLS[0]), new_task(URLS[1], taskid="large", body=b"x" * 5000)]

    async def use(client: AsyncClient) -> None:
        with pytest.raises(MessageTooLarge, match=r"the task 'http://b/1' \(taskid large\) is too large: the message"):
            await client.done(given(), new)
        await client.failed(given(), "too large")

    using(daemon, use)

    assert heard(daemon)[-1].ok is False


def test_a_report_that_is_refused_is_told_to_its_caller(daemon: Daemon) -> None:
    daemon.script = lambda request: (
        [ErrorReply(n=request.n, code="malformed", reason="odd")] if isinstance(request, Done) else friendly(request)
    )

    with pytest.raises(RequestRejected, match="odd"):
        using(daemon, lambda client: client.done(given(), URLS))


# ---------------------------------------------------------------------------------------- pushes


def test_a_task_that_is_too_large_to_be_pushed_is_named(daemon: Daemon) -> None:
    daemon.script = limited(2000)

    with pytest.raises(MessageTooLarge, match=r"the task 'http://b/' \(taskid large\) is too large: the message has"):
        using(daemon, lambda client: client.push("p", "http://b/", taskid="large", body=b"x" * 5000))


def test_a_task_of_a_flow_that_is_too_large_is_named(daemon: Daemon) -> None:
    def answer(request: AnyRequest) -> list[AnyOutgoing]:
        return [FlowStaged(n=request.n, staged=1)] if isinstance(request, FlowStage) else limited(2000)(request)

    daemon.script = answer

    async def use(client: AsyncClient) -> None:
        flow = client.flow("p")
        flow.task("http://b/0")
        flow.task("http://b/1", taskid="large", body=b"x" * 5000)
        await flow.submit()

    with pytest.raises(MessageTooLarge, match=r"the task 'http://b/1' \(taskid large\) is too large: the message has"):
        using(daemon, use)


def test_push_many_keeps_to_the_edges_that_a_message_takes(daemon: Daemon) -> None:
    parents = [f"parent{number}" for number in range(1000)]
    tasks = (new_task(f"http://b/{number}", depends_on=parents) for number in range(25))

    pushed = using(daemon, lambda client: client.push_many("p", tasks))

    assert (pushed.new, pushed.rejected) == (25, 0)
    assert [len(request.tasks) for request in daemon.heard if isinstance(request, NewTasks)] == [10, 10, 5]


# ---------------------------------------------------------------------------------------- names and leases


def answering_names(request: AnyRequest) -> list[AnyOutgoing]:
    if isinstance(request, TaskRetry | TaskCancel | TaskReprioritise):
        return [TasksReply(n=request.n, outcomes=["done"] * len(request.taskids))]
    return friendly(request)


CHANGES: dict[str, Callable[[AsyncClient, list[str]], Awaitable[object]]] = {
    "retry": lambda client, taskids: client.tasks.retry("p", taskids),
    "cancel": lambda client, taskids: client.tasks.cancel("p", iter(taskids)),
    "reprioritise": lambda client, taskids: client.tasks.reprioritise("p", taskids, 5),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_more_tasks_than_a_message_names_goes_in_several(
    daemon: Daemon, change: Callable[[AsyncClient, list[str]], Awaitable[object]]
) -> None:
    daemon.script = answering_names
    taskids = [f"{number:032}" for number in range(MAX_BATCH + 1)]

    assert using(daemon, lambda client: change(client, taskids)) == ["done"] * len(taskids)

    asked = [
        request.taskids for request in daemon.heard if isinstance(request, TaskRetry | TaskCancel | TaskReprioritise)
    ]
    assert [len(some) for some in asked] == [MAX_BATCH, 1]
    assert [taskid for some in asked for taskid in some] == taskids


def test_the_longest_names_fit_into_the_shortest_message(daemon: Daemon) -> None:
    def answer(request: AnyRequest) -> list[AnyOutgoing]:
        return limited(LEAST)(request) if isinstance(request, Hello) else answering_names(request)

    daemon.script = answer
    taskids = [f"{number:0128}" for number in range(9000)]

    assert using(daemon, lambda client: client.tasks.retry("p", taskids)) == ["done"] * 9000


def test_no_name_is_asked_about_as_before(daemon: Daemon) -> None:
    daemon.script = answering_names

    assert using(daemon, lambda client: client.tasks.retry("p", [])) == []


def test_any_number_of_tasks_can_be_released_also_to_a_daemon_that_takes_short_messages(daemon: Daemon) -> None:
    def answer(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Release):
            return [TokensReply(n=request.n, counted=len(request.leases))]
        return limited(LEAST)(request)

    daemon.script = answer
    tasks = [
        Task(Assignment("p" * 64, f"{number:0128}", "http://a/", Token(2**62 + number), 600.0))
        for number in range(MAX_BATCH + 1)
    ]

    assert using(daemon, lambda client: client.release(*tasks)) == MAX_BATCH + 1
