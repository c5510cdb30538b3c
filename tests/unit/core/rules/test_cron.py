"""Cron: a project's entries, which push a task again and again.

``world.set(cron={"nightly": {...}})`` gives the project news an entry; ``entry(world)`` returns its view.
"""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from taskqueue.core.steps.cron import ENTRIES_A_TURN
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.projects import CronEntry, ProjectReply, ProjectSet, ProjectUnset
from taskqueue.protocol.tasks import NewTasksReply
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import WALL, MakeWorld, World, body_of, task
from tests.unit.core.rules.conftest import DAY, HOUR, MINUTE

EVERY: Final[dict[str, Any]] = {"every": "5m"}
FIRST: Final = 100.0
"""Seconds from the beginning of the world to the first multiple of five minutes."""

NIGHTLY: Final[dict[str, Any]] = {"cron": "0 3 * * *"}
NIGHT: Final = 4 * HOUR + 46 * MINUTE + 40
"""Seconds from the beginning of the world to three o'clock, UTC."""

BERLIN: Final = ZoneInfo("Europe/Berlin")


def entry(world: World, name: str = "nightly") -> CronEntry:
    """Return the view of the entry."""
    (view,) = (view for view in world.project().cron if view.entry == name)
    return view


def ticks(world: World, name: str = "nightly") -> int:
    """Count the ticks of the entry that ran and those that were skipped."""
    view = entry(world, name)
    return view.ran + view.skipped


def ready(world: World) -> int:
    """Count ready tasks of all projects, before the turn of this request."""
    (reply,) = world.turn(StatusShow(session="person", n=world.n(), limit=1))
    assert isinstance(reply, StatusReply)
    return reply.counts.ready


def unset(world: World, *keys: str) -> None:
    world.ask(ProjectReply, ProjectUnset(session="person", n=world.n(), project="news", keys=list(keys)))


def refusal(world: World, **settings: Any) -> str:
    """Return the reason why the project news can't have these settings."""
    request = ProjectSet(session="person", n=world.n(), project="news", settings=settings)
    return world.ask(ErrorReply, request).reason


def stall(world: World, seconds: float) -> None:
    """Stall the process for ``seconds``."""
    world.elapsed += seconds
    world.settle()


def be_down(world: World, seconds: float) -> None:
    """Kill the daemon, and start it ``seconds`` later."""
    world.elapsed += seconds
    world.restart()


def set_clock(world: World, shown: str, zone: ZoneInfo = BERLIN) -> None:
    """Set the wall clock."""
    world.wall_step += datetime.fromisoformat(shown).replace(tzinfo=zone).timestamp() - world.now.wall
    world.settle()


def next_times(world: World, count: int) -> list[str]:
    """Wait for the next ticks, and list their times in Berlin."""
    shown = []
    for number in range(count):
        at = entry(world).next_at
        world.advance(at - world.now.wall)
        assert ticks(world) == number + 1
        shown.append(datetime.fromtimestamp(at, BERLIN).strftime("%d. %H:%M %Z"))
    return shown


# ---------------------------------------------------------------------------------------- when


def test_an_entry_pushes_its_task_at_its_time_and_not_before(world: World) -> None:
    world.set(cron={"nightly": NIGHTLY | {"task": {"url": "http://site/", "taskid": "seed"}}})
    fetcher = world.fetcher()

    world.advance(NIGHT - 0.001)
    fetcher.hello()
    assert fetcher.taken == []
    world.advance(0.001)
    assert fetcher.taken == ["seed"]
    assert fetcher.held["seed"].url == "http://site/"


def test_an_entry_runs_again_and_again_though_its_task_is_over(world: World) -> None:
    world.set(cron={"nightly": NIGHTLY})
    fetcher = world.fetcher()

    for _ in range(3):
        world.advance(DAY)
        fetcher.hello()
        fetcher.finish_all()

    assert fetcher.taken == ["cron.nightly"] * 3
    assert (entry(world).ran, entry(world).skipped) == (3, 0)


