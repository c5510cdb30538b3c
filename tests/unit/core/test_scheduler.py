"""Scheduler as a whole: sleep, repeated requests, crashes and restarts, determinism."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import pytest
from msgspec.msgpack import encode
from msgspec.structs import replace

from taskqueue.errors import Corrupt
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fields import OUTCOME_WINDOW
from taskqueue.protocol.messages import AnyRequest, Flaw
from taskqueue.protocol.projects import ProjectDo, ProjectReply, ProjectShow
from taskqueue.protocol.tasks import DoneReply, NewTasks, NewTasksReply
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import MakeWorld, World, body_of, task

HOUR = 3600.0


# ---------------------------------------------------------------------------------------- sleep


def test_three_tasks_due_in_an_hour_then_one_due_in_a_minute_which_comes_at_one_minute(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", *[task(name, delay=HOUR) for name in "abc"])
    fetcher.hello(capacity=0)
    world.push("news", task("d", delay=60))
    fetcher.hello()

    world.advance(59)
    assert fetcher.taken == []
    fetcher.hello()
    world.wakes = 0
    world.advance(1)
    assert (world.wakes, fetcher.taken) == (1, ["d"])


def test_an_idle_scheduler_asks_never_to_be_woken(world: World) -> None:
    assert world.next_wake() == inf


def test_work_that_nobody_takes_wakes_nobody(world: World) -> None:
    world.push("news", *[task(f"t{i}") for i in range(20)])
    world.advance(2 * HOUR)

    assert world.next_wake() == inf
    assert world.wakes < 20


def test_a_busy_fetcher_costs_no_wakes(world: World) -> None:
    world.push("news", *[task(f"t{i}") for i in range(20)])
    fetcher = world.fetcher(capacity=2)
    world.wakes = 0

    for _ in range(10):
        world.advance(50)
        fetcher.hello()
    assert world.wakes <= 10


def test_the_next_event_is_never_in_the_past(world: World) -> None:
    world.push("news", task("a", delay=10))
    world.elapsed += 500

    assert world.scheduler.next_event_at(world.now) == world.now.boot


def test_a_wall_clock_that_steps_back_lets_tasks_wait(world: World) -> None:
    world.push("news", task("a", delay=10))
    fetcher = world.fetcher()

    world.wall_step = -30.0
    world.advance(39)
    assert fetcher.taken == []
    world.advance(1)
    assert fetcher.taken == ["a"]


def test_a_wall_clock_that_steps_forward_makes_tasks_due(world: World) -> None:
    world.push("news", task("a", delay=1000))
    fetcher = world.fetcher()

    world.wall_step = 1000.0
    world.settle()
    assert fetcher.taken == ["a"]


# ---------------------------------------------------------------------------------------- repeats


def test_a_repeated_request_is_answered_and_not_done_again(world: World) -> None:
    request = world.new_tasks("news", task("a"), None)

    first = world.ask(NewTasksReply, request, {(1,): Flaw("bad")})
    fetcher = world.fetcher()
    fetcher.done("a")
    assert world.ask(NewTasksReply, request) == first
    assert world.show("a").state == "success"


def test_a_repeat_in_the_same_turn_is_answered_and_not_done_again(world: World) -> None:
    request = world.new_tasks("news", task("a"))

    answers = world.turn(request, request, request)
    assert [answer.outcomes for answer in answers if isinstance(answer, NewTasksReply)] == [["new"]] * 3
    assert world.project().totals.new == 1


@pytest.mark.parametrize("how", ["restart", "reboot"])
def test_a_repeat_after_a_restart_is_answered_and_not_done_again(world: World, how: str) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    done = fetcher.answers(fetcher.finished("a", new=[task("b", delay=10)]))
    first = world.ask(DoneReply, done)

    world.restart() if how == "restart" else world.reboot()
    assert world.ask(DoneReply, done) == first
    assert world.project().totals.success == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_repeat_gets_the_very_bytes_that_were_sent_before(world: World, restart: bool) -> None:
    request = world.new_tasks("news", task("a"), None)

    world.turn(request, flaws=[{(1,): Flaw("bad")}])
    first = [encode(said.message) for said in world.said]
    if restart:
        world.restart()
    world.turn(request)
    assert [encode(said.message) for said in world.said] == first


def test_the_same_number_in_another_session_is_another_request(world: World) -> None:
    answers = [
        world.answer(NewTasks(session=session, n=5, project="news", tasks=[task("a")])) for session in ("one", "two")
    ]

    assert [answer.outcomes for answer in answers if isinstance(answer, NewTasksReply)] == [["new"], ["ignored"]]


def test_a_request_that_comes_late_is_done_within_the_window_and_refused_beyond_it(world: World) -> None:
    def request(n: int) -> NewTasks:
        return NewTasks(session="s", n=n, project="news", tasks=[task(f"t{n}")])

    newest = OUTCOME_WINDOW + 10
    world.answer(request(newest))

    within = world.ask(NewTasksReply, request(newest - OUTCOME_WINDOW + 1))
    assert within.outcomes == ["new"]
    beyond = world.ask(ErrorReply, request(newest - OUTCOME_WINDOW))
    assert beyond.code == "too-old"
    world.restart()
    assert world.ask(ErrorReply, request(newest - OUTCOME_WINDOW)).code == "too-old"


def test_the_outcomes_of_a_whole_window_are_remembered(world: World) -> None:
    requests = [NewTasks(session="s", n=n, project="news", tasks=[task(f"t{n}")]) for n in range(1, 2 * OUTCOME_WINDOW)]
    for request in requests:
        world.answer(request)

    world.restart()
    for request in requests[-OUTCOME_WINDOW:]:
        assert world.ask(NewTasksReply, request).outcomes == ["new"]
    assert world.counts().ready == len(requests)


def test_a_refused_request_may_be_repeated_with_success(world: World) -> None:
    world.do("stop")
    resume = ProjectDo(session="person", n=world.n(), project="news", action="resume")
    assert world.ask(ErrorReply, resume).code == "state"

    world.do("start")
    assert world.ask(ProjectReply, resume).project is not None


def test_a_session_is_forgotten_after_an_hour_of_silence(world: World) -> None:
    request = world.new_tasks("news", task("a", delay=9 * HOUR), session="one")
    world.ask(NewTasksReply, request)

    world.advance(HOUR - 1)
    assert world.ask(NewTasksReply, request).outcomes == ["new"]
    world.advance(HOUR)
    assert world.ask(NewTasksReply, request).outcomes == ["ignored"]


def test_above_their_limit_the_sessions_silent_for_longest_are_forgotten_first(make_world: MakeWorld) -> None:
    world = make_world(max_sessions=3)
    requests = [world.new_tasks("news", task(name, delay=99), session=name) for name in "abcd"]
    for request in requests:
        world.advance(1)
        world.ask(NewTasksReply, request)

    assert world.ask(NewTasksReply, requests[1]).outcomes == ["new"]
    world.restart()
    assert world.ask(NewTasksReply, requests[3]).outcomes == ["new"]
    assert world.ask(NewTasksReply, requests[0]).outcomes == ["ignored"]


@pytest.mark.parametrize("turns", [1, 20])
def test_sessions_that_only_read_make_no_others_forgotten(make_world: MakeWorld, turns: int) -> None:
    world = make_world(max_sessions=3)
    requests = [world.new_tasks("news", task(name, delay=900), session=name) for name in "abc"]
    for request in requests:
        world.ask(NewTasksReply, request)
        world.advance(1)

    for turn in range(turns):
        world.turn(*(ProjectShow(session=f"{turn}.{each}", n=1, project="news") for each in range(20 // turns)))
        world.elapsed += 1

    assert len(world.scheduler._state.sessions) == 3
    assert [world.ask(NewTasksReply, request).outcomes for request in requests] == 3 * [["new"]]


def test_of_sessions_that_only_read_the_longest_silent_are_forgotten_first(make_world: MakeWorld) -> None:
    world = make_world(max_sessions=3)
    for session in "abacd":
        world.answer(ProjectShow(session=session, n=world.n(), project="news"))
        world.elapsed += 1

    assert list(world.scheduler._state.sessions) == ["a", "c", "d"]


def test_which_session_was_silent_for_longest_is_known_after_a_restart(make_world: MakeWorld) -> None:
    world = make_world(max_sessions=2)
    requests = {name: world.new_tasks("news", task(name, delay=900), session=name) for name in "zac"}
    for name in "za":
        world.ask(NewTasksReply, requests[name])
        world.advance(100)

    world.restart()
    world.ask(NewTasksReply, requests["c"])
    assert world.ask(NewTasksReply, requests["a"]).outcomes == ["new"]


def test_a_session_that_holds_tasks_is_not_forgotten(make_world: MakeWorld) -> None:
    world = make_world(max_sessions=1)
    world.push("news", task("a"))
    fetcher = world.fetcher()

    for name in "xyz":
        world.ask(NewTasksReply, world.new_tasks("news", session=name))
    assert fetcher.done("a") == "done"


# ---------------------------------------------------------------------------------------- restarts


def test_everything_is_there_after_a_restart(world: World) -> None:
    world.push("news", task("ready", body=["x"], priority=3), task("delayed", delay=50), task("failed", priority=9))
    world.push("news", task("held", priority=8))
    fetcher = world.fetcher(capacity=1)
    fetcher.fail("failed", error="gone", retry=False)
    before = [world.show(name) for name in ("ready", "delayed", "failed", "held")]
    view = world.project()

    world.restart()
    after = [world.show(name) for name in ("ready", "delayed", "failed", "held")]
    for old, new in zip(before, after, strict=True):
        assert (new.state, new.exetime, new.priority, new.error, new.session, new.finished_at, body_of(new)) == (
            (old.state, old.exetime, old.priority, old.error, old.session, old.finished_at, body_of(old))
        )
    # Events since the windows were last saved count as if they happened at the start.
    assert replace(world.project(), remaining=None) == replace(view, remaining=None)


def test_no_task_is_handed_out_twice_because_the_daemon_restarted(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()

    world.restart()
    other = world.fetcher(name="other")
    fetcher.hello()
    assert (fetcher.taken, other.taken) == (["a"], [])
    assert fetcher.done("a") == "done"


def test_tokens_are_never_used_twice_across_restarts(world: World) -> None:
    tokens: list[int] = []
    fetcher = world.fetcher(capacity=1)
    for _ in range(3):
        world.push("news", task("a", force_update=True))
        tokens += fetcher.tokens("a")
        fetcher.done("a")
        world.restart()
        fetcher.hello()

    assert len(set(tokens)) == 3


@pytest.mark.parametrize("uptime", [10.0, 1e7])
def test_leases_live_on_in_another_boot_however_its_clock_stands(world: World, uptime: float) -> None:
    world.push("news", task("a", timeout=300.0))
    fetcher = world.fetcher()
    world.advance(20)

    world.reboot(uptime=uptime)
    fetcher.hello()
    assert world.show("a").lease_seconds == 300.0
    assert fetcher.done("a") == "done"


def test_a_lease_extended_in_another_boot_is_as_long_after_the_next_restart(world: World) -> None:
    world.push("news", task("a", timeout=300.0))
    world.elapsed += 1e6
    fetcher = world.fetcher()
    world.reboot(uptime=10.0)
    fetcher.hello()
    fetcher.extend("a")

    world.restart()
    assert world.show("a").lease_seconds == 300.0


def test_a_power_cut_loses_only_what_was_not_synced(world: World) -> None:
    world.push("news", task("a"))
    world.ledger.sync()
    world.push("news", task("b"))

    world.reboot(lose_unsynced=True)
    assert world.push("news", task("a"), task("b")) == ["ignored", "new"]


def test_projects_of_the_config_are_made_once(world: World) -> None:
    world.push("news", task("a"))

    for _ in range(3):
        world.restart()
    assert world.counts("news").ready == 1
    assert world.counts("shop").ready == 0


# ---------------------------------------------------------------------------------------- config


def test_a_new_config_takes_effect_at_once_and_loses_nothing(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0})
    world.push("news", *[task(name) for name in "abc"])
    fetcher = world.fetcher()
    assert fetcher.taken == []

    world.configure(CoreConfig(defaults={"rate": 0.5, "burst": 2}, projects={"blog": {}}))
    assert fetcher.taken == ["a", "b"]
    world.advance(2)
    assert fetcher.taken == ["a", "b", "c"]
    assert world.push("blog", task("x")) == ["new"]
    assert world.project("news").settings["rate"] == 0.5


def test_what_was_set_by_hand_wins_over_a_new_config(world: World) -> None:
    world.set(rate=7)

    world.configure(CoreConfig(defaults={"rate": 1}, projects={"news": {"rate": 2, "burst": 9}}))
    settings = world.project().settings
    assert (settings["rate"], settings["burst"]) == (7, 9)


# ---------------------------------------------------------------------------------------- what is said


def test_only_answers_that_tell_of_something_kept_wait_for_the_disk(world: World) -> None:
    fetcher = world.fetcher()
    world.turn(world.new_tasks("news", task("a")))

    kinds = [(type(said.message).__name__, said.after_sync) for said in world.said]
    assert kinds == [("NewTasksReply", True), ("Select", False)]
    assert fetcher.taken == ["a"]


@dataclass
class Script:
    """Script of equal requests at equal times, for any world."""

    world: World

    def run(self) -> list[bytes]:
        world = self.world
        everything: list[bytes] = []
        fetcher = world.fetcher(capacity=3)
        for step in range(40):
            requests: list[AnyRequest] = [
                world.new_tasks("news", *[task(f"t{(step * 7 + i) % 23}", priority=i % 3) for i in range(3)])
            ]
            if fetcher.held:
                first = next(iter(fetcher.held))
                requests.append(fetcher.answers(fetcher.finished(first, ok=step % 3 > 0, retry_after=step % 5)))
            world.turn(*requests)
            everything += [encode(said.message) for said in world.said]
            world.advance(1.5)
            if step % 15 == 14:
                world.restart()
                fetcher.hello()
        return everything


def test_the_same_requests_at_the_same_times_lead_to_the_same_answers(make_world: MakeWorld) -> None:
    one, two = (Script(make_world()).run() for _ in range(2))

    assert one == two
    assert len(one) > 50


# ---------------------------------------------------------------------------------------- one turn after the other


def test_no_turn_begins_before_the_one_before_it_has_been_decided(world: World) -> None:
    world.scheduler.begin(world.now, [])

    with pytest.raises(Corrupt, match="begins before the one before it has been decided"):
        world.scheduler.begin(world.now, [])


def test_a_turn_is_decided_once(world: World) -> None:
    turn = world.scheduler.begin(world.now, [])
    found = world.ledger.find(turn.needs)
    world.ledger.commit(turn.decide(found).writes)

    with pytest.raises(Corrupt, match="decided that has been decided before"):
        turn.decide(found)
