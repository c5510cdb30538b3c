"""Laws themselves: events that they once took for a breach, wrongly."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.model.edges import OVERLOOKED, UNSATISFIED, Edge, Mark, TaskRef
from taskqueue.core.model.records import KeptAttempt, WriteSet
from taskqueue.core.model.session import REST_MOST_SECONDS
from taskqueue.core.model.task import BLOCKED, DELAYED, FAILED, PROCESSING, READY, SUCCESS, Task
from taskqueue.protocol.choices import AttemptOutcome
from taskqueue.protocol.values import Attempt
from taskqueue.settings.settings import CoreConfig
from tests.simulation.client import Client
from tests.simulation.laws import Round
from tests.simulation.play import Play, play
from tests.simulation.ranks import HandOut
from tests.simulation.sleep import SPINS
from tests.simulation.truth import Facts, Held, Name
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

    assert one.judge.paces.keep("p0", {}, "success", inf) == 7.0


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
    nothing = Round(one.world.machine.now(), [], [], WriteSet(), True, [], [])
    task.state = state
    one.judge.truth.tasks[name] = Held(1, BLOCKED, 0, 1, is_held=True)

    with pytest.raises(Violation, match="S11"):
        one.judge._write_task(name, (task, BLOCKED, 1, 1, False, False), nothing, 0)


def test_what_was_pushed_and_cleared_in_one_turn_waits_for_nothing_any_more() -> None:
    one = _undisturbed()
    _hear(one, _pushed("a", "b"), CLEARED)

    _hear(one, _pushed("b", "a"))


@pytest.mark.parametrize("state", [READY, PROCESSING])
def test_what_was_cleared_earlier_in_the_turn_waits_for_nothing_any_more(state: int) -> None:
    one = _undisturbed()
    _hear(one, _pushed("a", "b"))
    _hold(one, state)

    _hear(one, CLEARED, _pushed("b", "a"))


def test_what_is_over_keeps_its_parents_when_its_project_is_cleared() -> None:
    one = _undisturbed()
    _hear(one, _pushed("a", "b"))
    _hold(one, SUCCESS)

    with pytest.raises(Violation, match="G5"):
        _hear(one, CLEARED, _pushed("b", "a"))


def test_what_turns_out_to_have_been_over_when_its_project_was_cleared_keeps_its_parents() -> None:
    one = _undisturbed()
    _hear(one, _pushed("a", "b"))
    _hold(one, PROCESSING)
    _hear(one, CLEARED)
    _hold(one, FAILED)

    with pytest.raises(Violation, match="G5"):
        _hear(one, _pushed("b", "a"))


def test_what_was_cleared_and_pushed_again_in_one_turn_has_its_new_parents() -> None:
    one = _undisturbed()
    _hold(one, PROCESSING)

    with pytest.raises(Violation, match="G5"):
        _hear(one, CLEARED, _pushed("a", "b"), _pushed("b", "a"))


def test_a_task_for_failures_may_run_in_the_turn_in_which_its_parent_fails_with_a_parent_of_its_own() -> None:
    _run_for_failure("upstream", OVERLOOKED)


@pytest.mark.parametrize(("outcome", "edge"), [("failed", OVERLOOKED), ("upstream", UNSATISFIED)])
def test_a_task_for_failures_breaks_the_law_if_its_parent_is_to_be_retried_or_not_overlooked(
    outcome: AttemptOutcome, edge: int
) -> None:
    with pytest.raises(Violation, match="G1"):
        _run_for_failure(outcome, edge)


def test_a_delayed_task_may_wait_until_a_clock_that_was_put_back_shows_its_time() -> None:
    one = Play(0, weather=CALM, storm_seconds=10.0)
    one.world.machine.step(5000.0)
    late = {"taskid": "late", "url": "http://p0/late", "schedule": {"delay": 60.0}}
    Client(one.world, "late", one.judge.told).ask("new-task", project="p0", tasks=[late])
    one.world.clock.at(9.0, lambda: one.world.machine.step(-5000.0))

    assert one.run().seconds > 5000


@pytest.mark.parametrize("seed", [6010, 6023])
def test_a_fetcher_that_handed_tasks_back_may_rest_as_long_as_turns_leave_due_work_behind(seed: int) -> None:
    play(seed, crewed=True)


def test_a_fetcher_rests_no_longer_when_the_scheduler_sleeps() -> None:
    one = _undisturbed()
    truth = one.judge.truth
    truth.projects["p0"] = Facts(1, "running", {})
    one.world.clock.now = 2 * REST_MOST_SECONDS
    for session, priority in (("best", 1), ("low", 0)):
        one.judge.ranks.stated(session, {"priority": priority})
        truth.facts[session] = 1, 1, None
        truth.takers[session] = True
        truth.heard_at[session] = one.world.clock.now
    truth.released_at["best"] = 0.0

    _turn(one, awake=True)
    _hand_to_low(one)
    _turn(one, awake=False)
    with pytest.raises(Violation, match="P1"):
        _hand_to_low(one)


def _undisturbed() -> Play:
    """Make a world without faults."""
    return Play(0, weather=CALM)


def _keeping(one: Play, seconds: float) -> CoreConfig:
    fields = {key: getattr(one.site.config, key) for key in one.site.config.__struct_fields__}
    return CoreConfig(**{**fields, "projects": {"p0": {"keep": {"success": seconds}}}})


CLEARED = {"type": "project-do", "project": "g0", "action": "clear"}, {"type": "project-do-reply"}


def _run_for_failure(outcome: AttemptOutcome, edge: int) -> None:
    """Let the judge see a turn in which an attempt of a task ends, and its child, which is for failures, runs."""
    one, child, parent = _undisturbed(), TaskRef(4, "a"), TaskRef(4, "b")
    one.judge.truth.projects["g0"] = Facts(4, "running", {})
    _hear(one, _pushed("a", "b", on_parent_failure="only"))
    attempt = KeptAttempt(*parent, 0, Attempt(0.0, outcome))
    kept = WriteSet(attempts=[attempt], edges={Edge(child, parent): Mark(edge, 1)})
    one.judge.edges.passed(Round(one.world.machine.now(), [], [], kept, True, [], []))
    one.judge.edges.handed(Name("g0", "a"))


def _pushed(child: str, parent: str, **fields: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a request for a task with a parent, and the reply that accepts it."""
    item = {"taskid": child, "url": f"http://g0/{child}", "depends_on": [parent], **fields}
    return {"type": "new-task", "project": "g0", "tasks": [item]}, {"type": "new-task-reply", "outcomes": ["new"]}


