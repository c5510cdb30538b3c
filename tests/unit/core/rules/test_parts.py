"""Parts of a report: new tasks that are taken while their parent task still runs."""

from __future__ import annotations

from typing import Any

from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import Flaw
from taskqueue.protocol.tasks import DoneReply
from taskqueue.protocol.values import NewTask, TaskReport
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, bring, run_out


def part(fetcher: Fetcher, *new: NewTask | None, taskid: str = "a") -> TaskReport:
    """Make a part of the report on a task, which the fetcher keeps."""
    handed = fetcher.held[taskid]
    return TaskReport(handed.project, taskid, handed.token, new=list(new), part=True)


def sent(world: World, fetcher: Fetcher, *new: NewTask | None, **named: Any) -> DoneReply:
    """Send a part, and return the reply."""
    return world.ask(DoneReply, fetcher.answers(part(fetcher, *new, **named)))


def test_a_part_is_kept_and_the_last_report_ends_the_lease(world: World) -> None:
    fetcher = bring(world, "processing")

    kept = [sent(world, fetcher, task(each)) for each in ("b", "c")]

    assert [(reply.outcomes, reply.new) for reply in kept] == [(["kept"], [["new"]])] * 2
    assert (world.show("a").state, world.show("b").state) == ("processing", "ready")
    assert fetcher.done("a", new=[task("d")]) == "done"
    assert (world.show("a").state, world.project().totals.success) == ("success", 1)


def test_a_part_does_not_prolong_its_lease(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 599)
    sent(world, fetcher, task("b"))

    run_out(world, fetcher, 2)

    assert world.show("a").state == "ready"
    assert world.project().totals.timeout == 1


def test_parts_that_were_kept_stay_when_the_run_fails_and_the_next_run_merges_them(world: World) -> None:
    fetcher = bring(world, "processing")
    sent(world, fetcher, task("b"))
    assert fetcher.fail("a") == "done"
    assert world.show("b").state == "ready"

    world.advance(30)
    fetcher.capacity = 2
    fetcher.hello()
    fetcher.done("b")
    reply = sent(world, fetcher, task("b"), task("c"))

    assert reply.new == [["ignored", "new"]]


def test_parts_that_were_kept_stay_when_the_fetcher_dies_and_across_a_restart(world: World) -> None:
    fetcher = bring(world, "processing")
    sent(world, fetcher, task("b"))
    world.restart()

    world.advance(61)

    assert (world.show("a").state, world.show("b").state) == ("ready", "ready")


def test_what_a_part_forces_runs_again_when_the_next_run_forces_it_again(world: World) -> None:
    fetcher = bring(world, "processing")
    fetcher.capacity = 2
    sent(world, fetcher, task("b", **FORCE))
    fetcher.hello()
    fetcher.done("b")
    fetcher.fail("a")
    world.advance(30)
    fetcher.hello()

    assert sent(world, fetcher, task("b", **FORCE)).new == [["restarted"]]


def test_a_part_with_the_token_of_a_lease_that_is_no_more_is_stale_and_keeps_nothing(world: World) -> None:
    fetcher = bring(world, "processing")
    late = fetcher.answers(part(fetcher, task("b")))
    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]

    reply = world.ask(DoneReply, late)

    assert (reply.outcomes, reply.new) == (["stale"], [[]])
    assert world.counts().ready == 0


def test_a_part_after_the_last_report_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    late = part(fetcher, task("b"))
    fetcher.done("a")

    assert world.ask(DoneReply, fetcher.answers(late)).outcomes == ["stale"]


def test_a_part_with_a_token_that_nobody_was_given_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    forged = [TaskReport("news", "a", Token(token), part=True) for token in (0, 1, 2**63 - 1)]

    assert world.ask(DoneReply, fetcher.answers(*forged)).outcomes == ["stale"] * 3


def test_a_late_part_counts_as_long_as_a_late_success_would(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)
    assert sent(world, fetcher, task("b")).outcomes == ["kept"]
    assert world.show("a").state == "ready"

    late = part(fetcher, task("c"))
    other = world.fetcher(capacity=1, name="other")
    assert other.taken == ["a"]

    assert world.ask(DoneReply, fetcher.answers(late)).outcomes == ["stale"]


def test_a_part_that_is_repeated_is_answered_as_before_and_kept_once(world: World) -> None:
    fetcher = bring(world, "processing")
    request = fetcher.answers(part(fetcher, task("b")))
    first = world.answer(request)
    world.restart()

    assert world.answer(request) == first
    assert world.project().totals.new == 2


def test_max_queue_does_not_apply_to_what_a_part_brings_but_its_depth_does(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 1, "max_depth": 1})
    fetcher = bring(world, "processing")
    fetcher.capacity = 2

    assert sent(world, fetcher, task("b")).new == [["new"]]
    fetcher.hello()
    assert sent(world, fetcher, task("c"), taskid="b").new == [["ignored"]]


def test_a_malformed_new_task_of_a_part_is_reported_and_spoils_nothing_else(world: World) -> None:
    fetcher = bring(world, "processing")
    request = fetcher.answers(part(fetcher, None, task("b")))

    reply = world.ask(DoneReply, request, {(0, 0): Flaw("tasks[0].new[0].url: missing")})

    assert (reply.outcomes, reply.new) == (["kept"], [["rejected", "new"]])


def test_a_part_and_the_last_report_may_come_in_one_message(world: World) -> None:
    fetcher = bring(world, "processing")
    before = part(fetcher, task("b"))

    reply = world.ask(DoneReply, fetcher.answers(before, fetcher.finished("a", new=[task("c")]), before))

    assert (reply.outcomes, reply.new) == (["kept", "done", "stale"], [["new"], ["new"], []])


def test_a_part_makes_no_room_for_another_task(world: World) -> None:
    fetcher = bring(world, "processing")
    sent(world, fetcher, task("b"))

    fetcher.hello()

    assert fetcher.taken == ["a"]
