"""Scenarios by hand: one for each bug that was repaired, and a few that must never change."""

from __future__ import annotations

from math import inf

from taskqueue.settings.settings import CoreConfig, Layer, Pace
from tests.simulation.desk import Desk, handed, lease_of, outcomes
from tests.unit.core.conftest import World, task


def test_done_and_new_task_of_one_task_in_one_turn_do_not_run_it_again() -> None:
    desk = Desk()
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))

    said = desk.turn(desk.done("f", task), desk.push("a"))

    assert outcomes(said) == ["done", "ignored"]
    assert handed(desk.settle()) == []


def test_three_tasks_due_in_an_hour_do_not_delay_the_one_due_in_a_minute() -> None:
    desk = Desk()
    desk.turn(desk.push("a", "b", "c", delay=3600.0))
    desk.turn(desk.push("d", delay=60.0))
    desk.turn(desk.hello("f"), at=50)
    desk.settle()

    assert desk.wakes_at() == 60
    assert [task["taskid"] for task in handed(desk.turn(at=60))] == ["d"]


def test_a_late_answer_changes_nothing_for_whoever_has_the_task_now() -> None:
    desk = Desk(processing_timeout=30.0)
    (old,) = handed(desk.turn(desk.push("a"), desk.hello("slow")))
    (new,) = handed(desk.turn(desk.hello("quick"), at=30))

    assert outcomes(desk.turn(desk.done("slow", old))) == ["stale"]
    assert outcomes(desk.turn(desk.done("quick", new))) == ["done"]


def test_what_a_dead_fetcher_held_goes_to_another_and_its_last_words_count_for_nothing() -> None:
    desk = Desk()
    (held,) = handed(desk.turn(desk.push("a"), desk.hello("dies")))
    desk.turn(desk.hello("lives"), at=30)

    (task,) = handed(desk.settle(at=60))

    assert task["taskid"] == "a"
    assert task.get("retried", 0) == 0
    assert outcomes(desk.turn(desk.done("dies", held))) == ["stale"]


def test_an_answer_that_is_given_twice_counts_once() -> None:
    desk = Desk()
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))

    assert outcomes(desk.turn(desk.done("f", task, ok=False))) == ["done"]
    assert outcomes(desk.turn(desk.done("f", task, ok=True))) == ["stale"]


def test_a_task_that_is_being_run_can_be_cancelled() -> None:
    desk = Desk()
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))

    said = desk.turn(desk.push("a", cancel=True, force_update=True), desk.done("f", task))

    assert outcomes(said) == ["cancelled", "stale"]


def test_a_repeated_request_is_told_what_it_was_told_at_first() -> None:
    desk = Desk()
    request = desk.request("operator", "project-set", project="p", settings={"burst": 7.0})
    first = desk.turn(request)
    desk.turn(desk.push("a"), desk.hello("f"))

    assert desk.turn(request) == first


def test_a_repeat_is_told_the_same_after_a_crash() -> None:
    desk = Desk()
    request = desk.push("a", "b")
    first = desk.turn(request)

    desk.restart()

    assert desk.turn(request) == first


def test_crashing_again_soon_after_a_power_cut_does_not_fill_the_bucket() -> None:
    desk = Desk(rate=0.1, burst=3.0)
    desk.turn(desk.push(*"abcdef"))
    desk.restart(reboot_to=5000)
    desk.restart()

    desk.turn(desk.hello("f", capacity=9))

    assert handed(desk.settle()) == []
    assert len(handed(desk.settle(at=10))) == 1


def test_a_lease_is_as_long_as_it_was_after_the_machine_has_been_booted_twice() -> None:
    desk = Desk(processing_timeout=600.0)
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))
    desk.restart(reboot_to=90_000)
    desk.turn(desk.hello("f", holds=[task["token"]], seen=1), at=10)
    desk.turn(desk.request("f", "extend", leases=[lease_of(task)], seconds=600.0))
    desk.restart(reboot_to=20)
    desk.turn(desk.hello("f", holds=[task["token"]], seen=1), at=20)
    for at in range(40, 610, 20):
        desk.turn(desk.hello("f", holds=[task["token"]], seen=1), desk.hello("g"), at=at)

    assert outcomes(desk.turn(desk.done("f", task))) == ["done"]


def test_a_scheduler_with_nothing_to_do_never_wakes_up() -> None:
    desk = Desk()
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))
    desk.turn(desk.done("f", task))
    desk.settle(at=100_000)

    assert desk.wakes_at() == inf


def test_the_whole_is_counted_after_a_restart_too() -> None:
    desk = Desk()
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))
    desk.turn(desk.done("f", task))

    desk.restart()

    (status,) = desk.turn(desk.request("operator", "status"))
    assert status["counts"] == {"success": 1}
    assert status["totals"]["success"] == 1


def test_a_project_waits_for_the_last_one_who_holds_it_open() -> None:
    desk = Desk()
    (task,) = handed(desk.turn(desk.push("a"), desk.hello("f")))
    desk.turn(desk.request("one", "project-hold", project="p", seconds=20.0))
    desk.turn(desk.request("two", "project-hold", project="p", seconds=30.0))
    desk.turn(desk.done("f", task))
    desk.settle(at=20)

    assert desk.wakes_at() == 30
    desk.settle(at=30)
    (shown,) = desk.turn(desk.request("one", "project-show", project="p"))
    assert shown["project"]["finished"] == 1


def test_everybody_who_waits_for_an_end_is_answered_in_time() -> None:
    desk = Desk()
    desk.turn(desk.push("a"))
    desk.turn(desk.request("one", "project-wait", project="p", seconds=20.0))
    desk.turn(desk.request("two", "project-wait", project="p", seconds=30.0))

    assert [each["finished"] for each in desk.settle(at=20)] == [False]
    assert desk.wakes_at() == 30
    assert [each["finished"] for each in desk.settle(at=30)] == [False]


def test_a_task_that_is_cancelled_with_an_update_deferred_still_runs_after_the_parents_that_it_was_given_last() -> None:
    desk = Desk()
    (parent,) = handed(desk.turn(desk.push("parent"), desk.hello("f", capacity=3)))
    desk.turn(desk.done("f", parent))
    assert handed(desk.turn(desk.child("child", "parent")))
    assert outcomes(desk.turn(desk.child("child", "parent", force_update=True))) == ["deferred"]
    desk.turn(desk.request("operator", "task-cancel", project="p", taskids=["child"]))
    desk.settle()

    desk.turn(desk.request("operator", "rerun", project="p", taskid="parent", scope="downstream"))

    (parent,) = handed(desk.settle())
    assert parent["taskid"] == "parent"
    assert [task["taskid"] for task in handed(desk.turn(desk.done("f", parent)) + desk.settle())] == ["child"]


def test_who_waits_for_a_shared_token_gets_it_when_others_want_no_more() -> None:
    sections: dict[str, Layer] = {name: {"bucket": "both"} for name in ("many", "few")}
    world = World(CoreConfig(projects=sections, buckets={"both": Pace(1.0, 1.0)}))
    world.push("many", task("a"), task("b"), task("c"))
    world.push("few", task("d"))
    fetcher = world.fetcher(capacity=10)

    world.advance(3.0)

    assert sorted(fetcher.taken) == ["a", "b", "c", "d"]
