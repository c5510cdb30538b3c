"""on_failure: a task that the daemon makes for each task that has used up its retries."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.tasks import TaskRetry, TasksReply
from tests.unit.core.conftest import Fetcher, World, body_of, task
from tests.unit.core.rules.conftest import FORCE
from tests.unit.core.rules.test_operations import WHO

DEAL: Final[dict[str, Any]] = {
    "on_failure": {
        "url": "data:,failed/{taskid}",
        "body": {"save": [{"taskid": "{taskid}", "url": "{url}", "why": "{error}"}, 7]},
        "priority": 9,
        "retries": 0,
    }
}


def measured(call: Callable[[], object]) -> tuple[object, int]:
    """Call a function; return its result and the most bytes that were taken meanwhile."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def made(world: World, fetcher: Fetcher) -> list[str]:
    """List the taskids for which a fetcher has got a task, in order."""
    fetcher.hello()
    return [taskid.split(".", 3)[3] for taskid in fetcher.taken if taskid.startswith("on_failure.")]


def prepared(world: World, *taskids: str, capacity: int = 100, **schedule: Any) -> Fetcher:
    """Make tasks of a project with on_failure; return a fetcher that has them."""
    world.set(**DEAL)
    world.push("news", *(task(taskid, **schedule) for taskid in taskids))
    return world.fetcher(capacity)


def test_a_task_that_has_used_up_its_retries_leads_to_another_in_the_same_commit(world: World) -> None:
    fetcher = prepared(world, "a", retries=1)
    world.set(retry_delay=[1.0])
    fetcher.fail("a")
    world.advance(2)
    assert made(world, fetcher) == []

    fetcher.hello(capacity=0)
    fetcher.fail("a", error="Traceback\nValueError: no title")
    world.crash()
    fetcher = world.fetcher(name="another")
    assert made(world, fetcher) == ["a"]
    handed = fetcher.held[fetcher.taken[0]]
    assert (handed.url, handed.schedule.priority) == ("data:,failed/a", 9)
    assert body_of(handed) == {
        "save": [{"taskid": "a", "url": "http://example.org/a", "why": "ValueError: no title"}, 7]
    }


@pytest.mark.parametrize("end", ["given up", "timed out", "crashed"])
def test_each_way_to_fail_for_good_leads_to_one_task(world: World, end: str) -> None:
    world.set(max_crashes=1, processing_timeout=1000 if end == "crashed" else 30)
    fetcher = prepared(world, "a", retries=0, capacity=1)
    fetcher.hello(capacity=0)
    if end == "given up":
        fetcher.fail("a", retry=False)
    elif end == "timed out":
        world.advance(31)
    else:
        world.advance(61)
    assert world.show("a").state == "failed"

    assert made(world, world.fetcher(name="another")) == ["a"]


def test_without_a_template_a_failure_leads_to_no_task(world: World) -> None:
    world.push("news", task("a", retries=0))
    fetcher = world.fetcher()
    fetcher.fail("a")

    assert made(world, fetcher) == []


def test_without_a_url_it_has_that_of_the_failed_task(world: World) -> None:
    world.set(on_failure={})
    world.push("news", task("a", retries=0))
    fetcher = world.fetcher()
    fetcher.fail("a")
    fetcher.hello()

    assert [handed.url for handed in fetcher.held.values()] == ["http://example.org/a"]


def test_a_text_in_a_failed_task_that_looks_like_a_placeholder_stays(world: World) -> None:
    world.set(on_failure={"body": "{url} {error}"})
    world.push("news", task("a", retries=0, url="http://a/{error}"))
    fetcher = world.fetcher()
    fetcher.fail("a", error="{taskid}")
    fetcher.hello()

    assert [body_of(handed) for handed in fetcher.held.values()] == ["http://a/{error} {taskid}"]


def test_a_task_made_for_a_failure_that_fails_itself_leads_to_no_other(world: World) -> None:
    fetcher = prepared(world, "a", retries=0)
    fetcher.fail("a")
    assert made(world, fetcher) == ["a"]

    fetcher.fail(fetcher.taken[-1])
    assert made(world, fetcher) == ["a"]
    assert world.counts().failed == 2


def test_a_failure_of_on_finished_leads_to_a_task_that_does_not_finish_the_project_once_more(world: World) -> None:
    fetcher = prepared(world, "a", capacity=1)
    world.set(on_finished={"body": "report"})
    fetcher.done("a")
    fetcher.hello()
    fetcher.fail("on_finished", retry=False)
    world.crash()

    assert made(world, fetcher) == ["on_finished"]
    fetcher.finish_all()
    world.settle()
    assert world.event_kinds().count("finished") == 1
    assert (len(fetcher.taken), world.project().unfinished) == (3, 0)


