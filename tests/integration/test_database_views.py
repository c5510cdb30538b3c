"""SQL views agree with the daemon's replies: projects, tasks and attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue import Client
from tests.postgres import drop_schema, new_target, postgres_url

if TYPE_CHECKING:
    from taskqueue.store.postgres.session import Target
    from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory

Rows = list[tuple[Any, ...]]


def ask(target: Target, sql: str) -> Rows:
    """Run a statement that finds the views by their plain names; return its rows."""
    options = f"-c search_path={target.schema},public -c timezone=UTC"
    with closing(psycopg.connect(postgres_url(), options=options, autocommit=True)) as connection:
        return connection.execute(sql).fetchall()


def finished(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {key: task[key] for key in ("project", "taskid", "token")} | more


def held(fetcher: Peer, count: int) -> list[dict[str, Any]]:
    """Return ``count`` dispatched tasks."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        message = fetcher.receive()
        if message["type"] == "select":
            found += message["tasks"]
    return found


def page(host: str, taskid: str) -> dict[str, Any]:
    """Make a task to push."""
    return {"url": f"http://{host}/{taskid}", "taskid": taskid}


def live(it: Daemon, peer: PeerFactory) -> None:
    """Fill a daemon with tasks in every state, some more than once, in projects of every kind."""
    fetcher = peer(it)
    with Client(it.url) as client:
        fetcher.ask("hello", capacity=6, projects=["news"])
        client.push_many(
            "news",
            [
                {"url": f"http://news/{n}", "taskid": f"t{n}", "itag": "v1", "job": "monday", "priority": -n}
                for n in range(6)
            ],
        )
        tasks = {task["taskid"]: task for task in held(fetcher, 6)}
        reports = [finished(tasks[taskid], ok=True) for taskid in ("t0", "t1")]
        reports += [finished(tasks["t2"], ok=False, error="näh"), finished(tasks["t3"], ok=False, error="x" * 700)]
        fetcher.ask("done", tasks=reports)
        client.tasks.cancel("news", ["t4"])
        client.push("news", "http://news/1", taskid="t1", itag="v2")  # restarted, and dispatched in the same turn
        held(fetcher, 1)
        client.push("news", "http://news/parent", taskid="parent", delay=3600)
        client.push("news", "http://news/child", taskid="child", depends_on=["parent"], itag="kind", job="x")
        client.push("news", "http://news/ä", taskid="ä", priority=7)
        for project in ("cleared", "deleted", "large"):
            client.push_many(project, [page(project, f"c{n}") for n in range(2500)])
        client.projects.clear("cleared")
        client.projects.clear("large")
        client.projects.delete("deleted")
        client.push_many("large", [page("large", f"c{n}") for n in range(2400, 2700)])
        client.push_many(
            "hosts", [{"url": f"http://h{n % 3}/{n}", "taskid": f"h{n}", "itag": "slot"} for n in range(9)]
        )


def test_projects_are_those_of_the_daemon_with_their_counts(
    daemon: DaemonFactory, peer: PeerFactory, target: Target
) -> None:
    it = start(daemon, target)
    live(it, peer)
    with Client(it.url) as client:
        wanted = {view.name: (view.state, msgspec.structs.asdict(view.counts)) for view in client.projects.iter()}
        found = {
            name: (state, dict(zip(names, counts, strict=True)))
            for names in [["ready", "delayed", "processing", "success", "failed", "cancelled", "blocked"]]
            for name, state, *counts in ask(target, f"select name, state, {', '.join(names)} from projects")
        }

    assert found == wanted
    assert found["large"][1]["ready"] == 300


def start(daemon: DaemonFactory, target: Target) -> Daemon:
    projects = {"news": {"retries": 0, "order": "newest"}, "hosts": {"slot": {"by": "host"}}}
    return daemon(url=postgres_url(), schema=target.schema, projects=projects)


def test_tasks_are_those_of_the_daemon_in_every_state(daemon: DaemonFactory, peer: PeerFactory, target: Target) -> None:
    it = start(daemon, target)
    live(it, peer)
    with Client(it.url) as client:
        counted = {
            (view.name, state): count
            for view in client.projects.iter()
            for state, count in msgspec.structs.asdict(view.counts).items()
            if count
        }
        assert dict(Counter((p, s) for p, s in ask(target, "select project, state from tasks"))) == counted
        for project, taskid, state, url, priority, retried, itag, last, job in ask(
            target,
            "select project, taskid, state, url, priority, retried, itag, last_crawl_at, job from tasks "
            "where project in ('news', 'hosts')",
        ):
            view = client.tasks.get(project, taskid)
            assert (state, url, priority, retried) == (view.state, view.url, view.schedule.priority, view.retried)
            assert (itag, job) == (view.schedule.itag or "", view.job)
            assert (last and last.timestamp()) == pytest.approx(view.lastcrawltime or None, abs=1e-5)
    ends = ask(target, "select state, ended_at, due_at from tasks where project = 'news'")
    now = datetime.now(UTC)
    assert all((ended is not None) == (state in ("success", "failed", "cancelled")) for state, ended, _ in ends)
    assert all(abs((ended - now).total_seconds()) < 60 for _, ended, _ in ends if ended)
    assert [round((due - now).total_seconds(), -2) for state, _, due in ends if state == "delayed"] == [3600]


