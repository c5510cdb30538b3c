"""AsyncClient against a scripted daemon behind a real socket."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec import Raw

from taskqueue import (
    AsyncClient,
    ClientClosed,
    ClientError,
    MessageTooLarge,
    Pushed,
    PushedTask,
    RequestRejected,
    RequestTimeout,
    Task,
    new_task,
)
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import KnownState, PushOutcome
from taskqueue.protocol.daemon import Verify
from taskqueue.protocol.fetchers import Extend, Hello, Release, Welcome
from taskqueue.protocol.fields import Token
from taskqueue.protocol.flows import FlowStage, FlowStaged
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, ItemError, NewTasks, NewTasksReply
from taskqueue.protocol.values import Again, Assignment, NewTask
from tests.unit.client.conftest import Daemon, LeapingLoop, friendly, run_leaping

T = TypeVar("T")


def run(main: Awaitable[T]) -> T:
    async def bounded() -> T:
        return await main

    return asyncio.run(bounded())


def using(daemon: Daemon, use: Callable[[AsyncClient], Awaitable[T]], seconds: float = 20.0) -> T:
    """Run ``use`` with a client of the daemon; returns its result."""

    async def main() -> T:
        async with AsyncClient(daemon.url, timeout=seconds) as client:
            return await use(client)

    return asyncio.run(main())


def narrow(request: AnyRequest) -> list[AnyOutgoing]:
    """Script of a daemon that accepts at most 2,000 bytes."""
    if isinstance(request, Hello):
        return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=2000)]
    return friendly(request)


# ---------------------------------------------------------------------------------------- producing


def test_push_returns_what_became_of_the_task(daemon: Daemon) -> None:
    assert using(daemon, lambda client: client.push("p", "http://a/#top", priority=5, save={"x": 1})) == "new"

    [task] = daemon.hear(NewTasks).tasks
    assert task is not None
    assert task == new_task("http://a/#top", priority=5, save={"x": 1})


def test_a_new_task_value_in_place_of_a_url_is_referred_to_push_many(daemon: Daemon) -> None:
    task: Any = new_task("http://a/")
    referred = r"^url: expected str, got NewTask; push_many takes it in a list$"

    async def use(client: AsyncClient) -> None:
        with pytest.raises(TypeError, match=referred):
            await client.push("p", task)
        with pytest.raises(TypeError, match=referred):
            client.push_soon("p", task)

    using(daemon, use)


def test_push_raises_when_the_task_is_rejected(daemon: Daemon) -> None:
    def full(request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, NewTasks):
            return friendly(request)
        return [NewTasksReply(n=request.n, outcomes=["rejected"], errors=[ItemError(0, "the project is full")])]

    daemon.script = full

    with pytest.raises(RequestRejected, match="the project is full"):
        using(daemon, lambda client: client.push("p", "http://a/"))


ESCAPE = "\x1b]0;owned\x07\u202eno\nsuch task"
SHOWN = r"\u001b]0;owned\u0007\u202eno\nsuch task"


@pytest.mark.parametrize("error", [{"errors": [ItemError(0, ESCAPE, code=ESCAPE)]}, None])
@pytest.mark.parametrize("call", ["push", "push_many", "done", "submit"])
def test_what_a_daemon_says_is_not_obeyed_by_the_terminal_that_an_error_is_printed_on(
    daemon: Daemon, call: str, error: dict[str, Any] | None
) -> None:
    def refusing(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Hello):
            return friendly(request)
        if error is None:
            return [ErrorReply(n=request.n, code=ESCAPE, reason=ESCAPE)]
        if isinstance(request, FlowStage):
            return [FlowStaged(n=request.n, staged=0, **error)]
        reply = DoneReply if isinstance(request, Done) else NewTasksReply
        return [reply(n=request.n, outcomes=["rejected"], **error)]

    async def use(client: AsyncClient) -> str:
        daemon.script = refusing
        try:
            match call:
                case "push":
                    await client.push("p", "http://a/")
                case "push_many":
                    return (await client.push_many("p", ["http://a/"])).errors[0]
                case "done":
                    await client.done(Task(Assignment("p", "t", "http://a/", Token(1), 60.0)))
                case "submit":
                    flow = client.flow("p")
                    flow.task("http://a/")
                    await flow.submit()
        except RequestRejected as raised:
            return f"{raised} {raised.code}"
        raise AssertionError("nothing was said")

    said = using(daemon, use)

    assert SHOWN in said
    assert said.isprintable()


def test_neither_is_what_a_daemon_says_that_can_not_answer_now(daemon: Daemon) -> None:
    daemon.script = lambda request: (
        friendly(request)
        if isinstance(request, Hello)
        else [ErrorReply(n=request.n, code="unavailable", reason=ESCAPE)]
    )

    async def main(loop: LeapingLoop) -> str:
        async with AsyncClient(daemon.url, timeout=600) as client:
            asking = asyncio.ensure_future(client.daemon.verify())
            for _ in range(2):  # its second hello shows that the first message has arrived
                await asyncio.to_thread(daemon.hear, Verify)
                loop.leap(2.0)
            loop.leap(600)
            with pytest.raises(RequestTimeout) as caught:
                await asking
        return str(caught.value)

    said = run_leaping(main)

    assert SHOWN in said
    assert said.isprintable()


def test_push_raises_with_the_code_slot_full_when_the_slot_of_the_task_is(daemon: Daemon) -> None:
    def full(request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, NewTasks):
            return friendly(request)
        error = ItemError(0, "slot: full", code="slot-full")
        return [NewTasksReply(n=request.n, outcomes=["rejected"], errors=[error])]

    daemon.script = full

    with pytest.raises(RequestRejected, match="slot: full") as caught:
        using(daemon, lambda client: client.push("p", "http://a/"))

    assert caught.value.code == "slot-full"


def test_a_refused_request_raises_with_its_code(daemon: Daemon) -> None:
    with pytest.raises(RequestRejected, match="not in the script") as caught:
        using(daemon, lambda client: client.daemon.verify())

    assert caught.value.code == "malformed"


def test_a_wrong_argument_is_told_before_anything_is_sent(daemon: Daemon) -> None:
    with pytest.raises(ValueError, match=r"schedule\.priority: expected int <= 2147483647"):
        using(daemon, lambda client: client.push("p", "http://a/", priority=2**31))

    assert not any(isinstance(request, NewTasks) for request in daemon.heard)


def test_a_daemon_that_is_not_there_is_a_timeout_that_says_where() -> None:
    async def main() -> None:
        async with AsyncClient("tcp://127.0.0.1:9", timeout=0.05) as client:
            await client.daemon.verify()

    with pytest.raises(RequestTimeout, match=r"tcp://127\.0\.0\.1:9 in 0\.05 s"):
        run(main())


def test_an_url_that_is_none_is_told() -> None:
    async def main() -> None:
        async with AsyncClient("localhost"):
            raise AssertionError("connected")

    with pytest.raises(ClientError, match="localhost"):
        run(main())


def test_an_answer_that_does_not_come_is_a_timeout(daemon: Daemon) -> None:
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []

    with pytest.raises(RequestTimeout):
        using(daemon, lambda client: client.push("p", "http://a/"), seconds=0.2)


def test_a_daemon_of_another_version_is_told_at_once(daemon: Daemon) -> None:
    daemon.script = lambda request: [ErrorReply(n=request.n, code="version", reason="speaks version 2")]

    with pytest.raises(RequestRejected, match="speaks version 2"):
        using(daemon, lambda client: client.daemon.verify())


def test_requests_survive_a_restart_of_the_daemon(daemon: Daemon) -> None:
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []

    async def main() -> str:
        async with AsyncClient(daemon.url, timeout=20) as client:
            pushing = asyncio.ensure_future(client.push("p", "http://a/"))
            before = await asyncio.to_thread(daemon.hear, NewTasks)
            await asyncio.to_thread(daemon.stop)
            daemon.script = friendly
            daemon.start()
            after = await asyncio.to_thread(daemon.hear, NewTasks)
            assert (after.n, after.session) == (before.n, before.session)
            return await pushing

    assert run(main()) == "new"


def test_a_request_made_while_the_daemon_is_away_waits_for_it(daemon: Daemon) -> None:
    async def main() -> str:
        async with AsyncClient(daemon.url, timeout=20) as client:
            await client.push("p", "http://a/")
            await asyncio.to_thread(daemon.stop)
            pushing = asyncio.ensure_future(client.push("p", "http://b/"))
            daemon.start()
            return await pushing

    assert run(main()) == "new"
    heard = [request.tasks[0] for request in daemon.heard if isinstance(request, NewTasks)]
    assert [task.url for task in heard if task] == ["http://a/", "http://b/"]


def test_more_calls_at_once_than_the_window_are_all_answered(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[str]:
        return list(await asyncio.gather(*(client.push("p", f"http://a/{n}") for n in range(500))))

    assert using(daemon, use) == ["new"] * 500


def test_a_call_that_was_cancelled_holds_up_no_other(daemon: Daemon) -> None:
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []

    async def use(client: AsyncClient) -> str:
        calls = [asyncio.ensure_future(client.push("p", f"http://a/{n}")) for n in range(200)]
        await asyncio.to_thread(daemon.hear, NewTasks)
        daemon.script = friendly
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        return await client.push("p", "http://b/")

    assert using(daemon, use) == "new"


def test_a_closed_client_says_so(daemon: Daemon) -> None:
    async def main() -> None:
        client = AsyncClient(daemon.url)
        await client.push("p", "http://a/")
        await client.close()
        await client.close()
        await client.push("p", "http://a/")

    with pytest.raises(ClientClosed):
        run(main())


def test_closing_ends_the_calls_that_wait(daemon: Daemon) -> None:
    async def main() -> list[object]:
        client = AsyncClient(daemon.url)
        selecting = asyncio.ensure_future(client.select(1))
        await asyncio.to_thread(daemon.hear, Hello)
        daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []
        pushing = asyncio.ensure_future(client.push("p", "http://a/"))
        await asyncio.to_thread(daemon.hear, NewTasks)
        await client.close()
        return list(await asyncio.gather(selecting, pushing, return_exceptions=True))

    assert [type(error) for error in run(main())] == [ClientClosed, ClientClosed]


# ---------------------------------------------------------------------------------------- push_many


def test_push_many_takes_urls_tasks_and_maps_and_counts_what_became_of_them(daemon: Daemon) -> None:
    items = ["http://a/", new_task("http://b/"), {"url": "http://c/", "priority": 3}, {"url": "d", "colour": 1}, 5]

    pushed = using(daemon, lambda client: client.push_many("p", items))  # type: ignore[arg-type]

    assert (pushed.new, pushed.rejected, pushed.total) == (3, 2, 5)
    assert pushed.errors[0].startswith("task 3: colour: unknown field")
    assert pushed.errors[1] == "task 4: expected a URL, a task or a map, got int"
    assert len(daemon.hear(NewTasks).tasks) == 3


def test_push_many_sends_batches_and_tells_its_progress(daemon: Daemon) -> None:
    totals: list[int] = []

    def progress(pushed: Pushed) -> None:
        totals.append(pushed.total)

    async def use(client: AsyncClient) -> Pushed:
        return await client.push_many("p", (f"http://a/{n}" for n in range(1000)), batch=100, progress=progress)

    assert using(daemon, use).new == 1000
    assert totals == list(range(100, 1001, 100))


def test_push_many_tells_what_became_of_each_task_and_in_which_state_it_was_known(daemon: Daemon) -> None:
    def script(request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, NewTasks):
            return friendly(request)
        assert request.states
        outcomes: list[PushOutcome] = ["new", "ignored", "rejected"]
        states: list[KnownState] = ["", "success", ""]
        count = len(request.tasks)
        errors = [ItemError(2, "full")] if count == 3 else []
        return [NewTasksReply(n=request.n, outcomes=outcomes[:count], states=states[:count], errors=errors)]

    daemon.script = script
    items: list[Any] = [5, *[f"http://a/{n}" for n in range(4)]]
    told: list[PushedTask] = []

    pushed = using(daemon, lambda client: client.push_many("p", items, batch=3, in_flight=1, outcomes=told.append))

    assert (pushed.new, pushed.ignored, pushed.rejected) == (2, 1, 2)
    assert told == [
        PushedTask(0, "rejected", "", "expected a URL, a task or a map, got int"),
        PushedTask(1, "new"),
        PushedTask(2, "ignored", "success"),
        PushedTask(3, "rejected", "", "full"),
        PushedTask(4, "new"),
    ]


def test_a_daemon_that_tells_no_states_tells_outcomes_all_the_same(daemon: Daemon) -> None:
    def script(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, NewTasks):
            return [NewTasksReply(n=request.n, outcomes=["new", "ignored"])]
        return friendly(request)

    daemon.script = script
    told: list[PushedTask] = []

    using(daemon, lambda client: client.push_many("p", ["http://a/", "http://b/"], outcomes=told.append))

    assert told == [PushedTask(0, "new"), PushedTask(1, "ignored")]


@pytest.mark.parametrize("change", ["retry", "cancel", "reprioritise"])
def test_one_taskid_where_several_are_meant_is_told_and_nothing_is_sent(daemon: Daemon, change: str) -> None:
    async def use(client: AsyncClient) -> None:
        more = (4,) if change == "reprioritise" else ()
        with pytest.raises(TypeError, match="taskids: expected several tasks, got one taskid; put it into a list"):
            await getattr(client.tasks, change)("p", "t1", *more)

    using(daemon, use)

    assert all(isinstance(request, Hello) for request in daemon.heard)


def test_push_many_tells_also_of_tasks_that_had_to_be_sent_in_parts(daemon: Daemon) -> None:
    daemon.script = narrow
    items = [new_task(f"http://a/{n}", body=b"x" * (5000 if n == 3 else 500)) for n in range(8)]
    told: list[PushedTask] = []

    using(daemon, lambda client: client.push_many("p", items, outcomes=told.append))

    assert [each.index for each in told] == list(range(8))
    assert [each.index for each in told if each.outcome == "rejected"] == [3]
    assert "is too large" in told[3].reason


def test_what_the_teller_of_outcomes_raises_ends_the_push(daemon: Daemon) -> None:
    def told(outcome: PushedTask) -> None:
        raise KeyError(outcome.index)

    with pytest.raises(KeyError):
        using(daemon, lambda client: client.push_many("p", ["http://a/"], outcomes=told))


def test_push_many_asks_for_no_states_unless_somebody_wants_them(daemon: Daemon) -> None:
    using(daemon, lambda client: client.push_many("p", ["http://a/"], progress=print))

    assert not daemon.hear(NewTasks).states


def test_push_many_takes_an_async_iterable(daemon: Daemon) -> None:
    async def urls() -> AsyncIterator[str]:
        for n in range(5):
            yield f"http://a/{n}"

    assert using(daemon, lambda client: client.push_many("p", urls(), batch=2)).new == 5


def test_push_many_gives_all_of_a_batch_one_time(daemon: Daemon) -> None:
    items: list[Any] = ["http://a/", {"url": "http://b/", "delay": 5}]

    assert (
        using(daemon, lambda client: client.push_many("p", items, exetime=datetime(2026, 12, 1, tzinfo=UTC))).new == 2
    )

    schedules = [task.schedule for task in daemon.hear(NewTasks).tasks if task]
    assert [(one.exetime, one.delay) for one in schedules] == [(1796083200.0, None), (0.0, 5.0)]


def test_push_many_with_two_times_for_all_sends_nothing(daemon: Daemon) -> None:
    with pytest.raises(ValueError, match="give either exetime or delay"):
        using(daemon, lambda client: client.push_many("p", ["http://a/"], exetime=5.0, delay=5.0))

    assert not [request for request in daemon.heard if isinstance(request, NewTasks)]


def test_push_many_reads_no_further_than_its_window(daemon: Daemon) -> None:
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []
    read: list[int] = []

    async def main() -> None:
        has_read_ahead = asyncio.Event()

        def urls() -> Iterator[str]:
            for n in range(10_000):
                read.append(n)
                if len(read) == 40:
                    has_read_ahead.set()
                yield f"http://a/{n}"

        async with AsyncClient(daemon.url) as client:
            pushing = asyncio.ensure_future(client.push_many("p", urls(), batch=10, in_flight=3))
            for _ in range(3):
                await asyncio.to_thread(daemon.hear, NewTasks)
            await has_read_ahead.wait()
        with pytest.raises(ClientClosed):
            await pushing

    run(main())
    assert len(read) == 40


def test_batches_that_fail_together_are_one_error_and_nothing_is_said_of_the_others(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []
    with pytest.raises(RequestTimeout):
        using(daemon, lambda client: client.push_many("p", [f"http://a/{n}" for n in range(9)], batch=3), seconds=0.2)

    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_push_many_makes_smaller_batches_of_larger_tasks(daemon: Daemon) -> None:
    items = (new_task(f"http://a/{n}", body=b"x" * 300_000) for n in range(10))

    assert using(daemon, lambda client: client.push_many("p", items)).new == 10

    assert [len(request.tasks) for request in daemon.heard if isinstance(request, NewTasks)] == [4, 4, 2]


def test_push_many_splits_what_is_too_large_and_rejects_only_what_stays_so(daemon: Daemon) -> None:
    daemon.script = narrow
    items = [new_task(f"http://a/{n}", body=b"x" * (5000 if n == 3 else 500)) for n in range(8)]

    pushed = using(daemon, lambda client: client.push_many("p", items))

    assert (pushed.new, pushed.rejected) == (7, 1)
    assert pushed.errors[0].startswith("task 3: the task 'http://a/3' (taskid ")
    said = ": the message has 5153 bytes, and daemon.max_message is 2000; keep large values elsewhere"
    assert pushed.errors[0].endswith(said)


def test_a_message_that_the_daemon_would_not_take_is_not_sent(daemon: Daemon) -> None:
    with pytest.raises(MessageTooLarge, match="8388608"):
        using(daemon, lambda client: client.push("p", "http://a/", body=b"x" * (8 << 20)))


# ---------------------------------------------------------------------------------------- fetching


def test_select_states_its_capacity_and_takes_it_back(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[str]:
        selecting = asyncio.ensure_future(client.select(3, projects=["p"]))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 3:
            pass
        daemon.hand_out(1, 2)
        tasks = await selecting
        hello = await asyncio.to_thread(daemon.hear, Hello)
        assert (hello.capacity, hello.projects, hello.holds) == (2, ["p"], [1, 2])
        return [task.url for task in tasks]

    assert using(daemon, use) == ["http://a/1", "http://a/2"]


@pytest.mark.parametrize("n", [-1, 100_001, 1.5, "3"])
def test_a_number_of_tasks_that_can_not_be_is_told_and_the_client_goes_on(daemon: Daemon, n: Any) -> None:
    async def main() -> str:
        async with AsyncClient(daemon.url) as client:
            with pytest.raises(ValueError, match="limit: expected an integer from 0 to 100000, got "):
                await client.select(n)
            with pytest.raises(ValueError, match="places: expected an integer from 1 to 100000, got "):
                await anext(client.stream(places=n))
            return await client.push("p", "http://a/")

    assert asyncio.run(main()) == "new"
    assert {request.capacity for request in daemon.heard if isinstance(request, Hello)} == {0}


@pytest.mark.parametrize(
    "call",
    [lambda client: client.push("p", "http://a/"), lambda client: client.select(), lambda client: client.why("p")],
)
def test_a_client_in_a_second_event_loop_is_told_so_at_once(
    daemon: Daemon, call: Callable[[AsyncClient], Coroutine[Any, Any, object]]
) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url, timeout=20) as client:
            await client.push("p", "http://a/")
            with pytest.raises(ClientError, match="belongs to the event loop in which it was used first"):
                await asyncio.to_thread(asyncio.run, call(client))
            assert await client.push("p", "http://a/") == "new"

    asyncio.run(main())


def test_select_returns_nothing_when_there_is_nothing_in_time(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[Task]:
        await client.push("p", "http://a/")
        return await client.select(3, timeout=0.05)

    assert using(daemon, use) == []
    for capacity in (3, 0):
        while daemon.hear(Hello).capacity != capacity:
            pass


def test_select_without_a_wait_has_one_hello_answered_after_the_hand_out(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[Task]:
        await client.push("p", "http://a/")
        return await client.select(3, timeout=0)

    assert using(daemon, use) == []
    said = [(hello.capacity, hello.after_hand_out) for hello in daemon.heard if isinstance(hello, Hello)]
    assert said == [(0, False), (3, True), (0, False)]
    assert {type(request) for request in daemon.heard} == {Hello, NewTasks}


def test_select_without_a_wait_has_the_tasks_that_come_before_its_welcome(daemon: Daemon) -> None:
    daemon.script = lambda request: [] if isinstance(request, Hello) and request.after_hand_out else friendly(request)

    async def use(client: AsyncClient) -> list[int]:
        selecting = asyncio.ensure_future(client.select(3, timeout=0))
        while not (asking := await asyncio.to_thread(daemon.hear, Hello)).after_hand_out:
            pass
        daemon.hand_out(1)
        for reply in friendly(asking):
            daemon.say(reply)
        return [task.token for task in await selecting]

    assert using(daemon, use) == [1]


def test_select_without_a_wait_ends_when_the_client_is_closed_or_refused_or_has_waited_too_long(daemon: Daemon) -> None:
    def refuse(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Hello) and request.after_hand_out:
            return [ErrorReply(n=request.n, code="malformed", reason="unknown field")]
        return friendly(request)

    async def refused(client: AsyncClient) -> None:
        await client.ready()
        daemon.script = refuse
        with pytest.raises(RequestRejected, match="unknown field"):
            await client.select(timeout=0)

    async def closed(client: AsyncClient) -> None:
        await client.ready()
        daemon.script = lambda _: []
        selecting = asyncio.ensure_future(client.select(timeout=0))
        while not (await asyncio.to_thread(daemon.hear, Hello)).after_hand_out:
            pass
        await client.close()
        with pytest.raises(ClientClosed):
            await selecting

    async def late() -> None:
        async with AsyncClient(daemon.url, timeout=0.5) as client:
            daemon.script = friendly
            await client.ready(60)
            daemon.script = lambda _: []
            with pytest.raises(RequestTimeout):
                await client.select(timeout=0)

    using(daemon, refused)
    daemon.script = friendly
    using(daemon, closed)
    asyncio.run(late())


def test_a_task_that_comes_when_nobody_waits_any_more_goes_back(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> Release:
        await client.push("p", "http://a/")
        await client.select(1, timeout=0.05)
        daemon.hand_out(7)
        return await asyncio.to_thread(daemon.hear, Release)

    assert [lease.token for lease in using(daemon, use).leases] == [7]


def test_finishing_a_selected_task_does_not_ask_for_another(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(1))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 1:
            pass
        daemon.hand_out(1)
        [task] = await selecting
        await client.done(task)

    using(daemon, use)

    kinds = [request for request in daemon.heard if isinstance(request, Hello | Done)]
    at = next(index for index, request in enumerate(kinds) if isinstance(request, Done))
    before = kinds[at - 1]
    assert isinstance(before, Hello)
    assert before.capacity == 0


def test_reports_made_at_the_same_time_share_one_message(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[str]:
        tasks = client.stream(places=50)
        first = asyncio.ensure_future(anext(tasks))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 50:
            pass
        daemon.hand_out(*range(1, 51))
        got = [await first] + [await anext(tasks) for _ in range(49)]
        finishes = await asyncio.gather(*(client.done(task) for task in got))
        await tasks.aclose()
        return [finish.outcome for finish in finishes]

    assert using(daemon, use) == ["done"] * 50
    assert [len(request.tasks) for request in daemon.heard if isinstance(request, Done)] == [50]


def test_each_report_gets_its_own_part_of_the_answer(daemon: Daemon) -> None:
    def mixed(request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, Done):
            return friendly(request)
        return [
            DoneReply(
                n=request.n,
                outcomes=["done", "stale", "rejected"],
                new=[["new", "ignored", "rejected", "rejected"], [], []],
                errors=[
                    ItemError(2, "url: too long", parent=0),
                    ItemError(3, "slot: full", parent=0, code="slot-full"),
                    ItemError(2, "tasks[2].token: expected int"),
                ],
            )
        ]

    daemon.script = mixed

    async def use(client: AsyncClient) -> list[object]:
        selecting = asyncio.ensure_future(client.select(3))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 3:
            pass
        daemon.hand_out(1, 2, 3)
        first, second, third = await selecting
        reports = [
            client.done(first, ["http://b/", "http://c/", "http://d/"]),
            client.failed(second, "x"),
            client.done(third),
        ]
        return list(await asyncio.gather(*reports, return_exceptions=True))

    done, stale, rejected = using(daemon, use)

    assert done == ("done", ["new", "ignored", "rejected", "rejected"], {2: "url: too long"})
    assert stale == ("stale", [], {})
    assert isinstance(rejected, RequestRejected)
    assert rejected.reason == "tasks[2].token: expected int"


def test_reports_that_are_too_large_together_go_apart(daemon: Daemon) -> None:
    daemon.script = narrow

    async def use(client: AsyncClient) -> list[object]:
        selecting = asyncio.ensure_future(client.select(3))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 3:
            pass
        daemon.hand_out(1, 2, 3)
        tasks = await selecting
        bodies = [1500, 1500, 2500]
        new = [[new_task("http://b/", body=b"x" * size)] for size in bodies]
        reports = [client.done(task, each) for task, each in zip(tasks, new, strict=True)]
        return list(await asyncio.gather(*reports, return_exceptions=True))

    first, second, third = using(daemon, use)

    assert first == second == ("done", [], {})
    assert isinstance(third, MessageTooLarge)


def test_a_failure_says_why_and_what_next(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(2))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 2:
            pass
        daemon.hand_out(1, 2)
        one, other = await selecting
        await asyncio.gather(
            client.failed(one, "ValueError: x\n" + "y" * 3000 + "\ud800", retry_after=timedelta(seconds=5)),
            client.failed(other, "gone", retry=False, kind="HTTP 410"),
        )

    using(daemon, use)

    one, other = daemon.hear(Done).tasks
    assert one is not None
    assert other is not None
    assert (one.ok, one.kind, one.retry_after, one.retry) == (False, "ValueError: x", 5.0, True)
    assert one.error.startswith("ValueError: x\ny")
    assert one.error.endswith("y?")
    assert (other.ok, other.error, other.kind, other.retry) == (False, "gone", "HTTP 410", False)
    assert other.retry_after is None


async def selected(client: AsyncClient, daemon: Daemon) -> Task:
    """Return a task that was dispatched to the client."""
    selecting = asyncio.ensure_future(client.select(1))
    while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 1:
        pass
    daemon.hand_out(1)
    [task] = await selecting
    return task


def test_a_failure_may_bring_new_tasks_in_its_own_message(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        task = await selected(client, daemon)
        await client.failed(task, "moved", retry=False, new=["http://b/", {"url": "http://c/", "priority": 2}])

    using(daemon, use)

    [item] = daemon.hear(Done).tasks
    assert item is not None
    assert (item.ok, item.retry, item.part) == (False, False, False)
    assert [(each.url, each.schedule.priority) for each in item.new if each] == [("http://b/", 0), ("http://c/", 2)]


def test_a_retry_says_how_the_next_attempt_differs(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        task = await selected(client, daemon)
        await client.retry(
            task, "banned", after=5.0, counts=True, body={"save": {"proxy": 2}}, priority=4, new=["http://b/"],
            kind="HTTP 403", status_code=403,
        )  # fmt: skip

    using(daemon, use)

    [item] = daemon.hear(Done).tasks
    assert item is not None
    assert (item.ok, item.retry, item.retry_after, item.error, item.kind) == (False, True, 5.0, "banned", "HTTP 403")
    assert item.again == Again(True, Raw(msgspec.msgpack.encode({"save": {"proxy": 2}})), 4)
    assert [each.url for each in item.new if each] == ["http://b/"]
    assert item.fetched is not None
    assert item.fetched.status_code == 403


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"body": "x" * 1200}, MessageTooLarge, "body: 1203 bytes, at most "),
        ({"body": {1, 2, object()}}, TypeError, "body: set can't be encoded"),
        ({"priority": -(1 << 40)}, ValueError, "priority: expected int >= -2147483648"),
        ({"after": 90_000}, ValueError, "after: expected 0 to 86400 seconds, got 90000"),
        ({"after": "soon"}, ValueError, "after: expected seconds, or a duration such as"),
        ({"after": -1, "status_code": 503}, ValueError, "after: expected 0 to 86400 seconds, got -1"),
        ({"new": (f"http://b/{n}" for n in range(10_001))}, ValueError, "new: more than 10000 tasks"),
        ({"new": [new_task("http://b/", body=b"x" * 2000)]}, MessageTooLarge, "daemon.max_message is 2000"),
        ({"new": ["http://b/", "/relative"]}, ValueError, "relative"),
    ],
)
def test_a_retry_that_the_daemon_would_not_take_is_told_before_anything_is_sent(
    daemon: Daemon, wrong: dict[str, Any], error: type[Exception], said: str
) -> None:
    daemon.script = narrow

    async def use(client: AsyncClient) -> None:
        task = await selected(client, daemon)
        with pytest.raises(error, match=said):
            await client.retry(task, **wrong)
        assert task.how_fetched is None

    using(daemon, use)

    assert not [request for request in daemon.heard if isinstance(request, Done)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"retry_after": [5]}, "retry_after: expected a number of seconds, got list"),
        ({"retry_after": 90_000}, "retry_after: expected 0 to 86400 seconds, got 90000"),
        ({"new": "http://b/"}, "new: expected several tasks"),
    ],
)
def test_a_failure_that_can_not_be_is_told_and_its_task_stays_as_it_was(
    daemon: Daemon, wrong: dict[str, Any], said: str
) -> None:
    async def use(client: AsyncClient) -> None:
        task = await selected(client, daemon)
        with pytest.raises((ValueError, TypeError), match=said):
            await client.failed(task, **wrong, status_code=503)
        assert task.how_fetched is None

    using(daemon, use)

    assert not [request for request in daemon.heard if isinstance(request, Done)]


def test_extend_and_release_tell_whether_the_lease_was_in_force(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> tuple[bool, int]:
        selecting = asyncio.ensure_future(client.select(1))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 1:
            pass
        daemon.hand_out(1)
        [task] = await selecting
        return await client.extend(task, 100.0), await client.release(task)

    assert using(daemon, use) == (True, 1)
    assert daemon.hear(Extend).seconds == 100.0


def test_a_generator_of_tasks_keeps_its_capacity_and_gives_back_what_it_did_not_yield(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[int]:
        tasks = client.stream(["p"], places=3)
        first = asyncio.ensure_future(anext(tasks))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 3:
            pass
        daemon.hand_out(1, 2, 3)
        await client.done(await first)
        await tasks.aclose()
        return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]

    assert using(daemon, use) == [2, 3]
    capacities = [request.capacity for request in daemon.heard if isinstance(request, Hello)]
    assert sorted(set(capacities)) == [0, 3]
    assert capacities[-1] == 0


def test_a_task_whose_lease_ran_out_while_it_waited_is_not_run(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> str:
        tasks = client.stream(places=3)
        first = asyncio.ensure_future(anext(tasks))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 3:
            pass
        daemon.hand_out(1, timeout=-1.0)
        daemon.hand_out(2)
        task = await first
        await tasks.aclose()
        return task.taskid

    assert using(daemon, use) == "t2"


def test_closing_gives_back_at_once_what_is_held(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(1))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 1:
            pass
        daemon.hand_out(1)
        await selecting

    using(daemon, use)

    while (last := daemon.hear(Hello)).holds or not last.seen:
        pass
    assert (last.capacity, last.seen) == (0, 1)


def test_a_fetcher_says_hello_again_after_a_restart_of_the_daemon(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> Hello:
        selecting = asyncio.ensure_future(client.select(2, timeout=inf))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 2:
            pass
        daemon.hand_out(1)
        await selecting
        while (await asyncio.to_thread(daemon.hear, Hello)).holds != [1]:
            pass
        await asyncio.to_thread(daemon.stop)
        daemon.start()
        return await asyncio.to_thread(daemon.hear, Hello)

    hello = using(daemon, use)
    assert (hello.holds, hello.seen, hello.capacity) == ([1], 1, 1)


def test_a_name_instead_of_names_is_told(daemon: Daemon) -> None:
    with pytest.raises(TypeError, match="projects"):
        using(daemon, lambda client: client.select(1, projects="p"))


def test_a_name_that_no_project_can_have_is_told(daemon: Daemon) -> None:
    with pytest.raises(ValueError, match="projects: 'no good' is not a project name"):
        using(daemon, lambda client: client.select(1, projects=["p", "no good"]))


def test_a_new_task_that_is_none_is_told_before_anything_is_sent(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(1))
        while (await asyncio.to_thread(daemon.hear, Hello)).capacity != 1:
            pass
        daemon.hand_out(1)
        [task] = await selecting
        new: list[str | NewTask] = ["", "http://b/"]
        await client.done(task, new)

    with pytest.raises(ValueError, match="url: expected str of length >= 1"):
        using(daemon, use)
