"""Runs with more new tasks than a report takes, and refused reports; against a scripted daemon."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest

from taskqueue import Drop, Result, Retry, Task, Worker, new_task
from taskqueue.client.tasks import reports
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.fetchers import Hello, HelloWanted, Welcome
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, ItemError, ReportOutcome
from taskqueue.protocol.values import NewTask, TaskReport
from tests.unit.client.conftest import Daemon, friendly
from tests.unit.client.fetcher.test_draining import Drainer
from tests.unit.client.worker.test_worker import urls_of, wanted

URLS = [f"http://b/{number}" for number in range(8)]


@pytest.fixture
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "PART_TASKS", 3)


def served(daemon: Daemon, handler: Callable[[Task], Any], **options: Any) -> list[TaskReport]:
    """Return the reports about one task, until its worker is idle."""
    return asyncio.run(serving(daemon, handler, **options))


async def serving(
    daemon: Daemon, handler: Callable[[Task], Any], ended: threading.Event | None = None, **options: Any
) -> list[TaskReport]:
    """Serve one task inside the block, until its worker is idle.

    Args:
        ended: set by the handler when it ends, if no last report follows.
    """
    worker = Worker(handler, client=daemon.url, **options)
    running = asyncio.ensure_future(worker.serve())
    await wanted(daemon)
    daemon.hand_out(1)
    if ended is None:
        while (await asyncio.to_thread(daemon.hear, Done)).tasks[0].part:  # type: ignore[union-attr]
            pass
    else:
        await asyncio.to_thread(ended.wait, 20)
    worker.stop()
    await running
    return heard(daemon)


def heard(daemon: Daemon) -> list[TaskReport]:
    """Iterate over the reports so far."""
    return [item for request in daemon.heard if isinstance(request, Done) for item in request.tasks if item]


# ---------------------------------------------------------------------------------------- parts


async def coroutine(task: Task) -> list[str]:
    return URLS


async def coroutine_of_a_generator(task: Task) -> Iterator[str]:
    return iter(URLS)


async def async_generator(task: Task) -> AsyncIterator[str]:
    for url in URLS:
        yield url


def generator(task: Task) -> Iterator[str]:
    yield from URLS


class AsyncIterable:
    def __aiter__(self) -> AsyncIterator[str]:
        return async_generator(None)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize(
    "handler",
    [
        coroutine,
        coroutine_of_a_generator,
        async_generator,
        generator,
        lambda task: URLS,
        lambda task: coroutine(task) if task else None,
        lambda task: AsyncIterable(),
    ],
)
def test_many_new_tasks_go_in_parts_of_which_the_last_one_ends_the_lease(
    daemon: Daemon, handler: Callable[[Task], Any]
) -> None:
    said = served(daemon, handler)

    assert [(item.part, item.ok, urls_of(item)) for item in said] == [
        (True, True, URLS[:3]),
        (True, True, URLS[3:6]),
        (False, True, URLS[6:]),
    ]


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("handler", [lambda task: URLS[:3], lambda task: iter(URLS[:3])])
def test_what_fits_into_one_report_is_one(daemon: Daemon, handler: Callable[[Task], Any]) -> None:
    assert [(item.part, urls_of(item)) for item in served(daemon, handler)] == [(False, URLS[:3])]


@pytest.mark.usefixtures("_short_parts")
def test_a_result_goes_with_the_last_report_wherever_it_came(daemon: Daemon) -> None:
    said = served(daemon, lambda task: [Result(5), *URLS])

    assert [msgspec.msgpack.decode(item.result) for item in said] == [None, None, 5]


def test_a_part_is_full_by_its_bytes_too(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "PART_BYTES", 20_000)

    said = served(daemon, lambda task: [new_task(url, body=b"x" * 9000) for url in URLS])

    assert [len(item.new) for item in said] == [3, 3, 2]


def test_a_part_has_no_more_edges_than_a_message_takes(daemon: Daemon) -> None:
    parents = [f"parent{number}" for number in range(1000)]

    said = served(daemon, lambda task: [new_task(f"http://b/{n}", depends_on=parents) for n in range(25)])

    assert [len(item.new) for item in said] == [10, 10, 5]


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("decision", [Drop, Retry])
def test_of_what_a_handler_gave_before_it_raises_only_parts_are_kept_and_new_says_the_rest(
    daemon: Daemon, decision: type[Drop | Retry]
) -> None:
    def handler(task: Task) -> Iterator[str]:
        yield from URLS[:4]
        raise decision(new=URLS[6:])

    said = served(daemon, handler)

    assert [(item.part, item.ok, urls_of(item)) for item in said] == [
        (True, True, URLS[:3]),
        (False, False, URLS[6:]),
    ]


@pytest.mark.usefixtures("_short_parts")
def test_a_failure_and_its_new_tasks_are_one_message(daemon: Daemon) -> None:
    def handler(task: Task) -> None:
        raise Drop(new=URLS)

    assert [(item.part, urls_of(item)) for item in served(daemon, handler)] == [(False, URLS)]


class Script:
    """Script of a daemon that answers parts as it is told."""

    def __init__(self, daemon: Daemon, *outcomes: ReportOutcome | None) -> None:
        self.outcomes = list(outcomes)
        daemon.script = self._answer

    def _answer(self, request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, Done) or not self.outcomes:
            return friendly(request)
        outcome = self.outcomes.pop(0)
        return [] if outcome is None else [DoneReply(n=request.n, outcomes=[outcome])]


class Yielding:
    """Generators, and the values that they have yielded so far."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.ended = threading.Event()

    def plain(self, task: Task) -> Iterator[str]:
        try:
            for url in URLS:
                self.given.append(url)
                yield url
        finally:
            self.ended.set()

    async def asynchronous(self, task: Task) -> AsyncIterator[str]:
        try:
            for url in URLS:
                self.given.append(url)
                yield url
        finally:
            self.ended.set()


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_generator_is_asked_for_no_more_before_its_part_is_kept(daemon: Daemon, kind: str) -> None:
    yielding = Yielding()
    Script(daemon, None)

    async def main() -> tuple[list[str], list[str]]:
        worker = Worker(getattr(yielding, kind), client=daemon.url)
        running = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        part = await asyncio.to_thread(daemon.hear, Done)
        given = list(yielding.given)
        daemon.say(DoneReply(n=part.n, outcomes=["kept"]))
        await asyncio.to_thread(yielding.ended.wait, 20)
        worker.stop()
        await running
        return given, yielding.given

    before, after = asyncio.run(main())

    assert before == URLS[:4]
    assert after == URLS


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_stale_part_ends_the_handler_and_nothing_more_is_said(
    daemon: Daemon, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    yielding = Yielding()
    Script(daemon, "kept", "stale")

    said = asyncio.run(serving(daemon, getattr(yielding, kind), yielding.ended))

    assert [item.part for item in said] == [True, True]
    assert yielding.given == URLS[:7]
    assert caplog.messages[-1] == "event=stopped done=0 failed=0 ended=1 stale=1"


@pytest.mark.usefixtures("_short_parts")
def test_a_handler_that_fails_after_a_part_has_failed(daemon: Daemon) -> None:
    def handler(task: Task) -> Iterator[str]:
        yield from URLS[:5]
        raise ValueError("no more")

    part, last = served(daemon, handler)

    assert (part.part, urls_of(part)) == (True, URLS[:3])
    assert (last.part, last.ok, last.new) == (False, False, [])
    assert last.error.endswith("ValueError: no more")


@pytest.mark.usefixtures("_short_parts")
def test_a_part_that_is_refused_is_a_failure_for_that_reason(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    refusal = DoneReply(n=0, outcomes=["rejected"], errors=[ItemError(0, "the disk of the store is nearly full")])
    Refusing(daemon, refusal, times=1)

    part, last = served(daemon, generator)

    assert (part.part, last.part, last.ok) == (True, False, False)
    assert last.error.endswith("the disk of the store is nearly full")
    assert caplog.messages[-1] == "event=stopped done=0 failed=1"


@pytest.mark.usefixtures("_short_parts")
def test_rejected_new_tasks_are_told_by_their_place_among_all(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, Done):
            return friendly(request)
        [item] = [each for each in request.tasks if each]
        last = len(item.new) - 1
        new: list[PushOutcome] = ["new"] * last
        outcome: ReportOutcome = "kept" if item.part else "done"
        return [
            DoneReply(n=request.n, outcomes=[outcome], new=[[*new, "rejected"]], errors=[ItemError(last, "why", 0)])
        ]

    daemon.script = answer
    served(daemon, generator)

    rejected = [message for message in caplog.messages if "event=rejected" in message]
    assert [message.split()[3] for message in rejected] == ["new=2", "new=5", "new=7"]


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_lease_that_is_lost_while_a_part_is_unanswered_ends_the_handler(daemon: Daemon, kind: str) -> None:
    yielding, said = Yielding(), Drainer(daemon)
    answer = daemon.script
    daemon.script = lambda request: [] if isinstance(request, Done) else answer(request)

    async def main() -> None:
        worker = Worker(getattr(yielding, kind), client=daemon.url)
        running = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        await asyncio.to_thread(daemon.hear, Done)
        said.ended = [1]
        daemon.say(HelloWanted(epoch=1))
        assert await asyncio.to_thread(yielding.ended.wait, 20)
        worker.stop()
        await running

    asyncio.run(main())

    assert yielding.given == URLS[:4]


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_worker_that_stops_while_a_part_is_unanswered_ends(daemon: Daemon, kind: str) -> None:
    yielding = Yielding()
    daemon.script = lambda request: [] if isinstance(request, Done) else friendly(request)

    async def main() -> None:
        worker = Worker(getattr(yielding, kind), client=daemon.url, grace=0.05)
        running = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1)
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await running
        assert await asyncio.to_thread(yielding.ended.wait, 20)

    asyncio.run(main())

    assert [item.part for item in heard(daemon)] == [True]


def narrow(request: AnyRequest) -> list[AnyOutgoing]:
    """Script of a daemon that accepts at most 2,000 bytes."""
    if isinstance(request, Hello):
        return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=2000)]
    return friendly(request)


