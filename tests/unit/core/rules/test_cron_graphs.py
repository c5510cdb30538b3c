"""Graphs by the clock: cron entries with ``tasks``, which submit a flow at each tick.

``begin(world, …)`` gives the project news the entry "night", every five minutes, with the graph of nine tasks of
``GRAPH``; ``flow_at(0)`` is the name of the flow of its first tick.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import pytest
from msgspec.structs import replace

from taskqueue.core.model.records import TICKS_MOST
from taskqueue.protocol.flows import Flow, FlowList, FlowsReply
from taskqueue.protocol.projects import ProjectReply, ProjectUnset
from taskqueue.protocol.tasks import TaskRetry, TasksReply
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, body_of, task
from tests.unit.core.rules.conftest import DAY, HOUR, MINUTE
from tests.unit.core.rules.test_cron import FIRST, be_down, entry, refusal, set_clock, stall
from tests.unit.core.rules.test_dependencies import run, waits
from tests.unit.core.rules.test_flows import (
    cancel,
    flow,
    members,
    retry,
    show,
    stage,
    submission,
    submitted,
    unknown,
    why_not,
)

PARENTS: Final[dict[str, list[str]]] = {
    "i": ["c", "e"], "h": ["d", "e"], "a": [], "b": [], "c": [], "d": ["a", "b"], "e": ["b", "c"], "f": ["a", "d"],
    "g": ["d", "e"],
}  # fmt: skip
GRAPH: Final[dict[str, Any]] = {name: {"after": after} for name, after in PARENTS.items()}
PAIR: Final[dict[str, Any]] = {"load": {}, "sum": {"after": ["load"]}}
EVERY: Final = 300.0


def begin(world: World, tasks: dict[str, Any] = PAIR, **how: Any) -> None:
    world.set(cron={"night": {"every": "5m", "tasks": tasks} | how})


def flow_at(tick: int, name: str = "night") -> str:
    return f"{name}-{int(WALL + FIRST + tick * EVERY)}"


def flows(world: World) -> list[Flow]:
    return world.ask(FlowsReply, FlowList(session="person", n=world.n(), project="news")).flows


def names(world: World) -> list[str]:
    return [view.flow for view in flows(world)]


def counts(world: World) -> tuple[int, int, int]:
    """Return how many ticks of the entry ran, were skipped and wait."""
    view = entry(world, "night")
    return view.ran, view.skipped, view.waiting


def finish(world: World, fetcher: Fetcher, **report: Any) -> None:
    """Report on all tasks that there are, in their order, until none comes."""
    fetcher.hello()
    while fetcher.held:
        assert fetcher.done(next(iter(fetcher.held)), **report) == "done"
        fetcher.hello()


def fail_all(world: World, fetcher: Fetcher) -> None:
    finish(world, fetcher, ok=False, retry=False)


def skips(world: World) -> list[str]:
    """Return the reasons of the events of skipped ticks so far."""
    return [event.reason for event in world.happened if event.kind == "tick-skipped" and event.project == "news"]


def not_submitted(tick: int, problem: str) -> str:
    return f"flow {flow_at(tick)} was not submitted: {problem}"


def in_order(taken: list[str]) -> bool:
    """Whether each task of GRAPH came once a tick, and after its parents."""
    places = {taskid: place for place, taskid in enumerate(taken)}
    ticks = dict.fromkeys(taskid.rpartition(".")[0] for taskid in taken)
    assert len(places) == len(taken) == len(ticks) * len(PARENTS)
    return all(
        places[f"{tick}.{parent}"] < places[f"{tick}.{name}"]
        for tick in ticks
        for name, parents in PARENTS.items()
        for parent in parents
    )


# ---------------------------------------------------------------------------------------- a tick


def test_an_entry_with_tasks_submits_a_flow_at_each_tick(world: World) -> None:
    begin(world, GRAPH)
    fetcher = world.fetcher()

    world.advance(FIRST - 0.001)
    assert flows(world) == []
    for tick in range(3):
        world.advance(EVERY if tick else 0.001)
        view = show(world, flow_at(tick))
        assert (view.state, view.tasks, view.cron, view.tick) == ("running", 9, "night", WALL + FIRST + tick * EVERY)
        finish(world, fetcher)
        assert show(world, flow_at(tick)).state == "success"

    assert in_order(fetcher.taken)
    assert counts(world) == (3, 0, 0)


def test_tasks_of_a_tick_are_called_after_its_flow_and_say_all_that_a_task_of_an_entry_says(world: World) -> None:
    load = {
        "url": "http://site/{tick}", "taskid": "load-{tick}", "priority": 3, "retries": 1, "age": "30d", "timeout": 90,
        "body": {"save": {"since": "{tick}"}},
    }  # fmt: skip
    begin(world, {"sum": {"after": ["load", "load"], "on_parent_failure": "run"}, "load": load})
    fetcher = world.fetcher()
    tick = int(WALL + FIRST)

    world.advance(FIRST)
    fetcher.hello()

    handed = fetcher.held[f"load-{tick}"]
    assert (handed.url, handed.timeout) == (f"http://site/{tick}", 90.0)
    assert body_of(handed) == {"save": {"since": str(tick)}}
    assert (handed.schedule.priority, handed.schedule.retries, handed.schedule.age) == (3, 1, 30 * DAY)
    assert [(view.taskid, view.url, view.depends_on) for view in members(world, flow_at(0))] == [
        (f"load-{tick}", f"http://site/{tick}", []),
        (f"{flow_at(0)}.sum", f"data:,{flow_at(0)}.sum", [0]),
    ]
    fetcher.fail(f"load-{tick}", retry=False)
    run(fetcher, f"{flow_at(0)}.sum")
    assert show(world, flow_at(0)).state == "failed"


def test_a_crash_makes_neither_half_a_flow_of_a_tick_nor_two(world: World) -> None:
    begin(world, GRAPH, missed="once")
    world.advance(FIRST - 1)
    world.elapsed += 1
    turn = world.scheduler.begin(world.now, [])
    turn.decide(world.ledger.find(turn.needs))

    world.crash()
    world.settle()
    assert (names(world), show(world, flow_at(0)).counts.ready) == ([flow_at(0)], 3)
    be_down(world, 1)
    be_down(world, 1)

    assert (names(world), counts(world)) == ([flow_at(0)], (1, 0, 0))


@pytest.mark.parametrize(
    "change", ["2024-03-31T01:00", "2024-10-27T01:00"], ids=["clocks-go-forward", "clocks-go-back"]
)
def test_over_kills_and_a_clock_change_a_graph_of_each_minute_runs_once_a_minute_in_order(
    world: World, change: str
) -> None:
    at = datetime.fromisoformat(change).replace(tzinfo=UTC).timestamp()
    world.elapsed = at - 5 * MINUTE - 1 - WALL
    world.settle()
    minutes = {"cron": "* * * * *", "zone": "Europe/Berlin", "missed": "once", "overlap": "wait", "keep_flows": 20}
    world.set(cron={"night": {**minutes, "tasks": GRAPH}}, order="due")
    fetcher = world.fetcher(capacity=2)

    for second in range(0, 600, 20):
        world.advance(20)
        if second in (240, 400):
            fetcher.hello()
            fetcher.done(next(iter(fetcher.held)))  # a part of a flow has run when the daemon is killed
            be_down(world, 20)
            fetcher.hello()
        elif second % 60:
            finish(world, fetcher)
    finish(world, fetcher)

    assert [view.tick - at for view in flows(world)] == [60.0 * minute for minute in range(-5, 6)]
    assert {view.state for view in flows(world)} == {"success"}
    assert in_order(fetcher.taken)
    assert counts(world) == (11, 0, 0)


def test_a_daily_graph_in_the_hour_that_clocks_skip_or_show_twice_runs_once_that_day(world: World) -> None:
    set_clock(world, "2026-03-28T12:00")
    world.set(cron={"night": {"cron": "30 2 * * *", "zone": "Europe/Berlin", "tasks": PAIR}})
    fetcher = world.fetcher()
    for _ in range(2):
        world.advance(DAY)
        finish(world, fetcher)
    assert counts(world) == (2, 0, 0)

    set_clock(world, "2026-10-24T12:00")
    finish(world, fetcher)
    before = counts(world)[0]
    for _ in range(2):
        world.advance(DAY)
        finish(world, fetcher)

    assert counts(world)[0] - before == 2


# ---------------------------------------------------------------------------------------- ticks that are missed


def test_after_a_stall_a_graph_runs_once(world: World) -> None:
    begin(world)

    stall(world, HOUR)

    assert (names(world), counts(world)) == ([flow_at(0)], (1, 0, 0))
    assert entry(world, "night").next_at == WALL + FIRST + HOUR


@pytest.mark.parametrize(("missed", "ran"), [("skip", 0), ("once", 1)])
def test_ticks_of_a_graph_that_are_missed_while_the_daemon_is_down_follow_missed(
    world: World, missed: str, ran: int
) -> None:
    begin(world, missed=missed)

    be_down(world, FIRST + HOUR + 90)

    assert counts(world) == (ran, 0, 0)
    assert names(world) == [flow_at(0)] * ran


# ---------------------------------------------------------------------------------------- ticks that overlap


def test_a_tick_is_skipped_while_an_earlier_flow_of_the_entry_has_not_ended(world: World) -> None:
    begin(world)
    fetcher = world.fetcher()

    world.advance(FIRST + EVERY)
    assert (names(world), counts(world)) == ([flow_at(0)], (1, 1, 0))
    assert entry(world, "night").problem == "an earlier flow of the entry has not ended"
    finish(world, fetcher)
    world.advance(EVERY)

    assert (names(world), counts(world)) == ([flow_at(0), flow_at(2)], (2, 1, 0))
    assert entry(world, "night").problem == ""


def test_a_retry_of_a_task_of_an_earlier_flow_holds_up_the_next_tick(world: World) -> None:
    begin(world)
    fetcher = world.fetcher()
    world.advance(FIRST)
    finish(world, fetcher)

    retry = TaskRetry(session="person", n=world.n(), project="news", taskids=[f"{flow_at(0)}.load"])
    world.ask(TasksReply, retry)
    world.advance(EVERY)

    assert counts(world) == (1, 1, 0)


def test_a_tick_waits_for_the_end_of_an_earlier_flow_if_the_entry_says_so(world: World) -> None:
    begin(world, overlap="wait")
    fetcher = world.fetcher()

    world.advance(FIRST + 2 * EVERY)
    assert (names(world), counts(world)) == ([flow_at(0)], (1, 0, 2))
    world.restart()
    assert counts(world) == (1, 0, 2)
    finish(world, fetcher)

    assert (names(world), counts(world)) == ([flow_at(tick) for tick in range(3)], (3, 0, 0))
    assert [view.began_at for view in flows(world)] == [WALL + FIRST] + [world.now.wall] * 2
    assert [taskid.partition(".")[0] for taskid in fetcher.taken[::2]] == [flow_at(tick) for tick in range(3)]


def test_a_flow_that_is_cancelled_or_cleared_lets_a_waiting_tick_run(world: World) -> None:
    begin(world, overlap="wait")
    world.advance(FIRST + 2 * EVERY)

    cancel(world, flow_at(0))
    world.settle()
    assert (names(world), counts(world)) == ([flow_at(0), flow_at(1)], (2, 0, 1))
    world.do("clear")

    assert [view.state for view in flows(world)] == ["cancelled", "cancelled", "running"]


def test_so_many_ticks_of_an_entry_wait_and_the_next_one_is_skipped(world: World) -> None:
    begin(world, overlap="wait")

    world.advance(FIRST + (TICKS_MOST + 1) * EVERY)

    assert counts(world) == (1, 1, TICKS_MOST)
    assert entry(world, "night").problem == f"{TICKS_MOST} ticks wait already"


def test_flows_of_an_entry_run_beside_each_other_if_the_entry_says_so(world: World) -> None:
    begin(world, overlap="both")

    world.advance(FIRST + TICKS_MOST * EVERY)

    assert [view.state for view in flows(world)] == ["running"] * TICKS_MOST
    assert counts(world) == (TICKS_MOST, 1, 0)
    assert entry(world, "night").problem == f"{TICKS_MOST} flows of the entry have not ended"


def test_a_changed_or_removed_entry_lets_no_tick_wait(world: World) -> None:
    begin(world, overlap="wait")
    world.advance(FIRST + 2 * EVERY)

    begin(world, overlap="wait", keep_flows=5)
    assert counts(world) == (1, 2, 0)
    world.advance(EVERY)
    assert counts(world) == (1, 2, 1)
    world.ask(ProjectReply, ProjectUnset(session="person", n=world.n(), project="news", keys=["cron.night"]))
    finish(world, world.fetcher())

    assert (names(world), skips(world)) == ([flow_at(0)], [])


def test_a_config_that_changes_while_the_daemon_is_down_lets_no_tick_wait(make_world: MakeWorld) -> None:
    waiting = {"night": {"every": "5m", "overlap": "wait", "tasks": PAIR}}
    world = make_world(projects={"news": {"cron": waiting}})
    world.advance(FIRST + 2 * EVERY)
    assert counts(world) == (1, 0, 2)

    world.config = make_world(projects={"news": {"cron": {"night": {"every": "5m"}}}}).config
    world.restart()

    assert counts(world) == (1, 2, 0)
    finish(world, world.fetcher())
    assert names(world) == [flow_at(0)]


# ---------------------------------------------------------------------------------------- ticks that fail


def test_after_a_flow_that_failed_the_next_tick_runs(world: World) -> None:
    begin(world)
    fetcher = world.fetcher()
    world.advance(FIRST)
    fail_all(world, fetcher)
    world.advance(EVERY)

    assert [view.state for view in flows(world)] == ["failed", "running"]


@pytest.mark.parametrize("overlap", ["skip", "wait", "both"])
def test_after_a_flow_that_failed_ticks_are_skipped_until_it_is_a_success_if_the_entry_says_so(
    world: World, overlap: str
) -> None:
    begin(world, after_failure="skip", overlap=overlap)
    fetcher = world.fetcher()
    world.advance(FIRST)
    fail_all(world, fetcher)

    world.advance(2 * EVERY)
    assert (names(world), counts(world)) == ([flow_at(0)], (1, 2, 0))
    assert entry(world, "night").problem == f"flow {flow_at(0)} has failed"
    taskids = [f"{flow_at(0)}.{name}" for name in PAIR]
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=taskids))
    finish(world, fetcher)
    world.advance(EVERY)

    assert [view.state for view in flows(world)] == ["success", "running"]


def test_a_flow_that_was_cancelled_has_not_failed(world: World) -> None:
    begin(world, after_failure="skip")
    world.advance(FIRST)
    cancel(world, flow_at(0))
    world.advance(EVERY)

    assert [view.state for view in flows(world)] == ["cancelled", "running"]


def test_a_flow_of_which_a_task_has_failed_when_it_is_cancelled_has_not_failed(world: World) -> None:
    begin(world, {"load": {}, "other": {}}, after_failure="skip")
    world.advance(FIRST)
    fetcher = world.fetcher()
    fetcher.done(f"{flow_at(0)}.load", ok=False, retry=False)
    cancel(world, flow_at(0))
    world.advance(EVERY)

    assert [view.state for view in flows(world)] == ["cancelled", "running"]


def test_a_failed_flow_of_an_entry_that_is_cancelled_lets_the_next_tick_run_although_its_tasks_are_forgotten(
    world: World,
) -> None:
    world.set(keep={"failed": 1, "then": "forget"})
    begin(world, after_failure="skip")
    fetcher = world.fetcher()
    world.advance(FIRST)
    fail_all(world, fetcher)
    world.advance(EVERY)
    assert [view.state for view in members(world, flow_at(0))] == ["unknown", "unknown"]
    assert (names(world), counts(world)) == ([flow_at(0)], (1, 1, 0))

    assert cancel(world, flow_at(0)).state == "cancelled"
    assert cancel(world, flow_at(0)).counts.failed == 2
    world.restart()
    world.advance(EVERY)

    assert [view.state for view in flows(world)] == ["cancelled", "running"]


def test_a_cancelled_flow_of_an_entry_that_fails_again_after_a_retry_has_failed(world: World) -> None:
    begin(world, after_failure="skip")
    fetcher = world.fetcher()
    world.advance(FIRST)
    fail_all(world, fetcher)
    cancel(world, flow_at(0))

    retry(world, f"{flow_at(0)}.load")
    assert show(world, flow_at(0)).state == "running"
    fail_all(world, fetcher)
    world.advance(EVERY)

    assert (show(world, flow_at(0)).state, counts(world)) == ("failed", (1, 1, 0))


# ---------------------------------------------------------------------------------------- ticks that are skipped


def test_of_ticks_in_a_row_that_are_skipped_for_one_reason_an_event_tells_the_first(world: World) -> None:
    begin(world)

    world.advance(FIRST + 2 * EVERY)
    world.restart()
    world.advance(EVERY)
    assert counts(world) == (1, 3, 0)
    assert skips(world) == [not_submitted(1, "an earlier flow of the entry has not ended")]
    finish(world, world.fetcher())
    world.advance(2 * EVERY)

    assert counts(world) == (2, 4, 0)
    assert skips(world)[1:] == [not_submitted(5, "an earlier flow of the entry has not ended")]


def test_an_event_tells_each_reason_for_which_ticks_are_skipped(world: World) -> None:
    begin(world, after_failure="skip")

    world.advance(FIRST + EVERY)
    fail_all(world, world.fetcher())
    world.advance(2 * EVERY)

    assert counts(world) == (1, 3, 0)
    assert skips(world) == [
        not_submitted(1, "an earlier flow of the entry has not ended"),
        not_submitted(2, f"flow {flow_at(0)} has failed"),
    ]


def test_an_event_tells_of_a_tick_that_has_waited_in_vain(world: World) -> None:
    begin(world, overlap="wait", after_failure="skip")
    world.advance(FIRST + 2 * EVERY)
    assert skips(world) == []

    fail_all(world, world.fetcher())
    world.settle()

    assert counts(world) == (1, 2, 0)
    assert skips(world) == [not_submitted(1, f"flow {flow_at(0)} has failed")]


def test_reasons_that_differ_in_the_tick_are_one_reason(world: World) -> None:
    begin(world)
    world.push("news", task(f"{flow_at(0)}.sum"), task(f"{flow_at(1)}.sum"))

    world.advance(FIRST + EVERY)

    assert counts(world) == (0, 2, 0)
    assert entry(world, "night").problem == f"task {flow_at(1)}.sum is known already"
    assert skips(world) == [not_submitted(0, f"task {flow_at(0)}.sum is known already")]


def test_a_task_that_replaces_a_graph_has_no_reason_of_a_skipped_tick(world: World) -> None:
    begin(world)
    world.advance(FIRST + EVERY)
    assert entry(world, "night").problem

    world.set(cron={"night": {"every": "5m"}})
    world.advance(2 * EVERY)

    assert (entry(world, "night").problem, counts(world)) == ("", (2, 2, 0))
    assert len(skips(world)) == 1


# ---------------------------------------------------------------------------------------- what is remembered


def test_so_many_ended_flows_of_an_entry_are_remembered(world: World) -> None:
    begin(world, keep_flows=2)
    fetcher = world.fetcher()
    flow(world, task("own"), name="night-own")
    for tick in range(4):
        world.advance(EVERY if tick else FIRST)
        finish(world, fetcher)

    assert names(world) == [flow_at(2), flow_at(3), "night-own"]
    assert unknown(world, flow_at(1))
    world.restart()
    world.advance(EVERY)
    finish(world, fetcher)
    assert names(world) == [flow_at(3), flow_at(4), "night-own"]


@pytest.mark.parametrize("kills", [False, True], ids=["", "over-a-kill"])
def test_the_last_ended_flow_of_an_entry_is_remembered_however_many_others_end(
    world: World, monkeypatch: pytest.MonkeyPatch, kills: bool
) -> None:
    monkeypatch.setattr("taskqueue.core.model.flow.ENDED_KEPT", 2)
    begin(world, after_failure="skip")
    fetcher = world.fetcher()
    world.advance(FIRST)
    finish(world, fetcher)
    world.advance(EVERY)
    fail_all(world, fetcher)
    for name in "abc":
        if kills:
            world.restart()
        flow(world, task(name), name=name)
        finish(world, fetcher)

    assert names(world) == ["b", "c", flow_at(1)]
    world.advance(EVERY)
    assert (names(world), counts(world)) == (["b", "c", flow_at(1)], (2, 1, 0))
    retry(world, *(f"{flow_at(1)}.{name}" for name in PAIR))
    finish(world, fetcher)
    assert names(world) == ["b", "c", flow_at(1)]


def test_flows_of_entries_that_are_gone_are_forgotten_like_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.core.model.flow.ENDED_KEPT", 2)
    fetcher = world.fetcher()
    for _ in range(2):
        begin(world)
        world.advance(EVERY)
        finish(world, fetcher)
        world.ask(ProjectReply, ProjectUnset(session="person", n=world.n(), project="news", keys=["cron.night"]))
        world.set(cron={"day": {"every": "5m", "tasks": PAIR}})
        world.advance(EVERY)
        finish(world, fetcher)
        world.ask(ProjectReply, ProjectUnset(session="person", n=world.n(), project="news", keys=["cron.day"]))
    for name in "abcd":
        flow(world, task(name), name=name)
        finish(world, fetcher)

    assert names(world) == ["c", "d"]


def test_the_flow_before_the_last_one_of_an_entry_is_remembered_while_that_runs_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.core.model.flow.ENDED_KEPT", 1)
    begin(world)
    fetcher = world.fetcher()
    for tick in range(2):
        world.advance(EVERY if tick else FIRST)
        finish(world, fetcher)
    retry(world, f"{flow_at(1)}.sum")
    for name in "abc":
        flow(world, task(name), name=name)
        cancel(world, name)
        world.settle()

    assert names(world) == ["c", flow_at(0), flow_at(1)]
    assert show(world, flow_at(1)).state == "running"


def test_flows_of_an_entry_end_with_their_project(world: World) -> None:
    begin(world, overlap="wait")
    world.advance(FIRST + EVERY)

    world.do("reset")
    assert (flows(world), counts(world)) == ([], (0, 0, 0))
    world.advance(EVERY)
    assert names(world) == [flow_at(2)]
    world.do("delete")
    world.do("start")

    assert (flows(world), world.project().cron) == ([], [])


# ---------------------------------------------------------------------------------------- what stands in the way


def test_a_tick_whose_tasks_find_no_room_is_skipped_as_a_whole(world: World) -> None:
    begin(world)
    world.push("news", task("a"))
    world.set(max_queue=2)
    world.advance(FIRST)
    assert entry(world, "night").problem == "no room for 2 more tasks: max_queue is 2"
    world.set(max_queue=10, max_tasks=2)
    world.advance(EVERY)
    assert entry(world, "night").problem == "no room for 2 more tasks: max_tasks is 2"
    world.set(max_tasks=3)
    world.advance(EVERY)

    assert (names(world), counts(world)) == ([flow_at(2)], (1, 2, 0))


def test_a_tick_one_of_whose_tasks_is_known_is_skipped_as_a_whole(world: World) -> None:
    begin(world)
    world.push("news", task(f"{flow_at(0)}.sum"))
    stage(world, task("x"), task(f"{flow_at(1)}.sum", delay=HOUR), name="other")

    world.advance(FIRST)
    assert entry(world, "night").problem == f"task {flow_at(0)}.sum is known already"
    assert submitted(world, 2, name="other")
    world.advance(EVERY)
    assert entry(world, "night").problem == f"task {flow_at(1)}.sum is known already"

    assert (names(world), world.counts().ready) == (["other"], 2)


def test_a_tick_at_which_two_tasks_have_one_taskid_is_skipped_as_a_whole(world: World) -> None:
    tick = WALL + 17_000
    tasks = {"a": {"taskid": "17000{tick}"}, "b": {"taskid": "{tick}17000", "after": ["a"]}}
    world.advance(tick - WALL - 1500)
    begin(world, tasks, every="1000s", overlap="both")

    world.advance(1500)
    assert entry(world, "night").problem == "two of its tasks have the same taskid"
    assert (len(names(world)), counts(world)) == (1, (1, 1, 0))
    world.advance(1000)

    assert names(world) == [f"night-{int(tick) + seconds}" for seconds in (-1000, 1000)]


def test_a_tick_whose_flow_is_known_is_skipped_even_if_the_clock_shows_it_again(world: World) -> None:
    begin(world, keep_flows=2)
    fetcher = world.fetcher()
    stage(world, task("x"), name=flow_at(0))
    world.advance(FIRST)
    assert entry(world, "night").problem == f"there is a flow {flow_at(0)} already"
    world.advance(EVERY)
    finish(world, fetcher)

    world.wall_step -= EVERY
    world.settle()
    world.advance(EVERY)

    assert (names(world), counts(world)) == ([flow_at(0), flow_at(1)], (1, 2, 0))


def test_a_flow_under_check_that_is_to_reuse_tasks_of_a_tick_is_refused(world: World) -> None:
    begin(world)
    world.advance(FIRST - 1)
    stage(world, task(f"{flow_at(0)}.load"), *(task(f"t{number}") for number in range(600)), name="other")
    request = submission(world, 601, reuse=True, name="other")
    world.turn(request)
    world.turn()
    world.turn()

    world.elapsed += 1
    world.settle()

    reply = next(each for each in world.inbox if each.n == request.n)
    assert getattr(reply, "reason", "") == f'{flow_at(0)}.load belongs to flow "{flow_at(0)}", which has not ended'
    assert show(world, flow_at(0)).state == "running"
    assert f"known already: {flow_at(0)}.load" in why_not(world, task(f"{flow_at(0)}.load"), name="third")


def test_a_tick_adopts_tasks_that_wait_for_its_own(world: World) -> None:
    begin(world)
    waits(world, "after", f"{flow_at(0)}.sum")
    fetcher = world.fetcher()

    world.advance(FIRST)
    finish(world, fetcher)

    assert fetcher.taken == [f"{flow_at(0)}.load", f"{flow_at(0)}.sum", "after"]


def test_a_nearly_full_disk_and_too_many_flows_keep_out_a_tick(make_world: MakeWorld, monkeypatch: Any) -> None:
    world = make_world()
    begin(world)
    world.configure(replace(world.config, has_room=False))
    world.advance(FIRST)
    assert entry(world, "night").problem == "the disk is nearly full"

    world = make_world()
    monkeypatch.setattr("taskqueue.core.model.flow.RUNNING_MOST", 1)
    flow(world, task("a"))
    begin(world)
    world.advance(FIRST)
    assert entry(world, "night").problem == "1 flows are running already, the most allowed"


def test_a_stopped_project_collects_at_most_one_flow_of_an_entry(world: World) -> None:
    begin(world)
    world.do("stop")

    world.advance(HOUR)

    assert (names(world), counts(world)) == ([flow_at(0)], (1, 11, 0))


def test_many_graphs_that_are_due_at_once_run_in_several_turns(world: World) -> None:
    tasks: dict[str, Any] = {f"t{number}": {} for number in range(50)}
    world.set(cron={f"j{number}": {"every": "5m", "tasks": tasks} for number in range(4)})
    world.advance(FIRST - 1)
    world.elapsed += 1

    sizes = []
    while world.next_wake() <= world.elapsed:
        world.turn()
        sizes.append(len(world.kept.staged))

    assert [size for size in sizes if size] == [100, 100]
    assert len(names(world)) == 4


def test_a_graph_replaces_the_task_of_an_entry_and_the_other_way_round(world: World) -> None:
    world.set(cron={"night": {"every": "5m"}})
    world.advance(FIRST)
    begin(world)
    world.advance(EVERY)
    world.set(cron={"night": {"every": "5m"}})
    world.advance(EVERY)

    assert (names(world), world.counts().ready, world.counts().blocked) == ([flow_at(1)], 2, 1)
    assert counts(world) == (2, 1, 0)


# ---------------------------------------------------------------------------------------- what can't be


@pytest.mark.parametrize(
    ("name", "said", "reason"),
    [
        ("n", {"tasks": {"a": {"after": ["b"]}}}, 'cron.n.tasks.a.after: no task of this entry is called "b"; there'),
        ("n", {"tasks": {"a": {"after": ["a"]}}}, "cron.n.tasks.a.after: a cycle, in which each task waits"),
        ("n", {"tasks": {"a": {"taskid": "x"}}}, "cron.n.tasks.a.taskid: expected {tick} in it"),
        ("n", {"tasks": {name: {"taskid": "{tick}"} for name in "ab"}}, "another task of the entry has it, too"),
        ("n", {"tasks": {"a b": {}}}, 'cron.n.tasks."a b": a task\'s name is 1 to 64 ASCII letters'),
        ("n", {"tasks": {"a": {}}, "task": {"url": "u"}}, "cron.n.task: give one of task and tasks"),
        ("n", {"overlap": "wait"}, "cron.n.overlap: goes with tasks; give these, too, or leave it out"),
        ("n", {"task": {"url": "u"}, "after_failure": "run"}, "cron.n.after_failure: goes with tasks"),
        ("n", {"tasks": {}, "keep_flows": 5}, "cron.n.keep_flows: goes with tasks"),
        ("n", {"tasks": {"a": {"on_parent_failure": "only"}}},
         'cron.n.tasks.a.on_parent_failure: "only" goes with parents that may fail; name them in after'),
        ("n", {"tasks": {"a": {"on_parent_failure": "onyl"}}},
         'a.on_parent_failure must be one of "fail", "only", "run", "wait", not "onyl"; did you mean only?'),
        ("n", {"tasks": {"a": {"repeat": 3}}}, "cron.n.tasks.a.repeat is not a setting"),
        ("n", {"tasks": {"a": {}}, "keep_flows": 101}, "cron.n.keep_flows must be a whole number of at least 1"),
        ("n", {"tasks": {"a": {"after": "b"}}}, "cron.n.tasks.a.after must be a list of 0 to 1000 items"),
        ("n", {"tasks": {"a": {"delay": 5}}}, "cron.n.tasks.a.delay is not a setting"),
        ("x" * 53, {"tasks": {"a": {}}}, "an entry with tasks has at most 52 characters"),
        ("x" * 52, {"tasks": {"y" * 64: {}}}, "its taskid ENTRY-TICK.NAME takes more than 128 bytes"),
        ("n", {"tasks": {f"t{n}": {} for n in range(257)}}, "cron.n.tasks: expected at most 256 tasks, not 257"),
        (
            "n",
            {"tasks": {f"t{n}": {"after": [f"t{each}" for each in range(n)]} for n in range(64)}},
            "cron.n.tasks: expected at most 2000 names in after, not 2016",
        ),
    ],
)  # fmt: skip
def test_a_graph_that_can_not_run_is_refused_with_the_place_of_the_mistake(
    world: World, name: str, said: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(world, cron={name: {"every": "5m"} | said})


def test_the_largest_graph_runs(world: World) -> None:
    names = [f"{'y' * 57}{number:03}" for number in range(256)]
    tasks = {name: {"after": [parent]} for parent, name in pairwise(names)} | {names[0]: {}}
    world.set(cron={"x" * 52: {"every": "5m", "tasks": tasks}})

    world.advance(FIRST)

    assert world.counts().blocked == 255
    assert show(world, f"{'x' * 52}-{int(WALL + FIRST)}").tasks == 256
