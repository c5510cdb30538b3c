"""Requests of users: status, settings, projects, single tasks."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import msgspec
import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import StatusReply, StatusShow, Verify, VerifyReply
from taskqueue.protocol.fetchers import Fetcher
from taskqueue.protocol.operations import Bulk, OperationList, OperationReply, OperationsReply
from taskqueue.protocol.projects import (
    Project,
    ProjectDo,
    ProjectReply,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    SharedBucket,
)
from taskqueue.protocol.tasks import TaskCancel, TaskReply, TaskReprioritise, TaskRetry, TaskShow, TasksReply
from taskqueue.protocol.values import BulkAction, EventTotals, Operation, TaskCounts, TaskFilter
from taskqueue.settings.settings import Pace
from tests.unit.core.conftest import WALL, MakeWorld, World, body_of, task


def unset(world: World, *keys: str) -> Project:
    view = world.ask(ProjectReply, ProjectUnset(session="person", n=world.n(), project="news", keys=list(keys))).project
    assert view is not None
    return view


def retry(world: World, *taskids: str) -> list[str]:
    request = TaskRetry(session="person", n=world.n(), project="news", taskids=list(taskids))
    return list(world.ask(TasksReply, request).outcomes)


def cancel(world: World, *taskids: str) -> list[str]:
    request = TaskCancel(session="person", n=world.n(), project="news", taskids=list(taskids))
    return list(world.ask(TasksReply, request).outcomes)


def reprioritise(world: World, priority: int, *taskids: str) -> list[str]:
    request = TaskReprioritise(session="person", n=world.n(), project="news", taskids=list(taskids), priority=priority)
    return list(world.ask(TasksReply, request).outcomes)


def one_of_each(world: World) -> None:
    """Make tasks named after their states."""
    for name in ("success", "failed", "processing", "cancelled", "ready"):
        world.push("news", task(name))
    world.push("news", task("delayed", delay=500))
    fetcher = world.fetcher(capacity=3)
    fetcher.capacity = 0
    fetcher.hello()
    fetcher.done("success")
    fetcher.fail("failed", error="boom", retry=False)
    cancel(world, "cancelled")


STATES = ("ready", "delayed", "processing", "success", "failed", "cancelled")


# ---------------------------------------------------------------------------------------- status


def test_status_of_a_scheduler_without_projects(make_world: MakeWorld) -> None:
    world = make_world(projects={}, version="1.2.3")

    reply = world.ask(StatusReply, StatusShow(session="person", n=4))
    assert (reply.n, reply.epoch, reply.version, reply.projects, reply.more) == (4, 1, "1.2.3", [], False)
    assert (reply.counts, reply.totals, reply.fetchers) == (TaskCounts(), EventTotals(), [])


def test_status_sums_up_all_projects(world: World) -> None:
    one_of_each(world)
    world.push("shop", task("a"), task("b"))

    reply = world.ask(StatusReply, StatusShow(session="person", n=world.n()))
    assert reply.counts == TaskCounts(ready=3, delayed=1, processing=1, success=1, failed=1, cancelled=1)
    assert reply.totals == EventTotals(new=8, selected=3, success=1, failed=1)
    assert [view.name for view in reply.projects] == ["news", "shop"]
    assert reply.projects[1].counts == TaskCounts(ready=2)


def test_status_pages_through_projects_by_name(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {} for name in ("e", "b", "d", "a", "c")})

    first = world.ask(StatusReply, StatusShow(session="person", n=world.n(), limit=2))
    last = world.ask(StatusReply, StatusShow(session="person", n=world.n(), limit=3, after="b"))
    assert ([view.name for view in first.projects], first.more) == (["a", "b"], True)
    assert ([view.name for view in last.projects], last.more) == (["c", "d", "e"], False)


def test_status_shows_fetchers_and_not_producers(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=5, projects=["shop", "news"])
    fetcher.hello(name="host:42")
    world.advance(12)

    (view,) = world.ask(StatusReply, StatusShow(session="person", n=world.n())).fetchers
    assert (view.name, view.capacity, view.holds) == ("host:42", 5, 1)
    assert (view.silent_seconds, view.projects) == (12.0, ["news", "shop"])


def shown_fetcher(world: World) -> Fetcher:
    (view,) = world.ask(StatusReply, StatusShow(session="person", n=world.n())).fetchers
    return view


def test_a_fetcher_is_shown_with_how_long_it_has_held_its_oldest_task(world: World) -> None:
    fetcher = world.fetcher()
    assert shown_fetcher(world).oldest_seconds == 0

    world.push("news", task("a"))
    world.advance(5)
    world.push("news", task("b"))
    world.advance(5)
    assert shown_fetcher(world).oldest_seconds == 10
    world.restart()
    assert shown_fetcher(world).oldest_seconds == 10
    fetcher.done("a")
    assert shown_fetcher(world).oldest_seconds == 5


def test_a_fetcher_is_shown_with_how_its_attempts_have_ended(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c", timeout=1))
    fetcher = world.fetcher(capacity=3)

    fetcher.done("a")
    fetcher.fail("b", error="boom")
    world.push("news", task("d"))
    fetcher.release("d")
    world.advance(1.5)
    view = shown_fetcher(world)
    assert (view.done, view.failed) == (1, 2)


def test_a_silent_fetcher_is_not_shown(world: World) -> None:
    world.fetcher()
    world.advance(60)

    assert world.ask(StatusReply, StatusShow(session="person", n=world.n())).fetchers == []


# ---------------------------------------------------------------------------------------- settings


def test_a_project_shows_its_settings_and_its_tokens(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 4, "retries": 7})
    world.push("news", *[task(f"t{i}") for i in range(3)])
    world.fetcher()
    world.advance(5)

    view = world.project()
    assert (view.settings["rate"], view.settings["retries"], view.settings["max_queue"]) == (0.1, 7, inf)
    assert view.tokens == pytest.approx(1.5)
    world.fetcher(name="other")


def test_a_level_below_one_token_and_one_at_rate_zero_is_shown_as_it_is(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 1})
    world.push("news", task("a"))
    world.fetcher()
    world.advance(5)

    assert world.project().tokens == pytest.approx(0.5)
    assert world.set(rate=0).tokens == pytest.approx(0.5)


def test_a_setting_is_changed_live_kept_and_taken_back(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"rate": 2, "burst": 5}})

    view = world.set(rate=0.5, retries=1)
    assert (view.settings["rate"], view.settings["burst"]) == (0.5, 5)
    assert view.overrides == {"rate": 0.5, "retries": 1}
    world.restart()
    assert world.project().settings["rate"] == 0.5
    view = unset(world, "rate")
    assert (view.settings["rate"], view.overrides) == (2, {"retries": 1})
    world.restart()
    assert world.project().overrides == {"retries": 1}


def test_unset_without_keys_takes_everything_back(world: World) -> None:
    world.set(rate=1, burst=9)

    assert unset(world).overrides == {}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rate": -1}, "rate must be a number of at least 0 or inf, not -1"),
        ({"burst": 0.5}, "burst must be a number of at least 1 or inf, not 0.5"),
        ({"rate": 1, "speed": 9}, "speed is not a setting; there are rate, burst, "),
        ({"retries": "many"}, 'retries must be a whole number of at least 0 and at most 1_000_000, not "many"'),
        ({"retry_delay": []}, "retry_delay must be a list of 1 to 100 items, "),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_and_nothing_is_changed(
    world: World, settings: dict[str, Any], reason: str
) -> None:
    before = world.project()

    reply = world.ask(ErrorReply, ProjectSet(session="person", n=world.n(), project="news", settings=settings))
    assert reply.code == "setting"
    assert reply.reason.startswith(reason.replace("`", ""))
    assert world.project() == before


def test_setting_something_makes_an_unknown_project_unless_it_is_refused(world: World) -> None:
    world.ask(ErrorReply, ProjectSet(session="person", n=world.n(), project="blog", settings={"rate": -1}))
    assert world.ask(ErrorReply, ProjectShow(session="person", n=world.n(), project="blog")).code == "unknown-project"

    assert world.set("blog", rate=5).settings["rate"] == 5
    world.restart()
    assert world.project("blog").settings["rate"] == 5


def test_unsetting_what_was_not_set_is_refused(world: World) -> None:
    world.set(rate=1)

    reply = world.ask(ErrorReply, ProjectUnset(session="person", n=world.n(), project="news", keys=["rate", "burst"]))
    assert (reply.code, "burst" in reply.reason) == ("setting", True)
    assert world.project().overrides == {"rate": 1}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("nosuch", "nosuch is not a setting; there are rate, burst, "),
        ("burst", 'burst: was not set by "project set" in project "news"'),
        ("slot", 'slot: was not set by "project set" in project "news"'),
        ("slot.dealy", "slot.dealy is not a setting; did you mean delay"),
        ("slot_delay", "slot_delay is not a setting; did you mean slot.delay?"),
        ('slot.patterns."*.org"', 'slot.patterns.*.org: was not set by "project set" in project "news"'),
        ("fetch.proxy", 'fetch.proxy: was not set by "project set" in project "news"'),
        ("cron.j1", 'cron.j1: there is no entry "j1" in project "news"'),
        (
            "cron.daily",
            "cron.daily: is set in the config file; remove it there, or switch it off with: "
            "taskqueue project set news 'cron={\"daily\": null}'",
        ),
    ],
)
def test_who_takes_back_what_nobody_has_said_is_told_why_it_is_still_there(
    make_world: MakeWorld, key: str, reason: str
) -> None:
    world = make_world(projects={"news": {"cron": {"daily": {"every": "1d"}}}})

    reply = world.ask(ErrorReply, ProjectUnset(session="person", n=world.n(), project="news", keys=[key]))

    assert reply.reason.startswith(reason)


def test_settings_in_tables_are_taken_back_key_by_key(world: World) -> None:
    patterns = {"*.org": {"delay": 5}, "a.b": {"delay": 6}}
    world.set(slot={"by": "host", "delay": 2, "patterns": patterns}, keep={"failed": "30d"})

    view = unset(world, "slot.delay", "slot.patterns.*.org", "keep.failed")
    assert view.overrides == {"slot": {"by": "host", "patterns": {"a.b": {"delay": 6}}}}
    assert view.settings["slot"]["delay"] == 1.0  # type: ignore[index,call-overload]
    assert unset(world, 'slot.patterns."a.b"').overrides == {"slot": {"by": "host"}}
    assert unset(world, "slot").overrides == {}


def test_a_setting_in_a_table_is_changed_beside_the_others(world: World) -> None:
    world.set(slot={"by": "host", "delay": 2}, keep={"failed": "30d"})

    view = world.set(slot={"rate": "inf", "burst": 2}, keep={"then": "forget"})

    assert view.overrides == {
        "slot": {"by": "host", "delay": 2, "rate": "inf", "burst": 2},
        "keep": {"failed": "30d", "then": "forget"},
    }


def test_infinite_may_be_said_as_a_text(world: World) -> None:
    assert world.set(rate="inf", max_queue="inf").settings["rate"] == inf
    assert world.set(pause_time="5m").settings["pause_time"] == 300.0


def test_each_key_of_a_table_is_told_with_the_layer_that_says_it(make_world: MakeWorld) -> None:
    own = {"slot": {"delay": 2, "patterns": {"*.org": {"delay": 5}}}, "fetch": {"proxy": "own"}}
    world = make_world({"slot": {"by": "host", "delay": 3}, "fetch": {"proxy": "a", "b": 1}}, projects={"news": own})

    assert world.project().configured == {
        "rate": ["defaults"],
        "slot.by": ["defaults"],
        "slot.delay": ["project"],
        "slot.patterns.*.org": ["project"],
        "fetch.proxy": ["project"],
        "fetch.b": ["defaults"],
    }


def test_an_entry_of_the_config_is_switched_off_and_on_again(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"daily": {"every": "1d"}}}})

    assert world.set(cron={"daily": None}).cron == []
    assert [each.entry for each in unset(world, "cron.daily").cron] == ["daily"]


def test_a_project_shows_the_bucket_that_it_shares(make_world: MakeWorld) -> None:
    world = make_world(buckets={"site": Pace(2.0, 5.0)}, projects={"news": {"bucket": "site"}, "shop": {}})
    world.push("news", task("a"), task("b"))
    world.fetcher()

    assert world.project().shared == SharedBucket("site", 2.0, 5.0, 3.0)
    assert world.project("shop").shared is None


def test_an_operation_shows_its_filter_and_the_new_priority(world: World) -> None:
    chosen = TaskFilter(states=["ready"], url="http://a/*", before=7.0)

    def begin(action: BulkAction) -> Operation:
        request = Bulk(session="person", n=world.n(), action=action, project="news", filter=chosen, priority=5)
        return world.ask(OperationReply, request).operation

    assert (begin("reprioritise").filter, begin("reprioritise").priority) == (chosen, 5)
    world.restart()
    listed = world.ask(OperationsReply, OperationList(session="person", n=world.n())).operations
    assert [(each.filter, each.priority) for each in listed] == [(chosen, 5), (chosen, 5)]
    assert begin("cancel").priority is None


# ---------------------------------------------------------------------------------------- actions


@pytest.mark.parametrize(
    ("actions", "state"),
    [
        (["pause"], "paused"),
        (["pause", "pause", "resume"], "running"),
        (["resume", "start"], "running"),
        (["stop"], "stopped"),
        (["pause", "stop", "stop"], "stopped"),
        (["stop", "start"], "running"),
        (["pause", "start"], "running"),
    ],
)
def test_a_project_is_paused_resumed_stopped_and_started(world: World, actions: list[str], state: str) -> None:
    for action in actions:
        world.do(action)

    assert world.project().state == state
    world.restart()
    assert world.project().state == state


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_stopped_project_must_be_started_first(world: World, action: Any) -> None:
    world.do("stop")

    reply = world.ask(ErrorReply, ProjectDo(session="person", n=world.n(), project="news", action=action))
    assert (reply.code, reply.reason) == ("state", f'project "news" is stopped: start it before you {action} it')


@pytest.mark.parametrize("action", ["pause", "resume", "stop", "delete"])
def test_only_start_makes_an_unknown_project(world: World, action: Any) -> None:
    reply = world.ask(ErrorReply, ProjectDo(session="person", n=world.n(), project="blog", action=action))
    assert reply.code == "unknown-project"

    view = world.do("start", "blog")
    assert view is not None
    assert (view.name, view.state) == ("blog", "running")


def test_a_deleted_project_takes_everything_with_it(world: World) -> None:
    one_of_each(world)
    fetcher = world.fetcher(capacity=5)
    world.push("shop", task("s"))

    assert world.do("delete") is None
    assert fetcher.done("ready") == "stale"
    assert world.push("news", task("a")) == ["rejected"]
    assert [task.taskid for task in world.known()] == ["s"]
    assert fetcher.done("s") == "done"


def test_a_project_made_again_after_its_deletion_starts_from_nothing(world: World) -> None:
    one_of_each(world)
    world.set(rate=3)
    world.do("delete")
    world.do("start")

    view = world.project()
    assert (view.counts, view.totals, view.overrides) == (TaskCounts(), EventTotals(), {})
    assert world.push("news", *[task(state) for state in STATES]) == ["new"] * 6


def test_what_a_fetcher_held_of_a_deleted_project_takes_room_until_it_is_done(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    world.do("delete")

    world.push("shop", task("s"))
    assert fetcher.taken == ["a"]
    assert fetcher.done("a") == "stale"
    assert fetcher.taken == ["a", "s"]


# ---------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize("state", STATES)
def test_a_task_is_shown_in_any_state(world: World, state: str) -> None:
    one_of_each(world)
    world.advance(10)
    world.restart()

    shown = world.show(state)
    assert (shown.taskid, shown.state, shown.url) == (state, state, f"http://example.org/{state}")
    assert shown.exetime == (WALL + 500 if state == "delayed" else 0)
    assert shown.finished_at == (WALL if state in ("success", "failed", "cancelled") else 0)
    assert shown.session == (world.pseudonym("fetcher") if state == "processing" else "")
    assert shown.lease_seconds == (590 if state == "processing" else 0)
    assert shown.error == ("boom" if state == "failed" else "")


def test_a_task_is_shown_with_its_schedule_and_its_body(world: World) -> None:
    world.push("news", task("a", body={"x": [1]}, priority=2, retries=5, itag="v1"))
    world.push("news", task("a", priority=6))

    shown = world.show("a")
    assert (shown.priority, shown.schedule.priority, shown.schedule.retries, shown.schedule.itag) == (6, 2, 5, "v1")
    assert body_of(shown) == {"x": [1]}


def test_an_unknown_task_or_project_can_not_be_shown(world: World) -> None:
    who: dict[str, Any] = {"session": "person", "taskid": "a"}

    assert world.ask(ErrorReply, TaskShow(n=world.n(), project="news", **who)).code == "unknown-task"
    assert world.ask(ErrorReply, TaskShow(n=world.n(), project="blog", **who)).code == "unknown-project"


def test_task_retry_makes_a_task_ready_unless_it_is_or_is_being_run(world: World) -> None:
    one_of_each(world)

    assert retry(world, *STATES, "unheard-of") == [
        "ignored", "done", "ignored", "done", "done", "done", "unknown",
    ]  # fmt: skip
    assert world.counts() == TaskCounts(ready=5, processing=1)
    assert sorted(world.fetcher(name="other").taken) == sorted(set(STATES) - {"processing"})


def test_task_retry_gives_the_retries_back(world: World) -> None:
    world.push("news", task("a", retries=1))
    fetcher = world.fetcher(capacity=1)
    fetcher.fail("a")
    assert world.show("a").retried == 1

    retry(world, "a")
    assert fetcher.held["a"].retried == 0
    fetcher.fail("a")
    assert world.show("a").state == "delayed"


def test_task_retry_runs_the_task_with_its_body_also_after_a_restart(world: World) -> None:
    world.push("news", task("a", body="x"))
    world.fetcher().done("a")
    world.restart()

    retry(world, "a")
    world.restart()
    assert body_of(world.fetcher().held["a"]) == "x"


def test_task_cancel_ends_what_is_not_over(world: World) -> None:
    one_of_each(world)

    assert cancel(world, *STATES, "unheard-of") == [
        "done", "done", "done", "ignored", "ignored", "ignored", "unknown",
    ]  # fmt: skip
    assert world.counts() == TaskCounts(success=1, failed=1, cancelled=4)


def test_task_reprioritise_gives_what_is_not_over_another_priority(world: World) -> None:
    one_of_each(world)

    assert reprioritise(world, -3, *STATES, "unheard-of") == [
        "done", "done", "done", "ignored", "ignored", "ignored", "unknown",
    ]  # fmt: skip
    assert [world.show(name).priority for name in STATES] == [-3, -3, -3, 0, 0, 0]


def test_a_task_of_a_higher_priority_runs_before_those_that_came_earlier(world: World) -> None:
    world.push("news", *(task(name) for name in "abc"))

    reprioritise(world, 1, "c")
    assert world.fetcher(capacity=3).taken == ["c", "a", "b"]
    world.restart()
    assert world.show("c").priority == 1


def test_the_answer_for_a_cancelled_task_is_stale(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()

    cancel(world, "a")
    assert fetcher.done("a") == "stale"
    retry(world, "a")
    assert fetcher.taken == ["a", "a"]


def test_a_task_named_twice_is_dealt_with_twice(world: World) -> None:
    world.push("news", task("a"))

    assert cancel(world, "a", "a") == ["done", "ignored"]
    assert retry(world, "a", "a") == ["done", "ignored"]


def test_verify_finds_nothing_wrong(world: World) -> None:
    one_of_each(world)

    assert world.ask(VerifyReply, Verify(session="person", n=world.n())).problems == []


# ---------------------------------------------------------------------------------------- history


def test_a_task_shows_its_last_ten_attempts_the_newest_first(world: World) -> None:
    world.set(retry_delay=[10], fail_pause_num=0)
    world.push("news", task("a", retries=20))
    fetcher = world.fetcher(capacity=1)
    for number in range(13):
        world.advance(2)
        fetcher.hello(name="host:42")
        fetcher.fail("a", error=f"error {number}")
        world.advance(10)
        fetcher.hello()

    world.restart()
    history = world.show("a").history
    assert [attempt.error for attempt in history] == [f"error {number}" for number in range(12, 2, -1)]
    assert {(attempt.outcome, attempt.fetcher, attempt.seconds) for attempt in history} == {("failed", "host:42", 2.0)}
    assert [newer.at - older.at for newer, older in pairwise(history)] == [12.0] * 9


def test_a_history_tells_of_successes_and_timeouts_too(world: World) -> None:
    world.push("news", task("a", timeout=5, age=60, auto_recrawl=True))
    fetcher = world.fetcher(capacity=1)
    world.advance(6)
    fetcher.done("a")

    assert [attempt.outcome for attempt in world.show("a").history] == ["success", "timeout", "slow"]


def test_a_success_stays_in_the_history_of_a_task_that_is_restarted(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1, name="host:42")
    world.advance(2)
    fetcher.done("a")
    world.restart()

    world.push("news", task("a", force_update=True))
    shown = world.show("a")
    assert [(attempt.outcome, attempt.fetcher, attempt.seconds) for attempt in shown.history] == [
        ("success", "host:42", 2.0)
    ]
    fetcher.hello()
    fetcher.fail("a", error="boom")
    assert [attempt.outcome for attempt in world.show("a").history] == ["failed", "success"]


def test_a_success_stays_in_the_history_of_a_task_that_is_restarted_in_the_same_turn(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)

    world.turn(fetcher.answers(fetcher.finished("a")), world.new_tasks("news", task("a", force_update=True)))
    world.settle()
    assert [attempt.outcome for attempt in world.show("a").history] == ["success"]


def test_a_success_stays_in_the_history_of_a_restart_that_expires_at_once(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("a")

    world.push("news", task("a", force_update=True, expires_at=1.0))
    shown = world.show("a")
    assert (shown.state, [attempt.outcome for attempt in shown.history]) == ("cancelled", ["expired", "success"])


def test_an_attempt_of_the_very_turn_is_in_the_history(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    show = TaskShow(session="person", n=world.n(), project="news", taskid="a")

    shown = world.turn(fetcher.answers(fetcher.finished("a", ok=False, error="boom")), show)[1]
    assert isinstance(shown, TaskReply)
    assert [attempt.error for attempt in shown.history] == [shown.error] == ["boom"]


def test_an_error_has_two_kilobytes_in_the_history(world: World) -> None:
    world.push("news", task("a"))
    world.fetcher().fail("a", error="x" * 2048)

    assert world.show("a").history[0].error == "x" * 2048


@pytest.mark.parametrize(("size", "attempts"), [(0, 10), (50_000, 5), (62_000, 0)])
def test_older_attempts_are_left_out_where_a_reply_would_be_too_large(
    make_world: MakeWorld, size: int, attempts: int
) -> None:
    world = make_world({"retry_delay": [1], "retries": 20}, max_message=65_536)
    world.push("news", task("a", "x" * size))
    fetcher = world.fetcher(capacity=1)
    for _ in range(10):
        fetcher.fail("a", error="ä" * 1000)
        world.advance(1)

    shown = world.show("a")
    assert len(shown.history) == attempts
    assert len(msgspec.msgpack.encode(shown)) <= 65_536
