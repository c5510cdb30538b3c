"""Failures, counted by error, host, fetcher or project."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.core.model.attempt_records import Failure, KeptFailure
from taskqueue.core.model.failure_groups import GROUPS_MOST, FailureGroups, kind_of
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import time_key
from taskqueue.core.steps.failures import COUNTS_MOST, PAGE_FAILURES
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.insight import FailureGroup, FailureList, FailuresReply
from tests.unit.core.conftest import WALL, World, task

PRICE = "ValueError: no price"


def request(world: World, session: str = "admin", **fields: Any) -> FailureList:
    return FailureList(session=session, n=world.n(), **fields)


def ask(world: World, **fields: Any) -> FailuresReply:
    """Ask, and return the reply, which comes some turns later."""
    asked = request(world, **fields)
    assert world.turn(asked) == []
    world.settle()
    [reply] = [one for one in world.inbox if one.n == asked.n]
    assert isinstance(reply, FailuresReply)
    return reply


def names(reply: FailuresReply) -> dict[str, int]:
    return {group.name: group.failures for group in reply.groups}


def fail(world: World, taskid: str, project: str = "news", *, fetcher: str = "f", **outcome: Any) -> None:
    """Let an attempt fail, and its task with it."""
    host = outcome.pop("host", "a.org")
    world.push(project, task(taskid, url=f"http://{host}/{taskid}"))
    one = world.fetcher(name=fetcher, projects=[project])
    one.fail(taskid, retry=False, **outcome)
    one.hello(capacity=0)


def put(world: World, *failures: KeptFailure) -> None:
    """Write these failures to the store, and restart the scheduler."""
    world.ledger.commit(WriteSet(failures=list(failures)))
    world.crash()


def kept(n: int, at: float = WALL - 50, **fields: Any) -> KeptFailure:
    return KeptFailure(time_key(at, n), replace(Failure(1, f"t{n}", "a.org", "f", "no"), **fields))


# ------------------------------------------------------------------------------------------------ what is answered


def test_failures_are_counted_by_the_kind_of_error_the_largest_first(world: World) -> None:
    for n, error in enumerate(["HTTP 503", PRICE, "HTTP 503", "HTTP 404"]):
        fail(world, f"t{n}", error=error)

    reply = ask(world)

    assert [(group.name, group.failures) for group in reply.groups] == [("HTTP 503", 2), ("HTTP 404", 1), (PRICE, 1)]
    assert (reply.failures, reply.count) == (4, 3)


def test_failures_are_counted_by_host_fetcher_or_project(world: World) -> None:
    fail(world, "a", host="a.org", fetcher="one")
    fail(world, "b", host="A.org", fetcher="two")
    fail(world, "c", host="b.org:81", fetcher="two")
    world.do("start", "shop")
    fail(world, "d", "shop", host="a.org", fetcher="two")

    assert names(ask(world, by="host")) == {"a.org": 3, "b.org:81": 1}
    assert names(ask(world, by="fetcher")) == {"two": 3, "one": 1}
    assert names(ask(world, by="project")) == {"news": 3, "shop": 1}


def test_each_attempt_counts_and_not_only_tasks_that_are_over(world: World) -> None:
    """With the default retries a task has failed for good only after hours."""
    world.push("news", task("a", url="http://a.org/a"))
    fetcher = world.fetcher(name="f")
    fetcher.fail("a", error="HTTP 503")
    world.advance(31)
    fetcher.hello()
    fetcher.fail("a", error="HTTP 503")

    assert names(ask(world)) == {"HTTP 503": 2}
    assert world.counts().failed == 0


def test_a_group_tells_of_its_last_failure_and_since_when_there_are_any(world: World) -> None:
    fail(world, "a", error="HTTP 503 at http://a.org/a", fetcher="one")
    world.advance(60)
    fail(world, "b", error="Traceback\nHTTP 503 at http://b.org/b", fetcher="two", host="b.org")

    [group] = ask(world).groups

    assert group == FailureGroup(
        "HTTP 503 at <url>", 2, WALL, WALL + 60, "news", "b", "b.org", "two", "HTTP 503 at http://b.org/b"
    )


def test_of_one_project_only_its_own_are_counted(world: World) -> None:
    fail(world, "a")
    world.do("start", "shop")
    fail(world, "b", "shop")

    assert ask(world, project="shop").failures == 1
    assert ask(world).failures == 2


def test_only_what_failed_since_a_time_is_counted(world: World) -> None:
    fail(world, "a", error="early")
    world.advance(100)
    fail(world, "b", error="late")

    reply = ask(world, since=WALL + 100)

    assert names(reply) == {"late": 1}
    assert reply.since == WALL + 100
    assert ask(world, since=WALL + 101).failures == 0
    assert ask(world, since=WALL + 1e6).failures == 0


def test_it_says_from_when_on_it_has_any(world: World) -> None:
    world.advance(50)
    fail(world, "a")

    assert ask(world).since == WALL + 50
    assert ask(world, since=WALL + 1).since == WALL + 50


def test_where_nothing_failed_there_is_nothing(world: World) -> None:
    reply = ask(world)

    assert (reply.failures, reply.count, reply.groups) == (0, 0, [])


def test_no_more_groups_come_than_were_asked_for_and_it_says_how_many_there_are(world: World) -> None:
    put(world, *(kept(n, host=f"{n % 5}.org") for n in range(1, 11)))

    reply = ask(world, by="host", limit=2)

    assert [group.name for group in reply.groups] == ["0.org", "4.org"]
    assert (reply.failures, reply.count) == (10, 5)


def test_groups_fit_into_a_message(make_world: Any) -> None:
    world = make_world(max_message=4096)
    put(world, *(kept(n, host=f"{n}.org" * 10) for n in range(1, 101)))

    reply = ask(world, by="host")

    assert 0 < len(reply.groups) < 20
    assert reply.count == 100


def test_failure_counts_of_an_unknown_project_are_refused(world: World) -> None:
    [reply] = world.turn(request(world, project="other"))

    assert isinstance(reply, ErrorReply)
    assert reply.code == "unknown-project"


@pytest.mark.parametrize("action", ["delete", "reset"])
def test_failures_of_what_was_deleted_or_reset_are_not_counted(world: World, action: str) -> None:
    fail(world, "a")
    fail(world, "b")

    world.do(action)

    assert ask(world).failures == 0


# ------------------------------------------------------------------------------------------------ turn by turn


def test_a_turn_looks_at_a_bounded_number_of_failures(world: World) -> None:
    put(world, *(kept(n) for n in range(1, 3 * PAGE_FAILURES + 2)))

    assert world.turn(request(world)) == []
    pages = 0
    while not (replies := world.turn()):
        pages += 1
        assert len(world.needs.failures) == 1
    [reply] = replies
    assert isinstance(reply, FailuresReply)
    assert reply.failures == 3 * PAGE_FAILURES + 1
    assert pages == 3


def test_those_who_ask_have_their_pages_in_turns(world: World) -> None:
    put(world, *(kept(n) for n in range(1, 2 * PAGE_FAILURES + 1)))

    world.turn(request(world, "one"), request(world, "two", since=WALL - 1), request(world, "three"))
    world.settle()

    answered = [reply.failures for reply in world.inbox if isinstance(reply, FailuresReply)]
    assert answered == [0, 2 * PAGE_FAILURES, 2 * PAGE_FAILURES], "who has little to look at need not wait for others"


def test_what_fails_while_it_is_counted_is_not_counted(world: World) -> None:
    put(world, *(kept(n) for n in range(1, 2 * PAGE_FAILURES)))
    world.push("news", task("a"))
    fetcher = world.fetcher()
    world.advance(1)
    asked = request(world)
    world.turn(asked)
    world.elapsed += 1

    fetcher.fail("a")
    world.settle()

    [reply] = [one for one in world.inbox if one.n == asked.n]
    assert isinstance(reply, FailuresReply)
    assert reply.failures == 2 * PAGE_FAILURES - 1


def test_a_repeat_of_a_request_that_is_under_way_is_answered_once(world: World) -> None:
    put(world, *(kept(n) for n in range(1, 2 * PAGE_FAILURES)))
    asked = request(world)

    world.turn(asked)
    world.turn(asked)
    world.settle()

    assert len([one for one in world.inbox if one.n == asked.n]) == 1


def test_too_many_who_ask_at_once_are_refused(world: World) -> None:
    put(world, *(kept(n) for n in range(1, 10)))

    replies = world.turn(*(request(world, f"s{n}") for n in range(COUNTS_MOST + 1)))

    [refused] = replies
    assert isinstance(refused, ErrorReply)
    assert refused.code == "full"


def test_a_project_may_be_deleted_while_its_failures_are_counted(world: World) -> None:
    fail(world, "a")
    asked = request(world, project="news")
    world.turn(asked)

    world.do("delete")
    world.settle()

    [reply] = [one for one in world.inbox if one.n == asked.n]
    assert isinstance(reply, FailuresReply)
    assert reply.groups == []


# ------------------------------------------------------------------------------------------------ kinds of errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("HTTP 503", "HTTP 503"),
        ("HTTP 404 Not Found.", "HTTP 404 Not Found."),
        ("HTTP/1.1 503: Service Unavailable", "HTTP/# 503: Service Unavailable"),
        ("ConnectTimeout: https://a.org/1?x=2 after 30.02 s", "ConnectTimeout: <url> after # s"),
        ("Timeout after 503ms", "Timeout after #ms"),
        ("no title in 'http://a.org/x'", "no title in '<url>'"),
        ("item 81723 has 5 fields", "item # has # fields"),
        ("page-81723.html is empty", "page-#.html is empty"),
        ("<Page object at 0x7f3a2c10>", "<Page object at #>"),
        ("connect to 10.0.0.17:8080 failed: [Errno 111]", "connect to # failed: [Errno 111]"),
        ("no task 1b4e28ba-2fa1-11d2-883f-0016d3cca427", "no task #"),
        ("no task d41d8cd98f00b204e9800998ecf8427e", "no task #"),
        ("at 12:30:05 on 2026-11-22", "at # on #-#-#"),
        ("'utf8' codec can't decode byte", "'utf8' codec can't decode byte"),
        ("KeyError: 'price'", "KeyError: 'price'"),
        ("deadline exceeded", "deadline exceeded"),
        ("cannot parse price at offset 128", "cannot parse price at offset #"),
        ("row 300 of 500", "row # of #"),
        ("429", "429"),
        ("HTTPError: 503 Server Error for url: http://a/", "HTTPError: 503 Server Error for url: <url>"),
        ("Server error '503 Service Unavailable' for http://a/", "Server error '503 Service Unavailable' for <url>"),
        ("answered with status=429", "answered with status=429"),
        ("OSError: [Errno 2] No such file", "OSError: [Errno 2] No such file"),
        ("[WinError 10061] refused", "[WinError 10061] refused"),
        ("Error 111 connecting to db:6379", "Error 111 connecting to db:#"),
        ("", ""),
    ],
)
def test_errors_of_one_kind_differ_in_numbers_ids_and_urls(error: str, kind: str) -> None:
    assert kind_of(error) == kind


@pytest.mark.parametrize("text", ["1" * 160, "a" * 160, "0x" * 80, "1.1" * 53, "f1" * 80, "a:" * 80, "://" * 53])
def test_an_error_that_was_made_to_be_slow_is_not(text: str) -> None:
    """Counted in steps of the matcher: it visits each place a bounded number of times."""
    assert len(kind_of(text)) <= len(text) + 80


# ------------------------------------------------------------------------------------------------ too many groups


def test_of_too_many_groups_those_with_the_most_failures_stay() -> None:
    groups = FailureGroups("host")
    often = [kept(n, host="often.org") for n in range(1, 4)]
    rare = [kept(n, host=f"{n}.org") for n in range(10, 10 + GROUPS_MOST)]

    groups.add(often, (1,))
    groups.add(rare, (1,))
    groups.add(often, (1,))

    assert [(name, group.failures) for name, group in groups.largest(1)] == [("often.org", 6)]
    assert len(groups.largest(2 * GROUPS_MOST)) == GROUPS_MOST // 2
    assert (groups.failures, groups.count) == (GROUPS_MOST + 6, GROUPS_MOST + 1)


def test_a_host_is_counted_once_however_it_is_spelled(world: World) -> None:
    for n, host in enumerate(["bücher.example", "xn--bcher-kva.example", "B%C3%BCCHER.example"]):
        fail(world, f"t{n}", host=host, error="gone")

    assert names(ask(world, by="host")) == {"xn--bcher-kva.example": 3}
