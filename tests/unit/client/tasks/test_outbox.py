"""Pushes and reports that leave soon: their order, their futures, and their bounds."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from taskqueue import (
    AsyncClient,
    BacklogFull,
    ClientClosed,
    MessageTooLarge,
    RequestRejected,
    RequestTimeout,
    Retry,
    Task,
    new_task,
)
from taskqueue.client.tasks import outbox, reports
from taskqueue.client.tasks.pushes import size_of
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, ItemError, NewTasks, NewTasksReply
from taskqueue.protocol.values import TaskReport
from tests.unit.client.conftest import WAIT_SECONDS, Daemon, LeapingLoop, friendly, run_leaping
from tests.unit.client.fetcher.test_draining import wanted
from tests.unit.client.fetcher.test_intake import arrived


class Silent:
    """Script of a daemon that answers pushes and reports only on request.

    Attributes:
        heard: received urls, and taskids of reports, each once; a part has a star.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.heard: list[str] = []
        self.news: queue.Queue[None] = queue.Queue()
        self._answering = threading.Event()
        self._unanswered: dict[int, AnyRequest] = {}
        self._daemon = daemon
        daemon.script = self._answer

    def speak(self) -> None:
        """Answer all received requests, and all further ones."""
        self._answering.set()
        for request in list(self._unanswered.values()):
            for reply in friendly(request):
                self._daemon.say(reply)

    def _answer(self, request: AnyRequest) -> list[AnyOutgoing]:
        if not isinstance(request, Done | NewTasks):
            return friendly(request)
        if request.n not in self._unanswered:
            self._unanswered[request.n] = request
            self.heard += [_name(each) for each in request.tasks]
            self.news.put(None)
        return friendly(request) if self._answering.is_set() else []


def _name(item: object) -> str:
    if isinstance(item, TaskReport):
        return f"{item.taskid}{'*' * item.part}"
    return str(getattr(item, "url", item))


def using(daemon: Daemon, use: Callable[[AsyncClient, list[Task]], Awaitable[None]], timeout: float = 60.0) -> None:
    """Make a client that runs the tasks t1 and t2."""

    async def main(_: LeapingLoop) -> None:
        async with AsyncClient(daemon.url, timeout=timeout) as client:
            intake = client.intake(room=2)
            await wanted(daemon, 2)
            await use(client, await arrived(daemon, intake, 1, 2))

    run_leaping(main)


async def heard(silent: Silent, count: int) -> None:
    """Wait until the daemon has received these."""
    while len(silent.heard) < count:
        await asyncio.to_thread(silent.news.get, timeout=WAIT_SECONDS)


