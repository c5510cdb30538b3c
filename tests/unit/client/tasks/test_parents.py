"""task.parents(): tasks that a task has waited for, in a coroutine and in a thread; against a scripted daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from taskqueue import AsyncClient, Client, ClientClosed, RequestRejected, Result, Task, Worker
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done, PackedParent, TaskParents, TaskParentsReply
from taskqueue.protocol.values import Assignment, TaskReport
from tests.unit.client.conftest import Daemon, friendly

PAGES = {
    0: ([PackedParent("p", "a", "success", True, Raw(b"\x01")), PackedParent("p", "b", "failed", True)], 2),
    2: ([PackedParent("shop", "c", "success", True, Raw(b"\xa1x"))], None),
}


def with_parents(request: AnyRequest) -> list[AnyOutgoing]:
    """Script of a daemon with two pages of parents."""
    if isinstance(request, TaskParents):
        parents, following = PAGES[request.after]
        return [TaskParentsReply(n=request.n, parents=parents, next=following)]
    return friendly(request)


def refusing(request: AnyRequest) -> list[AnyOutgoing]:
    if isinstance(request, TaskParents):
        return [ErrorReply(n=request.n, code="unknown-task", reason="taskid: it is gone")]
    return friendly(request)


async def in_coroutine(task: Task) -> Result:
    return Result([(each.project, each.taskid, each.state, each.result) async for each in task.parents()])


def in_thread(task: Task) -> Result:
    return Result([(each.project, each.taskid, each.state, each.result) for each in task.parents()])


def generator(task: Task) -> Iterator[Result]:
    yield in_thread(task)


def reported(daemon: Daemon, handler: Callable[[Task], Any]) -> TaskReport:
    """Return the report of a worker with this handler about one task."""

    async def main() -> TaskReport:
        worker = Worker(handler, client=daemon.url)
        serving = asyncio.ensure_future(worker.serve())
        while not (await asyncio.to_thread(daemon.hear, Hello)).capacity:
            pass
        daemon.hand_out(1)
        done = await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        [item] = done.tasks
        assert item is not None
        return item

    return asyncio.run(main())


@pytest.mark.parametrize("handler", [in_coroutine, in_thread, generator])
def test_a_handler_goes_through_all_pages(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    daemon.script = with_parents

    item = reported(daemon, handler)

    assert item.ok
    assert msgspec.msgpack.decode(item.result) == [
        ["p", "a", "success", 1], ["p", "b", "failed", None], ["shop", "c", "success", "x"],
    ]  # fmt: skip
    assert [(each.taskid, each.after) for each in daemon.heard if isinstance(each, TaskParents)] == [
        ("t1", 0),
        ("t1", 2),
    ]


def test_a_page_is_asked_for_when_it_is_wanted(daemon: Daemon) -> None:
    daemon.script = with_parents

    reported(daemon, lambda task: Result(next(iter(task.parents())).taskid))

    assert [each.after for each in daemon.heard if isinstance(each, TaskParents)] == [0]


@pytest.mark.parametrize("handler", [in_coroutine, in_thread])
def test_a_refusal_is_raised_where_they_are_gone_through(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    daemon.script = refusing

    item = reported(daemon, handler)

    assert not item.ok
    assert item.error.endswith("RequestRejected: taskid: it is gone")


async def waits_in_the_loop(task: Task) -> Result:
    return in_thread(task)


def test_who_would_hold_up_the_loop_is_told_so(daemon: Daemon) -> None:
    item = reported(daemon, waits_in_the_loop)

    assert not item.ok
    assert item.error.endswith("RuntimeError: task.parents(): in a coroutine, go through it with `async for`")


def selected(daemon: Daemon, client: Client) -> Task:
    call = client._background.start(client._client.select(1))
    while not daemon.hear(Hello).capacity:
        pass
    daemon.hand_out(1)
    [task] = call.result()
    return task


def test_a_task_of_a_blocking_client_has_its_parents(daemon: Daemon) -> None:
    daemon.script = with_parents
    with Client(daemon.url) as client:
        task = selected(daemon, client)

        assert [each.taskid for each in task.parents()] == ["a", "b", "c"]
        assert [each.result for each in client.tasks.parents("p", "t1")] == [1, None, "x"]

        with pytest.raises(RuntimeError, match="go through it with `for`"):
            asyncio.run(in_coroutine(task))
        parents = task.parents()
    with pytest.raises(ClientClosed, match="the client was closed"):
        list(parents)


def test_in_a_forked_process_there_is_nobody_to_ask(daemon: Daemon) -> None:
    daemon.script = with_parents
    with Client(daemon.url) as client:
        task = selected(daemon, client)
        child = os.fork()
        if not child:
            try:
                list(task.parents())
            except ClientClosed:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_task_that_has_travelled_has_nobody_to_ask() -> None:
    task = Task.from_bytes(Task(Assignment("p", "t1", "http://a/", Token(1), 600.0)).to_bytes())

    with pytest.raises(RuntimeError, match=r"client\.tasks\.parents"):
        task.parents()


def test_the_parents_of_any_task_can_be_asked_for(daemon: Daemon) -> None:
    daemon.script = with_parents

    async def use() -> list[tuple[str, str, object]]:
        async with AsyncClient(daemon.url) as client:
            return [(each.project, each.taskid, each.result) async for each in client.tasks.parents("p", "t1")]

    assert asyncio.run(use()) == [("p", "a", 1), ("p", "b", None), ("shop", "c", "x")]


def test_a_refusal_of_a_blocking_client_is_raised(daemon: Daemon) -> None:
    daemon.script = refusing
    with Client(daemon.url) as client, pytest.raises(RequestRejected, match="it is gone"):
        list(client.tasks.parents("p", "t1"))


def test_a_result_that_python_can_not_hold_stays_message_pack(daemon: Daemon) -> None:
    """Text that is not utf-8 does not keep the other parents from the caller."""
    packed = Raw(b"\xa1\xff")
    parents = [PackedParent("p", "a", "success", True, packed), PackedParent("p", "b", "success", True, Raw(b"\x01"))]
    daemon.script = lambda request: (
        [TaskParentsReply(n=request.n, parents=parents)] if isinstance(request, TaskParents) else friendly(request)
    )

    with Client(daemon.url) as client:
        results = [each.result for each in client.tasks.parents("p", "t1")]

    assert results == [packed, 1]