def test_every_means_the_multiples_since_1970(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    assert entry(world).next_at == WALL + FIRST

    world.advance(FIRST - 0.001)
    assert ticks(world) == 0
    world.advance(0.001)
    assert ticks(world) == 1
    assert entry(world).next_at == WALL + FIRST + 300


def test_a_restart_does_not_shift_the_ticks(world: World) -> None:
    world.set(cron={"nightly": EVERY})

    be_down(world, 10)

    assert entry(world).next_at == WALL + FIRST


def test_an_expression_is_read_in_the_zone_of_its_entry(world: World) -> None:
    world.set(cron={"nightly": {"cron": "0 9 * * *", "zone": "America/New_York"}})

    assert datetime.fromtimestamp(entry(world).next_at, ZoneInfo("UTC")).hour == 14


def test_a_time_that_is_skipped_in_spring_is_made_up_for(world: World) -> None:
    set_clock(world, "2024-03-30 00:00")
    world.set(cron={"nightly": {"cron": "30 2 * * *", "zone": "Europe/Berlin"}})

    assert next_times(world, 3) == ["30. 02:30 CET", "31. 03:00 CEST", "01. 02:30 CEST"]


def test_a_time_that_comes_twice_in_autumn_counts_the_first_time(world: World) -> None:
    set_clock(world, "2024-10-26 12:00")
    world.set(cron={"nightly": {"cron": "30 2 * * *", "zone": "Europe/Berlin"}})

    assert next_times(world, 2) == ["27. 02:30 CEST", "28. 02:30 CET"]


def test_an_entry_of_each_so_many_minutes_fires_on_while_clocks_change(world: World) -> None:
    set_clock(world, "2024-10-27 02:10")
    world.set(cron={"nightly": {"cron": "*/30 * * * *", "zone": "Europe/Berlin"}})

    assert next_times(world, 4) == ["27. 02:30 CEST", "27. 02:00 CET", "27. 02:30 CET", "27. 03:00 CET"]


# ---------------------------------------------------------------------------------------- what


def test_an_entry_says_all_of_its_task(world: World) -> None:
    body = {"process": {"callback": "index"}, "n": [1, None, 2.5]}
    given = {"taskid": "seed", "url": "http://site/", "priority": 7, "retries": 0, "timeout": 70, "body": body}
    world.set(cron={"nightly": EVERY | {"task": given}})

    world.advance(FIRST)

    fetcher = world.fetcher()
    handed = fetcher.held["seed"]
    assert (handed.url, handed.timeout, body_of(handed)) == ("http://site/", 70, body)
    assert world.show("seed").priority == 7
    fetcher.fail("seed")
    assert world.show("seed").state == "failed"


def test_an_entry_that_says_nothing_of_its_task_pushes_one_of_its_name(world: World) -> None:
    world.set(cron={"nightly": EVERY})

    world.advance(FIRST)

    shown = world.show("cron.nightly")
    assert (shown.url, body_of(shown)) == ("data:,cron.nightly", None)


def test_a_tick_replaces_a_task_that_waits(world: World) -> None:
    world.push("news", task("seed", body="old", delay=DAY))
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed", "body": "new"}}})

    world.advance(FIRST)

    assert body_of(world.fetcher().held["seed"]) == "new"


def test_with_the_tick_in_its_taskid_each_tick_has_a_task_of_its_own(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed-{tick}", "url": "http://site/?at={tick}"}}})
    fetcher = world.fetcher(capacity=0)
    fetcher.capacity = 1

    for _ in range(2):
        world.advance(300)
        fetcher.hello()
        fetcher.finish_all()

    first = int(WALL + FIRST)
    assert fetcher.taken == [f"seed-{first}", f"seed-{first + 300}"]
    assert world.show(f"seed-{first}").url == f"http://site/?at={first}"
    assert world.counts().success == 2


def test_the_tick_stands_in_texts_of_a_body_and_other_braces_stay(world: World) -> None:
    body = {"since": "{tick}", "pages": [{"name": "page-{tick}.{n}"}, 7, None], "{tick}": "{}"}
    world.set(cron={"nightly": EVERY | {"task": {"body": body}}})

    world.advance(FIRST)

    tick = int(WALL + FIRST)
    expected = {"since": f"{tick}", "pages": [{"name": f"page-{tick}.{{n}}"}, 7, None], "{tick}": "{}"}
    assert body_of(world.fetcher().held["cron.nightly"]) == expected


def test_a_task_of_an_entry_is_paced_and_timed_out_like_any_other(world: World) -> None:
    world.set(rate=0, cron={"nightly": EVERY | {"task": {"taskid": "seed"}}})
    fetcher = world.fetcher()
    world.advance(FIRST)
    assert fetcher.taken == []

    world.set(rate=inf, processing_timeout=30)
    fetcher.hello()
    world.advance(31)

    assert fetcher.taken == ["seed", "seed"]
    assert world.show("seed").retried == 1


# ---------------------------------------------------------------------------------------- live


@pytest.mark.parametrize("taskid", ["seed", "seed-{tick}"])
def test_while_the_last_task_is_live_the_tick_is_skipped_and_counted(world: World, taskid: str) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": taskid}}})

    world.advance(FIRST + 300)
    assert (entry(world).ran, entry(world).skipped) == (1, 1)

    world.fetcher().finish_all()
    world.advance(300)
    assert (entry(world).ran, entry(world).skipped) == (2, 1)


def test_a_task_that_is_far_back_in_the_queue_is_live(world: World) -> None:
    world.do("stop")
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed-{tick}"}}})
    world.push("news", *(task(f"t{number}", priority=1) for number in range(5)))

    world.advance(FIRST + 300)

    assert (entry(world).ran, entry(world).skipped, world.counts().ready) == (1, 1, 6)


def test_an_entry_restarts_a_task_that_somebody_else_has_run(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed"}}})
    world.push("news", task("seed"))
    world.fetcher().finish_all()
    world.advance(FIRST - 1)
    world.do("stop")

    world.advance(1)

    assert (world.counts().ready, world.counts().success) == (1, 0)


def test_a_task_that_waits_for_its_retry_is_live(world: World) -> None:
    world.set(cron={"nightly": EVERY}, retry_delay=[HOUR])
    world.advance(FIRST)
    world.fetcher().fail("cron.nightly")

    world.advance(300)

    assert (entry(world).ran, entry(world).skipped) == (1, 1)
    assert world.show("cron.nightly").retried == 1


def test_a_task_that_somebody_cancelled_is_over(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)
    world.push("news", task("cron.nightly", force_update=True, cancel=True))

    world.advance(300)

    assert (entry(world).ran, entry(world).skipped) == (2, 0)
    assert world.show("cron.nightly").state == "ready"


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_a_project_that_hands_out_nothing_collects_one_task_of_an_entry(world: World, action: str) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed-{tick}"}}})
    world.do(action)

    world.advance(HOUR)

    assert (entry(world).ran, entry(world).skipped, world.counts().ready) == (1, 11, 1)


def test_a_full_project_takes_the_tasks_of_its_entries(world: World) -> None:
    world.set(cron={"nightly": EVERY}, max_queue=1, max_tasks=1)
    world.push("news", task("a"))

    world.advance(FIRST)

    assert world.counts().ready == 2


def test_entries_that_are_due_at_once_all_run(world: World) -> None:
    same = EVERY | {"task": {"taskid": "seed", "body": "same"}}
    world.set(cron={"a": EVERY, "b": EVERY, "c": same, "d": same})
    world.set("shop", cron={"a": EVERY})

    world.advance(FIRST)

    assert [entry(world, name).ran for name in "abcd"] == [1, 1, 1, 1]
    assert (world.counts().ready, world.counts("shop").ready) == (3, 1)


def test_an_entry_and_a_producer_that_push_one_task_in_one_turn_make_one_task(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed", "body": "entry"}}})
    world.advance(FIRST - 1)
    world.elapsed += 1

    (reply,) = world.turn(world.new_tasks("news", task("seed", body="producer")))
    world.settle()

    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["ignored"]
    assert body_of(world.show("seed")) == "entry"
    assert world.counts().ready == 1


def test_an_answer_in_the_turn_of_the_next_tick_comes_too_late_for_it(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed"}}})
    world.advance(FIRST + 299)
    fetcher = world.fetcher()
    world.elapsed += 1

    world.turn(fetcher.answers(fetcher.finished("seed")))
    world.settle()

    assert (entry(world).ran, entry(world).skipped) == (1, 1)
    assert world.show("seed").state == "success"


# ---------------------------------------------------------------------------------------- crashes and stalls


def test_a_crash_before_the_tick_is_kept_does_not_lose_it(world: World) -> None:
    world.set(cron={"nightly": NIGHTLY})
    world.advance(NIGHT - 1)
    world.elapsed += 1
    turn = world.scheduler.begin(world.now, [])
    turn.decide(world.ledger.find(turn.needs))

    world.elapsed += 5
    world.crash()
    world.settle()

    assert (entry(world).ran, world.counts().ready) == (1, 1)


def test_a_crash_after_the_tick_was_kept_does_not_double_it(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"missed": "once"}, "other": EVERY})
    world.advance(FIRST)
    world.fetcher().finish_all()

    be_down(world, 1)
    world.advance(290)

    assert [entry(world, name).ran for name in ("nightly", "other")] == [1, 1]
    assert world.counts().success == 2


def test_after_a_stall_an_entry_runs_once(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"task": {"taskid": "seed-{tick}"}}, "other": {"cron": "* * * * *"}})
    fetcher = world.fetcher()

    stall(world, HOUR)
    fetcher.hello()
    fetcher.finish_all()
    world.settle()

    assert [entry(world, name).ran for name in ("nightly", "other")] == [1, 1]
    assert entry(world).next_at == WALL + FIRST + HOUR
    assert world.counts().success == 2


def test_what_is_missed_while_the_daemon_is_down_is_left_out(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"missed": "skip"}})

    be_down(world, FIRST + HOUR + 61)

    assert (ticks(world), world.counts().ready) == (0, 0)
    assert entry(world).next_at == WALL + FIRST + HOUR + 300


