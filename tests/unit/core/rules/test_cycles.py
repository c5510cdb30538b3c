"""Cycles: a task that would wait for itself is rejected, and a push that needs a search for that waits.

``waits(world, "c", "a", "b")`` pushes a task c that waits for a and b, and returns its outcome.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from taskqueue.core.model import cycle_search
from taskqueue.core.model.waiting_pushes import WAITING_MOST
from taskqueue.core.moves import cycles
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.callers import Caller
from taskqueue.protocol.fetchers import Extend, Release
from taskqueue.protocol.projects import ProjectReply, ProjectShow, ProjectUnset
from taskqueue.protocol.tasks import DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask, TaskOf
from taskqueue.store.records import layout
from taskqueue.store.records.edges import tasks_of
from tests.unit.core.conftest import MakeWorld, World, task
from tests.unit.core.rules.test_dependencies import waiting

Outcome = str
"""Outcome such as ``new``, or the reason of a rejection."""


def push(world: World, *items: NewTask, project: str = "news", session: str = "producer") -> list[Outcome]:
    """Push a batch, and take turns until the reply."""
    request = world.new_tasks(project, *items, session=session)
    world.turn(request)
    world.settle()
    return outcomes(answers_to(world, request)[0])


def outcomes(reply: AnyReply) -> list[Outcome]:
    assert isinstance(reply, NewTasksReply), reply
    reasons = {error.index: error.reason for error in reply.errors}
    return [reasons.get(index, outcome) for index, outcome in enumerate(reply.outcomes)]


def answers_to(world: World, request: NewTasks) -> list[AnyReply]:
    return [reply for reply in world.inbox if reply.n == request.n]


def waits(world: World, taskid: str, *parents: str | TaskOf, **schedule: Any) -> Outcome:
    (outcome,) = push(world, waiting(taskid, *parents, **schedule))
    return outcome


def replaced(taskid: str, *parents: str | TaskOf) -> NewTask:
    return waiting(taskid, *parents, force_update=True)


def edges(world: World) -> set[tuple[str, str]]:
    """Collect (child, parent) of each edge on the disk."""
    pairs = [tasks_of(key) for key in world.disk.families[layout.PARENTS].keys]
    return {(child.taskid, parent.taskid) for child, parent in pairs}


def walked(world: World) -> bool:
    """Whether the last turn searched."""
    return bool(world.needs.walks)


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn read 16 edges in each direction, instead of hundreds."""
    monkeypatch.setattr(cycles, "READ_A_TURN", 16)
    monkeypatch.setattr(cycles, "EDGES_A_TURN", 128)


def begin_search(world: World, session: str = "producer") -> NewTasks:
    """Begin a push that needs a search: a → b → c exist, and c is to wait for a."""
    push(world, waiting("a", "b"), waiting("b", "c"))
    request = world.new_tasks("news", waiting("c", "a"), session=session)
    assert world.turn(request) == []
    return request


# ---------------------------------------------------------------------------------------- refused


def test_a_task_that_would_close_a_cycle_is_rejected_with_the_cycle(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "c"))

    assert waits(world, "c", "a") == "depends_on: c → a → b → c: it would wait for itself"


def test_what_is_rejected_leaves_no_trace(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "c"))
    waits(world, "c", "a", "x")

    assert edges(world) == {("a", "b"), ("b", "c")}
    assert world.counts().blocked == 2
    assert not [key for key in world.disk.families[layout.IDS].keys if key.endswith(b"x")]


def test_what_came_before_it_in_its_batch_stays(world: World) -> None:
    push(world, waiting("a", "b"))

    assert push(world, task("x"), waiting("b", "c"), waiting("c", "a"), task("y")) == [
        "new",
        "new",
        "depends_on: c → a → b → c: it would wait for itself",
        "new",
    ]
    assert edges(world) == {("a", "b"), ("b", "c")}


