"""Watching: a client that asks for changes of projects gets a reply when there are some."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import get_args

import pytest
from msgspec.structs import astuple

from taskqueue.core.model import watch_log
from taskqueue.core.model.watch_log import KEPT_SECONDS, PUBLISH_SECONDS
from taskqueue.core.requests.watch import ROWS_A_TURN
from taskqueue.protocol.codec import encode
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.insight import WATCH_ROWS, ProjectPulse, Watch, WatchReply
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.values import Action, EventTotals, TaskCounts
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import WALL, MakeWorld, World, task


@dataclass
class Watcher:
    """Watching client, and its picture of the projects."""

    world: World
    session: str = "watcher"
    since: str = ""
    picture: dict[str, ProjectPulse] = field(default_factory=dict)
    _asked: int = 0

    def ask(self, seconds: float = 30.0) -> WatchReply | None:
        """Ask, and return the reply if there is one at once."""
        self._asked = self.world.n()
        self.world.turn(Watch(session=self.session, n=self._asked, since=self.since, seconds=seconds))
        return self.told()

    def told(self) -> WatchReply | None:
        """Return the reply to the last request, applied to the picture; None before there is one."""
        replies = (each for each in self.world.inbox if isinstance(each, WatchReply) and each.n == self._asked)
        reply = next(replies, None)
        if reply is not None:
            self.since = reply.since
            if reply.anew:
                self.picture = {}
            self.picture.update((each.name, each) for each in reply.projects)
            for name in reply.gone:
                self.picture.pop(name, None)
        return reply

    def hear(self, seconds: float = 30.0) -> WatchReply:
        """Ask, and return the reply, which must come at once."""
        reply = self.ask(seconds)
        assert reply is not None
        return reply

    def catch_up(self) -> None:
        """Ask until there are no more changes."""
        while self.hear(0).more:
            pass


@pytest.fixture
def watcher(world: World) -> Watcher:
    """Make a watcher that knows everything, and whose last reply was some time ago."""
    world.push("news", task("a"))
    world.push("shop", task("a"))
    watcher = Watcher(world)
    watcher.catch_up()
    world.advance(1)
    return watcher


def names(reply: WatchReply | None) -> list[str]:
    """List the names of the projects in the reply."""
    assert reply is not None
    return [each.name for each in reply.projects]


def make(world: World, count: int) -> None:
    """Make projects p0000, p0001, …, besides the existing two."""
    person = (ProjectDo(session="person", n=world.n(), project=f"p{i:04}", action="start") for i in range(count))
    world.turn(*person)


def test_who_knows_nothing_is_told_all_projects_at_once(world: World) -> None:
    world.set("shop", group="papers", rate=2, burst=3)
    world.push("news", task("1"), task("2", exetime=WALL + 99))

    reply = Watcher(world).hear()

    assert reply.anew
    assert not reply.more
    assert reply.found == 2
    assert reply.projects[1] == ProjectPulse("shop", "papers", "running", "", 2, 3, "", (0,) * 7, (0,) * 6)
    assert TaskCounts(*reply.projects[0].counts) == reply.counts == TaskCounts(ready=1, delayed=1)
    assert EventTotals(*reply.projects[0].totals) == reply.totals == EventTotals(new=2)


def test_who_watches_is_told_when_something_changes_and_of_that_only(world: World, watcher: Watcher) -> None:
    assert watcher.ask() is None

    world.push("shop", task("b"))

    reply = watcher.told()
    assert reply is not None
    assert names(reply) == ["shop"]
    assert not reply.anew
    assert reply.projects[0].counts[0] == 2
    assert reply.found == 2


def test_what_changed_while_nobody_asked_is_told_at_once(world: World, watcher: Watcher) -> None:
    world.push("shop", task("b"))

    assert names(watcher.hear()) == ["shop"]


def test_without_a_change_the_answer_comes_when_its_seconds_are_over(world: World, watcher: Watcher) -> None:
    assert watcher.ask(seconds=5) is None
    world.advance(4.9)
    assert watcher.told() is None

    world.advance(0.1)

    assert names(watcher.told()) == []
    assert watcher.hear(seconds=0).projects == [], "who has no patience is answered at once"


def test_a_session_is_told_four_times_a_second_at_most(world: World, watcher: Watcher) -> None:
    told = 0
    watcher.ask()
    for i in range(100):
        world.push("news", task(f"x{i}"))
        if watcher.told() is not None:
            told += 1
            watcher.ask()
        world.advance(0.02)

    assert 7 <= told <= 2 / PUBLISH_SECONDS + 1


def test_the_last_change_is_told_too(world: World, watcher: Watcher) -> None:
    watcher.ask()
    world.push("news", task("b"))
    watcher.told()
    watcher.ask()
    world.push("news", task("c"))
    assert watcher.told() is None

    world.advance(PUBLISH_SECONDS)

    assert names(watcher.told()) == ["news"]
    assert watcher.picture["news"].counts[0] == 3


@pytest.mark.parametrize("action", ["pause", "stop", "clear", "reset"])
def test_what_people_do_with_a_project_is_told(world: World, watcher: Watcher, action: str) -> None:
    watcher.ask()

    world.do(action)

    watcher.told()
    assert watcher.picture["news"].state == world.project().state
    assert watcher.picture["news"].counts[0] == world.counts().ready


def test_other_settings_are_told_also_those_of_the_config(world: World, watcher: Watcher) -> None:
    watcher.ask()
    world.set("news", group="papers", rate=7)
    watcher.told()
    assert (watcher.picture["news"].group, watcher.picture["news"].rate) == ("papers", 7)
    watcher.ask()

    world.configure(CoreConfig(projects={"news": {}, "shop": {"rate": 9.0}, "third": {}}))
    world.advance(1)

    watcher.told()
    assert watcher.picture["shop"].rate == 9
    assert set(watcher.picture) == {"news", "shop", "third"}


def test_what_happens_by_itself_is_told(make_world: MakeWorld) -> None:
    world = make_world({})
    watcher = Watcher(world)
    world.push("news", task("a", exetime=WALL + 20))
    watcher.catch_up()
    watcher.ask()

    world.advance(21)

    watcher.told()
    assert TaskCounts(*watcher.picture["news"].counts) == TaskCounts(ready=1)


def test_a_lease_that_ends_and_a_pause_that_begins_and_ends_are_told(make_world: MakeWorld) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 60, "processing_timeout": 10, "retries": 0})
    world.push("news", task("a"))
    world.fetcher()
    watcher = Watcher(world)
    watcher.catch_up()
    assert TaskCounts(*watcher.picture["news"].counts) == TaskCounts(processing=1)

    for seconds in (8, 3):  # it is slow, and runs out
        watcher.ask()
        world.advance(seconds)
        watcher.told()
    paused = watcher.picture["news"]
    world.advance(50)
    watcher.catch_up()
    watcher.ask()
    world.advance(10)
    watcher.told()

    assert (paused.state, EventTotals(*paused.totals).timeout) == ("paused", 1)
    assert "failure" in paused.reason
    assert watcher.picture["news"].state == "checking"


def test_a_deleted_project_is_told_by_name(world: World, watcher: Watcher) -> None:
    watcher.ask()

    world.do("delete")

    reply = watcher.told()
    assert reply is not None
    assert (reply.gone, names(reply), reply.found) == (["news"], [], 1)


def test_one_that_is_deleted_and_made_again_is_a_project_and_not_gone(world: World, watcher: Watcher) -> None:
    world.do("delete")
    world.do("start")
    reply = watcher.hear()
    assert (reply.gone, names(reply)) == ([], ["news"])

    n = world.n()
    world.turn(
        ProjectDo(session="person", n=n, project="news", action="delete"),
        ProjectDo(session="person", n=n + 1, project="news", action="start"),
        ProjectDo(session="person", n=n + 2, project="brief", action="start"),
        ProjectDo(session="person", n=n + 3, project="brief", action="delete"),
    )

    world.advance(1)
    reply = watcher.hear()
    assert names(reply) == ["news"]
    assert "news" not in reply.gone
    assert watcher.picture["news"].counts == (0,) * 7


def test_after_a_restart_all_projects_are_told_anew(world: World, watcher: Watcher) -> None:
    world.restart()

    reply = watcher.hear()

    assert reply.anew
    assert names(reply) == ["news", "shop"]


@pytest.mark.parametrize("since", ["0", "é", "1.x", "-1.1", "1." + "9" * 60, "x" * 64, ".", "1.²"])
def test_an_unknown_version_is_told_everything_anew(world: World, watcher: Watcher, since: str) -> None:
    watcher.since = since

    assert watcher.hear().anew


def test_a_version_that_is_not_there_yet_is_unknown(world: World, watcher: Watcher) -> None:
    watcher.since = watcher.since.partition(".")[0] + ".99999"

    assert watcher.hear().anew


def test_a_page_has_a_bounded_number_of_projects_and_the_next_one_comes_at_once(world: World) -> None:
    make(world, 2 * WATCH_ROWS + 5)
    watcher = Watcher(world)

    replies = [watcher.hear(), watcher.hear(), watcher.hear()]

    assert [len(each.projects) for each in replies] == [WATCH_ROWS, WATCH_ROWS, 7]
    assert [each.more for each in replies] == [True, True, False]
    assert [each.anew for each in replies] == [True, False, False]
    assert len(watcher.picture) == 2 * WATCH_ROWS + 7


def test_what_changes_between_two_pages_is_told_again_and_what_is_deleted_is_gone(world: World) -> None:
    make(world, WATCH_ROWS + 5)
    watcher = Watcher(world)
    watcher.hear()

    world.do("pause", "p0001")
    world.do("delete", "p0002")
    watcher.catch_up()

    assert watcher.picture["p0001"].state == "paused"
    assert "p0002" not in watcher.picture
    assert len(watcher.picture) == WATCH_ROWS + 6


def test_who_is_slower_than_what_changes_may_take_his_time_all_the_same(world: World) -> None:
    make(world, 2 * WATCH_ROWS)
    watcher = Watcher(world)
    watcher.catch_up()
    world.advance(1)
    person = [
        ProjectDo(session="person", n=world.n(), project=f"p{i:04}", action="pause") for i in range(2 * WATCH_ROWS)
    ]
    world.turn(*person[:10])
    watcher.hear()
    world.turn(*person[10:])

    world.advance(PUBLISH_SECONDS / 2)
    reply = watcher.hear(seconds=0)

    assert (len(reply.projects), reply.more) == (WATCH_ROWS, False)
    world.advance(PUBLISH_SECONDS)
    watcher.catch_up()
    assert all(each.state == "paused" for name, each in watcher.picture.items() if name.startswith("p"))


def test_a_reply_fits_into_a_message(make_world: MakeWorld) -> None:
    world = make_world({}, max_message=1 << 14)
    make(world, 400)
    watcher = Watcher(world)

    replies = [watcher.hear()]
    while replies[-1].more:
        replies.append(watcher.hear())

    assert len(replies) > 1
    assert all(len(encode(each)) <= 1 << 14 for each in replies)
    assert len(watcher.picture) == 402


def test_beyond_a_bound_names_of_deleted_projects_are_forgotten_and_all_is_told_anew(
    world: World, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_log, "GONE_MOST", 30)
    make(world, 31)
    watcher.catch_up()
    for i in range(31):
        world.turn(ProjectDo(session="person", n=world.n(), project=f"p{i:04}", action="delete"))

    assert watcher.hear().anew
    assert set(watcher.picture) == {"news", "shop"}


def test_a_minute_after_the_last_watcher_there_is_nothing_left_of_it(world: World, watcher: Watcher) -> None:
    watcher.ask(seconds=60)
    world.advance(60)
    assert names(watcher.told()) == []
    world.advance(KEPT_SECONDS - 1)
    assert not watcher.hear(seconds=0).anew, "a minute is not over"

    world.advance(KEPT_SECONDS)

    assert world.scheduler._state.watch_log is None
    assert watcher.hear().anew


def test_a_session_watches_by_several_requests_and_a_repeat_is_answered_once(world: World, watcher: Watcher) -> None:
    requests = [Watch(session="watcher", n=world.n(), since=watcher.since) for _ in range(3)]
    world.turn(*requests, *requests)
    watcher.hear(seconds=0)
    world.inbox.clear()

    world.push("news", task("b"))

    told = [each.n for each in world.inbox if isinstance(each, WatchReply)]
    assert sorted(told) == [each.n for each in requests]


def test_many_are_told_over_several_turns(world: World) -> None:
    make(world, 100)
    first = Watcher(world)
    first.catch_up()
    crowd = 200
    requests = [
        Watch(session=f"s{i}", n=world.n(), since=first.since if i % 2 else "", seconds=30) for i in range(crowd)
    ]
    world.inbox.clear()

    most = len(world.turn(*requests))
    while world.next_wake() <= world.elapsed:
        most = max(most, len(world.turn()))

    told = [each for each in world.inbox if isinstance(each, WatchReply)]
    assert len(told) == crowd / 2, "who knows everything waits"
    assert most <= ROWS_A_TURN // 100 + 1


def test_what_was_told_is_told_to_all_who_wait_in_their_turn(world: World, watcher: Watcher) -> None:
    crowd = [Watcher(world, f"s{i}", watcher.since) for i in range(700)]
    for each in crowd:
        assert each.ask() is None

    world.push("news", task("b"))
    world.settle()

    assert all(names(each.told()) == ["news"] for each in crowd)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_watcher_knows_is_what_status_says(world: World, seed: int) -> None:
    random = Random(seed)
    fetcher = world.fetcher(capacity=5)
    watchers = [Watcher(world, "eager"), Watcher(world, "slow")]
    for _ in range(120):
        name = random.choice(["news", "shop", "late"])
        match random.randrange(12):
            case 0 | 1 | 2 if name in known(world):
                due = WALL + world.elapsed + random.choice([-1, 2, 40])
                world.push(name, task(str(random.randrange(30)), exetime=due))
            case 3 | 4:
                for taskid in list(fetcher.held)[:3]:
                    world.turn(fetcher.answers(fetcher.finished(taskid, ok=random.random() < 0.5)))
            case 5:
                action = random.choice(get_args(Action))
                world.turn(ProjectDo(session="person", n=world.n(), project=name, action=action))
            case 6 if name in known(world):
                world.set(name, rate=random.randrange(9), group=random.choice(["", "g"]))
            case 7 if random.random() < 0.1:
                world.restart()
            case _:
                world.advance(random.choice([0.01, 0.3, 5, 70]))
        for watcher in watchers[: random.randrange(3)]:
            watcher.catch_up()
            assert watcher.picture == seen(world)


def known(world: World) -> list[str]:
    """List the names of all projects."""
    return [each.name for each in status_of(world).projects]


def status_of(world: World) -> StatusReply:
    return world.ask(StatusReply, StatusShow(session="person", n=world.n()))


def seen(world: World) -> dict[str, ProjectPulse]:
    """Return the projects of ``status``, in the form of watch replies."""
    return {
        each.name: ProjectPulse(
            each.name,
            str(each.settings["group"]),
            each.state,
            each.reason,
            each.settings["rate"],  # type: ignore[arg-type]
            each.settings["burst"],  # type: ignore[arg-type]
            str(each.settings["bucket"]),
            astuple(each.counts),
            astuple(each.totals),
        )
        for each in status_of(world).projects
    }


def test_watching_looks_nothing_up_and_writes_nothing(world: World, watcher: Watcher) -> None:
    watcher.ask()

    assert not any(getattr(world.needs, name) for name in world.needs.__struct_fields__)
    assert not any(getattr(world.kept, name) for name in world.kept.__struct_fields__)