def test_a_restart_within_a_minute_of_a_tick_has_not_missed_it(world: World) -> None:
    world.set(cron={"nightly": NIGHTLY})

    be_down(world, NIGHT + 60)
    assert entry(world).ran == 0
    world.advance(DAY - 61)
    be_down(world, 60)
    assert entry(world).ran == 1


@pytest.mark.parametrize("down", [FIRST, HOUR, 30 * DAY])
def test_what_is_missed_while_the_daemon_is_down_runs_once_if_the_entry_says_so(world: World, down: float) -> None:
    world.set(cron={"nightly": EVERY | {"missed": "once", "task": {"taskid": "seed-{tick}"}}})
    fetcher = world.fetcher()

    be_down(world, down)
    fetcher.hello()
    fetcher.finish_all()
    world.settle()

    assert (entry(world).ran, world.counts().success) == (1, 1)
    assert world.now.wall < entry(world).next_at <= world.now.wall + 300


def test_a_tick_that_was_missed_by_an_entry_that_never_ran_is_made_up_for(make_world: MakeWorld) -> None:
    config = {"news": {"cron": {"nightly": NIGHTLY | {"missed": "once"}}}}
    world = make_world(projects={"news": {}})
    world.configure(_with(world.config, config))
    world.restart()

    be_down(world, DAY)

    assert entry(world).ran == 1