def test_a_cycle_within_one_batch_is_refused(world: World) -> None:
    said = push(world, waiting("a", "b"), waiting("b", "c"), waiting("c", "a"))

    assert said == ["new", "new", "depends_on: c → a → b → c: it would wait for itself"]


def test_a_cycle_across_two_requests_of_one_turn_is_refused(world: World) -> None:
    one, two = world.new_tasks("news", waiting("a", "b")), world.new_tasks("news", waiting("b", "a"), session="other")
    world.turn(one, two)
    world.settle()

    assert outcomes(answers_to(world, one)[0]) == ["new"]
    assert outcomes(answers_to(world, two)[0]) == ["depends_on: b → a → b: it would wait for itself"]


def test_of_a_long_cycle_the_ends_are_named(world: World) -> None:
    push(world, *(waiting(f"t{number}", f"t{number + 1}") for number in range(40)))

    assert waits(world, "t40", "t0") == (
        "depends_on: t40 → t0 → t1 → … 36 more … → t38 → t39 → t40: it would wait for itself"
    )


def test_tasks_of_other_projects_are_named_with_these(world: World) -> None:
    push(world, waiting("a", TaskOf("shop", "b")))

    assert push(world, waiting("b", TaskOf("news", "a")), project="shop") == [
        "depends_on: b → news/a → b: it would wait for itself"
    ]


def test_tasks_of_projects_that_the_key_does_not_reach_are_not_named(world: World) -> None:
    push(world, waiting("a", TaskOf("shop", "b")))
    push(world, waiting("b", TaskOf("news", "c")), project="shop")
    world.caller = Caller("web1", "producer", patterns=["news*"])

    assert waits(world, "c", "a") == "depends_on: c → a → (a task outside) → c: it would wait for itself"


def test_new_parents_of_a_known_task_may_not_close_a_cycle(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "x"))

    assert waits(world, "b", "a", force_update=True) == "depends_on: b → a → b: it would wait for itself"
    assert edges(world) == {("a", "b"), ("b", "x")}


def test_edges_that_were_replaced_close_no_cycle(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "c"))
    push(world, replaced("a", "x"))

    assert waits(world, "c", "a") == "new"


def test_edges_that_an_earlier_item_replaces_close_no_cycle(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "c"), waiting("y", "x"))

    assert push(world, replaced("a", "y"), waiting("c", "a")) == ["replaced", "new"]
    assert push(world, replaced("a"), waiting("x", "a")) == ["replaced", "new"]


def test_satisfied_edges_count_because_of_reruns(world: World) -> None:
    fetcher = world.fetcher()
    push(world, task("a"), waiting("b", "a"))
    for taskid in "ab":
        fetcher.hello()
        fetcher.done(taskid)

    assert waits(world, "a", "b", force_update=True) == "depends_on: a → b → a: it would wait for itself"


def test_edges_of_a_deferred_update_close_a_cycle_from_acceptance(world: World) -> None:
    fetcher = world.fetcher()
    push(world, task("a"))
    fetcher.hello()
    assert waits(world, "a", "b", force_update=True) == "deferred"

    assert waits(world, "b", "a") == "depends_on: b → a → b: it would wait for itself"
    assert push(world, waiting("b", "c"), replaced("a", "x"), replaced("c", "a")) == ["new", "deferred", "new"]


def test_edges_that_were_cleared_close_no_cycle(world: World) -> None:
    push(world, waiting("a", TaskOf("shop", "b")))
    world.do("clear")

    assert push(world, waiting("b", TaskOf("news", "a")), project="shop") == ["new"]


# ---------------------------------------------------------------------------------------- when it is searched


def test_a_task_that_nobody_waits_for_is_not_searched(world: World) -> None:
    push(world, waiting("a", "b"))
    world.turn(world.new_tasks("news", waiting("x", "a")))

    assert len(world.inbox) == 2
    world.settle()
    assert not walked(world)