def test_attempts_are_those_of_the_daemon(daemon: DaemonFactory, peer: PeerFactory, target: Target) -> None:
    it = start(daemon, target)
    live(it, peer)
    found = ask(
        target, "select taskid, outcome, fetcher, seconds, error, ended_at from attempts where project = 'news'"
    )
    with Client(it.url) as client:
        wanted = [
            (taskid, attempt.outcome, attempt.fetcher, attempt.error)
            for taskid in ("t0", "t1", "t2", "t3")
            for attempt in client.tasks.get("news", taskid).history
        ]
    assert sorted((taskid, outcome, fetcher, error) for taskid, outcome, fetcher, _, error, _ in found) == sorted(
        wanted
    )
    assert all(0 < seconds < 60 and ended.year >= 2026 for *_, seconds, _, ended in found)


def test_a_task_that_was_put_off_is_told_with_how_often_and_with_the_kind_of_its_error(
    daemon: DaemonFactory, peer: PeerFactory, target: Target
) -> None:
    it = start(daemon, target)
    fetcher, client = peer(it), peer(it)
    fetcher.ask("hello", capacity=2, projects=["hosts"])
    for taskid in ("a", "b"):
        client.ask("new-task", project="hosts", tasks=[page(f"site-{taskid}", taskid) | {"schedule": {"itag": "v1"}}])
        (task,) = held(fetcher, 1)
        if taskid == "a":
            told = {"error": "<p>busy</p>", "kind": "HTTP 503", "retry_after": 3600.0}
            fetcher.ask("done", tasks=[finished(task, ok=False, **told)])

    found = ask(target, "select taskid, state, itag, retried, crashes, put_off from tasks order by taskid")
    assert found == [("a", "delayed", "v1", 0, 0, 1), ("b", "processing", "v1", 0, 0, 0)]
    assert ask(target, "select error, kind from attempts") == [("<p>busy</p>", "HTTP 503")]
    shown = [client.ask("task-show", project="hosts", taskid=taskid)["pushed_at"] for taskid in ("a", "b")]
    assert ask(target, "select extract(epoch from pushed_at)::float8 from tasks order by taskid") == [
        (at,) for at in shown
    ]
    assert all(shown)


def test_a_text_with_a_nul_which_postgresql_has_not_hides_no_other(
    daemon: DaemonFactory, peer: PeerFactory, target: Target
) -> None:
    it = start(daemon, target)
    fetcher, client = peer(it), peer(it)
    fetcher.ask("hello", capacity=1, projects=["news"])
    named = {"taskid": "a\0b", "url": "http://\0/", "schedule": {"itag": "i\0"}}
    client.ask("new-task", project="news", tasks=[named])
    (task,) = held(fetcher, 1)
    shown = ("a\ufffdb", "http://\ufffd/", "i\ufffd")

    assert ask(target, "select taskid, url, itag from tasks") == [shown]
    fetcher.ask("done", tasks=[finished(task, ok=False, error="no \0")])
    client.ask("new-task", project="news", tasks=[page("site", "plain")])

    assert sorted(ask(target, "select taskid, url, itag from tasks")) == [shown, ("plain", "http://site/plain", "")]
    assert ask(target, "select taskid, error from attempts") == [("a\ufffdb", "no \ufffd")]


@given(
    st.lists(
        st.one_of(
            st.integers(-32, (1 << 63) - 1), st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
            st.text(st.characters(exclude_categories=["Cs"]) | st.just("\0"), max_size=400), st.booleans(),
            st.binary(max_size=300), st.none(), st.dictionaries(st.text(max_size=3), st.integers(0, 9999), max_size=3),
            st.lists(st.integers(0, 300), max_size=20),
        ),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_any_item_of_a_packed_array_is_read_as_it_was_written(reader: psycopg.Cursor[Any], items: list[Any]) -> None:
    packed = msgspec.msgpack.encode(items)
    for index, item in enumerate(items):
        if isinstance(item, str):
            reader.execute("select packed_text(%s, packed_item(%s, %s))", [packed, packed, index])
            item = item.replace("\0", "\ufffd")
        elif isinstance(item, bytes):
            reader.execute("select packed_octets(%s, packed_item(%s, %s))", [packed, packed, index])
        elif isinstance(item, int | float) and not isinstance(item, bool):
            reader.execute("select packed_number(%s, packed_item(%s, %s))", [packed, packed, index])
            item = float(item)
        else:
            continue
        assert reader.fetchone() == (item,)
    reader.execute("select packed_item(%s, %s)", [packed, len(items)])
    assert reader.fetchone() == (None,)


@pytest.fixture(scope="module")
def reader() -> Iterator[psycopg.Cursor[Any]]:
    from taskqueue.store.postgres.postgres_store import PostgresStore

    target = new_target()
    PostgresStore(target).close()
    with psycopg.connect(postgres_url(), options=f"-c search_path={target.schema}", autocommit=True) as connection:
        yield connection.cursor()
    drop_schema(target)