def test_an_entry_of_the_config_that_is_new_at_a_start_is_remembered_from_then_on(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {}})
    world.config = _with(world.config, {"news": {"cron": {"nightly": NIGHTLY | {"missed": "once"}}}})
    world.restart()

    be_down(world, DAY)

    assert entry(world).ran == 1


def test_how_an_entry_stands_is_kept_across_restarts(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST + 300)
    before = entry(world)

    be_down(world, 1)

    assert entry(world) == before
    assert (before.ran, before.skipped, before.last_at) == (1, 1, WALL + FIRST + 300)


def test_entries_run_on_after_the_machine_was_started_again(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)

    world.reboot()
    world.advance(300)

    assert (entry(world).ran, entry(world).skipped) == (1, 1)


# ---------------------------------------------------------------------------------------- the clock


def test_a_clock_that_is_put_back_does_not_silence_an_entry(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)

    world.wall_step -= HOUR
    assert world.next_wake() == world.elapsed
    world.advance(300)

    assert ticks(world) == 2
    assert entry(world).next_at == world.now.wall + 300


def test_a_clock_that_is_put_back_while_the_daemon_sleeps_does_not_silence_an_entry_either(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)

    world.wall_step -= HOUR
    stall(world, 300)

    assert ticks(world) == 2


