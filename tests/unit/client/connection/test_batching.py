"""Single pushes and reports made at the same time leave together, and each caller gets its own outcome."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskqueue import AsyncClient, Client, ClientClosed, ClientError, MessageTooLarge, RequestRejected, RequestTimeout
from taskqueue.client.connection import batching
from taskqueue.client.tasks.task import Task
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.fetchers import Hello, Welcome
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, ItemError, NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from tests.unit.client.conftest import Daemon, friendly

T = TypeVar("T")


def using(daemon: Daemon, use: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with AsyncClient(daemon.url, timeout=20) as client:
            return await use(client)

    return asyncio.run(main())


def silent(request: AnyRequest) -> list[AnyOutgoing]:
    """Script of a daemon that receives requests, and answers none."""
    return friendly(request) if isinstance(request, Hello) else []


def telling(request: AnyRequest) -> list[AnyOutgoing]:
    """Script of a daemon that takes each task's outcome from its url."""
    if not isinstance(request, NewTasks):
        return friendly(request)
    outcomes: list[PushOutcome] = [task.url.split("/")[3] for task in request.tasks if task]  # type: ignore[misc]
    errors = [
        ItemError(index, f"not {task.taskid}")
        for index, task in enumerate(request.tasks)
        if task and outcomes[index] == "rejected"
    ]
    return [NewTasksReply(n=request.n, outcomes=outcomes, errors=errors)]


def pushed(daemon: Daemon) -> list[list[NewTask]]:
    """Return the tasks of each received message."""
    return [[task for task in request.tasks if task] for request in daemon.heard if isinstance(request, NewTasks)]


async def pushing(daemon: Daemon, client: AsyncClient, *urls: str) -> list[asyncio.Task[PushOutcome]]:
    """Make pushes that wait behind one of http://first/, which the daemon has received and not answered."""
    daemon.script = silent
    first = asyncio.ensure_future(client.push("p", "http://first/"))
    await asyncio.to_thread(daemon.hear, NewTasks)
    pushes = [asyncio.ensure_future(client.push("p", url)) for url in urls]
    await client_turn()
    return [first, *pushes]


async def client_turn() -> None:
    """Let started coroutines begin."""
    for _ in range(5):
        await asyncio.sleep(0)


def answer(daemon: Daemon, script: Callable[[AnyRequest], list[AnyOutgoing]] = friendly) -> None:
    """Answer from now on, beginning with the last message."""
    daemon.script = script
    for said in script(daemon.heard[-1]):
        daemon.say(said)


# ---------------------------------------------------------------------------------------- pushes


def test_what_is_pushed_while_an_answer_is_awaited_leaves_together_in_order(daemon: Daemon) -> None:
    urls = [f"http://a/{n}" for n in range(20)]

    async def use(client: AsyncClient) -> list[PushOutcome]:
        pushes = await pushing(daemon, client, *urls)
        answer(daemon)
        return await asyncio.gather(*pushes)

    assert using(daemon, use) == ["new"] * 21
    assert [[task.url for task in tasks] for tasks in pushed(daemon)] == [["http://first/"], urls]


def test_one_who_pushes_alone_waits_for_nobody(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "COMPANY_SECONDS", 1000.0)

    async def use(client: AsyncClient) -> None:
        for n in range(5):
            await client.push("p", f"http://a/{n}")

    using(daemon, use)

    assert [len(tasks) for tasks in pushed(daemon)] == [1] * 5


def test_callers_that_were_answered_together_leave_together_again(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "COMPANY_SECONDS", 1000.0)

    async def use(client: AsyncClient) -> None:
        await asyncio.gather(client.push("p", "http://a/"), client.push("p", "http://b/"))
        early = asyncio.ensure_future(client.push("p", "http://a/2"))
        await client_turn()
        await asyncio.gather(early, client.push("p", "http://b/2"))

    using(daemon, use)

    assert [len(tasks) for tasks in pushed(daemon)] == [2, 2]