def test_a_task_whose_parents_wait_for_nobody_is_not_searched(world: World) -> None:
    push(world, waiting("a", "b"))
    world.turn(world.new_tasks("news", waiting("b", "c", "d")))

    assert len(world.inbox) == 2
    world.settle()
    assert not walked(world)


def test_a_chain_in_reverse_is_not_searched(world: World) -> None:
    chain = [waiting(f"t{number}", f"t{number + 1}") for number in range(60)]
    for first in range(0, 60, 20):
        request = world.new_tasks("news", *chain[first : first + 20])
        world.turn(request)
        assert outcomes(answers_to(world, request)[0]) == ["new"] * 20
        assert not world.scheduler._state.waiting_pushes.pending


def test_a_search_ends_with_the_smaller_side(world: World, small_turns: None) -> None:
    push(world, waiting("parent", "end"), *(waiting(f"child{number}", "hub") for number in range(200)))
    world.turn(world.new_tasks("news", waiting("hub", "parent")))
    world.settle()

    assert len(edges(world)) == 202
    assert world.wakes <= 6


# ---------------------------------------------------------------------------------------- while it is searched


def test_the_request_waits_whole(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "c"))
    request = world.new_tasks("news", task("x"), waiting("c", "a"), task("y"))

    assert world.turn(request) == []
    assert world.kept.moves == []
    world.settle()
    assert world.counts().ready == 2


def test_later_changes_of_the_session_wait_behind(world: World) -> None:
    first = begin_search(world)
    second, unset = world.new_tasks("news", task("z")), ProjectUnset(session="producer", n=world.n(), project="shop")
    other = world.new_tasks("news", task("o"), session="other")
    world.inbox.clear()
    world.turn(second, unset, other)
    assert [reply.n for reply in world.inbox] == [other.n]

    world.settle()
    assert [reply.n for reply in world.inbox] == [other.n, first.n, second.n, unset.n]


def test_what_only_asks_does_not_wait(world: World) -> None:
    begin_search(world)

    (reply,) = world.turn(ProjectShow(session="producer", n=world.n(), project="news"))
    assert isinstance(reply, ProjectReply)


def test_a_done_never_waits(world: World) -> None:
    fetcher = world.fetcher()
    push(world, task("t"))
    fetcher.hello()
    begin_search(world, session=fetcher.session)

    (reply,) = world.turn(fetcher.answers(fetcher.finished("t")))
    assert isinstance(reply, DoneReply)


def test_extend_and_release_never_wait(world: World) -> None:
    fetcher = world.fetcher()
    push(world, task("t"), task("u"))
    fetcher.hello()
    begin_search(world, session=fetcher.session)
    extend = Extend(session=fetcher.session, n=world.n(), leases=fetcher.leases("t"))
    release = Release(session=fetcher.session, n=world.n(), leases=fetcher.leases("u"))

    assert [reply.n for reply in world.turn(extend, release)] == [extend.n, release.n]


def test_a_follow_up_that_would_need_a_search_is_rejected(world: World) -> None:
    fetcher = world.fetcher()
    push(world, task("t"), waiting("a", "b"), waiting("b", "c"))
    fetcher.hello()
    report = fetcher.finished("t", new=[waiting("c", "a"), waiting("x", "a")])

    reply = world.ask(DoneReply, fetcher.answers(report))
    assert reply.new == [["rejected", "new"]]
    assert "it may close a cycle, and only a new-task can wait for the search; push it" in reply.errors[0].reason


def test_a_repeat_joins_the_request_that_waits(world: World) -> None:
    request = begin_search(world)
    world.connections["producer"] = "elsewhere"
    world.turn(request)
    told = []
    while world.next_wake() <= world.elapsed:
        world.turn()
        told += [said.peer for said in world.said]

    assert told == [b"elsewhere"]


def test_a_request_that_waited_is_not_done_again(world: World) -> None:
    request = begin_search(world)
    world.settle()
    world.turn(request)

    first, again = answers_to(world, request)
    assert first == again


