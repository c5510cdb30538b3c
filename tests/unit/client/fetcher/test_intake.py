"""Tasks for a loop that can't await: on a clock that jumps, and against a daemon's double."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskqueue import AsyncClient, ClientClosed, Task
from taskqueue.client.fetcher.intake import WAIT_SECONDS, Intake
from taskqueue.client.tasks import outbox
from taskqueue.protocol.fetchers import Hello, HelloWanted
from taskqueue.protocol.tasks import Done
from tests.unit.client.conftest import Daemon
from tests.unit.client.fetcher.test_draining import Drainer, released, wanted
from tests.unit.client.fetcher.test_lost_leases import end_lease
from tests.unit.client.fetcher.test_times_to_start import Client, running


def all_now(intake: Intake) -> list[Task]:
    """Take all tasks that can be taken now."""
    return list(iter(intake.take_now, None))


def tokens(tasks: list[Task]) -> list[int]:
    return [task.token for task in tasks]


class Loop:
    """Caller that acts in callbacks only: it takes all that it may when it is called."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.tasks: list[Task] = []
        self.intake: Intake | None = None

    def __call__(self) -> None:
        assert self.intake is not None
        came = all_now(self.intake)
        self.tasks += came
        self.calls.append(tokens(came))


def with_loop(client: Client, room: int, **options: Any) -> tuple[Loop, Intake]:
    loop = Loop()
    loop.intake = client.intake(None, room, on_arrival=loop, **options)
    return loop, loop.intake


def test_it_hands_out_what_is_here_in_order_and_never_more_than_there_is_room_for() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 2)
        assert intake.take_now() is None
        client.hand_out(1, 2, 3)
        [first, second] = all_now(intake)
        assert (first.token, second.token, intake.running) == (1, 2, 2)
        client.buffer.finished([first.token])
        assert tokens(all_now(intake)) == [3]

    running(use)


def test_a_loop_is_called_when_a_task_comes_its_time_comes_or_there_is_room() -> None:
    async def use(client: Client) -> None:
        loop, intake = with_loop(client, 2)
        client.hand_out(1)
        client.hand_out(2, 3, not_before=0.5, start_within=1.0)
        await asyncio.sleep(0.1)
        assert loop.calls == [[1]]
        await asyncio.sleep(0.5)
        assert loop.calls == [[1], [2]]
        intake.end(loop.tasks[0])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert loop.calls == [[1], [2], [3]]

    assert running(use).returned == []


def test_a_loop_is_not_called_in_vain() -> None:
    async def use(client: Client) -> None:
        loop, intake = with_loop(client, 1)
        client.hand_out(1, 2)
        await asyncio.sleep(0.1)
        client.hand_out(3)
        client.hand_out(4, not_before=0.2)
        await asyncio.sleep(0.5)
        assert loop.calls == [[1]]
        intake.close()
        intake.end(loop.tasks[0])
        await asyncio.sleep(0.1)
        assert loop.calls == [[1]]

    running(use)


def test_a_loop_that_raises_is_called_again() -> None:
    async def use(client: Client) -> None:
        said: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["exception"])))

        def fail() -> None:
            raise LookupError("mine")

        client.intake(None, 2, on_arrival=fail)
        client.hand_out(1)
        await asyncio.sleep(0.1)
        client.hand_out(2)
        await asyncio.sleep(0.1)
        assert said == ["mine", "mine"]

    running(use)


def test_a_task_whose_lease_has_run_out_here_is_not_handed_out() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 3, patience=1000.0)
        client.hand_out(1, timeout=3.0)
        client.hand_out(2, not_before=1.0, start_within=1.0)
        client.hand_out(3)
        # The loop was busy meanwhile.
        asyncio.get_running_loop()._jumping.now += 5.0  # type: ignore[attr-defined]
        assert tokens(all_now(intake)) == [3]

    assert sorted(running(use).returned[0][1] + running(use).returned[1][1]) == [1, 2]


def test_a_loop_that_lets_tasks_wait_gets_no_others_until_it_looks_again() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 4)
        client.hand_out(1, 2, 3)
        assert intake.take_now() is not None
        await asyncio.sleep(WAIT_SECONDS + 1)
        assert client.session.capacity == 1
        await asyncio.sleep(100)
        assert client.session.capacity == 1
        assert intake.take_now() is None
        assert client.session.capacity == 4

    client = running(use)
    assert client.returned == [(WAIT_SECONDS, [2, 3])]
    assert client.stated == [4, 1, [2, 3], 4]


def test_one_that_awaits_goes_on_to_get_tasks_after_some_had_waited() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 2, patience=1.0) as intake:
            client.hand_out(1, 2)
            await intake.take()
            await asyncio.sleep(5)
            assert client.session.capacity == 2

    assert running(use).returned == [(1.0, [2])]