def test_a_caller_whose_company_does_not_come_again_leaves_without_it(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> PushOutcome:
        await asyncio.gather(client.push("p", "http://a/"), client.push("p", "http://b/"))
        return await client.push("p", "http://a/2")

    assert using(daemon, use) == "new"


def test_a_message_has_no_more_tasks_than_256(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[PushOutcome]:
        return await asyncio.gather(*(client.push("p", f"http://a/{n}") for n in range(600)))

    assert using(daemon, use) == ["new"] * 600
    assert [len(tasks) for tasks in pushed(daemon)] == [256, 256, 88]
    assert [task.url for tasks in pushed(daemon) for task in tasks] == [f"http://a/{n}" for n in range(600)]


def test_large_tasks_leave_in_messages_of_about_a_megabyte(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[PushOutcome]:
        return await asyncio.gather(*(client.push("p", f"http://a/{n}", body=b"x" * 300_000) for n in range(7)))

    assert using(daemon, use) == ["new"] * 7
    assert [len(tasks) for tasks in pushed(daemon)] == [3, 3, 1]


def test_tasks_of_several_projects_share_a_message(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        await asyncio.gather(*(client.push(project, "http://a/") for project in ("p", "q", "p")))

    using(daemon, use)

    message = daemon.hear(NewTasks)
    assert [(task.project or message.project) for task in message.tasks if task] == ["p", "q", "p"]


def test_a_name_that_no_project_can_have_is_refused_before_others_suffer(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[object]:
        pushes = [client.push("p", "http://a/"), client.push("no good", "http://a/"), client.push("p", "http://b/")]
        return list(await asyncio.gather(*pushes, return_exceptions=True))

    one, refused, other = using(daemon, use)

    assert (one, other) == ("new", "new")
    assert isinstance(refused, ValueError)
    assert "'no good' is not a project name" in str(refused)


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_task_that_is_too_large_is_nobody_elses_error(daemon: Daemon, is_ready: bool) -> None:
    def narrow(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Hello):
            return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=2000)]
        return friendly(request)

    daemon.script = narrow

    async def use(client: AsyncClient) -> list[object]:
        if is_ready:
            await client.ready()
        sizes = [500, 500, 5000, 500, 500]
        pushes = (client.push("p", f"http://a/{n}", body=b"x" * size) for n, size in enumerate(sizes))
        return list(await asyncio.gather(*pushes, return_exceptions=True))

    outcomes = using(daemon, use)

    assert outcomes[:2] + outcomes[3:] == ["new"] * 4
    assert isinstance(outcomes[2], MessageTooLarge)
    assert [task.url for tasks in pushed(daemon) for task in tasks] == [f"http://a/{n}" for n in (0, 1, 3, 4)]


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_task_for_which_a_whole_message_is_refused_is_nobody_elses_error(daemon: Daemon, is_ready: bool) -> None:
    def strict(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, NewTasks) and any(task and task.url == "http://a/3" for task in request.tasks):
            return [ErrorReply(n=request.n, code="malformed", reason="nested too deep")]
        return friendly(request)

    daemon.script = strict

    async def use(client: AsyncClient) -> list[object]:
        if is_ready:
            await client.ready()
        pushes = (client.push("p", f"http://a/{n}") for n in range(7))
        return list(await asyncio.gather(*pushes, return_exceptions=True))

    outcomes = using(daemon, use)

    assert outcomes[:3] + outcomes[4:] == ["new"] * 6
    assert isinstance(outcomes[3], RequestRejected)
    assert (outcomes[3].code, outcomes[3].reason) == ("malformed", "nested too deep")


@pytest.mark.parametrize("code", ["disk-full", "version", "of-a-later-daemon"])
def test_a_refusal_that_no_single_task_is_the_reason_of_is_everybodys_at_once(daemon: Daemon, code: str) -> None:
    def full(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, NewTasks):
            return [ErrorReply(n=request.n, code=code, reason="not now")]
        return friendly(request)

    daemon.script = full

    async def use(client: AsyncClient) -> list[object]:
        pushes = (client.push("p", f"http://a/{n}") for n in range(16))
        return list(await asyncio.gather(*pushes, return_exceptions=True))

    outcomes = using(daemon, use)

    assert [error.code for error in outcomes if isinstance(error, RequestRejected)] == [code] * 16
    assert [len(tasks) for tasks in pushed(daemon)] == [16]


@pytest.mark.parametrize(
    ("answered", "got"), [(0, [ClientError, ClientError]), (1, [str, ClientError]), (3, [str, str])]
)
def test_an_answer_about_another_number_of_tasks_leaves_nobody_waiting(
    daemon: Daemon, answered: int, got: list[type]
) -> None:
    def wrong(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, NewTasks):
            return [NewTasksReply(n=request.n, outcomes=["new"] * answered)]
        return friendly(request)

    async def use(client: AsyncClient) -> list[object]:
        await client.push("p", "http://first/")
        daemon.script = wrong
        return list(
            await asyncio.gather(*(client.push("p", f"http://a/{n}") for n in range(2)), return_exceptions=True)
        )

    assert [type(outcome) for outcome in using(daemon, use)] == got


def test_who_gives_up_takes_nobody_along(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[object]:
        pushes = await pushing(daemon, client, "http://a/", "http://b/", "http://c/")
        pushes[2].cancel()
        await client_turn()
        answer(daemon)
        return list(await asyncio.gather(*pushes, return_exceptions=True))

    first, one, cancelled, other = using(daemon, use)

    assert (first, one, other) == ("new", "new", "new")
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [task.url for task in pushed(daemon)[1]] == ["http://a/", "http://c/"]


def test_a_message_that_nobody_waits_for_any_more_holds_up_nobody(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> PushOutcome:
        first, other = await pushing(daemon, client, "http://a/")
        daemon.script = lambda request: friendly(request) if request.n > daemon.heard[-1].n else []
        first.cancel()
        return await other

    assert using(daemon, use) == "new"


def test_what_waits_is_kept_through_a_restart_of_the_daemon(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[PushOutcome]:
        pushes = await pushing(daemon, client, "http://a/", "http://b/")
        await asyncio.to_thread(daemon.stop)
        daemon.script = friendly
        daemon.start()
        return await asyncio.gather(*pushes)

    assert using(daemon, use) == ["new"] * 3
    assert [[task.url for task in tasks] for tasks in pushed(daemon)] == [
        ["http://first/"],
        ["http://first/"],
        ["http://a/", "http://b/"],
    ]


def test_closing_ends_what_is_under_way_and_what_waits(daemon: Daemon) -> None:
    async def main() -> list[object]:
        client = AsyncClient(daemon.url)
        pushes = await pushing(daemon, client, "http://a/", "http://b/")
        await client.close()
        return list(await asyncio.gather(*pushes, return_exceptions=True))

    assert [type(error) for error in asyncio.run(main())] == [ClientClosed] * 3


def test_who_waits_for_a_daemon_that_is_away_is_told_of_the_close(daemon: Daemon) -> None:
    daemon.script = lambda _: []

    async def main() -> list[object]:
        client = AsyncClient(daemon.url, timeout=inf)
        under_way = asyncio.ensure_future(client.push("p", "http://a/"))
        await client_turn()
        waiting = asyncio.ensure_future(client.push("p", "http://b/"))
        await client_turn()
        await client.close()
        told = asyncio.gather(under_way, waiting, client.push("p", "http://c/"), return_exceptions=True)
        return list(await asyncio.wait_for(told, 60))

    assert [type(error) for error in asyncio.run(main())] == [ClientClosed] * 3


# ---------------------------------------------------------------------------------------- threads


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


Wishes = st.lists(
    st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from(["new", "ignored", "rejected"])), max_size=20),
    min_size=1,
    max_size=16,
)
"""Pushes by thread: the project, and the outcome of the task."""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wishes=Wishes)
def test_each_thread_gets_its_own_outcomes(daemon: Daemon, wishes: list[list[tuple[str, str]]]) -> None:
    daemon.script = telling

    def push_all(client: Client, thread: int) -> list[str]:
        return [
            outcome_of(client, project, f"http://a/{outcome}", f"{thread}-{n}")
            for n, (project, outcome) in enumerate(wishes[thread])
        ]

    with Client(daemon.url, timeout=20) as client, ThreadPoolExecutor(16) as threads:
        got = list(threads.map(lambda thread: push_all(client, thread), range(len(wishes))))

    assert got == [
        [f"not {thread}-{n}" if outcome == "rejected" else outcome for n, (_, outcome) in enumerate(each)]
        for thread, each in enumerate(wishes)
    ]


def outcome_of(client: Client, project: str, url: str, taskid: str) -> str:
    try:
        return client.push(project, url, taskid=taskid)
    except RequestRejected as rejected:
        return rejected.reason


def test_what_threads_push_at_the_same_time_leaves_together(daemon: Daemon, threads: ThreadPoolExecutor) -> None:
    daemon.script = silent
    began = threading.Semaphore(0)

    def push(client: Client, n: int) -> PushOutcome:
        began.release()
        return client.push("p", f"http://a/{n}")

    with Client(daemon.url, timeout=20) as client:
        first = threads.submit(push, client, 0)
        daemon.hear(NewTasks)
        others = [threads.submit(push, client, n) for n in range(1, 16)]
        for _ in range(16):
            began.acquire()
        answer(daemon)

        assert [first.result(), *(other.result() for other in others)] == ["new"] * 16

    assert len(pushed(daemon)) < 16


def test_a_push_that_is_not_answered_in_time_holds_up_no_later_one(daemon: Daemon) -> None:
    daemon.script = silent

    with Client(daemon.url, timeout=3.0) as client:
        with pytest.raises(RequestTimeout, match="in 3 s"):
            client.push("p", "http://a/")
        daemon.script = friendly

        assert client.push("p", "http://b/") == "new"


def test_a_push_that_is_interrupted_holds_up_no_later_one(daemon: Daemon) -> None:
    daemon.script = silent

    def interrupt() -> None:
        daemon.hear(NewTasks)
        daemon.script = lambda request: friendly(request) if request.n > daemon.heard[-1].n else []
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    with Client(daemon.url, timeout=20) as client:
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            client.push("p", "http://a/")
        interrupting.join()

        assert client.push("p", "http://b/") == "new"


def test_a_daemon_of_another_version_is_told_to_threads_that_push(daemon: Daemon) -> None:
    daemon.script = lambda request: [ErrorReply(n=request.n, code="version", reason="speaks version 2")]

    with Client(daemon.url, timeout=20) as client, pytest.raises(RequestRejected, match="speaks version 2"):
        client.push("p", "http://a/")


def test_closing_ends_the_calls_of_all_threads(daemon: Daemon, threads: ThreadPoolExecutor) -> None:
    daemon.script = silent
    client = Client(daemon.url, timeout=1000)
    pushes = [threads.submit(client.push, "p", f"http://a/{n}") for n in range(8)]
    calls: list[Future[Any]] = [*pushes, threads.submit(client.daemon.verify), threads.submit(client.select, 1)]
    daemon.hear(NewTasks)

    client.close()

    assert [type(call.exception()) for call in calls] == [ClientClosed] * 10


# ---------------------------------------------------------------------------------------- reports


async def selected(daemon: Daemon, client: AsyncClient, n: int) -> list[Task]:
    """Return tasks with the tokens 1 to n."""
    selecting = asyncio.ensure_future(client.select(n))
    while (await asyncio.to_thread(daemon.hear, Hello)).capacity != n:
        pass
    daemon.hand_out(*range(1, n + 1))
    return await selecting


def test_what_is_reported_while_an_answer_is_awaited_leaves_together(daemon: Daemon) -> None:
    def odd(request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, Done):
            return friendly(request)
        return [
            DoneReply(n=request.n, outcomes=["done" if item and item.token % 2 else "stale" for item in request.tasks])
        ]

    async def use(client: AsyncClient) -> list[str]:
        tasks = await selected(daemon, client, 6)
        daemon.script = silent
        reports = [asyncio.ensure_future(client.done(tasks[0]))]
        await asyncio.to_thread(daemon.hear, Done)
        reports += [asyncio.ensure_future(client.done(task)) for task in tasks[1:]]
        await client_turn()
        answer(daemon, odd)
        return [finish.outcome for finish in await asyncio.gather(*reports)]

    assert using(daemon, use) == ["done", "stale"] * 3
    assert [len(request.tasks) for request in daemon.heard if isinstance(request, Done)] == [1, 5]


def test_threads_may_report_tasks(daemon: Daemon, threads: ThreadPoolExecutor) -> None:
    with Client(daemon.url, timeout=20) as client:
        selecting = threads.submit(client.select, 8)
        while daemon.hear(Hello).capacity != 8:
            pass
        daemon.hand_out(*range(1, 9))
        finishes = list(threads.map(client.done, selecting.result()))

    assert [finish.outcome for finish in finishes] == ["done"] * 8
    tokens = [item.token for request in daemon.heard if isinstance(request, Done) for item in request.tasks if item]
    assert sorted(tokens) == list(range(1, 9))


def test_more_frames_at_once_than_are_read_in_one_go_are_all_heard(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[int]:
        tasks = client.stream(places=500)
        first = asyncio.ensure_future(anext(tasks))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 500:
            pass
        for token in range(1, 351):
            daemon.hand_out(token)
        tokens = [(await first).token] + [(await anext(tasks)).token for _ in range(349)]
        await tasks.aclose()
        return [*tokens]

    assert using(daemon, use) == list(range(1, 351))