def test_each_failure_of_one_task_leads_to_one_of_its_own(world: World) -> None:
    fetcher = prepared(world, "a", retries=0)
    fetcher.fail("a")
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=["a"]))
    fetcher.hello()
    fetcher.fail("a")

    assert made(world, fetcher) == ["a", "a"]
    assert len(set(fetcher.taken)) == 3


def test_a_task_that_a_deferred_update_restarts_has_failed_for_good_before(world: World) -> None:
    fetcher = prepared(world, "a", retries=0)
    world.push("news", task("a", url="http://example.org/new", **FORCE))
    fetcher.fail("a", error="boom")

    assert made(world, fetcher) == ["a"]
    assert fetcher.held.pop("a").url == "http://example.org/new"
    (handed,) = fetcher.held.values()
    assert body_of(handed) == {"save": [{"taskid": "a", "url": "http://example.org/a", "why": "boom"}, 7]}


def test_a_task_that_fails_with_a_parent_or_recurs_leads_to_none(world: World) -> None:
    fetcher = prepared(world, "a", retries=0, age=60, auto_recrawl=True)
    fetcher.fail("a")
    assert made(world, fetcher) == []

    world.push("news", task("b", retries=0), replace(task("c"), depends_on=("b",)))
    fetcher.hello()
    fetcher.fail("b")
    world.settle()
    assert (world.show("c").state, made(world, fetcher)) == ("failed", ["b"])


def test_limits_of_the_project_do_not_apply_to_it_and_it_keeps_the_project_open(world: World) -> None:
    fetcher = prepared(world, "a", retries=0, capacity=1)
    world.set(max_queue=1, max_tasks=1)
    fetcher.hello(capacity=0)
    fetcher.fail("a")

    assert (world.project().unfinished, world.counts().ready) == (1, 1)
    assert world.event_kinds() == []


def test_a_long_taskid_is_cut(world: World) -> None:
    fetcher = prepared(world, "\u00e9" * 64, retries=0)
    fetcher.fail("\u00e9" * 64)
    (name,) = made(world, fetcher)

    assert name == "\u00e9" * len(name)
    assert 127 <= len(fetcher.taken[-1].encode()) <= 128


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ({"taskid": "x"}, "on_failure.taskid: leave it out; the daemon makes one for each failed task"),
        ({"url": "data:,{error}"}, "on_failure.url: takes {taskid} and {url}; {error} belongs in the body"),
        ({"url": "data:,{oops}"}, "on_failure.url: takes {taskid} and {url}, not {oops}"),
        ({"body": "{url}" * 3}, "on_failure.body: 98304 bytes, at most 65536 are taken in a setting"),
        ({"body": [{"x": "{url}{taskid}"}, "{url}"]}, "on_failure.body: 65664 bytes, at most 65536 are taken in a"),
        ({"body": "{url}{taskid}" * 2}, "on_failure.body: 65792 bytes, at most 65536 are taken in a setting"),
        ({"body": "x" * 65_000 + "{taskid}" * 9}, "on_failure.body: 66157 bytes, at most 65536 are taken in a setting"),
    ],
)
def test_a_template_that_can_not_be_filled_is_refused(world: World, template: dict[str, Any], reason: str) -> None:
    request = ProjectSet(session="person", n=world.n(), project="news", settings={"on_failure": template})
    reply = world.answer(request)

    assert isinstance(reply, ErrorReply)
    assert reply.reason.startswith(reason)


def test_a_template_that_would_become_huge_is_refused_without_being_filled(world: World) -> None:
    settings: dict[str, Any] = {"on_failure": {"body": "{url}" * 2000}}

    reply, most = measured(lambda: world.answer(ProjectSet(**WHO, n=world.n(), project="news", settings=settings)))

    assert isinstance(reply, ErrorReply)
    assert reply.reason == f"on_failure.body: {2000 * 32_768} bytes, at most 65536 are taken in a setting"
    assert most < 8 << 20


def test_a_url_with_many_placeholders_is_cut_without_being_filled(world: World) -> None:
    world.set(on_failure={"url": "data:," + "{url}" * 1600})
    world.push("news", task("a", retries=0, url="http://a/" + "x" * 8000))
    fetcher = world.fetcher()

    _, most = measured(lambda: fetcher.fail("a"))

    assert most < 8 << 20
    fetcher.hello()
    (handed,) = fetcher.held.values()
    assert handed.url == ("data:," + ("http://a/" + "x" * 8000) * 2)[:8192]
