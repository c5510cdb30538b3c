"""Tasks with an earliest or a latest start: on a clock that jumps to the next event."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from taskqueue import Task
from taskqueue.client.connection.session import ClientSession
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.intake import Intake
from taskqueue.client.fetcher.leases import KeptLeases
from taskqueue.client.tasks.notes import Notes
from taskqueue.client.tasks.outbox import Outbox
from taskqueue.client.tasks.parents import ParentPages
from taskqueue.protocol.codec import decode_request
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment


class JumpingSelector(selectors.SelectSelector):
    """Selector that does not wait, but advances the clock by the time of the wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits for nothing"
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class Client:
    """Fetching side of a client: the tasks that it has given back, and its hellos.

    Attributes:
        returned: seconds from its start, and tokens.
        stated: capacities of its hellos, and tokens that it gave back between them.
    """

    def __init__(self) -> None:
        self.session = ClientSession("s", "n")
        self.returned: list[tuple[float, list[int]]] = []
        self.stated: list[int | list[int]] = []
        self._began_at = asyncio.get_running_loop().time()
        self.buffer = FetchBuffer(self.session, self._say, self._release, ParentPages(None), Notes(None))  # type: ignore[arg-type]
        kept_leases = KeptLeases(None)  # type: ignore[arg-type]
        self.intake = partial(Intake, self.buffer, Outbox(None, None), kept_leases)  # type: ignore[arg-type]

    def now(self) -> float:
        """Return the seconds from its start."""
        return round(asyncio.get_running_loop().time() - self._began_at, 3)

    def hand_out(self, *tokens: int, **fields: Any) -> None:
        handed = [Assignment("p", f"t{token}", "http://a/", Token(token), 60.0) for token in tokens]
        self.hand(*(_with(each, fields) for each in handed))

    def hand(self, *handed: Assignment) -> None:
        self.buffer.arrive(handed, {}, asyncio.get_running_loop().time())

    def _say(self) -> None:
        for frame in self.session.frames(asyncio.get_running_loop().time()):
            request, _ = decode_request(frame)
            if isinstance(request, Hello) and [request.capacity] != self.stated[-1:]:
                self.stated.append(request.capacity)

    def _release(self, tasks: Sequence[Task]) -> None:
        tokens: list[int] = [task.token for task in tasks]
        self.returned.append((self.now(), tokens))
        self.stated.append(tokens)


def _with(handed: Assignment, fields: dict[str, Any]) -> Assignment:
    return Assignment(handed.project, handed.taskid, handed.url, handed.token, **{"timeout": handed.timeout, **fields})


def running(use: Callable[[Client], Awaitable[None]]) -> Client:
    async def main() -> Client:
        client = Client()
        await use(client)
        return client

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main())


async def taken(client: Client, supply: Intake, count: int) -> list[tuple[float, int]]:
    """Return the times at which the next tasks could be begun, and the tasks."""
    begun: list[tuple[float, int]] = []
    for _ in range(count):
        task = await supply.take()
        begun.append((client.now(), task.token))
        supply.end(task)
    return begun


async def end_after(seconds: float, supply: Intake, task: Task) -> None:
    """Let a task run for that time."""
    await asyncio.sleep(seconds)
    supply.end(task)


def test_a_task_waits_for_its_time_and_holds_up_no_other() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 3) as supply:
            client.hand_out(1, not_before=0.4, start_within=1.0)
            client.hand_out(2, not_before=0.2, start_within=1.0)
            client.hand_out(3, 4, start_within=1.0)
            assert await taken(client, supply, 4) == [(0.0, 3), (0.0, 4), (0.2, 2), (0.4, 1)]

    assert running(use).returned == []


def test_a_task_that_is_not_started_within_its_time_goes_back() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 1):
            client.hand_out(1, not_before=0.5, start_within=1.0)
            client.hand_out(2, start_within=0.3)
            await asyncio.sleep(5)

    assert running(use).returned == [(0.3, [2]), (1.5, [1])]


def test_what_could_not_be_looked_at_in_time_is_not_begun_too_late() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 2) as supply:
            client.hand_out(1, start_within=1.0)
            client.hand_out(2, not_before=1.5, start_within=1.0)
            # The loop was busy meanwhile.
            asyncio.get_running_loop()._jumping.now += 2.0  # type: ignore[attr-defined]
            assert (await supply.take()).token == 2

    assert running(use).returned == [(2.0, [1])]


def test_nor_is_it_when_others_may_begin_at_once() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 2) as supply:
            client.hand_out(1, start_within=1.0)
            client.hand_out(2)
            # The loop was busy meanwhile.
            asyncio.get_running_loop()._jumping.now += 2.0  # type: ignore[attr-defined]
            assert (await supply.take()).token == 2

    assert running(use).returned == [(2.0, [1])]


def test_who_takes_tasks_of_one_project_gets_no_other_that_is_there_first() -> None:
    async def use(client: Client) -> None:
        with (
            client.intake(["q"], 1) as of_q,
            client.intake(["p"], 1) as of_p,
        ):
            client.hand(*(Assignment(name, "t", "http://a/", Token(n), 60.0) for n, name in enumerate("qp", start=1)))
            assert [(await supply.take()).token for supply in (of_p, of_q)] == [2, 1]

    assert running(use).returned == []


def test_the_lease_of_a_task_counts_from_the_time_at_which_it_may_start() -> None:
    async def use(client: Client) -> None:
        stream = client.buffer.join(None, 2)
        client.hand_out(1, not_before=10.0, timeout=3.0)
        await asyncio.sleep(12.9)
        assert client.returned == []
        [task] = await client.buffer.take(stream, 1)
        client.hand_out(2, not_before=10.0, timeout=3.0)
        await asyncio.sleep(20)
        assert task.token == 1

    assert running(use).returned == [(25.9, [2])]


