"""Rules of slots: hosts, domains or names with a pace of their own inside a project."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.protocol.projects import ProjectDo, ProjectSet
from taskqueue.protocol.tasks import NewTasksReply
from taskqueue.protocol.values import Assignment, Fetched, NewTask
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import Fetcher, World, laid_over, task

HOSTS = ("a.example", "b.example", "c.example")


def world(head_tasks: int = 4096, slots_in_memory: int = 100_000, **settings: Any) -> World:
    """Make a world with the project ``news``, divided by hosts, with a second between tasks."""
    defaults = laid_over({"rate": inf, "slot": {"by": "host", "delay": 1.0}}, settings)
    return World(
        CoreConfig(
            defaults=defaults,
            projects={"news": {}},
            head_tasks=head_tasks,
            slots_in_memory=slots_in_memory,
        )
    )


@pytest.fixture(params=[2, 4096], ids=["small heads", "large heads"])
def head_tasks(request: pytest.FixtureRequest) -> int:
    """Sizes of heads, between which clients must not see a difference."""
    return int(request.param)


def page(host: str, name: str, **schedule: Any) -> NewTask:
    return task(f"{host}/{name}", url=f"http://{host}/{name}", **schedule)


def live(it: World, fetcher: Fetcher, seconds: float) -> None:
    """Let time pass while the fetcher is heard."""
    while seconds > 0:
        fetcher.hello()
        it.advance(min(seconds, 30.0))
        seconds -= 30.0
    fetcher.hello()


def handed(fetcher: Fetcher) -> list[str]:
    """List the taskids that the fetcher has been sent."""
    return list(fetcher.held)


def finish(it: World, fetcher: Fetcher, *taskids: str, **said: Any) -> None:
    it.turn(fetcher.answers(*[fetcher.finished(taskid, **said) for taskid in taskids]))
    it.settle()


# ------------------------------------------------------------------------------------------------ the pace


def test_each_slot_has_its_own_delay_between_hand_outs(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 1.5})
    fetcher = it.fetcher()
    it.push("news", *[page(host, str(n)) for n in range(2) for host in HOSTS])
    assert handed(fetcher) == [f"{host}/0" for host in HOSTS]
    finish(it, fetcher, *handed(fetcher))

    it.advance(1.25)
    assert handed(fetcher) == []
    it.advance(0.25)

    assert handed(fetcher) == [f"{host}/1" for host in HOSTS]


BOOKS = [
    "bücher.example", "xn--bcher-kva.example", "B%C3%BCcher.example", "BÜCHER.EXAMPLE", "bu\u0308cher.example",
    "bücher。example", "bücher.example.", "XN--BCHER-KVA.example",
]  # fmt: skip


@pytest.mark.parametrize("by", ["host", "domain"])
def test_a_host_is_one_slot_however_it_is_spelled(head_tasks: int, by: str) -> None:
    it = world(head_tasks, slot={"by": by, "delay": 30.0})
    fetcher = it.fetcher()
    it.push("news", *[page(host, str(n)) for n, host in enumerate(BOOKS)])
    assert handed(fetcher) == [f"{BOOKS[0]}/0"]
    assert fetcher.held[f"{BOOKS[0]}/0"].url == "http://bücher.example/0"

    for n, host in enumerate(BOOKS[1:], 1):
        fetcher.finish_all()
        live(it, fetcher, 29.9)
        assert handed(fetcher) == []
        it.advance(0.1)
        assert handed(fetcher) == [f"{host}/{n}"]


def test_a_task_that_names_a_host_is_in_its_slot_however_it_spells_it() -> None:
    it = world(slot={"delay": 30.0})
    fetcher = it.fetcher()

    it.push("news", page("bücher.example", "1"), page("images.example", "2", slot="Bücher.example"))

    assert handed(fetcher) == ["bücher.example/1"]


def test_one_task_of_a_slot_is_run_at_once_unless_more_are_allowed(head_tasks: int) -> None:
    it = world(head_tasks)
    fetcher = it.fetcher()
    it.push("news", page("a.example", "1"), page("a.example", "2"), page("b.example", "1"))
    it.advance(30)
    assert handed(fetcher) == ["a.example/1", "b.example/1"]

    finish(it, fetcher, "a.example/1")

    assert handed(fetcher) == ["b.example/1", "a.example/2"]


def test_the_next_task_keeps_the_delay_from_when_a_fetch_began(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 10.0})
    fetcher = it.fetcher()
    it.push("news", page("a.example", "1"), page("a.example", "2"))
    it.advance(30)

    finish(it, fetcher, "a.example/1", fetched=Fetched(seconds=4.0))

    it.advance(5.5)
    assert handed(fetcher) == []
    it.advance(0.5)
    assert handed(fetcher) == ["a.example/2"]


def test_a_rate_and_a_burst_may_stand_in_place_of_the_delay(head_tasks: int) -> None:
    settings: dict[str, Any] = {
        "slot": {"by": "host", "rate": 0.5, "burst": 2.0, "max_processing": inf},
        "rate": inf,
    }
    it = World(CoreConfig(defaults=settings, projects={"news": {}}, head_tasks=head_tasks))
    fetcher = it.fetcher()
    it.push("news", *[page("a.example", str(n)) for n in range(4)])
    assert len(handed(fetcher)) == 2

    it.advance(4)

    assert len(handed(fetcher)) == 4


def test_tasks_ahead_of_their_time_say_how_long_they_have_to_wait(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 0.5, "max_processing": 10.0})
    fetcher = it.fetcher()

    it.push("news", *[page("a.example", str(n)) for n in range(9)])

    given: list[Assignment] = list(fetcher.held.values())
    assert [each.not_before for each in given] == [0.0, 0.5, 1.0]
    assert {each.start_within for each in given} == {1.0}


@pytest.mark.parametrize("delay", [1.0, 0.0], ids=["paced", "unpaced"])
def test_a_task_that_is_handed_out_says_the_name_of_its_slot(head_tasks: int, delay: float) -> None:
    it = world(head_tasks, slot={"delay": delay, "max_processing": inf})
    fetcher = it.fetcher()
    tasks = (page("A.example:8080", "1"), page("b.example", "2", slot="shop"), task("data", url="data:,x"))

    it.push("news", *tasks)

    assert [each.slot for each in fetcher.held.values()] == ["a.example:8080", "shop", ""]


@pytest.mark.parametrize("delay", [1.0, 0.0], ids=["paced", "unpaced"])
def test_a_task_that_is_sent_again_after_a_restart_says_the_name_of_its_slot(head_tasks: int, delay: float) -> None:
    it = world(head_tasks, slot={"delay": delay, "max_processing": inf})
    fetcher = it.fetcher(capacity=0)
    it.push("news", page("A.example:8080", "1"), page("b.example", "2", slot="shop"), task("data", url="data:,x"))
    fetcher.deaf = True
    fetcher.hello(capacity=6)
    it.crash()
    fetcher.deaf = False

    fetcher.hello(capacity=6, seen=0)

    assert [each.slot for each in fetcher.held.values()] == ["a.example:8080", "shop", ""]


def test_a_slot_keeps_its_window_when_its_tasks_vanish_and_come_back(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 10.0})
    fetcher = it.fetcher()
    it.push("news", page("a.example", "1"))
    finish(it, fetcher, "a.example/1")

    it.advance(5)
    it.push("news", page("a.example", "2"))
    assert handed(fetcher) == []
    it.advance(5)

    assert handed(fetcher) == ["a.example/2"]


@pytest.mark.parametrize("delay", [10.0, 500.0])
def test_a_window_is_kept_across_a_restart(head_tasks: int, delay: float) -> None:
    it = world(head_tasks, slot={"delay": delay})
    fetcher = it.fetcher()
    it.push("news", page("a.example", "1"), page("a.example", "2"))
    finish(it, fetcher, "a.example/1")

    it.restart()
    live(it, fetcher, delay - 0.5)
    assert handed(fetcher) == []
    it.advance(0.75)

    assert handed(fetcher) == ["a.example/2"]


def test_a_task_without_a_host_has_no_slot_and_waits_for_nobody(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 10.0})
    fetcher = it.fetcher()

    it.push("news", *[task(f"t{n}", url=f"data:{n}") for n in range(5)])

    assert len(handed(fetcher)) == 5


def test_a_reset_lets_no_slot_go_before_its_window(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 10.0})
    fetcher = it.fetcher()
    it.push("news", page("a.example", "1"))
    finish(it, fetcher, "a.example/1")

    it.do("reset")
    it.push("news", page("a.example", "2"))
    it.advance(9.75)
    assert handed(fetcher) == []
    it.advance(0.25)

    assert handed(fetcher) == ["a.example/2"]


# ------------------------------------------------------------------------------------------------ what a slot is


def test_hosts_of_one_registered_domain_are_one_slot_if_it_is_divided_by_domains(head_tasks: int) -> None:
    it = world(head_tasks, slot={"by": "domain"})
    fetcher = it.fetcher()

    it.push("news", page("a.example.org", "1"), page("b.example.org", "1"), page("example.com", "1"))

    assert handed(fetcher) == ["a.example.org/1", "example.com/1"]


def test_a_name_that_the_task_gives_wins_over_its_host(head_tasks: int) -> None:
    it = world(head_tasks)
    fetcher = it.fetcher()

    it.push("news", page("a.example", "1", slot="cdn"), page("b.example", "1", slot="cdn"), page("a.example", "2"))

    assert handed(fetcher) == ["a.example/1", "a.example/2"]


# ------------------------------------------------------------------------------------------------ the order


def test_the_best_task_of_all_slots_that_may_go_is_next(head_tasks: int) -> None:
    it = world(head_tasks)
    it.push("news", *[page(host, "1", priority=n) for n, host in enumerate(HOSTS)])
    it.push("news", page("a.example", "2", priority=9))

    fetcher = it.fetcher()

    assert handed(fetcher) == ["a.example/2", "c.example/1", "b.example/1"]


def test_a_busy_slot_does_not_hold_up_others(head_tasks: int) -> None:
    it = world(head_tasks, slot={"delay": 100.0})
    it.push("news", *[page("a.example", str(n), priority=5) for n in range(50)])
    it.push("news", page("b.example", "1"))

    fetcher = it.fetcher()

    assert handed(fetcher) == ["a.example/0", "b.example/1"]


def test_no_slot_is_left_out_with_little_memory() -> None:
    it = world(2, slots_in_memory=1, slot={"delay": 0.5})
    fetcher = it.fetcher()
    it.push("news", *[page(f"{n}.example", str(k)) for n in range(300) for k in range(2)])

    seen: set[str] = set()
    for _ in range(20):
        seen |= set(handed(fetcher))
        finish(it, fetcher, *handed(fetcher))
        it.advance(1)
        fetcher.hello()

    assert len(seen) == 600


# ------------------------------------------------------------------------------------------------ turning over


def drained(it: World, fetcher: Fetcher) -> list[str]:
    """List the tasks that the fetcher gets until none is left, in order."""
    got: list[str] = []
    for _ in range(200):
        got += handed(fetcher)
        finish(it, fetcher, *handed(fetcher))
        it.advance(1)
        fetcher.hello()
        if not it.counts().ready and not fetcher.held:
            break
    return got


@pytest.mark.parametrize("before", ["none", "host", "domain"])
@pytest.mark.parametrize("after", ["none", "host", "domain"])
def test_a_backlog_is_moved_when_slots_are_turned_on_or_off_or_over(head_tasks: int, before: str, after: str) -> None:
    it = world(head_tasks, slot={"by": before})
    tasks = [page(host, str(n), priority=n % 3) for n in range(20) for host in HOSTS]
    it.push("news", *tasks)

    it.set(slot={"by": after})
    it.restart()
    fetcher = it.fetcher()

    assert sorted(drained(it, fetcher)) == sorted(each.taskid for each in tasks)
    assert it.counts().success == len(tasks)


def test_what_is_not_moved_yet_is_not_handed_out() -> None:
    it = world(slot={"by": "none", "delay": 0.0, "max_processing": inf})
    fetcher = it.fetcher(capacity=1000)
    it.do("pause")
    it.push("news", *[page("a.example", str(n)) for n in range(600)])

    divide = ProjectSet(session="person", n=it.n(), project="news", settings={"slot": {"by": "host"}})
    it.turn(divide, ProjectDo(session="person", n=it.n(), project="news", action="resume"))
    moved_at_first = len(handed(fetcher))
    it.settle()

    assert moved_at_first < 600 == len(handed(fetcher))


def test_a_backlog_that_is_cleared_while_it_is_moved_is_gone() -> None:
    it = world(slot={"by": "none"})
    it.do("pause")
    it.push("news", *[page("a.example", str(n)) for n in range(600)])

    it.turn(ProjectSet(session="person", n=it.n(), project="news", settings={"slot": {"by": "host"}}))
    it.turn()  # the next turn looks up the names of the first tasks
    it.turn(ProjectDo(session="person", n=it.n(), project="news", action="clear"))
    it.settle()

    assert it.counts().ready == 0


@pytest.mark.parametrize("before", ["none", "domain"])
def test_a_task_is_known_to_what_comes_in_the_turn_of_a_division(head_tasks: int, before: str) -> None:
    it = world(head_tasks, slot={"by": before})
    it.do("stop")
    it.push("news", page("a.example", "1"), page("a.example", "2"))

    divide = ProjectSet(session="person", n=it.n(), project="news", settings={"slot": {"by": "host"}})
    pushed = it.new_tasks("news", page("a.example", "1"), page("a.example", "2", priority=3), page("a.example", "3"))
    _, reply = it.turn(divide, pushed)
    it.settle()

    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["ignored", "merged", "new"]
    assert it.counts().ready == 3
    it.do("start")
    assert drained(it, it.fetcher()) == [f"a.example/{name}" for name in "213"]


def test_a_clear_in_the_turn_of_a_division_drops_what_came_just_before() -> None:
    it = world(slot={"by": "none"})
    it.do("stop")

    divide = ProjectSet(session="person", n=it.n(), project="news", settings={"slot": {"by": "host"}})
    clear = ProjectDo(session="person", n=it.n(), project="news", action="clear")
    it.turn(it.new_tasks("news", page("a.example", "1")), divide, clear)
    it.settle()

    assert it.counts().ready == 0
    assert it.known() == []
