"""Tasks that producers insert into a table in their own transactions: each is taken once, or refused with a reason."""

from __future__ import annotations

import signal
from contextlib import closing
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.types.json import Jsonb

from taskqueue import Client, default_taskid
from tests.postgres import QUICK, Cluster, postgres_url

if TYPE_CHECKING:
    from taskqueue.store.postgres.session import Target
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

ASKED_MOST: Final = 100_000
"""Queries before a test gives up: half a minute at least."""

NEVER_LOOKS: Final = (
    "import sys; from taskqueue.server import main, postgres_intake; postgres_intake.LOOK_SECONDS = 1e9; "
    "sys.exit(main.run(sys.argv[1]))"
)
"""Settings of a daemon that reads the inbox at its start, and then only when notified."""

Connection = psycopg.Connection[tuple[Any, ...]]


def start(daemon: DaemonFactory, target: Target, **settings: Any) -> Daemon:
    return daemon(url=postgres_url(), schema=target.schema, **settings)


def producer(target: Target, url: str = "") -> Connection:
    """Open a connection that finds the tables by their plain names."""
    return psycopg.connect(url or postgres_url(), options=f"-c search_path={target.schema},public")


def insert(connection: Connection, **columns: Any) -> None:
    """Insert a row."""
    names = {"project": "news", "url": "http://site/"} | columns
    marks = ", ".join(f"%({name})s" for name in names)
    connection.execute(f"insert into inbox ({', '.join(names)}) values ({marks})", names)


def wait_until_empty(connection: Connection) -> None:
    for _ in range(ASKED_MOST):
        (left,) = connection.execute("select count(*) from inbox").fetchone() or (0,)
        connection.commit()
        if not left:
            return
    raise AssertionError(f"{left} rows were not taken")


def refusals(connection: Connection) -> list[tuple[str, str]]:
    found = connection.execute("select url, reason from inbox_rejected order by url").fetchall()
    return [(str(url), str(reason)) for url, reason in found]


def test_a_task_inserted_with_the_producers_own_rows_is_there_if_these_are(
    daemon: DaemonFactory, target: Target
) -> None:
    it = start(daemon, target)
    with closing(producer(target)) as database, Client(it.url) as client:
        database.execute("create temporary table pages (url text)")
        database.commit()
        for number, end in enumerate((database.rollback, database.commit)):
            database.execute("insert into pages values (%s)", [f"http://site/{number}"])
            insert(database, url=f"http://site/{number}#top")
            end()
        wait_until_empty(database)

        assert [row.taskid for row in client.tasks.iter("news", "ready")] == [default_taskid("http://site/1#top")]
        assert database.execute("select url from pages").fetchall() == [("http://site/1",)]


def test_a_row_may_say_all_that_a_push_may(daemon: DaemonFactory, target: Target) -> None:
    it = start(daemon, target)
    with closing(producer(target)) as database, Client(it.url) as client:
        client.push("news", "http://site/parent", taskid="parent")
        insert(
            database, taskid="child", url="http://site/child", on_parent_failure="run",
            schedule=Jsonb({"priority": 7, "retries": 2, "itag": "v1"}), depends_on=Jsonb(["parent"]),
            body=Jsonb({"fetch": {"headers": {"Accept": "text/html"}}, "umlaut": "ä\u4e2d", "numbers": [1, 2.5, None]}),
        )  # fmt: skip
        database.commit()
        wait_until_empty(database)

        task = client.tasks.get("news", "child")
        assert (task.state, task.url) == ("blocked", "http://site/child")
        assert (task.schedule.priority, task.schedule.retries, task.schedule.itag) == (7, 2, "v1")
        assert task.body == {
            "fetch": {"headers": {"Accept": "text/html"}}, "umlaut": "ä\u4e2d", "numbers": [1, 2.5, None]
        }  # fmt: skip


def test_texts_are_read_as_they_are_whatever_encoding_the_daemons_role_is_set_to(daemon: DaemonFactory) -> None:
    server = Cluster(*QUICK, "client_encoding=latin1")
    try:
        it = daemon(url=server.url.replace("?", "?client_encoding=latin1&"), schema="taskqueue", projects={"news": {}})
        server.run("insert into taskqueue.inbox (project, url, taskid) values ('news', U&'http://site/\\00e4', 'a')")
        with Client(it.url) as client:
            while not (found := list(client.tasks.iter("news", "ready"))):
                pass

            assert client.tasks.get("news", found[0].taskid).url == "http://site/\u00e4"
    finally:
        server.stop()


