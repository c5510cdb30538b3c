"""The laws themselves: what was once taken for a breach, and was none."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.core.settings.settings import CoreConfig
from taskqueue.core.tasks.task import BLOCKED, DELAYED, PROCESSING, READY, Task
from tests.simulation.play import Play, play
from tests.simulation.sleep import SPINS
from tests.simulation.truth import Held, Name
from tests.simulation.world import Violation, Weather

CALM = Weather(turn_seconds=1.0, sync_seconds=0.01)


def test_a_config_that_only_a_scheduler_that_was_succeeded_has_heeded_is_not_in_force() -> None:
    one = _undisturbed()
    succeeded = one.site.host
    assert succeeded is not None
    one.site._usurp()
    one.site.configure(_keeping(one, 7.0))
    succeeded.configure(_keeping(one, 50.0))
    one.world.clock.run_until(5.0)

    assert one.judge.paces.setting("p0", {}, "keep_success", inf) == 7.0


def test_a_scheduler_that_is_awake_for_nothing_breaks_the_law_even_if_it_is_asked_something_now_and_then() -> None:
    one = _undisturbed()

    for _ in range(SPINS - 1):
        _turn(one, awake=True)
        _turn(one, awake=True, heard=True, did=True)

    with pytest.raises(Violation, match="L3"):
        _turn(one, awake=True)


def test_a_turn_that_only_looks_something_up_for_the_next_one_breaks_no_law() -> None:
    one = _undisturbed()

    for _ in range(2 * SPINS):
        _turn(one, awake=True)
        _turn(one, awake=True, did=True)


def test_a_scheduler_that_falls_asleep_in_between_breaks_no_law() -> None:
    one = _undisturbed()

    for _ in range(2 * SPINS):
        _turn(one, awake=True)
        _turn(one, awake=False, heard=True, did=True)


@pytest.mark.parametrize("seed", [15972, 16218])
def test_what_was_over_is_forgotten_with_its_project_also_if_that_is_cleared_in_the_same_turn(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("state", [READY, DELAYED, PROCESSING])
def test_a_task_that_a_rerun_held_breaks_the_law_if_it_is_free_though_no_rerun_has_let_go_of_it(state: int) -> None:
    one = _undisturbed()
    name, task = Name("p0", "a"), Task(1, "a", 0, 0, 1)
    task.state = state
    one.judge.truth.tasks[name] = Held(1, BLOCKED, 0, 1, is_held=True)

    with pytest.raises(Violation, match="S11"):
        one.judge._write_task(name, (task, BLOCKED, 1, 1, False, False), one.world.machine.now(), 0)


def _undisturbed() -> Play:
    """A world in which nothing goes wrong."""
    return Play(0, weather=CALM)


def _keeping(one: Play, seconds: float) -> CoreConfig:
    fields = {key: getattr(one.site.config, key) for key in one.site.config.__struct_fields__}
    return CoreConfig(**{**fields, "projects": {"p0": {"keep_success": seconds}}})


def _turn(one: Play, *, awake: bool, heard: bool = False, did: bool = False) -> None:
    """A turn after which the scheduler wants another one at once, or in a second."""
    one.judge.sleep.turned(heard=heard, did=did)
    now = one.world.machine.now()
    one.judge.sleep.until(now, now.boot + (not awake))
