"""Speeds of counters while a browser shows them; services of users."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, aclosing

import pytest
from starlette.exceptions import HTTPException

from taskqueue.web import services
from taskqueue.web.access.visitors import Visitor
from taskqueue.web.options import WebOptions
from taskqueue.web.services import FORGOTTEN_SECONDS, USERS_MOST, Meters, UserServices


def test_a_speed_is_that_of_the_last_ten_seconds() -> None:
    meters = Meters()
    for second in range(31):
        speeds = meters.look(second, {"a": 5.0 * second if second < 20 else 100.0})

    assert speeds == {"a": 0.0}
    assert Meters().look(0, {"a": 7}) == {}


def test_what_nobody_looked_at_and_what_begins_anew_has_no_speed() -> None:
    meters = Meters()
    meters.look(0, {"a": 10, "b": 10})

    assert meters.look(2, {"a": 30, "b": 4}) == {"a": 10.0}
    assert meters.look(2 + FORGOTTEN_SECONDS + 1, {"a": 31}) == {}


def visitor(name: str, created_at: int = 1, projects: tuple[str, ...] = ("*",)) -> Visitor:
    owner = f"{name} {created_at}"
    return Visitor(name, "viewer", "web@host", owner=owner, reach=(owner, "viewer", *projects))


def test_each_user_has_services_of_its_own_and_a_name_that_was_authorised_anew_other_ones() -> None:
    async def run() -> None:
        async with aclosing(UserServices(WebOptions("tcp://127.0.0.1:1"))) as users:
            with users.used(visitor("anna")) as first, users.used(visitor("ben")) as other:
                assert first is not other
            with users.used(visitor("anna")) as again, users.used(visitor("anna", 2)) as later:
                assert again is first
                assert later is not first
            with users.used(Visitor("", "admin", "web@host")) as own:
                assert own is users.own

    asyncio.run(run())


def test_a_user_whose_projects_change_has_other_services_each_time() -> None:
    async def run() -> None:
        all_projects, some = visitor("anna"), visitor("anna", projects=("news-*",))
        async with aclosing(UserServices(WebOptions("tcp://127.0.0.1:1"))) as users:
            with users.used(all_projects) as first, users.used(some) as second:
                assert second is not first
            with users.used(some) as again:
                assert again is second
            with users.used(all_projects) as third:
                assert third not in (first, second)
            with users.used(some) as fourth:
                assert fourth not in (first, second, third)
            assert list(users._by_reach) == [some.reach]

    asyncio.run(run())


def test_a_user_too_many_is_refused_while_all_are_here_and_else_takes_the_place_of_the_idlest() -> None:
    async def run() -> None:
        async with aclosing(UserServices(WebOptions("tcp://127.0.0.1:1"))) as users:
            with ExitStack() as here:
                made = [here.enter_context(users.used(visitor(f"user{number}"))) for number in range(USERS_MOST)]
                with pytest.raises(HTTPException) as refused, users.used(visitor("late")):
                    raise AssertionError
                assert refused.value.status_code == 503
            with users.used(visitor("late")), users.used(visitor(f"user{USERS_MOST - 1}")) as kept:
                assert kept is made[-1]
            with users.used(visitor("user0")) as anew:
                assert anew not in made

    asyncio.run(run())


def test_services_that_no_request_has_used_for_long_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "KEPT_SECONDS", 0.0)

    async def run() -> None:
        async with aclosing(UserServices(WebOptions("tcp://127.0.0.1:1"))) as users:
            with users.used(visitor("anna")):
                pass
            assert users._sweeping is not None
            users._sweep()
            assert not users._by_reach

    asyncio.run(run())
