"""Delays that wrong tokens cost."""

from __future__ import annotations

import asyncio

import pytest

from taskqueue.web.access.logins import FREE, MAX_ADDRESSES, MAX_WAITING, MAX_WAITING_OF_ONE, FailedLogins


async def try_often(failed: FailedLogins, address: str, times: int) -> list[bool | None]:
    """Return whether each attempt was let through; None if it still waits."""
    tries = [asyncio.ensure_future(failed.wait(address)) for _ in range(times)]
    for _ in range(3):
        await asyncio.sleep(0)
    found = [attempt.result() if attempt.done() else None for attempt in tries]
    for attempt in tries:
        attempt.cancel()
    return found


def test_the_first_are_answered_at_once_the_next_late_and_too_many_not() -> None:
    found = asyncio.run(try_often(FailedLogins(), "10.0.0.1", 20))

    late = FREE + MAX_WAITING_OF_ONE
    assert found == [True] * FREE + [None] * MAX_WAITING_OF_ONE + [False] * (20 - late)


def test_an_address_does_not_wait_for_another() -> None:
    async def run() -> list[bool | None]:
        failed = FailedLogins()
        await try_often(failed, "10.0.0.1", 20)
        return await try_often(failed, "10.0.0.2", 1)

    assert asyncio.run(run()) == [True]


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
    ],
)
def test_a_network_of_ipv6_is_one_address(first: str, second: str, is_same: bool) -> None:
    async def run() -> list[bool | None]:
        failed = FailedLogins()
        await try_often(failed, first, FREE)
        return await try_often(failed, second, 1)

    assert asyncio.run(run()) == [None if is_same else True]


def test_memory_is_bounded_however_many_addresses_there_are() -> None:
    async def run() -> FailedLogins:
        failed = FailedLogins()
        for number in range(MAX_ADDRESSES + 100):
            await failed.wait(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        return failed

    assert len(asyncio.run(run())) == MAX_ADDRESSES


def test_so_many_wait_at_most() -> None:
    async def run() -> int:
        failed = FailedLogins()
        tries = []
        for number in range(MAX_WAITING):
            tries += [asyncio.ensure_future(failed.wait(f"10.0.0.{number}")) for _ in range(FREE + MAX_WAITING_OF_ONE)]
        for _ in range(3):
            await asyncio.sleep(0)
        waiting = sum(not attempt.done() for attempt in tries)
        for attempt in tries:
            attempt.cancel()
        return waiting

    assert asyncio.run(run()) == MAX_WAITING


def test_a_right_token_makes_up_for_the_wrong_ones() -> None:
    async def run() -> list[bool | None]:
        failed = FailedLogins()
        await try_often(failed, "10.0.0.1", FREE)
        failed.forget("10.0.0.1")
        return await try_often(failed, "10.0.0.1", 1)

    assert asyncio.run(run()) == [True]