def test_a_short_lease_leaves_three_quarters_of_it_to_the_run() -> None:
    async def use(client: Client) -> None:
        client.buffer.join(None, 2)
        client.hand_out(1, not_before=0.5, start_within=1.0, timeout=2.0)
        await asyncio.sleep(5)

    assert running(use).returned == [(1.0, [1])]


def test_while_tasks_are_early_a_worker_whose_runs_are_short_wants_as_many_others() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 2, prefetch=0) as supply:
            client.hand_out(1, start_within=1.0)
            task = await supply.take()
            await end_after(0.1, supply, task)
            client.hand_out(2, 3, 4, not_before=0.5, start_within=1.0)
            assert client.session.capacity == 4
            client.hand_out(5, start_within=1.0)
            assert (await supply.take()).token == 5
            assert [token for _, token in await taken(client, supply, 3)] == [2, 3, 4]
            assert client.session.capacity == 2
            await asyncio.sleep(1)

    assert running(use).stated == [2, 4, 2, 0]


def test_they_do_not_while_nothing_is_known_of_the_runs_or_they_are_slow() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 2, prefetch=0) as supply:
            client.hand_out(1, not_before=0.5, start_within=1.0)
            assert client.session.capacity == 2
            task = await supply.take()
            await end_after(1.5, supply, task)
            client.hand_out(2, not_before=0.5, start_within=1.0)
            assert client.session.capacity == 2

    running(use)


def test_after_one_went_back_less_is_wanted_before_it_goes_and_until_a_run_was_short() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 1, prefetch=0) as supply:
            client.hand_out(1, start_within=1.0)
            task = await supply.take()
            await end_after(0.1, supply, task)
            client.hand_out(2, 3, not_before=0.5, start_within=1.0)
            slow = await supply.take()
            client.hand_out(4, not_before=0.5, start_within=1.0)
            await asyncio.sleep(3)
            supply.end(slow)
            client.hand_out(5, not_before=0.5, start_within=1.0)
            assert client.session.capacity == 1
            task = await supply.take()
            await end_after(0.1, supply, task)
            client.hand_out(6, not_before=0.5, start_within=1.0)
            await asyncio.sleep(0.2)
            assert client.session.capacity == 2

    client = running(use)
    assert client.returned[:2] == [(1.6, [3]), (2.1, [4])]
    assert client.stated[: client.stated.index([3]) + 1] == [1, 2, 1, 2, 1, [3]]


def test_many_times_to_start_lead_to_few_hellos() -> None:
    async def use(client: Client) -> None:
        with client.intake(None, 100, prefetch=0) as supply:
            client.hand_out(1, start_within=1.0)
            task = await supply.take()
            await end_after(0.1, supply, task)
            for token in range(2, 52):
                client.hand_out(token, not_before=token / 100, start_within=1.0)
            await taken(client, supply, 50)

    hellos = running(use).stated
    assert len(hellos) < 10


def test_an_iteration_that_runs_one_at_a_time_does_not_have_others_handed_out_in_vain_for_ever() -> None:
    """A stand-in for the daemon dispatches as many tasks as the capacity has room for."""
    token = 0
    held: set[int] = set()

    async def use(client: Client) -> None:
        def hand_out() -> None:
            nonlocal token
            room = client.session.capacity - len(held)
            new = list(range(token + 1, token + room + 1))
            token += max(0, room)
            held.update(new)
            client.hand_out(*new, start_within=1.0)

        stream = client.buffer.join(None, 16)
        for _ in range(20):
            hand_out()
            [task] = await client.buffer.take(stream, 1)
            client.buffer.begin(task.token, stream)
            await asyncio.sleep(2)
            client.buffer.finished([task.token])
            held.discard(task.token)
            held.difference_update(*(tokens for _, tokens in client.returned))

    client = running(use)
    assert [(at, len(tokens)) for at, tokens in client.returned] == [(1.0, 15)]
    assert client.session.capacity == 1


def test_an_iteration_that_runs_many_gets_many_again() -> None:
    async def use(client: Client) -> None:
        stream = client.buffer.join(None, 8)
        client.hand_out(*range(1, 9), start_within=1.0)
        [task] = await client.buffer.take(stream, 1)
        client.buffer.begin(task.token, stream)
        await asyncio.sleep(2)
        assert client.session.capacity == 1
        for step, token in ((2, 10), (4, 20), (8, 30)):
            taking = asyncio.ensure_future(client.buffer.take(stream, 8))
            await asyncio.sleep(0.1)
            assert client.session.capacity == step
            client.hand_out(*range(token, token + step // 2), start_within=1.0)
            for task in await taking:
                client.buffer.begin(task.token, stream)

    running(use)


@pytest.mark.parametrize("drains", [True, False])
def test_what_is_early_goes_back_with_the_rest(drains: bool) -> None:
    async def use(client: Client) -> None:
        consumer = client.buffer.join(None, 3)
        client.hand_out(1)
        client.hand_out(2, not_before=0.5, start_within=1.0)
        client.buffer.drain() if drains else client.buffer.leave(consumer)
        await asyncio.sleep(5)

    assert running(use).returned == [(0.0, [1, 2])]


def test_a_selection_has_what_may_be_started_and_hands_back_the_rest() -> None:
    async def use(client: Client) -> None:
        selecting = asyncio.ensure_future(client.buffer.select(3, None))
        await asyncio.sleep(0)
        client.hand_out(1, not_before=0.5, start_within=1.0)
        client.hand_out(2, not_before=0.7, start_within=1.0)
        assert [task.token for task in await selecting] == [1]
        assert client.now() == 0.5

    assert running(use).returned == [(0.5, [2])]
