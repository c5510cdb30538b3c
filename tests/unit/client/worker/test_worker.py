"""Worker: return values and exceptions of its handler, and how it stops; against a scripted daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any

import msgspec
import pytest

from taskqueue import AsyncClient, ClientClosed, Drop, Result, Retry, Task, Worker, new_task
from taskqueue.client.tasks.push_options import Duration
from taskqueue.client.worker.worker import STOP_SIGNALS
from taskqueue.protocol.fetchers import Extend, Hello, HelloWanted, Release
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done
from taskqueue.protocol.values import TaskReport
from tests.unit.client.conftest import Daemon, LeapingLoop, friendly, run_leaping


def outcome_of(
    daemon: Daemon, handler: Callable[[Task], Any], *, handed: dict[str, Any] | None = None, **options: Any
) -> TaskReport:
    """Return the report about one task with these fields."""

    async def main() -> TaskReport:
        worker = Worker(handler, client=daemon.url, **options)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, **(handed or {}))
        done = await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        [item] = done.tasks
        assert item is not None
        return item

    return asyncio.run(main())


async def wanted(daemon: Daemon) -> int:
    """Return the capacity that a worker states when it starts."""
    while not (capacity := (await asyncio.to_thread(daemon.hear, Hello)).capacity):
        pass
    return capacity


@contextmanager
def handed_out(daemon: Daemon, *tokens: int) -> Iterator[None]:
    """Dispatch tasks to the worker inside the block when it wants some; restore signals afterwards."""

    def hand_out() -> None:
        while not daemon.hear(Hello).capacity:
            pass
        daemon.hand_out(*tokens)

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    handing = threading.Thread(target=hand_out)
    handing.start()
    try:
        yield
    finally:
        handing.join()
        for number, action in before.items():
            signal.signal(number, action)


def ended(daemon: Daemon, count: int) -> list[Done]:
    """Return the reports about that many tasks, which the worker has sent or is sending."""
    heard: list[Done] = []
    while sum(len(done.tasks) for done in heard) < count:
        heard.append(daemon.hear(Done))
    return heard


def urls_of(item: TaskReport) -> list[str]:
    return [new.url for new in item.new if new]


async def coroutine(task: Task) -> list[str]:
    return [task.url + "/async"]


async def async_generator(task: Task) -> AsyncIterator[str]:
    yield task.url + "/async"


def generator(task: Task) -> Iterator[str]:
    yield task.url + "/async"


class Callee:
    async def __call__(self, task: Task) -> str:
        return task.url + "/async"


@pytest.mark.parametrize(
    "handler",
    [
        coroutine,
        async_generator,
        generator,
        Callee(),
        partial(coroutine),
        lambda task: coroutine(task) if task else None,
        lambda task: task.url + "/async",
        lambda task: new_task(task.url + "/async"),
        lambda task: {"url": task.url + "/async"},
        lambda task: (task.url + "/async",),
    ],
)
def test_what_a_handler_returns_are_new_tasks(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    item = outcome_of(daemon, handler)

    assert item.ok
    assert urls_of(item) == ["http://a/1/async"]


async def results(task: Task) -> AsyncIterator[Any]:
    yield task.url + "/async"
    yield Result({"title": "A"})


@pytest.mark.parametrize(
    "handler",
    [
        results,
        lambda task: iter([Result({"title": "A"}), task.url + "/async"]),
        lambda task: [task.url + "/async", Result({"title": "A"})],
    ],
)
def test_a_result_may_be_among_the_new_tasks(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    item = outcome_of(daemon, handler)

    assert (item.ok, urls_of(item)) == (True, ["http://a/1/async"])
    assert msgspec.msgpack.decode(item.result) == {"title": "A"}


def test_a_result_may_come_alone(daemon: Daemon) -> None:
    item = outcome_of(daemon, lambda task: Result(b"\xff"))

    assert (item.ok, item.new, msgspec.msgpack.decode(item.result)) == (True, [], b"\xff")


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda: [Result(1), Result(2)], "returned two results; a task has one"),
        (lambda: Result({"seen": object()}), "TypeError: result.seen: object can't be encoded as MessagePack"),
        (lambda: Result("x" * 65_536), "ValueError: result: 65541 bytes as MessagePack, at most 65536 are accepted"),
    ],
)
def test_what_can_be_no_result_is_a_failure(daemon: Daemon, returned: Callable[[], Any], reason: str) -> None:
    item = outcome_of(daemon, lambda task: returned())

    assert not item.ok
    assert item.error.endswith(reason)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (b"<html>", "bytes b'<html>'; "),
        (bytearray(b"x"), "bytearray "),
        ("<html>\n" + "x" * 9000, "str '<html>"),
        ("title: a\nprice: 3", "which is not a URL; "),
        ("The title", "which is not a URL; "),
        (3, "int 3; "),
        (True, "bool True; "),
        (["http://a/", b"x"], "bytes b'x': expected a URL"),
        ([[1]], "list [1]: "),
        (["mailto:a@b"], "leads to no page"),
        (
            ["/about"],
            "url: '/about' is relative; taskqueue.links and urllib.parse.urljoin make links absolute; expected",
        ),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_returns_no_task_is_told_which_it_was_what_it_returned_and_what_is_expected(
    daemon: Daemon, returned: Any, told: str, is_async: bool
) -> None:
    def crawl(task: Task) -> Any:
        return returned

    async def crawl_async(task: Task) -> Any:
        return returned

    item = outcome_of(daemon, crawl_async if is_async else crawl)
    line = item.error.splitlines()[-1]

    assert not item.ok
    assert f"crawl{'_async' if is_async else ''} returned " in line
    assert told in line
    assert "expected None, a URL, a new_task(...)" in line
    assert len(line) < 1000


def test_a_wrong_return_is_one_line_without_frames_of_the_worker(daemon: Daemon) -> None:
    item = outcome_of(daemon, lambda task: b"x")

    assert item.error.startswith("taskqueue.WrongReturnError: ")
    assert len(item.error.splitlines()) == 1
    assert item.error.startswith(item.kind)


def test_the_log_shows_frames_of_the_handler_alone(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    def crawl(task: Task) -> None:
        raise ValueError("no title")

    outcome_of(daemon, crawl)
    outcome_of(daemon, lambda task: b"x")

    raised, returned = [record.exc_info for record in caplog.records if record.exc_info]
    assert raised is not None
    assert raised[2] is not None
    assert raised[2].tb_frame.f_code is crawl.__code__
    assert returned is not None
    assert returned[2] is None


def test_a_handler_that_returns_a_map_that_is_no_task_is_told_which_fields_there_are(daemon: Daemon) -> None:
    item = outcome_of(daemon, lambda task: {"title": "x"})
    line = item.error.splitlines()[-1]

    assert "returned dict {'title': 'x'}: title: unknown field; a map is a new task; " in line
    assert "return a result as Result(...); there are age, " in line


def test_a_handler_that_returns_nothing_is_done(daemon: Daemon) -> None:
    item = outcome_of(daemon, lambda task: None)

    assert (item.ok, item.new, item.token) == (True, [], 1)


def test_a_plain_handler_runs_in_a_thread_and_an_async_one_in_the_loop(daemon: Daemon) -> None:
    where: list[threading.Thread] = []

    async def note(task: Task) -> None:
        where.append(threading.current_thread())

    outcome_of(daemon, lambda task: where.append(threading.current_thread()))
    outcome_of(daemon, note)

    assert where[0] is not threading.current_thread()
    assert where[1] is threading.current_thread()


def raising(error: BaseException) -> Callable[[Task], None]:
    def handler(task: Task) -> None:
        raise error

    return handler


@pytest.mark.parametrize("after", [30.0, "30s", timedelta(seconds=30)])
def test_retry_asks_for_a_pause_and_uses_up_no_retry(daemon: Daemon, after: Duration) -> None:
    item = outcome_of(daemon, raising(Retry(after=after, reason="429 Too Many Requests")))

    assert (item.ok, item.retry, item.retry_after, item.error) == (False, True, 30.0, "429 Too Many Requests")


def test_retry_without_a_time_is_an_ordinary_failure(daemon: Daemon) -> None:
    item = outcome_of(daemon, raising(Retry()))

    assert (item.ok, item.retry, item.retry_after) == (False, True, None)


@pytest.mark.parametrize("after", [-1.0, 86_401.0, float("nan")])
def test_a_pause_that_the_daemon_would_refuse_is_told_in_the_handler(after: float) -> None:
    with pytest.raises(ValueError, match="after: expected 0 to 86400 seconds"):
        Retry(after=after)


def test_drop_is_the_end(daemon: Daemon) -> None:
    item = outcome_of(daemon, raising(Drop("404 Not Found")))

    assert (item.ok, item.retry, item.error) == (False, False, "404 Not Found")


def test_a_retry_may_bring_new_tasks_and_say_how_the_next_run_differs(daemon: Daemon) -> None:
    item = outcome_of(
        daemon,
        raising(Retry(60, "banned", counts=True, body={"proxy": 2}, priority=-1, new=["http://b/", "http://c/"])),
    )

    assert (item.ok, item.retry, item.retry_after, item.error) == (False, True, 60, "banned")
    assert urls_of(item) == ["http://b/", "http://c/"]
    assert item.again is not None
    assert (item.again.counts, msgspec.msgpack.decode(item.again.body), item.again.priority) == (
        True, {"proxy": 2}, -1,
    )  # fmt: skip


def test_a_retry_that_says_nothing_of_the_next_run_leaves_it_as_it_was(daemon: Daemon) -> None:
    assert outcome_of(daemon, raising(Retry(60))).again is None


def test_drop_may_bring_new_tasks(daemon: Daemon) -> None:
    item = outcome_of(daemon, raising(Drop("moved", new=[new_task("http://b/", priority=3)])))

    assert (item.ok, item.retry, item.error, urls_of(item)) == (False, False, "moved", ["http://b/"])


def test_an_exception_of_ones_own_that_is_a_drop_needs_not_know_of_new_tasks(daemon: Daemon) -> None:
    class Gone(Drop):
        def __init__(self) -> None:
            pass

    assert outcome_of(daemon, raising(Gone())).retry is False


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"new": "http://b/"}, "new: expected several tasks, got one url"),
        ({"new": [7]}, "expected a URL, a task or a map, got int"),
        ({"new": ["/relative"]}, "relative"),
        ({"body": {"proxy": object()}}, r"body.proxy: object can't be encoded"),
        ({"priority": 1 << 31}, "priority: expected int <= 2147483647"),
        ({"counts": "no"}, "counts: expected bool"),
    ],
)
def test_what_the_daemon_would_refuse_of_a_retry_is_told_in_the_handler(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        Retry(**wrong)


def test_any_other_error_is_a_failure_with_its_traceback_and_its_kind(daemon: Daemon) -> None:
    item = outcome_of(daemon, raising(KeyError("x" * 3000)))

    assert (item.ok, item.retry) == (False, True)
    assert item.error.startswith("Traceback (most recent call last):\n")
    assert item.error.endswith("x'")
    assert item.kind == "KeyError: '" + "x" * 189


def test_of_a_long_message_below_many_frames_place_and_type_are_told(daemon: Daemon) -> None:
    def deep(frames: int) -> None:
        if frames:
            shallow(frames - 1)
        raise ValueError("unexpected page: " + "<td></td>\n" * 1000)

    def shallow(frames: int) -> None:
        deep(frames)

    item = outcome_of(daemon, lambda task: deep(40))

    assert len(item.error.encode()) <= 2048
    assert "in deep\n    raise ValueError(" in item.error
    assert "ValueError: unexpected page: <td></td>\n" in item.error
    assert item.kind == "ValueError: unexpected page: <td></td>"


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class UnsayableDrop(Drop):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def chained() -> Exception:
    error = RuntimeError("no price\nServer: nginx")
    error.__cause__ = KeyError("price")
    return error


def noted() -> Exception:
    error = ValueError("no title")
    error.add_note("see: https://site.example/")
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("no such table\n[SQL: …]\n(Background on this error at: https://e/e3q8)"), "OSError: no such table"),
        (chained(), "RuntimeError: no price"),
        (noted(), "ValueError: no title"),
        (ExceptionGroup("two", [ValueError(1), OSError(2, "no")]), "ExceptionGroup: two (2 sub-exceptions)"),
        (SyntaxError("invalid", ("page.py", 1, 1, "a b", 1, 2)), "SyntaxError: invalid"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("\n  no title\n  at all"), "ValueError: no title"),
        (Unsayable(), f"{__name__}.Unsayable: <exception str() failed>"),
        (Drop("no page\n<td></td>"), "no page"),
        (UnsayableDrop(), f"{__name__}.UnsayableDrop: <exception str() failed>"),
        (Retry(60, "busy\nask later: 60 s"), "busy"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_an_error_is_told_with_its_kind(daemon: Daemon, error: Exception, kind: str) -> None:
    assert outcome_of(daemon, raising(error)).kind == kind


def test_a_traceback_begins_with_the_handler_itself(daemon: Daemon) -> None:
    item = outcome_of(daemon, raising(ValueError("no title")))

    frames = [line for line in item.error.splitlines() if line.startswith("  File ")]
    assert len(frames) == 1
    assert "test_worker.py" in frames[0]


@pytest.mark.parametrize("error", [StopIteration(), GeneratorExit(), asyncio.CancelledError(), TimeoutError("slow")])
def test_no_error_of_a_handler_stops_the_worker(daemon: Daemon, error: BaseException) -> None:
    assert not outcome_of(daemon, raising(error)).ok


async def exits(task: Task) -> None:
    sys.exit(3)


async def exits_in_a_task_of_its_own(task: Task) -> None:
    await asyncio.gather(exits(task))


@pytest.mark.parametrize("handler", [lambda task: sys.exit(3), exits])
def test_a_handler_that_exits_is_a_failure_like_any_other(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    item = outcome_of(daemon, handler)

    assert (item.ok, item.retry) == (False, True)
    assert item.error.endswith("SystemExit: 3")


def test_what_exits_deep_in_a_handler_does_not_end_the_worker(daemon: Daemon) -> None:
    async def handler(task: Task) -> None:
        if task.token == 1:
            await exits_in_a_task_of_its_own(task)
        os.kill(os.getpid(), signal.SIGTERM)

    with handed_out(daemon, 1, 2):
        Worker(handler, client=daemon.url, concurrency=1).run()

    items = [item for done in ended(daemon, 2) for item in done.tasks if item]
    assert [(item.token, item.ok) for item in items] == [(1, False), (2, True)]
    assert items[0].error.endswith("SystemExit: 3")


def interrupted(task: Task) -> None:
    raise KeyboardInterrupt


async def interrupted_in_the_loop(task: Task) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [interrupted, interrupted_in_the_loop])
def test_a_handler_that_is_interrupted_stops_the_worker_and_its_task_goes_back(
    daemon: Daemon, handler: Callable[[Task], Any]
) -> None:
    with handed_out(daemon, 1), pytest.raises(KeyboardInterrupt):
        Worker(handler, client=daemon.url).run()

    assert [lease.token for lease in daemon.hear(Release).leases] == [1]
    assert not any(isinstance(request, Done) for request in daemon.heard)


@pytest.mark.parametrize("result", [5, b"http://a/", [""], [None], {"link": "x"}])
def test_a_result_that_is_no_task_is_a_failure(daemon: Daemon, result: Any) -> None:
    item = outcome_of(daemon, lambda task: result)

    assert not item.ok
    assert "Error" in item.error


def test_new_tasks_that_the_daemon_would_not_take_are_a_failure(daemon: Daemon) -> None:
    item = outcome_of(daemon, lambda task: new_task("http://b/", body=b"x" * (8 << 20)))

    assert not item.ok
    assert "8388608" in item.error


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"prefetch": -1}, {"max_tasks": 0}, {"max_memory_bytes": 0}])
def test_options_that_can_not_be_are_refused_with_their_name(options: dict[str, int]) -> None:
    [name] = options

    with pytest.raises(ValueError, match=f"{name}: expected at least"):
        Worker(coroutine, **options)  # type: ignore[arg-type]


def test_one_name_is_not_taken_for_several_projects() -> None:
    with pytest.raises(TypeError, match=r"projects: expected several names, such as \['news'\]"):
        Worker(coroutine, "news")


def test_no_more_run_at_once_than_the_concurrency(daemon: Daemon) -> None:
    running: set[int] = set()
    most = 0
    full = threading.Event()
    leave = threading.Event()

    async def handler(task: Task) -> None:
        nonlocal most
        running.add(task.token)
        most = max(most, len(running))
        if len(running) == 3:
            full.set()
        await asyncio.to_thread(leave.wait, 20)
        running.discard(task.token)

    async def main() -> int:
        worker = Worker(handler, client=daemon.url, concurrency=3, prefetch=4)
        serving = asyncio.ensure_future(worker.serve())
        capacity = await wanted(daemon)
        daemon.hand_out(*range(1, 8))
        await asyncio.to_thread(full.wait, 20)
        leave.set()
        ended = 0
        while ended < 7:
            ended += len((await asyncio.to_thread(daemon.hear, Done)).tasks)
        worker.stop()
        await serving
        return capacity

    assert asyncio.run(main()) == 7
    assert most == 3


def test_a_worker_whose_tasks_take_no_time_has_some_waiting(daemon: Daemon) -> None:
    async def handler(task: Task) -> None:
        pass

    async def main() -> list[int]:
        worker = Worker(handler, client=daemon.url, concurrency=3)
        serving = asyncio.ensure_future(worker.serve())
        capacities = [await wanted(daemon)]
        token = 0
        while capacities[-1] < 6:
            token += 1
            daemon.hand_out(token)
            await asyncio.to_thread(daemon.hear, Done)
            capacities += [request.capacity for request in daemon.heard if isinstance(request, Hello)]
        worker.stop()
        await serving
        return capacities

    capacities = asyncio.run(main())

    assert capacities[0] == 3
    assert max(capacities) == 6


def test_what_waits_too_long_goes_back_after_less_was_asked_for(daemon: Daemon) -> None:
    started = threading.Event()
    go_on = threading.Event()

    def handler(task: Task) -> None:
        started.set()
        go_on.wait(20)

    async def main() -> list[int]:
        worker = Worker(handler, client=daemon.url, concurrency=1, prefetch=2)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        await asyncio.to_thread(started.wait, 20)
        daemon.hand_out(2, 3, timeout=2.0)
        released = await asyncio.to_thread(daemon.hear, Release)
        go_on.set()
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        return [lease.token for lease in released.leases]

    assert asyncio.run(main()) == [2, 3]
    said = [request for request in daemon.heard if isinstance(request, Hello | Release)]
    place = next(n for n, request in enumerate(said) if isinstance(request, Release))
    capacities = [request.capacity for request in said[:place] if isinstance(request, Hello)]
    assert [capacity for capacity, _ in groupby(capacities)] == [0, 3, 1]


def test_a_stopped_worker_finishes_what_runs_and_hands_back_the_rest(daemon: Daemon) -> None:
    started = threading.Event()
    go_on = threading.Event()

    def handler(task: Task) -> None:
        started.set()
        go_on.wait(20)

    async def main() -> tuple[list[int], list[int]]:
        worker = Worker(handler, client=daemon.url, concurrency=1, prefetch=2)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, 2, 3)
        await asyncio.to_thread(started.wait, 20)
        worker.stop()
        released = await asyncio.to_thread(daemon.hear, Release)
        go_on.set()
        done = await asyncio.to_thread(daemon.hear, Done)
        await serving
        return [lease.token for lease in released.leases], [item.token for item in done.tasks if item]

    assert asyncio.run(main()) == ([2, 3], [1])
    assert [request.capacity for request in daemon.heard if isinstance(request, Hello)][-1] == 0


def test_what_does_not_end_in_its_grace_is_handed_back_and_has_not_failed(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    started = threading.Event()

    async def handler(task: Task) -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> list[int]:
        worker = Worker(handler, client=daemon.url, grace=0.05)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        await asyncio.to_thread(started.wait, 20)
        worker.stop()
        await serving
        return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]

    assert asyncio.run(main()) == [1]
    assert not any(isinstance(request, Done) for request in daemon.heard)
    assert caplog.messages[-1] == "event=stopped done=0 failed=0 interrupted=1"


def answers_no_report(request: AnyRequest) -> list[AnyOutgoing]:
    return [] if isinstance(request, Done) else friendly(request)


def test_a_report_that_was_not_answered_in_the_grace_is_one_of_a_task_that_goes_back(daemon: Daemon) -> None:
    daemon.script = answers_no_report

    async def main() -> list[int]:
        worker = Worker(coroutine, client=daemon.url, grace=0.05)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]

    assert asyncio.run(main()) == [1]


def test_a_stopped_worker_ends_when_the_daemon_is_away_and_says_what_was_not_handed_back(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(task: Task) -> None:
        daemon.stop()
        os.kill(os.getpid(), signal.SIGTERM)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    with handed_out(daemon, 1):
        Worker(handler, client=daemon.url, grace=0.05).run()
    daemon.start()

    [line] = [record.getMessage() for record in caplog.records if "event=unreported" in record.getMessage()]
    assert "project=p taskid=t1 reason='the daemon does not answer; it dispatches the task again after" in line


def test_a_report_that_is_not_answered_while_its_client_is_patient_is_told_in_the_log(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.script = answers_no_report

    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url, timeout=100) as client:
            worker = Worker(coroutine, client=client)
            serving = asyncio.ensure_future(worker.serve())
            await wanted(daemon)
            daemon.hand_out(1)
            await asyncio.to_thread(daemon.hear, Done)
            loop.leap(101)
            worker.stop()
            await serving

    run_leaping(main)

    [line] = [record.getMessage() for record in caplog.records if "event=unreported" in record.getMessage()]
    assert "project=p taskid=t1 reason='no answer from tcp://" in line


def test_a_worker_with_extend_keeps_the_lease_of_a_slow_task(daemon: Daemon) -> None:
    extended = threading.Event()

    async def main(loop: LeapingLoop) -> list[int]:
        async def handler(task: Task) -> None:
            loop.call_soon(loop.leap, 401)
            await asyncio.to_thread(extended.wait, 20)

        worker = Worker(handler, client=daemon.url, extend=True)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, timeout=600.0)
        tokens = [lease.token for lease in (await asyncio.to_thread(daemon.hear, Extend)).leases]
        extended.set()
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        return tokens

    assert run_leaping(main) == [1]


def test_a_worker_without_a_handler_is_refused() -> None:
    with pytest.raises(TypeError, match="handler: expected a function, got NoneType"):
        Worker(None)  # type: ignore[arg-type]


def test_a_worker_can_share_a_client(daemon: Daemon) -> None:
    async def main() -> str:
        async with AsyncClient(daemon.url) as client:
            worker = Worker(coroutine, client=client)
            serving = asyncio.ensure_future(worker.serve())
            await wanted(daemon)
            daemon.hand_out(1)
            await asyncio.to_thread(daemon.hear, Done)
            worker.stop()
            await serving
            return await client.push("p", "http://a/")

    assert asyncio.run(main()) == "new"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_running_worker_cleanly(daemon: Daemon, number: int) -> None:
    with handed_out(daemon, 1):
        Worker(lambda task: os.kill(os.getpid(), number), client=daemon.url).run()
        after = signal.getsignal(number)

    assert daemon.hear(Done).tasks[0] is not None
    assert after is signal.SIG_DFL


def test_a_worker_that_was_not_told_by_a_signal_leaves_them_as_they_were(daemon: Daemon) -> None:
    async def main() -> None:
        before = [signal.getsignal(number) for number in STOP_SIGNALS]
        worker = Worker(coroutine, client=daemon.url)
        serving = asyncio.ensure_future(worker.serve(signals=True))
        await wanted(daemon)
        during = [signal.getsignal(number) for number in STOP_SIGNALS]
        worker.stop()
        await serving

        assert [signal.getsignal(number) for number in STOP_SIGNALS] == before != during

    asyncio.run(main())


def test_a_worker_whose_client_was_closed_says_once_of_each_task_that_it_could_not_report_it(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        client = AsyncClient(daemon.url)

        async def handler(_: Task) -> None:
            await client.close()
            worker.stop()

        worker = Worker(handler, client=client, concurrency=1)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        with pytest.raises(ClientClosed):
            await serving

    asyncio.run(main())

    lines = [record.getMessage() for record in caplog.records if "event=unreported" in record.getMessage()]
    assert lines == ["event=unreported project=p taskid=t1 reason='the client was closed'"]


@pytest.mark.parametrize("how", ["stop", "memory"])
def test_a_worker_that_is_to_end_starts_nothing_in_the_place_of_a_run_that_ends(daemon: Daemon, how: str) -> None:
    started: list[int] = []

    async def main() -> None:
        async def handler(task: Task) -> None:
            started.append(task.token)
            while len((await asyncio.to_thread(daemon.hear, Hello)).holds) < 2:
                pass
            if how == "stop":
                worker.stop()

        most = 1 if how == "memory" else None
        worker = Worker(handler, client=daemon.url, concurrency=1, prefetch=1, max_memory_bytes=most)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, 2)
        daemon.say(HelloWanted(epoch=1))
        await serving

    asyncio.run(main())

    assert started == [1]