def test_an_entry_that_ran_before_the_clock_was_put_back_is_not_silent_after_a_restart(world: World) -> None:
    world.set(cron={"nightly": EVERY | {"missed": "once"}})
    world.advance(FIRST)

    world.wall_step -= DAY
    world.restart()
    world.advance(300)

    assert ticks(world) == 2


def test_a_clock_that_is_put_forward_runs_an_entry_once(world: World) -> None:
    world.set(cron={"nightly": EVERY})

    world.wall_step += DAY
    world.settle()

    assert ticks(world) == 1
    assert world.now.wall < entry(world).next_at <= world.now.wall + 300


# ---------------------------------------------------------------------------------------- changes


def test_an_entry_that_is_new_waits_for_its_next_time(world: World) -> None:
    world.advance(FIRST)

    world.set(cron={"nightly": EVERY | {"missed": "once"}})

    assert (ticks(world), entry(world).next_at) == (0, WALL + FIRST + 300)


def test_an_entry_that_is_changed_waits_for_its_next_time(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)

    world.set(cron={"nightly": {"every": "1h", "missed": "once"}})

    assert (ticks(world), entry(world).next_at) == (1, WALL + 46 * MINUTE + 40)
    world.advance(HOUR)
    assert ticks(world) == 2


def test_an_entry_that_was_changed_has_missed_no_time_of_before(world: World) -> None:
    world.set(cron={"nightly": NIGHTLY | {"missed": "once"}})
    world.advance(NIGHT + 12 * HOUR)
    world.set(cron={"nightly": EVERY | {"missed": "once"}})
    at = entry(world).next_at

    world.restart()

    assert (entry(world).ran, entry(world).next_at) == (1, at)


def test_another_entry_keeps_its_time_when_one_is_changed(world: World) -> None:
    world.set(cron={"nightly": EVERY, "other": NIGHTLY})

    view = world.set(cron={"other": {"every": "1h"}})

    assert {each.entry: each.next_at - WALL for each in view.cron} == {"nightly": FIRST, "other": 46 * MINUTE + 40}


def test_an_entry_that_is_unset_is_gone(world: World) -> None:
    world.set(cron={"nightly": EVERY, "other": EVERY})

    unset(world, "cron.nightly")
    assert [view.entry for view in world.project().cron] == ["other"]
    unset(world, "cron")
    world.advance(HOUR)

    assert world.project().cron == []
    assert world.counts().ready == 0


def test_an_entry_that_comes_back_begins_anew(world: World) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)

    unset(world, "cron")
    world.set(cron={"nightly": EVERY})

    assert (entry(world).ran, entry(world).last_at) == (0, 0.0)


def test_an_entry_of_the_config_can_be_changed_switched_off_and_given_back(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"nightly": NIGHTLY | {"task": {"taskid": "seed"}}}}})

    world.set(cron={"nightly": EVERY})
    assert entry(world).next_at == WALL + FIRST
    world.set(cron={"nightly": None})
    assert world.project().cron == []
    world.restart()
    assert world.project().cron == []
    unset(world, "cron.nightly")
    world.advance(NIGHT)

    assert (entry(world).ran, world.show("seed").state) == (1, "ready")


def test_a_new_config_brings_changes_and_takes_entries(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"gone": EVERY, "kept": NIGHTLY, "nightly": NIGHTLY}}})
    config = {"news": {"cron": {"kept": NIGHTLY, "nightly": EVERY}}, "late": {"cron": {"nightly": EVERY}}}

    world.configure(_with(world.config, config))
    world.advance(FIRST)

    assert {view.entry: view.ran for view in world.project().cron} == {"kept": 0, "nightly": 1}
    assert world.counts("late").ready == 1


