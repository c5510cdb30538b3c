"""Bounds of everything that could grow, or continue for ever."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest

from taskqueue.core.model.timer_heap import TimerHeap
from taskqueue.core.turn_result import TurnResult
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.tasks import NewTasksReply, TaskCancel, TaskShow
from taskqueue.settings.settings import CoreConfig, Layer, Pace
from taskqueue.store.records.layout import OUTCOMES, SESSIONS
from tests.unit.core.conftest import World, task

MANY: dict[str, Layer] = {f"p{number:03}": {} for number in range(100)}
LARGE = "x" * 50_000


def config(**fields: object) -> CoreConfig:
    return CoreConfig(**({"defaults": {"rate": inf}, "projects": {"news": {}}} | fields))  # type: ignore[arg-type]


def refusal(world: World, **settings: Any) -> str:
    """Return the reason why the project news can't have these settings."""
    request = ProjectSet(session="person", n=world.n(), project="news", settings=settings)
    return world.ask(ErrorReply, request).reason


def step(world: World, config: CoreConfig | None = None) -> TurnResult:
    """Take one turn without requests, and write it."""
    turn = world.scheduler.begin(world.now, [])
    result = turn.decide(world.ledger.find(turn.needs), config)
    world.ledger.commit(result.writes)
    return result


def test_projects_that_are_filled_otherwise_while_they_wait_to_be_read_keep_nobody_from_being_read() -> None:
    world = World(config(projects=MANY, head_tasks=8))
    for name in MANY:
        world.push(name, *[task(f"{number}") for number in range(40)])
    world.crash()
    world.turn(*[world.new_tasks(name, *[task(f"hot{n}", priority=1) for n in range(3)]) for name in list(MANY)[:99]])

    world.settle()
    fetcher = world.fetcher(capacity=10_000)
    fetcher.finish_all()
    assert len(fetcher.taken) == 100 * 40 + 99 * 3


def test_a_large_body_behind_a_small_one_is_not_read_again_and_again() -> None:
    world = World(config(head_bytes=20_000))
    world.push("news", task("small"), task("large", body=LARGE))

    world.settle()
    assert world.fetcher().taken == ["small", "large"]


def test_a_large_body_that_was_handed_out_is_not_held_but_comes_back_whole() -> None:
    world = World(config(fetcher_timeout=60))
    world.push("news", task("large", body=LARGE))
    dying = world.fetcher(name="dying")
    assert dying.taken == ["large"]

    world.advance(61)
    assert world.fetcher(name="other").taken == ["large"]
    assert world.show("large").state == "processing"


def test_a_body_that_could_not_go_out_again_is_refused() -> None:
    world = World(config(max_message=50_000))

    reply = world.ask(NewTasksReply, world.new_tasks("news", task("large", body=LARGE), task("small")))

    assert reply.outcomes == ["rejected", "new"]
    assert reply.errors[0].reason.startswith("body: 50003 bytes, at most")


def test_a_long_url_leaves_less_room_for_a_body() -> None:
    world = World(config(max_message=60_000))

    reply = world.ask(NewTasksReply, world.new_tasks("news", task("a", body=LARGE, url="http://a/" + "é" * 3000)))
    assert reply.outcomes == ["rejected"]


def test_what_a_project_sends_beside_its_tasks_leaves_less_room_for_a_body() -> None:
    world = World(config(max_message=60_000, projects={"news": {"fetch": {"agent": "x" * 20_000}}}))

    reply = world.ask(NewTasksReply, world.new_tasks("news", task("large", body=LARGE), task("small")))
    assert reply.outcomes == ["rejected", "new"]


def test_a_body_that_was_taken_goes_out_without_what_has_come_to_be_sent_beside_it() -> None:
    world = World(config(max_message=60_000))
    world.push("news", task("large", body=LARGE), task("small"))
    world.set(fetch={"agent": "x" * 20_000})

    fetcher = world.fetcher(capacity=1)
    assert (fetcher.taken, list(fetcher.messages[-1].fetch)) == (["large"], [])
    fetcher.done("large")
    assert (fetcher.taken, list(fetcher.messages[-1].fetch)) == (["large", "small"], ["news"])


