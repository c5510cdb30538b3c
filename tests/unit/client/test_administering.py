"""Waiting, keeping projects open, and iterating over pages, against a scripted daemon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from taskqueue import AsyncClient, Client, RequestRejected, RequestTimeout
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Fetcher, Fetchers, FetchersReply
from taskqueue.protocol.insight import (
    HistoryReply,
    Log,
    LogReply,
    ProjectStats,
    Stats,
    StatsHistory,
    StatsReply,
    Windows,
)
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.operations import Bulk, OperationReply, OperationShow
from taskqueue.protocol.projects import (
    CronEntry,
    Project,
    ProjectHold,
    ProjectReply,
    ProjectSet,
    ProjectUnset,
    ProjectWait,
    WaitReply,
)
from taskqueue.protocol.tasks import NewTasks, TaskList, TaskListReply, TaskRow
from taskqueue.protocol.values import EventTotals, Operation, TaskCounts, TaskFilter
from tests.unit.client.conftest import Daemon, LeapingLoop, friendly, run_leaping


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as it:
        yield it


def view(matched: int = 0, ended_at: float = 0.0) -> Operation:
    return Operation(7, "retry", ["p"], False, 10, matched, matched, 1.0, ended_at)


def patient(request: AnyRequest) -> Iterable[AnyOutgoing]:
    """Script of a daemon whose projects are never finished."""
    match request:
        case ProjectWait(seconds=0):
            return [WaitReply(n=request.n, finished=False, unfinished=3)]
        case OperationShow(seconds=0):
            return [OperationReply(n=request.n, operation=view())]
        case ProjectWait() | OperationShow():
            return []
        case ProjectHold() | ProjectSet() | ProjectUnset():
            return [ProjectReply(n=request.n, project=Project("p", "running", TaskCounts(), EventTotals(), {}, {}))]
    return friendly(request)


def hear_wait(daemon: Daemon) -> ProjectWait:
    """Return the next request that waits for long."""
    while not (request := daemon.hear(ProjectWait)).seconds:
        pass
    return request


# ---------------------------------------------------------------------------------------- waiting


def test_a_project_that_has_finished_is_not_waited_for(daemon: Daemon) -> None:
    daemon.script = lambda request: (
        [WaitReply(n=request.n, finished=True, unfinished=0)] if isinstance(request, ProjectWait) else friendly(request)
    )
    with Client(daemon.url) as client:
        assert client.projects.wait("p")
        assert client.projects.wait("p", timeout=0)

    assert [request.seconds for request in daemon.heard if isinstance(request, ProjectWait)] == [0, 0]


def test_a_project_is_waited_for_again_and_again_until_it_has_finished(
    daemon: Daemon, thread: ThreadPoolExecutor
) -> None:
    daemon.script = patient
    with Client(daemon.url) as client:
        waiting = thread.submit(client.projects.wait, "p")
        first = hear_wait(daemon)
        daemon.say(WaitReply(n=first.n, finished=False, unfinished=1))
        second = hear_wait(daemon)
        daemon.say(WaitReply(n=second.n, finished=True, unfinished=0))

        assert waiting.result()
    assert second.n > first.n


def test_an_end_between_two_questions_is_an_end(daemon: Daemon, thread: ThreadPoolExecutor) -> None:
    daemon.script = patient
    left: list[int] = []
    with Client(daemon.url) as client:
        waiting = thread.submit(client.projects.wait, "p", None, left.append)
        request = hear_wait(daemon)
        daemon.say(WaitReply(n=request.n, finished=False, unfinished=5, times=1))

        assert waiting.result()
    assert left == [3]


def test_waiting_ends_in_time_without_an_error(daemon: Daemon) -> None:
    daemon.script = patient
    with Client(daemon.url) as client:
        assert not client.projects.wait("p", timeout=0)
        assert not client.projects.wait("p", timeout=0.05)
        assert client.operations.wait(7, timeout=0.05).ended_at == 0


def test_the_timeout_of_a_client_is_not_that_of_waiting(daemon: Daemon) -> None:
    daemon.script = patient

    async def main(loop: LeapingLoop) -> bool:
        async with AsyncClient(daemon.url, timeout=100) as client:
            waiting = asyncio.ensure_future(client.projects.wait("p"))
            request = await asyncio.to_thread(hear_wait, daemon)
            daemon.script = lambda _: []
            pushing = asyncio.ensure_future(client.push("p", "http://a/"))
            await asyncio.to_thread(daemon.hear, NewTasks)
            loop.leap(101)
            with pytest.raises(RequestTimeout):
                await pushing
            daemon.say(WaitReply(n=request.n, finished=True, unfinished=0))
            return await waiting

    assert run_leaping(main)


def test_waiting_without_a_daemon_ends_in_time_and_says_so(daemon: Daemon) -> None:
    daemon.script = lambda _: []
    with Client(daemon.url, timeout=0.1) as client, pytest.raises(RequestTimeout):
        client.projects.wait("p")


def test_waiting_goes_on_when_the_daemon_is_back(daemon: Daemon, thread: ThreadPoolExecutor) -> None:
    daemon.script = patient
    with Client(daemon.url, timeout=20) as client:
        waiting = thread.submit(client.projects.wait, "p")
        before = hear_wait(daemon)
        daemon.stop()
        daemon.start()
        after = hear_wait(daemon)
        daemon.say(WaitReply(n=after.n, finished=True, unfinished=0))

        assert waiting.result()
    assert after == before


def test_a_project_deleted_meanwhile_is_waited_for_no_longer(daemon: Daemon, thread: ThreadPoolExecutor) -> None:
    daemon.script = patient
    with Client(daemon.url) as client:
        waiting = thread.submit(client.projects.wait, "p")
        daemon.say(ErrorReply(n=hear_wait(daemon).n, code="unknown-project", reason="deleted"))

        with pytest.raises(RequestRejected, match="deleted"):
            waiting.result()


def test_callers_of_one_client_wait_for_a_project_one_after_the_other(daemon: Daemon) -> None:
    daemon.script = patient

    async def main() -> list[bool]:
        async with AsyncClient(daemon.url) as client:
            waiting = [asyncio.ensure_future(client.projects.wait("p")) for _ in range(3)]
            for n in range(len(waiting)):
                request = await asyncio.to_thread(hear_wait, daemon)
                await client.push("p", "http://a/")
                assert sum(isinstance(one, ProjectWait) and one.seconds > 0 for one in daemon.heard) == n + 1
                daemon.say(WaitReply(n=request.n, finished=True, unfinished=0))
            return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == [True, True, True]


def test_the_progress_of_a_project_is_told_each_time_it_changes_until_it_has_finished(
    daemon: Daemon, thread: ThreadPoolExecutor
) -> None:
    daemon.script = patient
    told: list[tuple[bool, int]] = []

    def follow(client: Client) -> None:
        told.extend((reply.finished, reply.unfinished) for reply in client.projects.progress("p"))

    with Client(daemon.url) as client:
        following = thread.submit(follow, client)
        for finished, unfinished in ((False, 3), (False, 2), (False, 2), (True, 0)):
            daemon.say(WaitReply(n=hear_wait(daemon).n, finished=finished, unfinished=unfinished))
        following.result()

    assert told == [(False, 3), (False, 2), (True, 0)]


def test_the_progress_of_a_project_ends_with_an_end_between_two_questions(
    daemon: Daemon, thread: ThreadPoolExecutor
) -> None:
    daemon.script = patient
    with Client(daemon.url) as client:
        following = thread.submit(lambda: [reply.finished for reply in client.projects.progress("p")])
        daemon.say(WaitReply(n=hear_wait(daemon).n, finished=False, unfinished=3, times=1))

        assert following.result() == [False, True]


def test_the_progress_of_a_project_ends_in_time_without_an_error(daemon: Daemon) -> None:
    daemon.script = patient
    with Client(daemon.url) as client:
        assert [reply.unfinished for reply in client.projects.progress("p", timeout=0)] == [3]
        assert [reply.unfinished for reply in client.projects.progress("p", timeout=0.05)] == [3]


def test_what_a_caller_does_between_two_replies_takes_none_of_its_time(daemon: Daemon) -> None:
    """A limit that ran on while the caller works would cancel the caller."""
    daemon.script = lambda request: (
        [WaitReply(n=request.n, finished=request.seconds > 0, unfinished=1)]
        if isinstance(request, ProjectWait)
        else friendly(request)
    )

    async def main(loop: LeapingLoop) -> list[bool]:
        finished = []
        async with AsyncClient(daemon.url) as client:
            async for reply in client.projects.progress("p", timeout=100):
                loop.leap(99)
                await client.push("p", "http://a/")
                finished.append(reply.finished)
        return finished

    assert run_leaping(main) == [False, True]


def test_an_operation_is_waited_for_and_tells_its_progress(daemon: Daemon, thread: ThreadPoolExecutor) -> None:
    daemon.script = patient
    seen: list[int] = []
    with Client(daemon.url) as client:
        waiting = thread.submit(client.operations.wait, 7, lambda now: seen.append(now.matched))
        daemon.hear(OperationShow)
        daemon.say(OperationReply(n=daemon.hear(OperationShow).n, operation=view(4)))
        daemon.say(OperationReply(n=daemon.hear(OperationShow).n, operation=view(9, ended_at=2.0)))

        assert waiting.result().ended_at == 2.0
    assert seen == [0, 4, 9]


# ---------------------------------------------------------------------------------------- keeping open


def test_a_held_project_is_held_until_the_block_is_left(daemon: Daemon) -> None:
    daemon.script = patient
    with Client(daemon.url) as client:
        with client.projects.keep_open("p"):
            assert daemon.hear(ProjectHold).seconds == 60
        assert daemon.hear(ProjectHold).seconds == 0


def test_a_hold_is_renewed_while_the_block_lasts(daemon: Daemon) -> None:
    daemon.script = patient
    with Client(daemon.url) as client, client.projects.keep_open("p", seconds=0.03):
        renewals = [daemon.hear(ProjectHold).seconds for _ in range(4)]

    assert renewals == [0.03] * 4


def test_who_holds_the_same_project_in_one_client_lets_go_together(daemon: Daemon) -> None:
    daemon.script = patient
    with Client(daemon.url) as client, client.projects.keep_open("p"), client.projects.keep_open("p"):
        pass

    heard = [(hold.project, hold.seconds) for hold in daemon.heard if isinstance(hold, ProjectHold)]
    assert heard == [("p", 60), ("p", 60), ("p", 0)]


def test_an_error_in_the_block_is_what_is_raised_even_if_letting_go_fails(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.script = patient

    def refuse(request: AnyRequest) -> list[AnyOutgoing]:
        return [ErrorReply(n=request.n, code="unknown-project", reason="gone")]

    caplog.set_level(logging.WARNING, "taskqueue.client")

    def fail(client: Client) -> None:
        with client.projects.keep_open("p"):
            daemon.script = refuse
            raise KeyError("mine")

    with Client(daemon.url) as client, pytest.raises(KeyError):
        fail(client)

    assert "event=unheld project=p" in caplog.text


def test_what_can_not_be_held_is_raised_at_once(daemon: Daemon) -> None:
    with Client(daemon.url) as client, pytest.raises(RequestRejected), client.projects.keep_open("p"):
        pytest.fail("the project is not kept open")


def test_a_client_closed_inside_the_block_is_no_second_error(daemon: Daemon) -> None:
    daemon.script = patient
    client = Client(daemon.url)

    with client.projects.keep_open("p"):
        client.close()


# ---------------------------------------------------------------------------------------- pages


def paged(request: AnyRequest) -> Iterable[AnyOutgoing]:
    """Script of a daemon with five of everything, in pages of two."""
    match request:
        case Stats():
            names = [name for name in "abcde" if name > request.after]
            page = [ProjectStats(name, EventTotals(), Windows()) for name in names[:2]]
            return [StatsReply(n=request.n, projects=page, more=len(names) > 2)]
        case Fetchers():
            names = [name for name in "abcde" if name > request.after]
            some = [Fetcher(name, "", 1, 0, 0.0) for name in names[:2]]
            return [FetchersReply(n=request.n, fetchers=some, more=len(names) > 2, found=5, capacity=5, holds=0)]
        case TaskList():
            start = int(request.after or 0)
            rows = [TaskRow(f"t{n}", "http://a/") for n in range(start, min(start + 2, 5))]
            return [TaskListReply(n=request.n, tasks=rows, next=str(start + 2) if start + 2 < 5 else "")]
    return friendly(request)


def test_all_pages_are_gone_through_by_either_client(daemon: Daemon) -> None:
    daemon.script = paged

    async def main() -> tuple[list[str], list[str], list[str]]:
        async with AsyncClient(daemon.url) as client:
            names = [project.name async for project in client.stats.iter(group="g")]
            sessions = [fetcher.session async for fetcher in client.fetchers.iter(project="p")]
            return names, sessions, [row.taskid async for row in client.tasks.iter("p", "failed", url="*")]

    with Client(daemon.url) as client:
        names = [project.name for project in client.stats.iter(group="g")]
        sessions = [fetcher.session for fetcher in client.fetchers.iter(project="p")]
        taskids = [row.taskid for row in client.tasks.iter("p", "failed", url="*")]

    assert asyncio.run(main()) == (names, sessions, taskids)
    assert (names, sessions, taskids) == (list("abcde"), list("abcde"), [f"t{n}" for n in range(5)])
    assert {request.project for request in daemon.heard if isinstance(request, Fetchers)} == {"p"}
    assert {request.group for request in daemon.heard if isinstance(request, Stats)} == {"g"}
    assert {(one.state, one.url) for one in daemon.heard if isinstance(one, TaskList)} == {("failed", "*")}


# ---------------------------------------------------------------------------------------- requests


def test_a_bulk_operation_says_only_what_was_asked(daemon: Daemon) -> None:
    daemon.script = lambda request: (
        [OperationReply(n=request.n, operation=view())] if isinstance(request, Bulk) else friendly(request)
    )
    with Client(daemon.url) as client:
        client.operations.start(
            "retry", project="p", states=["failed"], url="*/a", error="*503*", until=5.0, dry_run=True
        )
        client.operations.start("reprioritise", group="g", priority=9)
        client.operations.start("reschedule", group="g", exetime=datetime(2026, 12, 1, tzinfo=UTC))
        client.operations.start("reschedule", group="g", delay=60.0)

    first, second, third, fourth = (daemon.hear(Bulk) for _ in range(4))
    assert (first.project, first.group, first.dry_run) == ("p", "", True)
    assert first.filter == TaskFilter(["failed"], "*/a", "*503*", 5.0)
    assert (second.project, second.group, second.filter, second.priority) == (None, "g", TaskFilter(), 9)
    assert (third.action, third.exetime, third.delay) == ("reschedule", 1796083200.0, None)
    assert (fourth.action, fourth.exetime, fourth.delay) == ("reschedule", 0.0, 60.0)


def test_times_are_unix_seconds_or_aware_datetimes(daemon: Daemon) -> None:
    december, naive = datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 1)
    daemon.script = lambda request: (
        [OperationReply(n=request.n, operation=view())]
        if isinstance(request, Bulk)
        else [LogReply(n=request.n, entries=[])]
        if isinstance(request, Log)
        else [HistoryReply(n=request.n, points=[])]
        if isinstance(request, StatsHistory)
        else friendly(request)
    )
    with Client(daemon.url) as client:
        client.operations.start("cancel", project="p", until=december)
        client.log.list(since=december)
        list(client.stats.history(since=december, until=1796083260.0))
        for call in (
            lambda: client.operations.start("cancel", project="p", until=naive),
            lambda: client.log.list(since=naive),
            lambda: list(client.stats.history(until=naive)),
        ):
            with pytest.raises(ValueError, match="has no time zone"):
                call()

    asked = daemon.hear(StatsHistory)
    assert (asked.since, asked.until) == (1796083200.0, 1796083260.0)
    assert [one.filter.before for one in daemon.heard if isinstance(one, Bulk)] == [1796083200.0]
    assert [one.since for one in daemon.heard if isinstance(one, Log)] == [1796083200.0]


def test_a_cron_entry_is_a_setting_of_its_project(daemon: Daemon) -> None:
    entries = [CronEntry("night", next_at=5.0), CronEntry("graph")]
    project = Project("p", "running", TaskCounts(), EventTotals(), {}, {}, cron=entries)

    def script(request: AnyRequest) -> Iterable[AnyOutgoing]:
        changes = isinstance(request, ProjectSet | ProjectUnset)
        return [ProjectReply(n=request.n, project=project)] if changes else friendly(request)

    daemon.script = script
    with Client(daemon.url) as client:
        client.cron.set("p", "night", cron="0 3 * * *", zone="Europe/Berlin", url="http://a/", save=1, priority=5)
        client.cron.remove("p", "night")
        with pytest.raises(ValueError, match="url: goes without tasks"):
            client.cron.set("p", "night", every="1d", url="http://a/", tasks={"a": {}})
        for of_graph in ({"overlap": "skip"}, {"after_failure": "run"}, {"keep_flows": 10}):
            with pytest.raises(
                ValueError, match=f"^{next(iter(of_graph))}: goes with tasks; give these, too, or leave"
            ):
                client.cron.set("p", "night", every="1d", url="http://a/", **of_graph)
        with pytest.raises(ValueError, match=r"^tasks: expected at least one task$"):
            client.cron.set("p", "night", every="1d", tasks={})
        tasks: dict[str, Any] = {"load": {"url": "http://a/", "save": 1, "after": ()}, "sum": {"after": ["load"]}}
        client.cron.set("p", "graph", every="1d", overlap="wait", tasks=tasks)

    graph = [each for each in daemon.heard if isinstance(each, ProjectSet)][-1].settings["cron"]
    assert graph == {
        "graph": {
            "cron": "", "every": "1d", "zone": "UTC", "missed": "skip", "overlap": "wait",
            "tasks": {"load": {"url": "http://a/", "body": {"save": 1}, "after": []}, "sum": {"after": ["load"]}},
        }
    }  # fmt: skip
    entry = daemon.hear(ProjectSet).settings["cron"]
    assert isinstance(entry, dict)
    assert entry["night"]["cron"] == "0 3 * * *"
    assert entry["night"]["zone"] == "Europe/Berlin"
    assert entry["night"]["task"]["url"] == "http://a/"
    assert (entry["night"]["task"]["body"], entry["night"]["task"]["priority"]) == ({"save": 1}, 5)
    assert daemon.hear(ProjectUnset).keys == ["cron.night"]
