"""Steps are registered only while they have work."""

from __future__ import annotations

import pytest

from taskqueue.errors import Corrupt
from taskqueue.protocol.operations import Bulk
from tests.unit.core.conftest import World, task


def test_a_turn_after_all_work_has_ended_has_no_steps_to_take(world: World) -> None:
    world.push("news", task("a"))
    world.turn(Bulk(session="person", n=world.n(), action="cancel", project="news"))
    assert "operations" in world.scheduler._state.pending.steps

    world.advance(3600)

    assert world.scheduler._state.pending.steps == {}


def test_work_that_is_not_registered_is_a_broken_invariant(world: World) -> None:
    world.push("news", task("a"), task("b"))
    world.turn(Bulk(session="person", n=world.n(), action="cancel", project="news"))
    world.scheduler._state.pending.end("operations")

    with pytest.raises(Corrupt, match="work for steps of operations, which is not registered"):
        world.scheduler.verify()
