"""Lists of tasks: pages, globs, cursors and bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from taskqueue.core.requests import task_list
from taskqueue.core.requests.task_list import ERRORS_LOOKED_AT, HOLLOW_LOOKED_AT, LOOKED_AT
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectDo, ProjectReply
from taskqueue.protocol.tasks import TaskCancel, TaskList, TaskListReply, TaskRow
from tests.unit.core.conftest import WALL, MakeWorld, World, task

WHO: dict[str, Any] = {"session": "person"}
HEAVY = "x" * 9000
DAY = 86_400.0


def asked(world: World, state: Any, **fields: Any) -> TaskList:
    return TaskList(**(WHO | {"n": world.n(), "project": "news", "state": state} | fields))


def pages(world: World, state: Any, **fields: Any) -> Iterator[list[TaskRow]]:
    """Yield page after page."""
    after = ""
    while True:
        reply = world.ask(TaskListReply, asked(world, state, after=after, **fields))
        yield reply.tasks
        after = reply.next
        if not after:
            return


def names(world: World, state: Any, **fields: Any) -> list[str]:
    return [row.taskid for page in pages(world, state, **fields) for row in page]


@pytest.mark.parametrize(
    ("after", "fields"), [("0", {}), ("1f3", {}), ("processing:", {"error": "*"}), ("processing:1", {"error": "*"})]
)
def test_a_list_of_all_states_goes_on_at_a_cursor_of_its_own_only(world: World, after: str, fields: Any) -> None:
    world.push("news", task("a"))

    refused = world.ask(ErrorReply, asked(world, None, after=after, **fields))

    assert refused.reason == f'after: expected the "next" of a page of a list of all states, got "{after}"'


def test_each_state_is_listed_in_its_order_page_by_page(world: World) -> None:
    ids = [f"t{number}" for number in range(7)]
    world.push("news", *[task(name) for name in ids])
    fetcher = world.fetcher(capacity=7)
    fetcher.capacity = 0
    fetcher.hello()
    assert [[row.taskid for row in page] for page in pages(world, "processing", limit=3)] == [
        ids[:3],
        ids[3:6],
        ids[6:],
    ]

    for name in reversed(ids[:4]):
        world.advance(1)
        fetcher.fail(name, retry=False)
    assert names(world, "failed", limit=3) == ids[3::-1]
    assert names(world, "processing", limit=2) == ids[4:]
    assert names(world, "success") == []


def in_all_states(world: World) -> list[tuple[str, str]]:
    """Make tasks of news in every state but cancelled; return (state, name) in the order of a list of all states."""
    world.push("news", *[task(name) for name in ("done", "done2", "failed", "held", "held2")])
    fetcher = world.fetcher()
    fetcher.hello(capacity=0)
    for name in ("done", "done2"):
        world.advance(1)
        fetcher.done(name)
    fetcher.fail("failed", retry=False, error="boom")
    child = msgspec.structs.replace(task("child"), depends_on=("late",))
    world.push("news", task("ready"), task("ready2"), task("late", delay=50), child)
    return [
        ("ready", "ready"), ("ready", "ready2"), ("delayed", "late"), ("processing", "held"), ("processing", "held2"),
        ("blocked", "child"), ("success", "done"), ("success", "done2"), ("failed", "failed"),
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_without_a_state_all_states_are_listed_one_after_the_other(world: World, limit: int) -> None:
    expected = in_all_states(world)

    found = list(pages(world, None, limit=limit))

    assert [(row.state, row.taskid) for page in found for row in page] == expected
    assert all(len({row.state for row in page}) == 1 for page in found)


def test_filters_hold_for_all_states_as_far_as_they_make_sense(world: World) -> None:
    expected = in_all_states(world)
    backwards = [name for state, name in expected if state not in ("success", "processing")]

    assert names(world, None, url="*2") == ["ready2", "held2", "done2"]
    assert names(world, None, error="*boom*") == ["failed"]
    assert names(world, None, newest=True) == [*backwards[:3], "held2", "held", "child", "done2", "done", "failed"]


def test_a_project_without_tasks_has_an_empty_list(world: World) -> None:
    assert list(pages(world, None)) == [[]]


def test_a_state_that_has_been_emptied_in_the_turn_of_the_list_is_passed_over(world: World) -> None:
    world.push("news", task("ready"), task("late", delay=50))

    _, reply = world.turn(TaskCancel(**WHO, n=world.n(), project="news", taskids=["ready"]), asked(world, None))

    assert isinstance(reply, TaskListReply)
    assert "late" in [*(row.taskid for row in reply.tasks), *names_after(world, reply.next)]


def names_after(world: World, after: str) -> list[str]:
    found: list[str] = []
    while after:
        reply = world.ask(TaskListReply, asked(world, None, after=after))
        found += [row.taskid for row in reply.tasks]
        after = reply.next
    return found


def test_a_page_tells_when_each_task_is_due_ended_or_was_handed_out(world: World) -> None:
    world.push("news", task("running"), task("over"))
    fetcher = world.fetcher()
    fetcher.hello(capacity=0)
    world.advance(3)
    fetcher.done("over")
    world.push("news", task("late", delay=50, priority=4), task("ready", priority=2))
    world.advance(1)

    rows = [next(iter(pages(world, state)))[0] for state in ("processing", "success", "delayed", "ready")]
    assert [(row.taskid, row.at) for row in rows] == [
        ("running", WALL), ("over", WALL + 3), ("late", WALL + 53), ("ready", 0.0),
    ]  # fmt: skip
    assert (rows[1].lastcrawltime, rows[2].priority, rows[3].url) == (WALL + 3, 4, "http://example.org/ready")


def test_ready_tasks_are_listed_in_the_order_in_which_they_will_be_handed_out(world: World) -> None:
    world.push("news", *[task(f"t{number}", priority=number % 3) for number in range(9)])

    listed = names(world, "ready", limit=2)
    assert listed == world.fetcher(capacity=9).taken


def test_a_list_goes_on_where_it_was_when_tasks_have_left_it_meanwhile(world: World) -> None:
    world.push("news", *[task(f"t{number}") for number in range(6)])
    first = world.ask(TaskListReply, asked(world, "ready", limit=3))
    world.fetcher(capacity=4)

    second = world.ask(TaskListReply, asked(world, "ready", limit=3, after=first.next))
    assert [row.taskid for row in second.tasks] == ["t4", "t5"]


def test_a_glob_picks_urls(world: World) -> None:
    world.push("news", *[task(f"{kind}/{number}") for number in range(4) for kind in ("page", "item")])

    assert names(world, "ready", url="*/item/*", limit=2) == [f"item/{number}" for number in range(4)]
    assert names(world, "ready", url="HTTP*") == []


@pytest.mark.parametrize("state", ["ready", "processing", "failed"])
def test_a_glob_may_ignore_case(world: World, state: str) -> None:
    world.push("news", task("a", url="http://site/Straße/A"), task("b", url="http://site/b"))
    if state != "ready":
        fetcher = world.fetcher()
    if state == "failed":
        for taskid in ("a", "b"):
            fetcher.fail(taskid, retry=False, error=f"{taskid}: TimeoutError")

    for url in ("*STRASSE/a", "*/straße/[A-Z]", "http*/Stra??e/?"):
        assert names(world, state, url=url) == []
        assert names(world, state, url=url, ignore_case=True) == ["a"]
    if state == "failed":
        assert names(world, state, error="A: timeout*", ignore_case=True) == ["a"]
        assert names(world, state, error="A: timeout*") == []


@pytest.mark.parametrize("state", ["ready", "processing"])
def test_a_glob_that_matches_little_gives_short_pages_that_say_where_to_go_on(
    world: World, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "LOOKED_AT", 50)
    count = 55
    world.push("news", *[task(f"t{number:05}") for number in range(count)])
    if state == "processing":
        world.fetcher(capacity=count)

    found = [[row.taskid for row in page] for page in pages(world, state, url=f"*t{count - 1:05}")]
    assert found == [[], [f"t{count - 1:05}"]]


def test_a_glob_that_costs_much_gives_short_pages_that_leave_nothing_out(world: World) -> None:
    long = "http://site/" + "a" * 8000
    world.push("news", *[task(f"t{number:02}", url=f"{long}{number:02}") for number in range(20)])

    found = [[row.taskid for row in page] for page in pages(world, "ready", url="*" + "[ab]" * 60 + "*1?")]
    assert len(found) >= 10
    assert [name for page in found for name in page] == [f"t{number}" for number in range(10, 20)]


@pytest.mark.parametrize("after", ["xyz", "12 34", "-", "0x", "ä"])
def test_a_cursor_that_can_not_be_read_is_refused_and_the_rest_of_the_turn_goes_on(world: World, after: str) -> None:
    refused, taken = world.turn(asked(world, "ready", after=after), world.new_tasks("news", task("a")))

    assert isinstance(refused, ErrorReply)
    assert (refused.code, refused.reason.startswith("after: ")) == ("malformed", True)
    assert world.counts().ready == 1
    assert taken.n


@pytest.mark.parametrize("state", ["ready", "delayed", "processing", "success"])
@pytest.mark.parametrize("after", ["-5", "f" * 31, "f" * 32, "f" * 64])
def test_a_cursor_from_nowhere_does_no_harm(world: World, state: Any, after: str) -> None:
    world.push("news", task("a"))

    reply = world.ask(TaskListReply, asked(world, state, after=after))
    assert reply.next == ""


def test_a_project_that_is_unknown_or_made_or_emptied_in_the_turn_has_a_list_too(world: World) -> None:
    assert world.ask(ErrorReply, asked(world, "ready", project="blog")).code == "unknown-project"
    world.push("news", task("a"))

    replies = world.turn(
        ProjectDo(**WHO, n=world.n(), project="blog", action="start"),
        asked(world, "ready", project="blog"),
        ProjectDo(**WHO, n=world.n(), project="news", action="reset"),
        asked(world, "ready"),
    )
    assert isinstance(replies[0], ProjectReply)
    assert [reply.tasks for reply in replies if isinstance(reply, TaskListReply)] == [[], []]


def test_heavy_tasks_that_are_being_run_are_listed_and_not_kept_in_memory(world: World) -> None:
    ids = [f"t{number:02}" for number in range(HOLLOW_LOOKED_AT + 3)]
    world.push("news", *[task(name, HEAVY) for name in ids])
    fetcher = world.fetcher(capacity=len(ids))

    assert names(world, "processing") == ids
    world.turn()
    state = world.scheduler._state
    held = [each.spec for each in state.projects.by_name["news"].queue.processing.leased.values()]
    assert held == [None] * len(ids)
    world.restart()
    assert names(world, "processing") == ids
    fetcher.hello()
    fetcher.finish_all()


def test_what_ends_in_the_turn_of_the_list_moves_up_what_was_not_read(world: World) -> None:
    ids = [f"t{number:02}" for number in range(6)]
    world.push("news", *[task(name, HEAVY) for name in ids])
    fetcher = world.fetcher(capacity=6)
    fetcher.hello(capacity=0)

    world.turn()
    answers = fetcher.answers(*[fetcher.finished(name) for name in ids[:3]])
    _, page = world.turn(answers, asked(world, "processing", limit=2))
    assert isinstance(page, TaskListReply)
    rest = names(world, "processing", limit=2)
    assert [*[row.taskid for row in page.tasks], *rest][-3:] == ids[3:]


def test_a_page_fits_into_a_message_however_small_that_may_be(make_world: MakeWorld) -> None:
    world = make_world(max_message=65536, select_bytes=65536)
    ids = [f"t{number}" for number in range(40)]
    world.push("news", *[task(name, url=f"http://example.org/{name}/" + "ä" * 5000) for name in ids])

    listed = list(pages(world, "ready", limit=40))
    assert [row.taskid for page in listed for row in page] == ids
    sizes = [len(msgspec.msgpack.encode(TaskListReply(n=1, tasks=page, next="f" * 32))) for page in listed]
    assert max(sizes) <= 65536


def test_two_lists_in_one_turn_do_not_mix(world: World) -> None:
    world.push("news", *[task(f"t{number}") for number in range(4)])
    world.push("shop", task("s"))
    first = world.ask(TaskListReply, asked(world, "ready", limit=2))

    requests = [asked(world, "ready", limit=2), asked(world, "ready", limit=2, after=first.next)]
    replies = world.turn(*requests, asked(world, "ready", project="shop", limit=2))
    rows = [[row.taskid for row in reply.tasks] for reply in replies if isinstance(reply, TaskListReply)]
    assert rows == [["t0", "t1"], ["t2", "t3"], ["s"]]


# ---------------------------------------------------------------------------------------- what failed, what is held


def fail_some(world: World) -> list[str]:
    """Let four tasks of two hosts fail for good, a second apart, with two errors."""
    ids = [f"t{number}" for number in range(4)]
    world.push("news", *[task(name, url=f"http://{'ab'[number % 2]}.org/{name}") for number, name in enumerate(ids)])
    fetcher = world.fetcher(capacity=4, name="host:1")
    for number, name in enumerate(ids):
        world.advance(1)
        fetcher.fail(name, retry=False, error=f"Traceback\nHTTP {(503, 404)[number // 2]}")
    return ids


def test_what_failed_is_listed_with_its_last_error_and_its_fetcher(world: World) -> None:
    fail_some(world)

    [rows] = pages(world, "failed")

    assert [(row.error, row.fetcher) for row in rows[1:3]] == [
        ("Traceback\nHTTP 503", "host:1"),
        ("Traceback\nHTTP 404", "host:1"),
    ]


def test_what_waits_after_a_failure_shows_it_too(world: World) -> None:
    world.push("news", task("a"), task("b", timeout=5.0))
    fetcher = world.fetcher(name="host:1")
    fetcher.fail("a", error="HTTP 503")
    fetcher.hello(capacity=0)
    world.advance(5)

    assert [row.error for page in pages(world, "delayed") for row in page] == ["HTTP 503"]
    assert [row.error for page in pages(world, "ready") for row in page] == ["timeout"]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_what_failed_last_can_come_first(world: World, limit: int) -> None:
    ids = fail_some(world)

    assert names(world, "failed", newest=True, limit=limit) == ids[::-1]
    assert names(world, "failed", newest=True, limit=limit, since=WALL + 2) == ids[:0:-1]
    assert names(world, "failed", limit=limit, since=WALL + 3) == ids[2:]
    assert names(world, "failed", newest=True, limit=limit, since=WALL + 5) == []


@pytest.mark.parametrize("newest", [False, True])
def test_an_error_glob_picks_by_the_last_error(world: World, newest: bool) -> None:
    ids = fail_some(world)

    picked = names(world, "failed", error="*404", newest=newest, limit=1)
    assert sorted(picked) == ids[2:]
    assert names(world, "failed", error="*404", url="http://b*", newest=newest) == ids[3:]


def test_a_page_looks_at_a_bounded_number_of_tasks_for_their_errors(world: World) -> None:
    fail_some(world)

    world.turn(asked(world, "failed", error="x"))
    [over] = world.needs.lists
    world.turn(asked(world, "delayed", error="x"))
    [live] = world.needs.lists

    assert (over.limit, live.limit) == (ERRORS_LOOKED_AT, LOOKED_AT)


def test_live_tasks_are_picked_by_when_they_were_last_run(world: World) -> None:
    world.push("news", task("early"), task("late"), task("never", delay=99.0))
    fetcher = world.fetcher()
    world.advance(5)
    fetcher.fail("early")
    world.advance(5)
    fetcher.fail("late")

    assert names(world, "delayed", since=WALL + 10) == ["late"]
    assert names(world, "delayed", since=WALL + 1) == ["early", "late"]


def test_what_is_being_run_is_listed_by_when_it_was_handed_out_with_who_has_it(world: World) -> None:
    """By its priority a later task is dispatched first."""
    world.push("news", task("low"), task("high", priority=9, timeout=60.0))
    first = world.fetcher(capacity=1, name="host:1")
    world.advance(5)
    world.fetcher(capacity=1, name="host:2")
    world.advance(20)
    first.hello()

    [rows] = pages(world, "processing")
    assert [(row.taskid, row.at, row.lease_seconds) for row in rows] == [
        ("high", WALL, 35.0),
        ("low", WALL + 5, 580.0),
    ]
    assert [row.fetcher for row in rows] == ["host:1", "host:2"]
    assert names(world, "processing", newest=True, limit=1) == ["low", "high"]
    assert names(world, "processing", limit=1) == ["high", "low"]


@pytest.mark.parametrize(
    ("state", "fields", "field"),
    [
        ("ready", {"newest": True}, "newest"),
        ("delayed", {"newest": True}, "newest"),
        ("processing", {"error": "*"}, "error"),
    ],
)
def test_what_makes_no_sense_is_refused(world: World, state: str, fields: dict[str, Any], field: str) -> None:
    world.push("news", task("a"))

    refused = world.ask(ErrorReply, asked(world, state, **fields))
    assert (refused.code, refused.reason.partition(":")[0]) == ("malformed", field)


@pytest.mark.parametrize("state", ["ready", "delayed", "processing", "success", "failed"])
def test_a_list_may_be_of_tasks_that_came_within_a_time(world: World, state: str) -> None:
    world.set(retries=0)
    fetcher = world.fetcher() if state not in ("ready", "delayed") else None
    for number in range(4):
        world.push("news", task(f"t{number}", delay=DAY if state == "delayed" else None))
        if fetcher is not None and state != "processing":
            fetcher.done(f"t{number}", ok=state == "success")
        world.advance(10.0)

    assert names(world, state, pushed_since=WALL + 10) == ["t1", "t2", "t3"]
    assert names(world, state, pushed_before=WALL + 20) == ["t0", "t1"]
    assert names(world, state, pushed_since=WALL + 10.5, pushed_before=WALL + 30, limit=1) == ["t1", "t2"]
    assert [row.pushed_at for page in pages(world, state) for row in page] == [WALL + 10 * n for n in range(4)]


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_a_list_may_be_of_some_states_in_the_order_of_all(world: World, limit: int) -> None:
    states = ["failed", "delayed", "success"]
    expected = [each for each in in_all_states(world) if each[0] in states]

    found = [row for page in pages(world, None, states=states, limit=limit) for row in page]

    assert [(row.state, row.taskid) for row in found] == expected


def test_a_list_of_states_without_tasks_is_empty(world: World) -> None:
    world.push("news", task("a"))

    assert list(pages(world, None, states=["failed", "cancelled"])) == [[]]


@pytest.mark.parametrize(
    ("state", "fields", "field"),
    [("failed", {"states": ["ready"]}, "states"), (None, {"states": ["processing"], "error": "*"}, "error"),
     (None, {"states": ["failed"], "after": "ready:"}, "after")],
    ids=["state beside states", "errors of what is processed", "cursor of another state"],
)  # fmt: skip
def test_a_list_of_states_that_makes_no_sense_is_refused(world: World, state: Any, fields: Any, field: str) -> None:
    world.push("news", task("a"))

    refused = world.ask(ErrorReply, asked(world, state, **fields))

    assert refused.reason.startswith(f"{field}: ")