def test_room_that_grows_is_stated_and_used() -> None:
    async def use(client: Client) -> None:
        loop, intake = with_loop(client, 0)
        assert client.session.capacity == 0
        intake.room = 2
        assert (intake.room, client.session.capacity) == (2, 2)
        client.hand_out(1, 2)
        await asyncio.sleep(0.1)
        intake.room = 3
        client.hand_out(3)
        await asyncio.sleep(0.1)
        assert loop.calls == [[1, 2], [3]]

    running(use)


def test_room_that_shrinks_hands_back_what_it_has_none_for_any_more() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 5)
        client.hand_out(1, 2, 3)
        client.hand_out(4, not_before=0.5)
        taken = intake.take_now()
        assert taken is not None
        intake.room = 2
        await asyncio.sleep(1)
        assert client.returned == [(0.0, [3, 4])]
        intake.room = 0
        assert intake.take_now() is None
        intake.end(taken)
        assert intake.take_now() is None

    client = running(use)
    assert client.returned == [(0.0, [3, 4]), (1.0, [2])]
    assert client.stated == [5, 2, [3, 4], 0, [2]]


def test_one_that_waits_for_room_goes_on_when_there_is_more() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 0)
        taking = asyncio.ensure_future(intake.take())
        await asyncio.sleep(1)
        intake.room = 1
        await asyncio.sleep(1)
        client.hand_out(1)
        assert (await taking).token == 1

    running(use)


def test_a_task_that_was_taken_too_late_makes_room_and_does_not_count_as_a_run() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 1)
        client.hand_out(1, 2)
        first = await intake.take()
        taking = asyncio.ensure_future(intake.take())
        await asyncio.sleep(1)
        intake.give_back(first)
        assert (await taking).token == 2
        assert client.session.capacity == 1

    assert running(use).returned == [(1.0, [1])]


def test_closed_it_hands_back_what_was_not_taken_and_the_rest_still_runs() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 3) as intake:
            client.hand_out(1, 2)
            client.hand_out(3, not_before=0.5)
            assert intake.take_now() is not None
        intake.close()
        intake.room = 7
        assert (intake.take_now(), intake.running, client.session.is_idle) == (None, 1, False)
        client.buffer.finished([1])
        assert intake.running == 0

    client = running(use)
    assert client.returned == [(0.0, [2, 3])]
    assert client.stated == [3, 0, [2, 3]]


@pytest.mark.parametrize("room", [0, 1])
@pytest.mark.parametrize("end", ["intake", "client"])
def test_whoever_waits_for_a_task_when_it_is_closed_or_comes_later_is_told(room: int, end: str) -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, room)
        waiting = [asyncio.ensure_future(intake.take()) for _ in range(2)]
        await asyncio.sleep(1)
        if end == "intake":
            intake.close()
        else:
            client.buffer.close()
        for taking in [*waiting, asyncio.ensure_future(intake.take())]:
            with pytest.raises(ClientClosed):
                await asyncio.wait_for(taking, 60)

    running(use)


def test_several_that_wait_take_no_more_than_there_is_room_for() -> None:
    async def use(client: Client) -> None:
        intake = client.intake(None, 1, prefetch=1)
        waiting = [asyncio.ensure_future(intake.take()) for _ in range(2)]
        await asyncio.sleep(1)
        client.hand_out(1, 2)
        await asyncio.sleep(1)
        assert (intake.running, [taking.done() for taking in waiting]) == (1, [True, False])
        intake.end(waiting[0].result())
        assert (await asyncio.wait_for(waiting[1], 60)).token == 2

    running(use)


def test_two_intakes_of_a_client_have_their_own_room() -> None:
    async def use(client: Client) -> None:
        one, other = client.intake(None, 1), client.intake(None, 2)
        assert client.session.capacity == 3
        client.hand_out(1, 2, 3)
        assert (tokens(all_now(one)), tokens(all_now(other))) == ([1], [2, 3])
        client.buffer.finished([3])
        assert (one.running, other.running) == (1, 1)

    running(use)


