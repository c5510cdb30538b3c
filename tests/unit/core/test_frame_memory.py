"""Memory of frames: only stored parts of a message stay in memory; a body does not keep its message alive."""

from __future__ import annotations

import sys
from typing import Any

import msgpack
import pytest

from taskqueue.protocol.codec import decode_request
from taskqueue.protocol.messages import AnyRequest
from tests.unit.core.conftest import Fetcher, World, task

BODY = {"body": {"fetch": {"headers": {"User-Agent": "x" * 1000}}}}


def hear(world: World, kind: str, **fields: Any) -> int:
    """Send a request in a frame; return the number of references to the frame after the turn."""
    frame = msgpack.packb({"type": kind, "v": 1, "session": "client", "n": world.n(), **fields})
    before = sys.getrefcount(frame)
    request: AnyRequest
    request, _ = decode_request(frame)
    world.answer(request)
    del request
    return sys.getrefcount(frame) - before


def item(taskid: str, **schedule: Any) -> dict[str, Any]:
    return {"taskid": taskid, "url": "http://example.org/", "schedule": schedule, **BODY}


def test_a_task_that_waits_does_not_keep_the_frame_that_brought_it(world: World) -> None:
    assert hear(world, "new-task", project="news", tasks=[item("a"), item("b", delay=60.0)]) == 0


def test_a_task_that_was_replaced_does_not_keep_the_frame_that_brought_it(world: World) -> None:
    world.push("news", task("a"))

    assert hear(world, "new-task", project="news", tasks=[item("a", force_update=True)]) == 0


@pytest.fixture
def busy(world: World) -> Fetcher:
    """Make a fetcher that works on ``a``."""
    world.push("news", task("a"))
    return world.fetcher(capacity=1)


def test_an_update_that_waits_for_the_end_of_a_lease_does_not_keep_the_frame_that_brought_it(
    world: World, busy: Fetcher
) -> None:
    assert hear(world, "new-task", project="news", tasks=[item("a", force_update=True)]) == 0


def test_follow_ups_do_not_keep_the_frame_that_brought_them(world: World, busy: Fetcher) -> None:
    answer = {"project": "news", "taskid": "a", "token": busy.held.pop("a").token, "new": [item("b")]}

    assert hear(world, "done", tasks=[answer]) == 0


def test_good_tasks_beside_a_malformed_one_do_not_keep_the_frame_that_brought_them(world: World) -> None:
    assert hear(world, "new-task", project="news", tasks=[item("a"), {"taskid": 7}]) == 0
