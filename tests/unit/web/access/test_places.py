"""Places: the number of requests that run at a time, and their longest time."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from starlette.exceptions import HTTPException

from taskqueue.web.access import admission
from taskqueue.web.access.admission import LINE, LONG, LONG_OF_ONE, SHORT, Places
from tests.unit.web.access.conftest import MakeSite


def test_nobody_has_more_than_his_part_of_the_long_places() -> None:
    with ExitStack() as stack:
        it = Places()
        for _ in range(LONG_OF_ONE):
            stack.enter_context(it.long("anna"))

        with pytest.raises(HTTPException, match="503"):
            stack.enter_context(it.long("anna"))
        stack.enter_context(it.long("ben"))


def test_there_is_a_number_of_long_places() -> None:
    it = Places()
    with ExitStack() as stack:
        for _ in range(LONG):
            stack.enter_context(it.long(""))
        for who in ("", "anna"):
            with pytest.raises(HTTPException) as refused:
                stack.enter_context(it.long(who))
            assert refused.value.status_code == 503
            assert refused.value.headers is not None
            assert int(refused.value.headers["Retry-After"]) > 0
    with it.long("anna"):
        pass


def test_who_finds_no_short_place_waits_for_one_and_so_many_wait() -> None:
    async def run() -> tuple[int, int, list[int]]:
        it, go = Places(), asyncio.Event()
        inside, refused = [], []

        async def ask(number: int) -> None:
            try:
                async with it.short():
                    inside.append(number)
                    await go.wait()
            except HTTPException as error:
                refused.append(error.status_code)

        asking = [asyncio.create_task(ask(number)) for number in range(SHORT + LINE + 3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        at_first, turned_away = len(inside), list(refused)
        go.set()
        await asyncio.gather(*asking)
        return at_first, len(inside), turned_away

    assert asyncio.run(run()) == (SHORT, SHORT + LINE, [503] * 3)


def test_who_waits_too_long_for_a_short_place_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WAIT_SECONDS", 0.0)

    async def run() -> int:
        it = Places()
        for _ in range(SHORT):
            await it.short().__aenter__()
        try:
            async with it.short():
                return 200
        except HTTPException as error:
            return error.status_code

    assert asyncio.run(run()) == 503


def test_a_short_request_does_not_last_for_ever(site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "SHORT_SECONDS", 0.0)

    assert site().get("/for-ever").status_code == 408
