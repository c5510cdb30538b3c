"""Steps of an import with any content are taken or refused, and leave a sound daemon: the world checks each turn."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import msgpack
import pytest

from taskqueue.errors import Rejected
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.codec import decode_request
from taskqueue.protocol.exports import ImportReply
from tests.unit.core.conftest import MakeWorld, World
from tests.unit.store.tools.test_hostile_imports import VALUES, changed

ROUNDS: Final = 60
"""Imports per test, each with another change."""

BEGIN: Final[dict[str, Any]] = {
    "parts": 8, "state": "paused", "totals": {"new": 7, "success": 3}, "pause": [1, 5.0, 2, 1, "it failed", 0, 0.0],
    "cron": {"daily": [1e9, "x", 3, 1, [1e9], "", 0.0]}, "finished": 1, "newest": True,
    "settings": {"rate": 5.0, "slot": {"by": "host"}, "cron": {"daily": {"every": "1d", "task": {"url": "u"}}}},
}  # fmt: skip

TASKS: Final[list[dict[str, Any]]] = [
    {"taskid": "a", "state": "ready", "url": "http://a/", "body": {"x": 1}, "itag": "v", "job": "monday",
     "schedule": {"priority": 3, "age": 100, "itag": "v"}, "parents": [["d", 1], ["e", 2], ["gone", 0, ""]],
     "on_parent_failure": "wait"},
    {"taskid": "b", "state": "delayed", "url": "u", "exetime": 2e9, "retried": 2, "held_back": True},
    {"taskid": "c", "state": "processing", "url": "u", "parents": [["a"], ["late"], ["s", 0, "shop"]],
     "deferred": {"url": "http://c/", "schedule": {"exetime": 1.9e9}, "body": {"x": 1}}},
    {"taskid": "d", "state": "success", "url": "u", "ended_at": 1.7e9, "depth": 2, "result": [1], "pushed_at": 5},
    {"taskid": "e", "state": "failed", "ended_at": 1.7e9, "bare": True, "job": "monday"},
    {"taskid": "f", "state": "cancelled", "url": "u", "parents": [["d", 1]], "on_parent_failure": "only",
     "dropped": True, "page": [60.0, "etag"]},
]  # fmt: skip

POINTS: Final[list[Any]] = [[1_699_990_000, [5, 4, 4, 0, 0, 0]], [1_699_996_000, [1, 1, 1, 1, 1, 1]]]


def asked(world: World, fields: dict[str, Any]) -> AnyReply | None:
    """Take a step with these fields, as a client might send it; None if it can't be read, or packed."""
    said = {"type": "project-import", "v": 1, "session": "ops", "n": world.n(), "project": "back", "export": "x"}
    try:
        request, flaws = decode_request(bytes(msgpack.packb(said | fields)))
    except (Rejected, OverflowError):
        return None
    if request.session != "ops" or not request.n:
        return None
    return world.answer(request, flaws)


@pytest.mark.parametrize("seed", range(4))
def test_any_step_of_an_import_is_taken_or_refused_and_leaves_a_sound_daemon(make_world: MakeWorld, seed: int) -> None:
    world, chance = make_world(), random.Random(seed)
    for _ in range(ROUNDS):
        steps = json.loads(
            json.dumps([{"begin": BEGIN}, {"first": 0, "tasks": TASKS[:3]}, {"first": 3, "tasks": TASKS[3:]}])
        )
        steps.append({"first": 6, "points": POINTS})
        place = chance.randrange(len(steps))
        steps[place] = changed(steps[place], chance)
        for step in steps:
            asked(world, step)
            if chance.random() < 0.2:
                world.restart()

        world.advance(3600)
        if "back" in world.scheduler._state.projects.by_name:
            world.do("delete", "back")
    world.check()


def test_the_steps_that_are_changed_there_are_good_ones(make_world: MakeWorld) -> None:
    world = make_world()

    steps: list[dict[str, Any]] = [{"begin": BEGIN}, {"tasks": TASKS}, {"first": 6, "points": POINTS}]
    replies = [asked(world, step) for step in steps]

    assert [type(each) for each in replies] == [ImportReply] * 3, replies


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_no_value_of_a_field_of_a_step_ends_the_daemon(make_world: MakeWorld, value: Any) -> None:
    world = make_world()
    asked(world, {"begin": BEGIN})

    for field in ("export", "first", "tasks", "every", "points", "begin"):
        reply = asked(world, {"tasks": TASKS[:1], field: value})
        assert reply is None or isinstance(reply, ErrorReply | ImportReply)
