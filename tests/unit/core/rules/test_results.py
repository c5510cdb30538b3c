"""Results: the value that the last success of a task has left."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.fields import MAX_RESULT_BYTES, NIL
from taskqueue.protocol.tasks import DoneReply, ItemError, TaskRetry
from taskqueue.protocol.values import Fetched
from taskqueue.store.records import layout
from tests.unit.core.conftest import Fetcher, World, packed, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, HOUR, MINUTE, bring, rest, run_out


def result_of(world: World, taskid: str = "a") -> object:
    """Return the result that users see; None if there is none."""
    shown = world.show(taskid)
    assert shown.result_bytes == (len(shown.result) if shown.result != NIL else 0)
    return msgspec.msgpack.decode(shown.result)


def bring_result(world: World, result: object, **schedule: Any) -> Fetcher:
    """Make a task "a" that has succeeded with this result."""
    fetcher = bring(world, "processing", **schedule)
    assert fetcher.done("a", result=packed(result)) == "done"
    return fetcher


def run_again(world: World, fetcher: Fetcher) -> None:
    """Restart the task "a", and dispatch it to the fetcher."""
    assert world.push("news", task("a", **FORCE)) == ["restarted"]
    fetcher.hello()
    rest(fetcher)


def stored_results(world: World) -> int:
    return len(world.disk.families[layout.RESULTS].keys)


@pytest.mark.parametrize("result", [{"title": "A"}, 0, False, "", [], b"\xff", {1: None}])
def test_a_success_may_bring_a_result(world: World, result: object) -> None:
    bring_result(world, result)

    assert result_of(world) == result


def test_the_next_success_replaces_the_result(world: World) -> None:
    fetcher = bring_result(world, "first")
    run_again(world, fetcher)

    fetcher.done("a", result=packed("second"))

    assert result_of(world) == "second"


@pytest.mark.parametrize("said", [{}, {"result": packed(None)}])
def test_a_success_without_a_result_leaves_none(world: World, said: dict[str, Any]) -> None:
    fetcher = bring_result(world, "first")
    run_again(world, fetcher)

    fetcher.done("a", **said)

    assert result_of(world) is None
    assert stored_results(world) == 0


def test_a_success_without_a_result_keeps_the_former_one_if_the_page_has_not_changed(world: World) -> None:
    fetcher = bring_result(world, "first")
    run_again(world, fetcher)

    fetcher.done("a", fetched=Fetched(changed=False))

    assert result_of(world) == "first"
    assert stored_results(world) == 1


def test_a_success_with_a_result_replaces_the_former_one_also_if_the_page_has_not_changed(world: World) -> None:
    fetcher = bring_result(world, "first")
    run_again(world, fetcher)

    fetcher.done("a", fetched=Fetched(changed=False), result=packed("second"))

    assert result_of(world) == "second"


def test_a_result_stays_until_the_next_success(world: World) -> None:
    fetcher = bring_result(world, "kept")

    world.push("news", task("a", delay=5.0, **FORCE))
    assert (world.show("a").state, result_of(world)) == ("delayed", "kept")
    world.advance(5)
    assert (world.show("a").state, result_of(world)) == ("ready", "kept")
    fetcher.hello()
    rest(fetcher)
    assert (world.show("a").state, result_of(world)) == ("processing", "kept")
    fetcher.done("a", ok=False, retry=False)
    assert (world.show("a").state, result_of(world)) == ("failed", "kept")
    world.push("news", task("a", **CANCEL))
    assert (world.show("a").state, result_of(world)) == ("cancelled", "kept")


@pytest.mark.parametrize("runs_again", [False, True])
def test_a_result_outlives_the_daemon(world: World, runs_again: bool) -> None:
    fetcher = bring_result(world, "kept")
    if runs_again:
        run_again(world, fetcher)

    world.restart()

    assert result_of(world) == "kept"
    if runs_again:
        fetcher.hello()
        assert fetcher.done("a") == "done"
        assert stored_results(world) == 0


@pytest.mark.parametrize("more", [0, 1])
def test_a_result_may_have_64_kib_and_not_a_byte_more(world: World, more: int) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("b"))
    fetcher.hello(capacity=2)
    result = packed(b"x" * (MAX_RESULT_BYTES - 3 + more))
    asked = fetcher.answers(fetcher.finished("a", result=result), fetcher.finished("b"))

    heard, flaws = decode_request(encode(asked))
    reply = world.ask(DoneReply, heard, flaws)

    reason = f"tasks[0].result: {MAX_RESULT_BYTES + 1} bytes, at most {MAX_RESULT_BYTES} are taken"
    assert reply.outcomes == ["rejected" if more else "done", "done"]
    assert reply.errors == ([ItemError(0, reason)] if more else [])
    assert world.show("a").state == ("processing" if more else "success")


@pytest.mark.parametrize("result", [packed("none of it"), packed(None)])
def test_a_task_that_failed_has_no_result(world: World, result: Raw) -> None:
    fetcher = bring(world, "processing")
    asked = fetcher.answers(fetcher.finished("a", ok=False, result=result))

    heard, flaws = decode_request(encode(asked))
    reply = world.ask(DoneReply, heard, flaws)

    if result == NIL:
        assert (reply.outcomes, reply.errors) == (["done"], [])
    else:
        assert reply.errors == [ItemError(0, "tasks[0].result: a task that failed has none")]
        assert world.show("a").state == "processing"
    assert result_of(world) is None


def test_a_stale_report_changes_no_result(world: World) -> None:
    fetcher = bring_result(world, "kept")
    run_again(world, fetcher)
    report = fetcher.answers(fetcher.finished("a", result=packed("too late")))
    world.push("news", task("a", **CANCEL))

    assert world.ask(DoneReply, report).outcomes == ["stale"]
    assert result_of(world) == "kept"


def test_a_late_success_brings_its_result(world: World) -> None:
    fetcher = bring(world, "processing", timeout=30.0)
    run_out(world, fetcher, 40.0)
    assert world.show("a").state == "ready"

    assert fetcher.done("a", result=packed("late")) == "done"

    assert (world.show("a").state, result_of(world)) == ("success", "late")


@pytest.mark.parametrize("recurring", [{}, {"auto_recrawl": True, "age": HOUR}])
@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("brought", [None, "new"])
def test_the_result_of_a_late_success_is_known_of_a_task_that_the_same_turn_runs_again(
    world: World, before: str | None, brought: str | None, recurring: dict[str, Any]
) -> None:
    fetcher = bring_result(world, before)
    world.push("news", task("a", timeout=30.0, **FORCE, **recurring))
    fetcher.hello()
    run_out(world, fetcher, 40.0)
    late = fetcher.answers(fetcher.finished("a", result=packed(brought)))
    retry = TaskRetry(session="person", n=world.n(), project="news", taskids=["a"])
    hello = Hello(session="other", n=world.n(), capacity=1)

    world.turn(late, retry, hello)

    assert (world.show("a").state, result_of(world)) == ("processing", brought)
    world.restart()
    assert result_of(world) == brought
    world.do("clear")
    assert stored_results(world) == 0


@pytest.mark.parametrize("forget", [False, True])
def test_a_result_goes_with_the_body(world: World, forget: bool) -> None:
    world.set(keep={"success": "1h", "then": "forget" if forget else "remember"})
    fetcher = bring_result(world, "kept")

    world.advance(HOUR - 1)
    assert result_of(world) == "kept"
    world.advance(1 + MINUTE)
    assert stored_results(world) == 0
    world.push("news", task("a", **FORCE))
    assert result_of(world) is None
    fetcher.hello()
    assert fetcher.done("a") == "done"


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
@pytest.mark.parametrize("state", ["ready", "processing"])
def test_a_result_goes_with_its_task(world: World, action: str, state: str) -> None:
    fetcher = bring_result(world, "gone")
    world.push("news", task("a", **FORCE))
    if state == "processing":
        fetcher.hello()

    world.do(action)
    world.settle()

    assert stored_results(world) == 0
    assert world.push("news", task("a")) == (["rejected"] if action == "delete" else ["new"])
    if action != "delete":
        assert result_of(world) is None


def test_a_task_without_a_result_costs_nothing(world: World) -> None:
    fetcher = bring(world, "processing")
    world.turn(fetcher.answers(fetcher.finished("a")))
    run_again(world, fetcher)
    world.turn(fetcher.answers(fetcher.finished("a")))

    assert world.needs.results == []
    assert world.kept.results == {}
    (record,) = world.disk.families[layout.IDS].values.values()
    assert len(record) == layout.DATED_RECORD.size