def test_a_restart_forgets_what_waits_and_a_repeat_is_done(world: World) -> None:
    request = begin_search(world)
    world.restart()
    assert answers_to(world, request) == []

    world.turn(request)
    world.settle()
    assert outcomes(answers_to(world, request)[0]) == ["depends_on: c → a → b → c: it would wait for itself"]


def test_at_most_64_requests_wait(world: World) -> None:
    begin_search(world)
    requests = [world.new_tasks("news", task(f"t{number}")) for number in range(WAITING_MOST)]
    replies = world.turn(*requests)

    (refused,) = replies
    assert isinstance(refused, ErrorReply)
    assert (refused.n, refused.code) == (requests[-1].n, "unavailable")
    world.settle()
    assert world.counts().ready == WAITING_MOST - 1


def test_a_session_that_is_forgotten_drops_its_requests(make_world: MakeWorld) -> None:
    world = make_world(max_sessions=1)
    request = begin_search(world)
    world.elapsed += 1
    world.turn(world.new_tasks("news", task("x"), session="other"))
    world.settle()

    assert answers_to(world, request) == []
    assert ("c", "a") not in edges(world)


def test_what_is_pushed_beside_a_search_does_not_spoil_its_answer(world: World) -> None:
    push(world, waiting("b", "c"), waiting("x", "a"))
    one = world.new_tasks("news", replaced("a", "b"), session="one")
    other = world.new_tasks("news", replaced("c", "x"), session="other")
    world.turn(one, other)
    world.settle()

    assert outcomes(answers_to(world, one)[0]) == ["new"]
    assert outcomes(answers_to(world, other)[0]) == ["depends_on: c → x → a → b → c: it would wait for itself"]


def test_tasks_that_change_while_they_are_searched_are_searched_again(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "x"), waiting("y", "z"))
    request = world.new_tasks("news", replaced("a", "y"), waiting("x", "a"))
    world.turn(request)
    world.turn(world.new_tasks("news", replaced("a", "q"), session="other"))
    world.settle()

    assert outcomes(answers_to(world, request)[0]) == ["replaced", "new"]


def test_a_cycle_that_vanishes_while_it_is_found_is_none(world: World) -> None:
    push(world, waiting("a", "b"), waiting("b", "c"))
    request = world.new_tasks("news", waiting("c", "a"))
    world.turn(request)
    world.turn(world.new_tasks("news", replaced("b"), session="other"))
    world.settle()

    assert outcomes(answers_to(world, request)[0]) == ["new"]


def test_a_graph_that_is_too_large_is_not_searched_to_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle_search, "EDGES_MOST", 50)
    push(world, *(waiting(f"t{number}", f"t{number + 1}") for number in range(100)))

    assert "graph-too-large" in waits(world, "t100", "t0")


def test_a_chain_in_an_order_of_chance_costs_few_edges_a_task(world: World) -> None:
    chain = [waiting(f"t{number}", f"t{number + 1}") for number in range(200)]
    Random(1).shuffle(chain)
    read = 0
    for first in range(0, 200, 40):
        world.turn(world.new_tasks("news", *chain[first : first + 40]))
        while world.next_wake() <= world.elapsed:
            world.turn()
            read += sum(len(page.edges) for walk in world.found.walks.values() for page in walk.values())

    assert len(edges(world)) == 200
    assert read <= 10 * 200


def test_a_turn_reads_a_bounded_number_of_edges(world: World, small_turns: None) -> None:
    assert 2 * cycles.READ_A_TURN < cycles.EDGES_A_TURN
    push(world, *(waiting(f"t{number}", f"t{number + 1}") for number in range(100)))
    world.turn(world.new_tasks("news", waiting("t100", "t0")))
    read = []
    while world.next_wake() <= world.elapsed:
        world.turn()
        read.append(sum(len(page.edges) for walk in world.found.walks.values() for page in walk.values()))

    assert max(read) <= 2 * cycles.READ_A_TURN
    assert len(read) >= 5
