"""A turn calls the steps of what has work, and of nothing else; and what has work is registered."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import taskqueue
from taskqueue.build_kind import is_compiled
from taskqueue.errors import Corrupt
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.operations import Bulk
from tests.unit.core.conftest import World, task

PACKAGE: Final = Path(taskqueue.__file__).parent

PASSED: Final = {
    "calendar.py",
    *(f"core/{name}.py" for name in (
        "answers", "lookups", "scheduler", "state", "step_rules", "timers", "turn", "turn_state",
    )),
    *(f"core/model/{name}.py" for name in (
        "bucket", "changes", "fair_queue", "heads", "memory", "project", "recrawl", "session", "slot", "spec", "task",
        "task_queue", "timer_heap", "waiters", "windows",
    )),
    *(f"core/moves/{name}.py" for name in ("clock_step", "handout", "memory_limits", "push", "statistics")),
    "core/requests/tasks.py",
    "core/steps/completion.py",
    "protocol/message_room.py",
    *(f"store/{name}.py" for name in ("batch", "ledger", "lookup")),
    *(f"store/records/{name}.py" for name in ("edges", "epochs", "layout")),
}  # fmt: skip
"""Modules that a push into a plain project may pass: none of flows, reruns, cycles, divisions, retention, cron, sweeps,
history, failures, scans, watching, waiting pushes, damage. Of the clock it asks whether it was put back, of slots it
keeps the time, of completion whether the project is armed, of edges how tasks are read.
"""


def entered(world: World, heard: list[Incoming]) -> set[str]:
    """Modules of the package whose functions are called in a turn, from its begin to the question when to wake."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.add(str(path.relative_to(PACKAGE)))

    now = world.now
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        turn = world.scheduler.begin(now, heard)
        result = turn.decide(world.ledger.find(turn.needs))
        world.ledger.commit(result.writes)
        world.scheduler.next_event_at(now)
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.skipif(is_compiled(), reason="what is compiled can't be traced")
def test_a_push_enters_no_subsystem_that_has_nothing_to_do(world: World) -> None:
    world.push("news", task("a"))

    passed = entered(world, world.heard(world.new_tasks("news", task("b"))))

    assert passed <= PASSED, f"also entered: {sorted(passed - PASSED)}"
    assert world.show("b").state == "ready"


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
