"""Event of a lost lease: a flag, and a wait for threads and for coroutines."""

from __future__ import annotations

import asyncio
import threading

import pytest

from taskqueue.client.tasks.task import Cancelled


def test_it_is_a_flag() -> None:
    cancelled = Cancelled()
    before = (bool(cancelled), cancelled.is_set(), cancelled.wait(0))

    cancelled.set()

    assert before == (False, False, False)
    assert (bool(cancelled), cancelled.is_set(), cancelled.wait()) == (True, True, True)


def test_a_thread_that_waits_is_woken() -> None:
    cancelled = Cancelled()
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(cancelled.wait(60)))
    waiting.start()

    cancelled.set()
    waiting.join()

    assert found == [True]


def test_a_coroutine_that_waits_is_woken_by_another_thread() -> None:
    async def main() -> None:
        cancelled = Cancelled()
        waiting = [asyncio.ensure_future(cancelled) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.to_thread(cancelled.set)
        await asyncio.gather(*waiting)
        await cancelled

    asyncio.run(main())


def test_who_has_given_up_waiting_is_forgotten() -> None:
    async def main() -> None:
        cancelled = Cancelled()
        waiting = asyncio.ensure_future(cancelled)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        cancelled.set()
        assert waiting.cancelled()

    asyncio.run(main())


def test_to_wait_for_it_in_an_event_loop_is_refused_unless_nothing_is_waited_for() -> None:
    async def main() -> None:
        lost = Cancelled()
        assert not lost.wait(0)
        with pytest.raises(RuntimeError, match=r"say `await task\.lost`"):
            lost.wait()
        lost.set()
        assert lost.wait()

    asyncio.run(main())
