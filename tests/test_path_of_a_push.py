"""The path of a push through the daemon's core and ledger, traced: it enters no subsystem that has nothing to do.

It stands here, and not among the tests of the core, because compiled modules can't be traced: these are interpreted.
"""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any, Final

import taskqueue
from taskqueue.protocol.messages import Incoming
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import World, task

PACKAGE: Final = Path(taskqueue.__file__).parent

PASSED: Final = {
    "calendar.py",
    *(f"core/{name}.py" for name in (
        "answers", "lookups", "scheduler", "state", "step_rules", "timers", "turn", "turn_state",
    )),
    *(f"core/model/{name}.py" for name in (
        "bucket", "changes", "fair_queue", "heads", "memory", "project", "push_outcome", "session", "slot", "spec",
        "task", "task_queue", "timer_heap", "waiters", "windows",
    )),
    *(f"core/moves/{name}.py" for name in ("clock_step", "dispatch", "memory_limits", "push", "statistics")),
    "core/requests/tasks.py",
    "core/steps/completion.py",
    "protocol/message_room.py",
    *(f"store/{name}.py" for name in ("batch", "ledger", "lookup")),
    *(f"store/records/{name}.py" for name in ("edges", "epochs", "layout")),
}  # fmt: skip
"""Modules that a push into a plain project may pass: none of flows, reruns, cycles, divisions, retention, cron, sweeps,
history, failures, scans, watching, waiting pushes, damage. It asks the clock whether it was put back, slots for the
time, completion whether the project is armed, edges how tasks are read.
"""


def entered(world: World, heard: list[Incoming]) -> set[str]:
    """Return modules of the package whose functions are called in a turn, from its beginning to its next wake-up."""
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


def test_a_push_enters_no_subsystem_that_has_nothing_to_do() -> None:
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}))
    world.push("news", task("a"))

    passed = entered(world, world.heard(world.new_tasks("news", task("b"))))

    assert passed <= PASSED, f"also entered: {sorted(passed - PASSED)}"
    assert world.show("b").state == "ready"
