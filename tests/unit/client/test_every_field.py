"""Each field of a request can be set by a public method of the client.

Each call below is made against a daemon that refuses most of it; only the received requests count. A field that no call
sets is either in one of the tables here, with the reason, or unreachable for users: give it to a method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import msgspec
import pytest
from msgspec import NODEFAULT, Struct

from taskqueue import Client, RequestRejected, new_task
from taskqueue.protocol.base import ChangeRequest
from taskqueue.protocol.daemon import DaemonShow, KeyList, WhoIs
from taskqueue.protocol.exports import ExportedPoint, ExportedProject, ExportedTask
from taskqueue.protocol.fetchers import Hello, Hung, LeaseRef, Select
from taskqueue.protocol.fields import Token
from taskqueue.protocol.flows import FlowStage, FlowStaged, FlowTasks, FlowTasksReply
from taskqueue.protocol.insight import JobCounts, JobCountsReply, Watch, Why, WhyReply
from taskqueue.protocol.messages import REQUESTS, AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import (
    TaskChildren,
    TaskChildrenReply,
    TaskParents,
    TaskParentsReply,
    TaskReply,
    TaskShow,
    TaskWait,
)
from taskqueue.protocol.values import (
    Again,
    Assignment,
    Fetched,
    NewTask,
    Recrawl,
    Schedule,
    TaskCounts,
    TaskFilter,
    TaskOf,
    TaskReport,
)
from tests.unit.client.conftest import Daemon, friendly

PARTS: Final = (NewTask, Schedule, Recrawl, TaskOf, TaskReport, Again, Fetched, TaskFilter, LeaseRef, Hung)

ENVELOPE: Final = frozenset(ChangeRequest.__struct_fields__)
"""Fields that the client adds to each request: version, session, number, and its own name as the actor."""

BY_ITSELF: Final = {
    (Hello, "holds"): "a client knows what it holds",
    (Hello, "seen"): "a client counts the messages that it has seen",
    (Hello, "running"): "a client knows which tasks its callers have begun",
    (Hello, "passed"): "pass_on says so of tasks that are held",
    (Hello, "slots"): "a Worker says how many tasks it runs at once",
    (Hello, "hung"): "a Worker sees which of its handlers hang",
    (Hung, "places"): "as above",
    (Hung, "seconds"): "as above",
    (Hung, "project"): "as above",
    (Hung, "taskid"): "as above",
    (Hung, "url"): "as above",
    (TaskWait, "seconds"): "tasks.wait asks again and again, for as long as a request may take",
    (KeyList, "after"): "daemon.key_uses goes through all pages",
    (DaemonShow, "projects"): "metrics ask so, of a thousand projects at once",
    (WhoIs, "digest"): "a web process asks so",
    (WhoIs, "name"): "as above",
    (Watch, "since"): "projects.watch begins with all projects, and goes on from each reply",
    (Watch, "seconds"): "as above",
    (FlowTasks, "limit"): "flows.iter_tasks goes through the largest pages",
    (TaskReport, "part"): "done sends parts by itself, if there are too many new tasks for a message",
}
"""Fields that the client sets itself, with the reason."""

SCHEDULE: Final[dict[str, Any]] = {
    "priority": 1, "exetime": 5.0, "delay": 1.0, "retries": 1, "age": 9.0, "itag": "x", "auto_recrawl": True,
    "force_update": True, "cancel": True, "timeout": 1.0, "expires_at": 5.0, "slot": "s",
    "recrawl": {"min": 1.0, "max": 2.0}, "repeat": 1, "job": "monday",
}  # fmt: skip
FULL: Final = new_task(
    "http://a/", project="q", taskid="t", body="b", depends_on=["x", ("q", "y")], on_parent_failure="run", **SCHEDULE
)
FACTS: Final[dict[str, Any]] = {
    "status_code": 503, "seconds": 1.0, "error_kind": "http", "changed": True, "content_hash": "h", "etag": "e",
    "last_modified": "m",
}  # fmt: skip


def _reports(client: Client) -> None:
    done, failed, retried, extended, released = client.select(5, projects=["p"], priority=1)
    client.done(done, [FULL], result=1, **FACTS)
    client.failed(failed, "error", retry_after=5.0, retry=False, kind="kind")
    client.retry(retried, "busy", after=1.0, counts=False, body="b", priority=1)
    client.extend(extended, 5.0)
    client.note(extended, 0.5)
    client.release(extended, released)


def _flow(client: Client) -> None:
    flow = client.flow("p", "f")
    flow.task("http://a/", **SCHEDULE)
    flow.submit(reuse=True)


def _keep_open(client: Client) -> None:
    with client.projects.keep_open("p", 5.0):
        pass


CALLS: Final[tuple[Callable[[Client], object], ...]] = (
    _reports,
    lambda client: client.select(timeout=0),
    lambda client: client.push("p", "http://a/", **SCHEDULE),
    lambda client: client.push_many("p", [FULL], outcomes=print),
    lambda client: client.status(),
    lambda client: client.projects.list("a", 5, "g", filter="f", projects=["p"]),
    lambda client: client.projects.list("1", sort="ready"),
    lambda client: client.daemon.show(),
    lambda client: list(client.daemon.history(since=1.0, until=2.0)),
    lambda client: client.why("p", "t"),
    lambda client: client.why(),
    lambda client: client.daemon.verify(),
    lambda client: list(client.daemon.key_uses()),
    lambda client: client.projects.get("p"),
    lambda client: client.projects.set("p", {"rate": 1.0}),
    lambda client: client.projects.unset("p", ["rate"]),
    lambda client: client.projects.pause("p", 5.0),
    lambda client: client.projects.pause_all(5.0),
    lambda client: next(client.projects.watch()),
    lambda client: client.projects.wait("p", 0.0, ignore_retries=True),
    lambda client: client.projects.import_step("p", "x", ExportedProject(1)),
    lambda client: client.projects.import_step(
        "p", "x", first=5, tasks=[ExportedTask("t", "ready")], every="minute", points=[ExportedPoint(60, (1,) * 6)]
    ),
    _keep_open,
    lambda client: client.groups.pause("g", 5.0),
    lambda client: client.groups.set("g", {"rate": 1.0}),
    lambda client: client.tasks.get("p", "t"),
    lambda client: client.tasks.wait("p", "t"),
    lambda client: list(client.tasks.parents("p", "t")),
    lambda client: list(client.tasks.children("p", "t")),
    lambda client: client.tasks.retry("p", ["t"]),
    lambda client: client.tasks.cancel("p", ["t"]),
    lambda client: client.tasks.reprioritise("p", ["t"], 1),
    lambda client: client.tasks.list(
        "p", "failed", url="u", error="e", since=1.0, newest=True, after="1", limit=5, pushed_since=1.0,
        pushed_before=2.0, ignore_case=True, job="monday",
    ),
    lambda client: client.tasks.list("p", ["failed", "ready"]),
    lambda client: client.failures("p", by="host", since=1.0, limit=5),
    lambda client: client.operations.start(
        "reschedule", project="p", group="g", states=["ready"], url="u", error="e", until=2.0, since=1.0, priority=1,
        exetime=5.0, delay=1.0, dry_run=True, pushed_since=1.0, pushed_before=2.0, ignore_case=True, job="monday",
    ),
    lambda client: client.tasks.rerun("p", "t", scope="downstream", dry_run=True),
    lambda client: client.operations.cancel(1),
    lambda client: client.operations.undo(1),
    lambda client: client.operations.get(1, 5.0),
    lambda client: client.operations.list(),
    _flow,
    lambda client: client.flows.list("p", "p/f", 5),
    lambda client: client.flows.get("p", "f", 5.0),
    lambda client: list(client.flows.iter_tasks("p", "f")),
    lambda client: client.flows.cancel("p", "f"),
    lambda client: client.fetchers.list("a", 5, project="p", group="g", filter="f", sort="holds", skip=1),
    lambda client: client.fetchers.list(projects=["p"]),
    lambda client: client.fetchers.get("f"),
    lambda client: client.fetchers.drain("f"),
    lambda client: client.stats.list("a", 5, "g"),
    lambda client: client.stats.job("p", "monday"),
    lambda client: list(client.stats.history("p", "hour", since=1.0, until=2.0)),
    lambda client: client.log.list("p", since=1.0, after="5", limit=5),
    lambda client: client.slots.list("p", sort="errors", limit=5, stored=True),
    lambda client: client.slots.get("p", "s"),
    lambda client: client.slots.set(
        "p", "s", delay=1.0, rate=1.0, burst=1.0, max_processing=1.0, max_tasks=1.0, block_until=1.0
    ),
    lambda client: client.slots.unset("p", "s", ["delay"]),
)  # fmt: skip
"""Calls that together set every field."""


def script(request: AnyRequest) -> list[AnyOutgoing]:
    """Answer calls so that they go on: there is another page, a task is not finished."""
    match request:
        case Hello(capacity=5):
            tasks = [Assignment("p", f"t{token}", f"http://a/{token}", Token(token), 600.0) for token in range(1, 6)]
            return [*friendly(request), Select(number=1, tasks=tasks)]
        case TaskShow():
            return [
                TaskReply(n=request.n, project="p", taskid="t", url="http://a/", state="ready", schedule=Schedule())
            ]
        case TaskParents(after=0):
            return [TaskParentsReply(n=request.n, parents=[], next=1)]
        case TaskChildren(after=""):
            return [TaskChildrenReply(n=request.n, children=[], next="x")]
        case Why(project=None, after=""):
            return [WhyReply(n=request.n, sentence="nothing stands still", next="a")]
        case JobCounts(after=""):
            return [JobCountsReply(n=request.n, counts=TaskCounts(), next="x")]
        case FlowTasks(after=None):
            return [FlowTasksReply(n=request.n, tasks=[], next=1)]
        case FlowStage():
            return [FlowStaged(n=request.n, staged=1)]
    return friendly(request)


def said(value: object) -> Iterator[tuple[type[Struct], str]]:
    """Return the fields that a message sets, in its parts, too: required ones, and changed defaults."""
    if isinstance(value, list | tuple):
        yield from chain.from_iterable(map(said, value))
    elif isinstance(value, Struct):
        for field in msgspec.structs.fields(value):
            what = getattr(value, field.name)
            is_required = field.default is NODEFAULT and field.default_factory is NODEFAULT
            default = field.default_factory() if field.default_factory is not NODEFAULT else field.default
            if is_required or what != default:
                yield type(value), field.name
                yield from said(what)


@pytest.fixture(scope="module")
def heard() -> Iterator[set[tuple[type[Struct], str]]]:
    """Return the fields that all calls have set."""
    daemon = Daemon()
    daemon.script = script
    with Client(daemon.url) as client:
        for call in CALLS:
            with suppress(RequestRejected):
                call(client)
    yield set(chain.from_iterable(map(said, daemon.heard)))
    daemon.stop()


@pytest.mark.parametrize("kind", [*REQUESTS, *PARTS], ids=lambda kind: kind.__name__)
def test_every_field_of_a_request_can_be_said_by_a_public_method(
    heard: set[tuple[type[Struct], str]], kind: type[Struct]
) -> None:
    fields = {(kind, name) for name in kind.__struct_fields__ if kind not in REQUESTS or name not in ENVELOPE}

    assert fields - heard - BY_ITSELF.keys() == set()


def test_nothing_is_excused_that_a_method_says(heard: set[tuple[type[Struct], str]]) -> None:
    assert all(hasattr(kind, name) for kind, name in BY_ITSELF)
    # The client's own messages depend on its speed.
    assert {kind for kind, _ in heard & BY_ITSELF.keys()} <= {Hello}