@pytest.mark.parametrize(
    "options", [{"room": -1}, {"room": 1.5}, {"patience": -1}, {"projects": "p"}, {"priority": "x"}]
)
def test_what_can_not_be_is_told_and_nothing_is_taken(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with AsyncClient("tcp://127.0.0.1:9") as client:
            with pytest.raises((ValueError, TypeError)):
                client.intake(**options)
            with pytest.raises((ValueError, TypeError)):
                client.intake(["p"]).room = -1

    asyncio.run(main())


# ------------------------------------------------------------------------------------ with a daemon


async def intake_of(client: AsyncClient, daemon: Daemon, room: int = 3, **options: Any) -> Intake:
    intake = client.intake(room=room, **options)
    await wanted(daemon, room)
    return intake


async def arrived(daemon: Daemon, intake: Intake, *handed: int, **fields: Any) -> list[Task]:
    """Dispatch tasks, and take them when they have arrived."""
    daemon.hand_out(*handed, **fields)
    tasks: list[Task] = []
    while len(tasks) < len(handed):
        await asyncio.sleep(0)
        tasks += all_now(intake)
    return tasks


async def stated(daemon: Daemon) -> Hello:
    """Return the capacity that the client states now."""
    while True:
        daemon.say(HelloWanted(epoch=1))
        hello = await asyncio.to_thread(daemon.hear, Hello)
        if hello.holds:
            return hello


def test_the_daemon_hears_which_tasks_run_and_which_only_wait(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            intake = await intake_of(client, daemon)
            [first] = await arrived(daemon, intake, 1)
            daemon.hand_out(2)
            hello = await stated(daemon)
            while len(hello.holds) < 2:
                hello = await stated(daemon)
            assert (hello.holds, hello.running) == ([1, 2], [1])
            client.report_soon(first)
            await client.settled()
            hello = await stated(daemon)
            assert (hello.holds, hello.running) == ([2], [])

    asyncio.run(main())


@pytest.mark.parametrize("end", ["report_soon", "done", "failed", "release", "pass_on"])
def test_each_way_to_end_a_task_makes_room(daemon: Daemon, end: str) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            intake = await intake_of(client, daemon, 1)
            [task] = await arrived(daemon, intake, 1)
            ended = getattr(client, end)(task)
            if end != "report_soon":
                await ended
            assert intake.running == 0
            assert tokens(await arrived(daemon, intake, 2)) == [2]

    asyncio.run(main())


def test_a_task_whose_lease_the_daemon_has_ended_is_not_handed_out_and_one_that_runs_is_told(daemon: Daemon) -> None:
    said = Drainer(daemon)

    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            intake = await intake_of(client, daemon)
            [running_task] = await arrived(daemon, intake, 1)
            daemon.hand_out(2)
            await end_lease(said, daemon, 2)
            said.ended = [1]
            daemon.say(HelloWanted(epoch=1))
            await running_task.cancelled
            assert (intake.take_now(), intake.running) == (None, 1)
            client.report_soon(running_task, error="too late")
            assert tokens(await arrived(daemon, intake, 3)) == [3]

    asyncio.run(main())


def test_a_drained_client_hands_out_nothing(daemon: Daemon) -> None:
    said = Drainer(daemon)

    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            intake = await intake_of(client, daemon)
            daemon.hand_out(1)
            while 1 not in (await stated(daemon)).holds:
                pass
            said.drain()
            assert await released(daemon) == [1]
            assert intake.take_now() is None

    asyncio.run(main())


@pytest.mark.parametrize("awaits", [False, True])
def test_nothing_is_handed_out_while_too_much_has_no_outcome(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, awaits: bool
) -> None:
    monkeypatch.setattr(outbox, "BUSY_AT", 2)

    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            called = asyncio.Event()
            intake = await intake_of(client, daemon, on_arrival=called.set)
            daemon.hand_out(1)
            await called.wait()
            called.clear()
            pushes = [client.push_soon("p", f"http://a/{n}") for n in range(2)]
            assert intake.take_now() is None
            if awaits:
                task = await intake.take()
            else:
                await called.wait()
                [task] = all_now(intake)
            assert task.token == 1
            assert any(push.done() for push in pushes)

    asyncio.run(main())


def test_an_intake_of_a_closed_client_has_nothing(daemon: Daemon) -> None:
    async def main() -> None:
        client = AsyncClient(daemon.url)
        intake = await intake_of(client, daemon)
        [task] = await arrived(daemon, intake, 1)
        await client.close()
        assert intake.take_now() is None
        for call in (client.intake, lambda: client.report_soon(task), lambda: client.push_soon("p", "http://a/")):
            with pytest.raises(ClientClosed):
                call()
        intake.close()

    asyncio.run(main())


def test_a_task_that_was_taken_is_lost_when_the_client_is_closed_but_not_one_that_was_reported(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            intake = await intake_of(client, daemon, 2)
            reported, lost = await arrived(daemon, intake, 1, 2)
            await client.report_soon(reported)
        assert (bool(reported.lost), bool(lost.lost)) == (False, True)

    asyncio.run(main())


def test_a_report_leaves_at_once_if_nothing_was_pushed_before(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            intake = await intake_of(client, daemon)
            [task] = await arrived(daemon, intake, 1)
            report = client.report_soon(task, ["http://a/2"], status_code=200)
            done = await asyncio.to_thread(daemon.hear, Done)
            assert [(each.token, each.ok, len(each.new)) for each in done.tasks if each] == [(1, True, 1)]
            assert (await report).outcome == "done"

    asyncio.run(main())
