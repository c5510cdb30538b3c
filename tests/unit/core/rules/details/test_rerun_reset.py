"""Reset of tasks by a rerun, in detail."""

from __future__ import annotations

from msgspec.structs import replace

from taskqueue.calendar import Calendar
from taskqueue.core.model.task import STATES
from taskqueue.protocol.tasks import NewTasksReply, TaskReply, TaskShow
from taskqueue.store.tools.exporter import export_lines
from taskqueue.store.tools.importer import import_lines
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import Disk, MemoryStore
from tests.unit.core.conftest import MakeWorld, task
from tests.unit.core.rules.conftest import HOUR, rest
from tests.unit.core.rules.test_rerun import WHO, begin, done, push, rerun_of, show, state_of, until


def test_what_is_held_is_shown_without_the_time_for_which_it_waits(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    done(world)
    operation = begin(world, "A")
    until(world, "release")

    (reply,) = world.turn(TaskShow(**WHO, n=world.n(), project="news", taskid="A"))
    assert isinstance(reply, TaskReply)
    assert (reply.state, reply.exetime) == ("blocked", 0.0)
    world.settle()
    assert show(world, operation).ended_at


def test_what_is_held_can_be_exported_and_runs_where_it_is_imported(make_world: MakeWorld) -> None:
    world, other = make_world(turn_tasks=2), make_world()
    done(world, {"a": "", "b": "a"})
    begin(world, "a")
    until(world, "release")

    store = MemoryStore(world.disk)
    lines = list(export_lines(store, project_records(store), STATES))
    other.disk = Disk()
    list(import_lines(MemoryStore(other.disk), lines, "refuse", boot=0.0, environment=Calendar()))
    other.restart()
    fetcher = other.fetcher()
    fetcher.finish_all()
    assert fetcher.taken == ["a", "b"]


def test_a_task_that_is_given_others_to_wait_for_and_handed_out_meanwhile_keeps_its_lease(
    make_world: MakeWorld,
) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world, {"a": "", "b": "a", "p": ""})
    world.push("news", replace(task("b", delay=HOUR, force_update=True), depends_on=("a",)))
    fetcher.hello()
    operation = begin(world, "a")
    until(world, "order")
    world.turn(world.new_tasks("news", replace(task("b", force_update=True), depends_on=("p",))))
    assert fetcher.taken == ["b"]
    world.settle()

    assert rerun_of(show(world, operation)).passed == 1
    assert fetcher.done("b") == "done"
    fetcher.finish_all()
    assert fetcher.taken == ["b", "a"]


def test_an_update_that_gives_a_task_others_to_wait_for_takes_effect(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world, {"a": "", "b": "a", "p": ""})
    push(world, {"b": "a"}, force_update=True)
    fetcher.hello()
    fetcher.held.clear()
    begin(world, "a")
    until(world, "order")
    (reply,) = world.turn(world.new_tasks("news", replace(task("b", force_update=True), depends_on=("p",))))
    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["deferred"]
    world.settle()

    fetcher.hello()
    fetcher.finish_all()
    assert sorted(fetcher.taken) == ["a", "b", "b"]


def test_a_success_of_a_recurring_parent_that_is_still_to_be_told_is_not_lost(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    others = {f"c{number}": ["r"] for number in range(40)}
    push(world, {"a": "", "x": ["a", "r"]})
    world.push("news", task("r", auto_recrawl=True, age=HOUR))
    push(world, others)
    fetcher = world.fetcher(capacity=1)
    fetcher.done("a")
    fetcher.hello()
    rest(fetcher)
    begin(world, "a")
    until(world, "reset")
    world.turn(fetcher.answers(fetcher.finished("r")))
    world.settle()

    fetcher.capacity = 100
    fetcher.hello()
    fetcher.finish_all()
    assert state_of(world, "r") == "delayed"
    assert state_of(world, "x") == "success"