def test_what_cant_be_a_task_is_refused_with_the_reason_and_holds_up_nothing(
    daemon: DaemonFactory, target: Target
) -> None:
    it = start(daemon, target, auto_create=False, max_message=1 << 19, projects={"news": {}, "small": {"max_tasks": 1}})
    with closing(producer(target)) as database, Client(it.url) as client:
        insert(database, url="http://a", project="ghost")
        insert(database, url="http://b", schedule=Jsonb({"priority": "high"}))
        insert(database, url="http://c", schedule=Jsonb({"speed": 1}))
        insert(database, url="http://d", body=Jsonb("x" * (1 << 19)))
        client.push("small", "http://first")
        insert(database, url="http://e", project="small")
        insert(database, url="http://f", body=Jsonb(10**30))
        insert(database, url="http://g", project="not a name")
        insert(database, url="http://h", taskid="self", depends_on=Jsonb(["self"]))
        insert(database, url="http://i", on_parent_failure="cry")
        insert(database, url="http://j")
        insert(database, url="http://k", body=f"[{', '.join(['1e131000'] * 9000)}]")
        insert(database, url="http://l", body='"\\ud800"')
        database.commit()
        wait_until_empty(database)

        found = dict(refusals(database))
        assert list(found) == [f"http://{letter}" for letter in "abcdefghikl"]
        assert '"ghost" is unknown' in found["http://a"]
        assert found["http://b"].startswith("schedule.priority: ")
        assert found["http://c"].startswith("schedule")
        assert "at most 524288 are accepted" in found["http://d"]
        assert 'project "small" is full' in found["http://e"]
        assert "self" in found["http://h"]
        assert found["http://i"].startswith("on_parent_failure: ")
        assert found["http://k"].startswith("body: ")
        assert found["http://l"].startswith("body: ")
        assert [row.taskid for row in client.tasks.iter("news", "ready")] == [default_taskid("http://j")]
        assert client.status().shell["reloads"] == 0


def test_a_row_that_may_close_a_cycle_is_judged_once_when_that_is_known(daemon: DaemonFactory, target: Target) -> None:
    it = start(daemon, target)
    chain: list[dict[str, Any]] = [{"url": f"http://site/{n}", "taskid": f"c{n}"} for n in range(3000)]
    for parent, child in pairwise(chain):
        child["depends_on"] = [parent["taskid"]]
    with closing(producer(target)) as database, Client(it.url) as client:
        client.push_many("news", chain)
        insert(
            database, url="http://a", taskid="c0", schedule=Jsonb({"force_update": True}), depends_on=Jsonb(["c2999"])
        )
        insert(database, url="http://b")
        database.commit()
        wait_until_empty(database)

        insert(database, url="http://c")
        database.commit()
        wait_until_empty(database)

        ((url, reason),) = refusals(database)
        assert (url, "c2999" in reason) == ("http://a", True)
        assert client.status().shell["reloads"] == 0
        assert client.projects.get("news").counts.ready == 3


def test_a_notification_makes_it_look_at_once(daemon: DaemonFactory, target: Target) -> None:
    it = start(daemon, target, entry=NEVER_LOOKS)
    with closing(producer(target)) as database, Client(it.url) as client:
        client.status()
        insert(database)
        database.execute(f"notify {target.schema}_inbox")
        database.commit()

        wait_until_empty(database)


def test_a_notification_that_comes_while_a_turn_is_written_is_heard_after_it(
    daemon: DaemonFactory, peer: PeerFactory, target: Target
) -> None:
    it = start(daemon, target, entry=NEVER_LOOKS)
    with closing(producer(target)) as database, closing(producer(target)) as other:
        peer(it).ask("status")
        other.execute("select * from schedulers for update")
        peer(it).send("new-task", project="news", tasks=[{"taskid": "a", "url": "http://site/a"}])
        waits = "select 1 from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
        while not database.execute(waits, [f"taskqueue/{target.schema}"]).fetchone():
            database.rollback()
        insert(database)
        database.execute(f"notify {target.schema}_inbox")
        database.commit()
        other.rollback()

        wait_until_empty(database)


def test_however_often_daemon_and_server_are_killed_each_row_is_taken_up_once(
    daemon: DaemonFactory, target: Target, server: Cluster
) -> None:
    it = daemon(url=server.url, schema=target.schema)
    numbers = count()
    for _ in range(2):
        for end in (it.kill, lambda: server.signal(signal.SIGKILL)):
            with closing(producer(target, server.url)) as database:
                database.cursor().executemany(
                    "insert into inbox (project, url) values ('news', %s)",
                    [[f"http://site/{next(numbers)}"] for _ in range(2000)],
                )
                database.commit()
            end()
            if end == it.kill:
                it.start()
            else:
                server.start()
    with closing(producer(target, server.url)) as database, Client(it.url) as client:
        wait_until_empty(database)
        assert refusals(database) == []
        project = client.projects.get("news")
        # Numbers are written with each row's end, so a row taken twice, or half, would show.
        assert project.counts.ready == project.totals.new == next(numbers)
        assert client.daemon.verify() == []


def test_rows_that_somebody_deletes_while_they_are_taken_up_are_no_tasks_or_gone_already(
    daemon: DaemonFactory, target: Target
) -> None:
    it = start(daemon, target, projects={"news": {}})
    with closing(producer(target)) as database, closing(producer(target)) as other, Client(it.url) as client:
        kept = 0
        for number in range(30):
            insert(database, url=f"http://site/{number}")
            database.execute(f"notify {target.schema}_inbox")
            database.commit()
            kept += 1 - other.execute("delete from inbox").rowcount
            other.commit()
        wait_until_empty(database)

        assert len(list(client.tasks.iter("news", "ready"))) == kept