def test_a_tick_that_is_due_when_a_new_config_comes_is_neither_lost_nor_doubled(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"gone": EVERY, "nightly": EVERY}}})
    world.advance(FIRST - 1)
    world.elapsed += 1

    world.configure(_with(world.config, {"news": {"cron": {"nightly": EVERY}}}))

    assert [(view.entry, view.ran) for view in world.project().cron] == [("nightly", 1)]
    assert world.show("cron.nightly").state == "ready"


def test_entries_end_with_their_project(world: World) -> None:
    world.set(cron={"nightly": EVERY})

    world.do("delete")
    world.advance(HOUR)
    world.do("start")

    assert (world.project().cron, world.counts().ready) == ([], 0)


@pytest.mark.parametrize("action", ["clear", "reset"])
def test_entries_go_on_after_their_tasks_were_dropped(world: World, action: str) -> None:
    world.set(cron={"nightly": EVERY})
    world.advance(FIRST)

    world.do(action)
    world.advance(300)

    assert (entry(world).skipped, world.counts().ready) == (0, 1)


# ---------------------------------------------------------------------------------------- what people see


def test_a_project_shows_how_its_entries_stand(world: World) -> None:
    view = world.set(cron={"nightly": NIGHTLY, "other": EVERY})

    assert view.cron == [CronEntry("nightly", next_at=WALL + NIGHT), CronEntry("other", next_at=WALL + FIRST)]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"cron": "0 25 * * *"}, 'cron.nightly.cron: "0 25 * * *" can\'t be read: Bad hour'),
        (
            NIGHTLY | {"zone": "Europe/Berln"},
            'cron.nightly.zone: "Europe/Berln" is not a known time zone such as "Europe/Berlin"',
        ),
        ({}, "cron.nightly: give one of cron and every"),
        (NIGHTLY | EVERY, "cron.nightly: give one of cron and every"),
    ],
)
def test_what_cant_be_read_is_refused_with_the_name_of_the_entry(world: World, given: Any, reason: str) -> None:
    assert refusal(world, cron={"nightly": given, "other": EVERY}) == reason
    assert world.project().cron == []


def test_the_scheduler_sleeps_until_the_next_tick(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"nightly": NIGHTLY}}, "shop": {"cron": {"weekly": {"every": "7d"}}}})
    before = world.wakes
    assert world.next_wake() == NIGHT

    world.advance(NIGHT - 1)

    assert world.wakes == before


def test_of_many_entries_that_are_due_at_once_each_turn_runs_some(make_world: MakeWorld) -> None:
    names = [f"p{number:03}" for number in range(600)]
    world = make_world({"cron": {"nightly": EVERY}}, projects={name: {} for name in names})
    world.advance(FIRST - 1)
    world.elapsed += 1

    before_each = []
    while world.next_wake() <= world.elapsed:
        before_each.append(ready(world))

    assert before_each == list(range(0, 600, ENTRIES_A_TURN))
    assert ready(world) == 600


def _with(config: CoreConfig, projects: dict[str, Any]) -> CoreConfig:
    """Copy the config with other projects."""
    return CoreConfig(defaults=config.defaults, projects=projects, head_tasks=config.head_tasks)


# ---------------------------------------------------------------------------------------- what never comes


def test_an_expression_that_never_comes_is_refused(world: World) -> None:
    """The fifth Monday of a month is not its first day; the star asks for both."""
    never = {"cron": "0 0 */31 * MON#5"}

    assert refusal(world, cron={"nightly": never}) == 'cron.nightly.cron: "0 0 */31 * MON#5" never comes'


def test_an_expression_that_comes_only_in_leap_years_is_taken(world: World) -> None:
    world.set(cron={"nightly": {"cron": "0 0 29 2 *"}})

    assert entry(world).next_at == datetime.fromisoformat("2024-02-29T00:00Z").timestamp()