def _hear(one: Play, *exchanges: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Let the judge see a turn with these requests and replies, without writes."""
    n = len(one.judge.truth.answers)
    requests = [request | {"session": "s", "n": n + i} for i, (request, _) in enumerate(exchanges)]
    said = [(b"s", reply | {"n": n + i}) for i, (_, reply) in enumerate(exchanges)]
    heard = [(b"s", request) for request in requests]
    one.judge.turned(Round(one.world.machine.now(), heard, said, WriteSet(), True, [], []))


def _hold(one: Play, state: int) -> None:
    """Put the task that is pushed first into that state, without a lease."""
    one.judge.truth.tasks[Name("g0", "a")] = Held(number=4, state=state, token=0, key=0)


def _hand_to_low(one: Play) -> None:
    """Judge a turn that dispatches a task to the fetcher low."""
    one.judge.ranks.handed(HandOut(1, Name("p0", "a"), "low", is_suspect=False))
    one.judge.ranks.turned(one.world.machine.now().wall)


def _turn(one: Play, *, awake: bool, heard: bool = False, did: bool = False) -> None:
    """Judge a turn after which the scheduler wants another one at once, or in a second."""
    one.judge.sleep.turned(heard=heard, did=did)
    now = one.world.machine.now()
    one.judge.sleep.until(now, now.boot + (not awake))
