"""Changes that browsers at one view receive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from taskqueue.errors import RequestTimeout
from taskqueue.web.live.channels import Channel, Channels, Picture


def change_after(channel: Channel, version: int) -> tuple[int, dict[str, Any]]:
    now, change = asyncio.run(channel.after(version))
    return now, json.loads(change)


def test_whoever_is_up_to_date_is_sent_what_has_changed() -> None:
    channel = Channel()
    channel.show({"cells": {"news/ready": "1", "news/rate": "5"}})
    channel.show({"cells": {"news/ready": "2", "news/rate": "5"}})

    assert change_after(channel, 1) == (2, {"cells": {"news/ready": "2"}})


def test_whoever_is_late_is_sent_the_newest_of_all_that_has_changed() -> None:
    channel = Channel()
    for ready in ("1", "2", "3"):
        channel.show({"cells": {"news/ready": ready, "news/rate": "5"}})

    assert change_after(channel, 1) == (3, {"cells": {"news/ready": "3"}})


def test_whoever_comes_is_sent_everything() -> None:
    channel = Channel()
    channel.show({"cells": {"a/x": "1"}, "blocks": {"queue": "<p>"}})
    channel.show({"cells": {"a/x": "1"}, "blocks": {"queue": "<b>"}})

    _, change = change_after(channel, 0)
    assert (change["cells"], change["blocks"]) == ({"a/x": "1"}, {"queue": "<b>"})


def test_a_picture_that_is_the_same_is_no_change() -> None:
    channel = Channel()
    channel.show({"cells": {"a/x": "1"}})
    channel.show({"cells": {"a/x": "1"}})

    assert channel.version == 1


def test_what_was_gone_and_comes_back_is_sent_again() -> None:
    channel = Channel()
    channel.show({"rows": {"a": "<tr>"}})
    channel.show({"rows": {}, "order": {"list": []}})
    channel.show({"rows": {"a": "<tr>"}})

    assert change_after(channel, 2)[1]["rows"] == {"a": "<tr>"}


def test_all_who_look_at_a_view_share_one_look() -> None:
    looks = 0

    async def look() -> Picture:
        nonlocal looks
        looks += 1
        return {"cells": {"a/x": str(looks)}}

    async def watch() -> None:
        channels = Channels()
        streams = [channels.changes("/", look, every=60.0) for _ in range(20)]
        async with aclosing(streams[0]):
            assert len({await anext(stream) for stream in streams}) == 1
            for stream in streams:
                await stream.aclose()

    asyncio.run(watch())
    assert looks == 1


def test_a_daemon_that_does_not_answer_is_told_of_and_what_was_seen_stays() -> None:
    answers: Iterator[Picture | None] = iter([{"cells": {"a/x": "1"}}, None, {"cells": {"a/x": "1"}}])

    async def look() -> Picture:
        if (picture := next(answers)) is None:
            raise RequestTimeout("nothing listens there")
        return picture

    async def watch() -> list[Any]:
        async with aclosing(Channels().changes("/", look, every=0.0)) as changes:
            return [json.loads(await anext(changes)) for _ in range(3)]

    first, second, third = asyncio.run(watch())
    assert first["cells"] == {"a/x": "1"}
    assert second == {"state": {"trouble": "nothing listens there"}}
    assert third == {"state": {"trouble": ""}}


def test_a_cell_hides_nothing_that_somebody_else_wrote() -> None:
    channel = Channel()
    channel.show(
        {"cells": {"a/x": "b\u202ec", "a/y": {"text": "\x1b[31m", "data-part": 7}}, "blocks": {"q": "<p>ok</p>"}}
    )

    cells = change_after(channel, 0)[1]["cells"]
    assert cells == {"a/x": "b\\u202ec", "a/y": {"text": "\\u001b[31m", "data-part": 7}}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (HTTPException(400, "state: there is none"), "state: there is none"),
        (ZeroDivisionError("secret"), "this is a bug; the log of the web process has it"),
    ],
    ids=str,
)
def test_whatever_goes_wrong_while_looking_is_told(error: Exception, told: str) -> None:
    async def look() -> Picture:
        raise error

    async def watch() -> Any:
        async with aclosing(Channels().changes("/", look)) as changes:
            return json.loads(await anext(changes))

    assert asyncio.run(watch()) == {"state": {"trouble": told}}


def test_many_views_together_do_not_look_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.web.live.channels.LOOKS_A_SECOND", 0.001)
    looks = 0

    async def look() -> Picture:
        nonlocal looks
        looks += 1
        return {"cells": {"a/x": str(looks)}}

    async def watch() -> None:
        channels = Channels()
        streams = [channels.changes(f"/?{number}", look, every=0.0) for number in range(20)]
        for stream in streams:
            await anext(stream)
        for _ in range(20):
            await asyncio.sleep(0)
        for stream in streams:
            await stream.aclose()

    asyncio.run(watch())
    assert looks == 20