def test_futures_have_what_became_of_a_push_and_of_a_report(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        pushed = client.push_soon("p", "http://a/", priority=3)
        reported = client.report_soon(tasks[0], ["http://a/1"], result=5)
        failed = client.report_soon(tasks[1], ["http://a/2"], error="no page", after=4)
        assert [each.done() for each in (pushed, reported, failed)] == [False] * 3
        await client.settled()
        assert (pushed.result(), reported.result().outcome, failed.result().outcome) == ("new", "done", "done")

    using(daemon, use)
    [push] = [each.tasks[0] for each in daemon.heard if isinstance(each, NewTasks)]
    [done, failed] = [each for request in daemon.heard if isinstance(request, Done) for each in request.tasks if each]
    assert push is not None
    assert push.schedule.priority == 3
    assert (done.ok, _urls(done), bytes(done.result)) == (True, ["http://a/1"], b"\x05")
    assert (failed.ok, failed.error, failed.retry_after, _urls(failed)) == (False, "no page", 4, ["http://a/2"])


def _urls(report: TaskReport) -> list[str]:
    return [task.url for task in report.new if task]


def test_a_refused_push_has_its_reason_and_the_others_their_outcomes(daemon: Daemon) -> None:
    def refuse(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, NewTasks):
            errors = [ItemError(index=1, reason="no such project")]
            return [NewTasksReply(n=request.n, outcomes=["new", "rejected"], errors=errors)]
        return friendly(request)

    async def use(client: AsyncClient, _: list[Task]) -> None:
        daemon.script = refuse
        first, second = (client.push_soon("p", f"http://a/{n}") for n in range(2))
        await client.settled()
        assert first.result() == "new"
        with pytest.raises(RequestRejected, match="no such project"):
            second.result()

    using(daemon, use)


def test_what_can_not_be_is_told_at_once_and_nothing_is_sent(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        with pytest.raises(ValueError, match="relative"):
            client.push_soon("p", "/page")
        with pytest.raises(ValueError, match="is not a project name"):
            client.push_soon("no name", "http://a/")
        with pytest.raises(TypeError, match="expected"):
            client.report_soon(tasks[0], new=[5])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="expected a Task"):
            client.report_soon("t1", error="x")  # type: ignore[arg-type]
        await client.settled()

    using(daemon, use)
    assert not [each for each in daemon.heard if isinstance(each, Done | NewTasks)]


def test_a_report_does_not_overtake_a_push_that_was_said_before(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        silent = Silent(daemon)
        client.push_soon("p", "http://a/1")
        await heard(silent, 1)
        client.push_soon("p", "http://a/2")
        client.report_soon(tasks[0])
        client.push_soon("p", "http://a/3")
        client.report_soon(tasks[1])
        silent.speak()
        await client.settled()
        urls = [f"http://a/{n}" for n in (1, 2, 3)]
        assert [name for name in silent.heard if name in urls] == urls
        assert silent.heard.index("t1") > silent.heard.index(urls[1])
        assert silent.heard.index("t2") > silent.heard.index(urls[2])

    using(daemon, use)


async def all_sent(client: AsyncClient) -> None:
    """Wait until the daemon has received all that was to be sent at once."""
    for _ in range(2):  # Pushes and reports leave at the end of the loop's turn.
        with pytest.raises(RequestRejected):
            await client.daemon.verify()


def test_a_push_of_a_task_that_is_being_reported_waits_for_the_report_but_others_do_not(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        silent = Silent(daemon)
        client.report_soon(tasks[0])
        client.push_soon("q", "http://a/other", taskid="t1")
        client.push_soon("p", "http://a/1", taskid="t1")
        await all_sent(client)
        assert silent.heard == ["t1", "http://a/other"]
        silent.speak()
        await client.settled()
        assert silent.heard == ["t1", "http://a/other", "http://a/1"]

    using(daemon, use)


def test_a_push_that_waits_for_a_report_is_not_overtaken(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        silent = Silent(daemon)
        client.report_soon(tasks[0])
        client.push_soon("q", "http://a/1", taskid="t1")
        client.push_soon("p", "http://a/0")
        await heard(silent, 2)
        client.push_soon("p", "http://a/1", taskid="t1")
        client.push_soon("p", "http://a/2")
        client.report_soon(tasks[1])
        assert "t1" in silent.heard
        silent.speak()
        await client.settled()
        assert silent.heard[-3:] == ["http://a/1", "http://a/2", "t2"]

    using(daemon, use)


def test_settled_waits_for_what_was_said_before_it_and_for_nothing_else(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        await client.settled()
        first = client.report_soon(tasks[0])
        await first
        silent = Silent(daemon)
        second = client.report_soon(tasks[1])
        waiting = asyncio.ensure_future(client.settled())
        await heard(silent, 1)
        silent_for_ever = client.push_soon("p", "http://a/")
        await heard(silent, 2)
        assert not waiting.done()
        daemon.say(
            DoneReply(
                n=next(each.n for each in daemon.heard if isinstance(each, Done) and _is_of(each, "t2")),
                outcomes=["done"],
            )
        )
        await waiting
        assert (second.done(), silent_for_ever.done()) == (True, False)
        silent.speak()
        await client.settled()

    using(daemon, use)


def _is_of(request: Done, taskid: str) -> bool:
    return any(each is not None and each.taskid == taskid for each in request.tasks)


def test_a_push_is_refused_while_too_many_have_no_outcome_but_a_report_is_not(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "UNSETTLED_MOST", 2)

    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        pushes = [client.push_soon("p", f"http://a/{n}") for n in range(2)]
        with pytest.raises(BacklogFull, match=r"2 pushes and reports .* wait .* wait for client.settled"):
            client.push_soon("p", "http://a/2")
        report = client.report_soon(tasks[0])
        await client.settled()
        assert [each.result() for each in pushes] == ["new", "new"]
        assert report.result().outcome == "done"
        assert await client.push_soon("p", "http://a/2") == "new"

    using(daemon, use)


def test_a_push_is_refused_while_too_many_bytes_have_no_outcome(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "UNSETTLED_BYTES", int(2.5 * size_of(new_task("http://a/00"))))

    async def use(client: AsyncClient, _: list[Task]) -> None:
        for again in range(2):
            pushes = [client.push_soon("p", f"http://a/{again}{n}") for n in range(2)]
            with pytest.raises(BacklogFull):
                client.push_soon("p", "http://a/2")
            await client.settled()
            assert [push.result() for push in pushes] == ["new", "new"]

    using(daemon, use)


def test_what_has_no_outcome_when_the_client_is_closed_gets_closed_also_if_it_has_not_left(daemon: Daemon) -> None:
    async def main() -> None:
        client = AsyncClient(daemon.url)
        intake = client.intake(room=2)
        await wanted(daemon, 2)
        tasks = await arrived(daemon, intake, 1, 2)
        silent = Silent(daemon)
        soon: list[asyncio.Future[Any]] = [client.push_soon("p", "http://a/0"), client.report_soon(tasks[0])]
        soon += [client.push_soon("p", "http://a/", taskid="t1"), client.report_soon(tasks[1])]
        await heard(silent, 1)
        await client.close()
        await client.settled()
        assert [type(each.exception()) for each in soon] == [ClientClosed] * 4

    asyncio.run(main())


def test_what_gets_no_answer_in_time_has_that_error_and_what_waited_for_it_leaves(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url, timeout=30.0) as client:
            intake = client.intake(room=1)
            await wanted(daemon, 1)
            [task] = await arrived(daemon, intake, 1)
            silent = Silent(daemon)
            push = client.push_soon("p", "http://a/")
            report = client.report_soon(task)
            await heard(silent, 1)
            loop.leap(31)
            await heard(silent, 2)
            silent.speak()
            assert (await report).outcome == "done"
            assert isinstance(push.exception(), RequestTimeout)

    run_leaping(main)


def test_a_report_of_many_new_tasks_goes_in_parts_and_what_is_wrong_in_a_later_one_is_an_error_of_the_future(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "PART_TASKS", 2)

    def flawed() -> Iterator[str]:
        yield from (f"http://a/{n}" for n in range(3))
        raise LookupError("mine")

    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        silent = Silent(daemon)
        silent.speak()
        whole = client.report_soon(tasks[0], [f"http://a/{n}" for n in range(5)])
        broken = client.report_soon(tasks[1], flawed())
        await client.settled()
        assert whole.result().outcome == "done"
        assert isinstance(broken.exception(), LookupError)
        assert [name for name in silent.heard if "t1" in name] == ["t1*", "t1*", "t1"]
        assert [name for name in silent.heard if "t2" in name] == ["t2*"]

    using(daemon, use)


def test_a_stale_part_ends_its_report(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "PART_TASKS", 1)

    def stale(request: AnyRequest) -> list[AnyOutgoing]:
        return [DoneReply(n=request.n, outcomes=["stale"])] if isinstance(request, Done) else friendly(request)

    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        daemon.script = stale
        report = client.report_soon(tasks[0], ["http://a/1", "http://a/2"])
        assert (await report).outcome == "stale"

    using(daemon, use)
    assert len([each for each in daemon.heard if isinstance(each, Done)]) == 1


def test_a_failure_and_its_new_tasks_are_one_report_however_many_they_are(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of a late report would be stored, although the failure is stale."""
    monkeypatch.setattr(reports, "PART_TASKS", 2)

    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        report = client.report_soon(tasks[0], (f"http://a/{n}" for n in range(5)), error="broken")
        assert (await report).outcome == "done"
        with pytest.raises(ValueError, match="new: more than 10000 tasks"):
            client.report_soon(tasks[1], (f"http://a/{n}" for n in range(10_001)), error="broken")

    using(daemon, use)
    [failed] = [each for request in daemon.heard if isinstance(request, Done) for each in request.tasks if each]
    assert (failed.ok, failed.part, len(failed.new)) == (False, False, 5)


def test_a_failure_says_how_its_next_attempt_differs_as_a_retry_that_was_raised_does(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        raised = Retry(4, "busy", counts=True, body={"save": 2}, priority=7)
        report = client.report_soon(
            tasks[0], error=str(raised), after=raised.after, counts=raised.counts, body=raised.body,
            priority=raised.priority,
        )  # fmt: skip
        assert (await report).outcome == "done"
        with pytest.raises(MessageTooLarge, match="body: "):
            client.report_soon(tasks[1], error="busy", body="x" * (9 << 20))

    using(daemon, use)
    [failed] = [each for request in daemon.heard if isinstance(request, Done) for each in request.tasks if each]
    assert failed.again is not None
    assert (failed.retry_after, failed.again.counts, failed.again.priority) == (4, True, 7)
    assert msgspec.msgpack.decode(failed.again.body) == {"save": 2}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"after": 4}, "after: .*failure.*error"),
        ({"retry": False}, "retry: .*failure.*error"),
        ({"kind": "HTTP 503"}, "kind: .*failure.*error"),
        ({"counts": False}, "counts: .*failure.*error"),
        ({"body": {}}, "body: .*failure.*error"),
        ({"priority": 0}, "priority: .*failure.*error"),
        ({"error": "", "result": 0}, "result: .*success"),
        ({"error": "", "retry": False, "body": {}}, "body: .*retry=False"),
        ({"error": "", "after": -1}, "after: expected 0 to"),
        ({"error": "", "priority": "high"}, "priority"),
    ],
    ids=str,
)
def test_what_does_not_belong_to_a_report_is_told_and_the_task_stays_as_it_was(
    daemon: Daemon, said: dict[str, Any], wrong: str
) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        with pytest.raises(ValueError, match=wrong):
            client.report_soon(tasks[0], **said, status_code=503)
        assert tasks[0].how_fetched is None

    using(daemon, use)
    assert not [each for each in daemon.heard if isinstance(each, Done)]


def test_what_is_given_up_is_settled_and_does_not_leave_if_it_has_not(daemon: Daemon) -> None:
    told: list[object] = []

    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        silent = Silent(daemon)
        left = client._outbox.report(reports.failure_of(tasks[0], "", None, retry=True), told.append)
        await heard(silent, 1)
        client.push_soon("p", "http://a/")
        held = client._outbox.report(reports.failure_of(tasks[1], "", None, retry=True), told.append)
        left.give_up()
        held.give_up()
        silent.speak()
        await client.settled()
        await all_sent(client)
        assert (sorted(silent.heard), told) == (["http://a/", "t1"], [])

    using(daemon, use)


def test_what_is_given_up_is_not_told_when_its_client_is_closed(daemon: Daemon) -> None:
    told: list[object] = []

    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        Silent(daemon)
        client.push_soon("p", "http://a/")
        client._outbox.report(reports.failure_of(tasks[0], "", None, retry=True), told.append).give_up()
        await client.close()

    using(daemon, use)
    assert told == []


def test_a_future_that_was_cancelled_changes_nothing(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        client.report_soon(tasks[0]).cancel()
        await client.settled()

    using(daemon, use)
    assert [_name(task) for each in daemon.heard if isinstance(each, Done) for task in each.tasks] == ["t1"]


def test_all_goes_on_when_the_daemon_was_away(daemon: Daemon) -> None:
    async def use(client: AsyncClient, tasks: list[Task]) -> None:
        await asyncio.to_thread(daemon.stop)
        soon: list[asyncio.Future[Any]] = [client.push_soon("p", "http://a/0"), client.report_soon(tasks[0])]
        soon += [client.push_soon("p", "http://a/", taskid="t1"), client.report_soon(tasks[1])]
        daemon.start()
        await client.settled()
        assert [each.exception() for each in soon] == [None] * 4

    using(daemon, use)