def test_the_agenda_forgets_what_was_moved_earlier() -> None:
    due = {("a", 1): inf, ("b", 2): 1e9}
    agenda: TimerHeap[tuple[str, int]] = TimerHeap(lambda key: due[key])
    agenda.note(("b", 2), 1e9)

    for second in range(1000):
        due["a", 1] = second
        agenda.note(("a", 1), second)
        assert agenda.pop_due(second) == ("a", 1)
        due["a", 1] = 2e9
        agenda.note(("a", 1), 2e9)
    assert len(agenda) < 200


@pytest.mark.parametrize("fetchers", [0, 5])
def test_a_session_beyond_the_limit_leaves_nothing_behind(fetchers: int) -> None:
    world = World(config(max_sessions=5))
    for number in range(fetchers):
        world.fetcher(name=f"f{number}")

    for number in range(50):
        world.answer(world.new_tasks("news", task(f"t{number}"), session=f"s{number}"))
        world.elapsed += 1
    assert len(world.disk.families[SESSIONS].values) <= 6
    assert len(world.disk.families[OUTCOMES].values) <= 6


def test_a_producer_beyond_the_limit_can_still_repeat_its_request() -> None:
    world = World(config(max_sessions=2))
    for name in ("a", "b"):
        world.fetcher(name=name)
    request = world.new_tasks("news", task("t"))

    first = world.ask(NewTasksReply, request)
    assert world.ask(NewTasksReply, request) == first


def test_no_more_fetchers_than_sessions_are_taken() -> None:
    world = World(config(max_sessions=2))
    for name in ("a", "b"):
        world.fetcher(name=name)

    reply = world.answer(Hello(session="c", n=1, capacity=1))

    assert isinstance(reply, ErrorReply)
    assert reply.code == "full"


def test_a_status_names_only_the_first_of_a_fetchers_many_wishes() -> None:
    world = World(config())
    world.fetcher(projects=[f"p{number:03}" for number in range(500)])

    [fetcher] = world.ask(StatusReply, StatusShow(session="person", n=1)).fetchers
    assert fetcher.projects == [f"p{number:03}" for number in range(20)]


def test_what_many_ask_about_one_task_is_looked_up_once() -> None:
    world = World(config())
    world.push("news", task("a"))
    shows = [TaskShow(session=f"s{number}", n=1, project="news", taskid="a") for number in range(20)]

    world.turn(*shows)
    assert len(world.needs.whole) == 1


def test_cancelling_reads_no_bodies() -> None:
    world = World(config())
    world.push("news", task("a", body=LARGE))

    world.turn(TaskCancel(session="person", n=1, project="news", taskids=["a", "b"]))
    assert not world.needs.whole
    assert not world.needs.specs


def test_an_unseen_task_whose_lease_has_run_out_is_not_sent_again_before_it_is_given_anew() -> None:
    world = World(config(fetcher_timeout=10_000))
    fetcher = world.fetcher()
    fetcher.deaf = True
    world.push("news", task("a", timeout=5))
    fetcher.deaf = False

    world.elapsed += 6
    fetcher.hello()
    assert fetcher.taken == ["a"]


def test_leases_that_have_run_out_but_could_not_be_ended_yet_are_not_sent_again() -> None:
    world = World(config(fetcher_timeout=10_000, turn_tasks=3))
    fetcher = world.fetcher()
    fetcher.deaf = True
    world.push("news", *[task(f"t{number}", timeout=5) for number in range(20)])

    world.elapsed += 6
    world.turn(Hello(session=fetcher.session, n=world.n(), capacity=100))

    told = [each.message for each in world.said if isinstance(each.message, Select)]
    assert {handed.timeout for message in told for handed in message.tasks} == {5}


def test_a_shorter_fetcher_timeout_holds_for_fetchers_that_are_silent_already() -> None:
    world = World(config(fetcher_timeout=600))
    world.push("news", task("a"))
    world.fetcher(name="dead")

    world.advance(30)
    world.configure(config(fetcher_timeout=60))
    world.advance(31)
    assert world.counts().ready == 1


