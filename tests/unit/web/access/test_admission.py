"""Long responses last as long as the rights of their visitors, and bodies that never arrive take no place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from starlette.types import Message

from taskqueue.errors import ConfigError
from taskqueue.web.access import admission
from taskqueue.web.access.admission import SHORT
from tests.unit.web.access.conftest import HOST, MakeSite, Site

TURNS = 1000
"""Turns of the event loop, with a check of rights in each; a stream ends within a few of them."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check rights all the time."""
    assert admission.LOOK_SECONDS <= 1.0, "documented"
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.0)


def with_bearer(it: Site) -> dict[str, str]:
    return {"Authorization": f"Bearer {it.token()}"}


def with_cookie(it: Site) -> dict[str, str]:
    it.sign_in(it.token())
    return it.cookie()


def remove(it: Site) -> None:
    with suppress(ConfigError):  # it is removed already
        it.revoke()


def replace(it: Site) -> None:
    it.revoke()
    it.token()


def expire(it: Site) -> None:
    written = json.loads(it.path.read_text())
    written["keys"][0]["expires_at"] = 1.0
    it.path.write_text(json.dumps(written))


def demote(it: Site) -> None:
    written = json.loads(it.path.read_text())
    written["keys"][0]["role"] = "viewer"
    it.path.write_text(json.dumps(written))


def open_to_others(it: Site) -> None:
    it.path.chmod(0o644)


def sign_out(it: Site) -> None:
    it.served.state.access.sessions.end(it.cookies["taskqueue-7401"])


def parts_of(it: Site, path: str, headers: dict[str, str], change: Callable[[Site], None]) -> int:
    """Count the parts of a stream until it ends, if ``change`` runs at its first part; 0 if it does not end."""

    async def read() -> int:
        parts = 0
        async for _ in it.parts(path, headers):
            parts += 1
            change(it)
        return parts

    async def ask() -> int:
        reading = asyncio.create_task(read())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if reading.done():
            return reading.result()
        reading.cancel()
        return 0

    return it.run(ask())


@pytest.mark.parametrize("change", [remove, replace, expire, demote, open_to_others])
@pytest.mark.parametrize("shown", [with_bearer, with_cookie])
def test_a_silent_stream_ends_when_its_reader_has_no_right_to_it_any_more(
    site: MakeSite, shown: Callable[[Site], dict[str, str]], change: Callable[[Site], None]
) -> None:
    it = site(keys=True)

    assert parts_of(it, "/silent", shown(it), change) == 1


def test_a_silent_stream_ends_when_its_browser_signs_out(site: MakeSite) -> None:
    it = site(keys=True)

    assert parts_of(it, "/silent", with_cookie(it), sign_out) == 1


def test_a_stream_that_never_rests_ends_too(site: MakeSite) -> None:
    it = site(keys=True)

    assert parts_of(it, "/stream", with_cookie(it), remove) >= 1


def test_what_is_waited_for_is_refused_when_its_asker_has_no_right_to_it_any_more(site: MakeSite) -> None:
    it = site(keys=True)
    headers = with_bearer(it)

    async def ask() -> int:
        asking = asyncio.create_task(it._client.get("/wait", headers=headers))
        await it.served.state.asked.wait()
        remove(it)
        return (await asking).status_code

    assert it.run(ask()) == 401


def test_a_stream_whose_token_was_removed_costs_its_address_no_wrong_tokens(site: MakeSite) -> None:
    it = site(keys=True)
    headers = with_bearer(it)
    for _ in range(3):
        parts_of(it, "/silent", headers, remove)
        headers = with_bearer(it)

    assert len(it.served.state.access.failed) == 0


def test_a_stream_goes_on_while_other_tokens_come_and_go(site: MakeSite) -> None:
    it = site(keys=True)
    headers = with_cookie(it)

    async def read() -> int:
        parts = 0
        async for _ in it.parts("/stream", headers):
            parts += 1
            if parts == 3:
                it.token("ben", "viewer")
            if parts == 6:
                it.revoke("ben")
            if parts == 50:
                remove(it)
        return parts

    assert it.run(read()) >= 50


def test_nothing_is_looked_at_while_nobody_watches(site: MakeSite) -> None:
    it = site(keys=True)
    parts_of(it, "/silent", with_cookie(it), remove)

    assert it.served.state.rights._looking is None


def test_forms_whose_bodies_do_not_come_take_no_place_from_others(site: MakeSite) -> None:
    it = site(keys=True)
    it.token()
    waiting: asyncio.Queue[None] = asyncio.Queue()

    async def silent() -> Message:
        waiting.put_nowait(None)
        await asyncio.Event().wait()
        raise AssertionError

    async def sink(message: Message) -> None:
        raise AssertionError(message)

    async def ask() -> int:
        headers = {"host": HOST, "content-type": "application/x-www-form-urlencoded", "content-length": "9"}
        scope = {
            "type": "http", "method": "POST", "http_version": "1.1", "scheme": "http", "path": "/login",
            "raw_path": b"/login", "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
        }  # fmt: skip
        posting = [asyncio.create_task(it.served(scope | {}, silent, sink)) for _ in range(2 * SHORT)]
        for _ in posting:
            await waiting.get()
        status = (await it._client.get("/login")).status_code
        for each in posting:
            each.cancel()
        return status

    assert it.run(ask()) == 200