def test_a_report_that_the_daemon_would_not_take_goes_in_parts(daemon: Daemon) -> None:
    daemon.script = narrow
    tasks = [new_task(url, body=b"x" * 700) for url in URLS[:5]]

    said = served(daemon, lambda task: [*tasks, Result("y")])

    assert [url for item in said for url in urls_of(item)] == URLS[:5]
    assert [item.part for item in said] == [True] * (len(said) - 1) + [False]
    assert msgspec.msgpack.decode(said[-1].result) == "y"


def test_a_new_task_that_is_too_large_for_a_message_is_a_failure_that_names_it(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    daemon.script = narrow
    tasks = [new_task(URLS[0]), new_task(URLS[1], body=b"x" * 5000, taskid="large"), new_task(URLS[2])]

    *_, last = served(daemon, lambda task: tasks)

    assert not last.ok
    assert f"the task '{URLS[1]}' (taskid large) is too large: the message has" in last.error
    assert caplog.messages[-1] == "event=stopped done=0 failed=1"


# ---------------------------------------------------------------------------------------- refused reports


class Refusing:
    """Script of a daemon that refuses reports a number of times."""

    def __init__(self, daemon: Daemon, refusal: DoneReply | ErrorReply, times: int) -> None:
        self._refusal = refusal
        self._left = times
        daemon.script = self._answer

    def _answer(self, request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, Done) or self._left == 0:
            return friendly(request)
        self._left -= 1
        return [msgspec.structs.replace(self._refusal, n=request.n)]


REJECTED = DoneReply(n=0, outcomes=["rejected"], errors=[ItemError(0, "tasks[0].new: odd")])
REFUSALS = [
    (REJECTED, "its report was refused: tasks[0].new: odd"),
    (ErrorReply(n=0, code="malformed", reason="tasks: odd"), "its report was refused: tasks: odd"),
    (ErrorReply(n=0, code="heard-of-later", reason="whatever"), "its report was refused: whatever"),
    (DoneReply(n=0, outcomes=[]), "its report was refused: the daemon's answer has 0 outcomes, and 1 were asked for"),
]


@pytest.mark.parametrize(("refusal", "reason"), REFUSALS)
def test_a_report_that_the_daemon_refuses_ends_its_lease_as_a_failure_and_is_not_counted_as_done(
    daemon: Daemon, refusal: DoneReply | ErrorReply, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    Refusing(daemon, refusal, times=1)

    first, last = asyncio.run(refused(daemon, lambda task: "http://b/", reports=2))

    assert first.ok
    assert (last.token, last.ok, last.retry, last.new, last.error) == (1, False, True, [], reason)
    assert caplog.messages[-1] == "event=stopped done=0 failed=1"


async def refused(daemon: Daemon, handler: Callable[[Task], Any], reports: int) -> list[TaskReport]:
    """Return the reports about one task, of a daemon that refuses some of them."""
    worker = Worker(handler, client=daemon.url)
    running = asyncio.ensure_future(worker.serve())
    await wanted(daemon)
    daemon.hand_out(1)
    for _ in range(reports):
        await asyncio.to_thread(daemon.hear, Done)
    worker.stop()
    await running
    return heard(daemon)


def test_a_failure_that_is_refused_is_reported_without_what_could_be_the_reason(daemon: Daemon) -> None:
    Refusing(daemon, REJECTED, times=1)

    def handler(task: Task) -> None:
        task.fetched(503, seconds=1.0)
        raise ValueError("503")

    first, last = asyncio.run(refused(daemon, handler, reports=2))

    assert first.fetched is not None
    assert (last.ok, last.fetched, last.error) == (False, None, "its report was refused: tasks[0].new: odd")


def test_a_task_of_which_every_report_is_refused_is_told_in_the_log_and_counted_as_unreported(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    Refusing(daemon, REJECTED, times=2)

    said = asyncio.run(refused(daemon, lambda task: None, reports=2))

    assert len(said) == 2
    assert "event=unreported project=p taskid=t1 reason='tasks[0].new: odd'" in caplog.messages
    assert caplog.messages[-1] == "event=stopped done=0 failed=0 unreported=1"


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (NewTask("odd", "http://b/\ud800"), "surrogates not allowed"),
        (NewTask("odd", "http://b/", project=object()), "object"),  # type: ignore[arg-type]
    ],
)
def test_a_report_that_can_not_be_encoded_is_a_failure_and_spoils_no_other(
    daemon: Daemon, odd: NewTask, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "taskqueue.worker")
    both = threading.Barrier(2)

    def handler(task: Task) -> Any:
        both.wait(20)
        return odd if task.token == 1 else "http://b/"

    async def main() -> list[TaskReport]:
        worker = Worker(handler, client=daemon.url)
        running = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, 2)
        while len(heard(daemon)) < 2:
            await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await running
        return heard(daemon)

    said = {item.token: item for item in asyncio.run(main())}

    assert (said[1].ok, said[2].ok) == (False, True)
    assert reason in said[1].error
    assert caplog.messages[-1] == "event=stopped done=1 failed=1"
