"""Edges: crash, clear and retention leave none behind, and many propagations at once lose none.

The disk is checked after each turn: see ``World``.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import NewTask, Schedule, TaskOf
from taskqueue.store.records import edges as store_edges
from taskqueue.store.records import layout
from taskqueue.store.records.edges import tasks_of
from taskqueue.store.records.layout import AWAITED
from tests.unit.core.conftest import MakeWorld, World, task


def waiting(taskid: str, *parents: str) -> NewTask:
    return replace(task(taskid), depends_on=parents)


def waiting_elsewhere(taskid: str, project: str, parent: str) -> NewTask:
    return replace(task(taskid), depends_on=(TaskOf(project, parent),))


def left_of_edges(world: World) -> list[bytes]:
    """Collect keys of edges, propagations and awaited tasks."""
    ids = world.disk.families[layout.IDS]
    awaited = [key for key in ids.keys if ids.values[key] == AWAITED]
    families = (layout.PARENTS, layout.CHILDREN, layout.PROPAGATIONS)
    return awaited + [key for family in families for key in world.disk.families[family].keys]


def test_propagations_that_a_turn_has_no_time_for_are_not_forgotten_when_others_begin(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = world.fetcher()
    world.push("news", *(task(f"p{number}") for number in range(8)))
    world.push("news", *(waiting(f"c{number}", f"p{number}") for number in range(8)))
    world.advance(1)
    fetcher.hello()
    world.turn(fetcher.answers(*(fetcher.finished(f"p{number}") for number in range(7))))
    world.turn(fetcher.answers(fetcher.finished("p7")))
    world.settle()

    assert world.counts().blocked == 0


def test_a_success_is_told_to_all_before_the_failure_that_came_after_it(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = world.fetcher(1)
    world.push("news", task("a"))
    world.push("news", *(waiting(f"c{number}", "a") for number in range(20)))
    fetcher.hello()
    world.turn(
        fetcher.answers(fetcher.finished("a")), world.new_tasks("news", task("a", priority=9, force_update=True))
    )
    world.turn(fetcher.answers(fetcher.finished("a", ok=False, retry=False)))
    world.settle()

    assert (world.counts().failed, world.counts().blocked) == (1, 0)


def test_a_project_that_has_parents_only_is_walked_when_it_is_deleted(world: World) -> None:
    world.push("shop", task("a"))
    world.push("news", waiting_elsewhere("c", "shop", "a"))
    world.do("delete", "shop")
    world.settle()

    assert world.show("c").error == "upstream: a deleted project/a"


def test_a_parent_of_which_clear_has_left_something_is_awaited_and_nothing_else(world: World) -> None:
    world.push("news", task("a", delay=9))
    clear = ProjectDo(session="person", n=world.n(), project="news", action="clear")
    world.turn(clear, world.new_tasks("news", waiting("b", "a")))
    world.settle()

    world.push("news", task("a"))
    fetcher = world.fetcher()
    fetcher.finish_all()
    fetcher.hello()
    assert "b" in fetcher.taken


def test_a_deleted_project_with_many_tasks_that_wait_for_one_takes_it_from_no_other(world: World) -> None:
    for at in range(0, 300, 100):
        many = [waiting_elsewhere(f"n{number}", "shop", "x") for number in range(at, at + 100)]
        world.push("news", *many)
    world.push("shop", waiting("c", "x"))
    world.do("delete")
    world.settle()

    world.push("shop", task("x"))
    fetcher = world.fetcher()
    fetcher.finish_all()
    fetcher.hello()
    assert "c" in fetcher.taken


def test_a_task_that_is_given_a_child_in_the_turn_in_which_it_is_cleared_has_failed_for_it(world: World) -> None:
    world.push("news", task("x", delay=9))
    clear = ProjectDo(session="person", n=world.n(), project="news", action="clear")
    world.turn(world.new_tasks("shop", waiting_elsewhere("c", "news", "x")), clear)
    world.settle()

    assert world.show("c", "shop").state == "failed"


def test_nothing_is_awaited_of_a_project_that_is_deleted_in_the_same_turn(world: World) -> None:
    delete = ProjectDo(session="person", n=world.n(), project="shop", action="delete")
    world.turn(world.new_tasks("news", waiting_elsewhere("c", "shop", "x")), delete)
    world.settle()

    awaited = [key for key, value in world.disk.families[layout.IDS].values.items() if value == AWAITED]
    assert awaited == []


def test_edges_of_a_task_that_is_cleared_while_it_is_processed_are_gone_after_a_restart_too(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    world.push("news", waiting("b", "a"))
    fetcher.hello()
    fetcher.done("a")
    fetcher.hello()
    world.restart()
    world.do("clear")
    world.settle()

    assert left_of_edges(world) == []


def test_nothing_is_left_of_edges_between_tasks_that_retention_has_forgotten(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"success": 60, "failed": 60, "cancelled": 60, "then": "forget"}})
    fetcher = world.fetcher()
    world.push("news", task("a", delay=100), waiting("b", "a"))
    world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=["b"]))
    world.advance(100)
    fetcher.hello()
    fetcher.finish_all()
    world.advance(100)

    assert world.counts().success == 0
    assert left_of_edges(world) == []


def test_an_old_task_that_is_given_a_child_as_it_is_to_go_goes_a_turn_later(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"success": 60}})
    world.push("news", task("a"))
    world.fetcher().finish_all()
    world.elapsed = 200.0
    world.turn()

    world.turn(world.new_tasks("news", waiting("c", "a")))
    assert world.found.old
    assert [each.taskid for each in world.kept.linked.values()] == ["a"]
    world.settle()

    (parent,) = [each for each in world.known() if each.taskid == "a"]
    assert parent.bare


def test_nothing_is_left_of_the_edges_of_a_deferred_update_that_a_later_one_has_replaced(make_world: MakeWorld) -> None:
    world = make_world()
    world.push("news", task("a"))
    world.fetcher(1)
    updates = [
        replace(each, schedule=Schedule(force_update=True))
        for each in (waiting("a", "x", "y"), waiting("a", "z"), task("a"))
    ]

    assert world.push("news", *updates[:2]) == ["deferred"] * 2
    assert {tasks_of(key)[1].taskid for key in world.disk.families[layout.PARENTS].keys} == {"z"}
    assert world.push("news", updates[2]) == ["deferred"]
    assert left_of_edges(world) == []


def test_nothing_is_left_of_the_edges_of_a_deferred_update_that_is_cleared_with_its_task(make_world: MakeWorld) -> None:
    world = make_world()
    world.push("news", task("a"))
    world.fetcher(1)
    world.push("news", replace(waiting("a", "x"), schedule=Schedule(force_update=True)))
    assert left_of_edges(world)

    world.do("clear")
    world.settle()

    assert left_of_edges(world) == []


def test_a_cancelled_task_has_the_edges_of_its_deferred_update_until_it_is_forgotten(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"cancelled": 60, "then": "forget"}})
    world.push("news", task("a"))
    world.fetcher(1)
    world.push("news", replace(waiting("a", "x"), schedule=Schedule(force_update=True)))

    world.push("news", task("a", force_update=True, cancel=True))

    assert left_of_edges(world)
    world.advance(100)
    assert left_of_edges(world) == []


def test_tasks_that_failed_with_their_parent_are_revived_in_parts_while_their_project_is_swept(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_edges, "RELEASED_BYTES", 0)
    world = make_world(turn_tasks=24)
    fetcher = world.fetcher(1)
    world.push("shop", task("p"))
    world.push("news", *(waiting_elsewhere(f"c{number:02}", "shop", "p") for number in range(20)))
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("p", ok=False, retry=False)))
    world.settle()
    assert world.counts().failed == 20
    world.do("pause")
    world.push("news", *(task(f"a{number:03}") for number in range(200)))
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="shop", taskids=["p"]))
    fetcher.hello()

    clear = ProjectDo(session="person", n=world.n(), project="news", action="clear")
    world.turn(clear, fetcher.answers(fetcher.finished("p")))
    world.turn()
    assert 0 < world.counts().ready < 20, "a turn reads few of their specs"
    world.restart()
    world.settle()

    assert [world.counts().ready, world.counts().failed] == [20, 0]


def test_a_task_is_still_awaited_that_is_cleared_as_the_edge_of_one_of_its_children_is_deleted(world: World) -> None:
    fetcher = world.fetcher(1)
    world.do("pause")
    world.push("news", task("p"))
    patient = replace(waiting_elsewhere("d", "news", "p"), on_parent_failure="wait")
    world.push("shop", waiting_elsewhere("b", "news", "p"), patient)

    world.turn(world.new_tasks("shop", task("b", force_update=True)))
    clear = ProjectDo(session="person", n=world.n(), project="news", action="clear")
    world.turn(world.new_tasks("news", task("p", force_update=True)), clear)
    world.settle()
    world.do("resume")
    world.push("news", task("p"))
    fetcher.hello()
    fetcher.finish_all()
    world.settle()

    assert world.counts("shop").blocked == 0