def test_the_overrides_of_a_project_are_bounded_in_all() -> None:
    world = World(config())
    world.set(fetch={"cookie": "x" * 40_000})

    reason = refusal(world, on_finished={"body": "y" * 30_000})

    assert reason.startswith("fetch: 40018 of 700")
    assert reason.endswith("bytes that are said here; in all at most 65536 are taken")
    assert list(world.project().overrides) == ["fetch"]
    assert "on_finished" in world.set(fetch={"cookie": ""}, on_finished={"body": "y" * 30_000}).overrides


def test_a_page_of_projects_ends_where_a_message_is_full() -> None:
    world = World(config(projects={name: {} for name in "abcdef"}, max_message=512 << 10))
    for name in "abcdef":
        world.set(name, fetch={"cookie": "x" * 60_000})

    replies = [world.ask(StatusReply, StatusShow(session="person", n=world.n()))]
    while replies[-1].more:
        after = replies[-1].projects[-1].name
        replies.append(world.ask(StatusReply, StatusShow(session="person", n=world.n(), after=after)))

    assert [[project.name for project in reply.projects] for reply in replies] == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert all(len(msgspec.msgpack.encode(reply)) <= 512 << 10 for reply in replies)


def test_a_page_of_projects_has_one_at_least() -> None:
    world = World(config(projects={name: {} for name in "ab"}, max_message=4096))
    for name in "ab":
        world.set(name, fetch={"cookie": "x" * 4000})

    reply = world.ask(StatusReply, StatusShow(session="person", n=1))
    assert [project.name for project in reply.projects] == ["a"]
    assert reply.more


def test_what_is_sent_again_with_a_fetch_that_has_grown_still_fits_into_a_message() -> None:
    world = World(config(projects={"news": {}, "shop": {}}, max_message=100_000))
    fetcher = world.fetcher()
    fetcher.deaf = True
    world.turn(world.new_tasks("news", task("a")), world.new_tasks("shop", task("b")))
    world.settle()
    for name in ("news", "shop"):
        world.set(name, fetch={"cookie": "x" * 60_000})
    fetcher.deaf = False

    fetcher.hello()

    (message,) = fetcher.messages
    assert sorted(fetcher.held) == ["a", "b"]
    assert len(message.fetch) == 1
    assert len(msgspec.msgpack.encode(message)) <= 100_000


def test_a_new_config_writes_only_the_projects_of_which_it_says_something_new() -> None:
    layers: dict[str, Layer] = MANY | {"p007": {"bucket": "site"}}
    buckets = {"site": Pace(rate=1.0)}
    world = World(config(projects=layers, buckets=buckets))

    changed = step(world, config(projects=layers | {"p003": {"rate": 2}}, buckets=buckets))
    assert [record.name for record in changed.writes.projects] == ["p003"]
    assert world.project("p003").settings["rate"] == 2

    paced = step(world, config(projects=layers | {"p003": {"rate": 2}}, buckets={"site": Pace(rate=9.0)}))
    assert [record.name for record in paced.writes.projects] == ["p007"]


def test_the_windows_of_many_projects_are_saved_a_part_in_each_turn() -> None:
    world = World(config(projects=MANY, turn_tasks=64))
    for name in MANY:
        world.push(name, task("a"))

    world.elapsed += 120
    assert 0 < len(step(world).writes.counters) <= 5


def test_large_bodies_of_a_fetcher_that_fell_silent_are_read_over_several_turns() -> None:
    world = World(config(fetcher_timeout=60, queue_bytes=1 << 20, head_bytes=1 << 20))
    world.push("news", *[task(f"t{number:02}", body="x" * (3 << 20)) for number in range(20)])
    silent = world.fetcher(capacity=20, name="silent")
    assert len(silent.taken) == 20

    world.elapsed += 61
    world.turn()
    turns = []
    while world.next_wake() <= world.elapsed:
        world.turn()
        turns.append(len(world.found.specs))
    assert max(turns) == 8
    assert world.counts().processing == 0
    other = world.fetcher(capacity=20, name="other")
    while other.held:
        other.finish_all()
    assert sorted(other.taken) == sorted(silent.taken)
