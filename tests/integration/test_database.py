"""A daemon whose database goes away says so, answers ``unavailable``, reads the store again, and goes on.

Nothing acknowledged is lost when the server is killed; losses of an asynchronous standby are reported and counted.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import pytest

from taskqueue import Client
from taskqueue.client.connection import long_poll
from taskqueue.errors import Damaged, DatabaseError, Fenced
from taskqueue.protocol.fields import WAIT_MOST_SECONDS
from taskqueue.server.config import Config
from taskqueue.server.meters import Meters
from taskqueue.server.store_opener import StoreOpener
from taskqueue.store.contract import Batch
from taskqueue.store.postgres.fence import Progress
from taskqueue.store.postgres.postgres_store import PostgresStore
from taskqueue.store.postgres.session import Target, target_of
from taskqueue.store.postgres.tables import make_tables
from tests.integration.pusher import TASKS, Pusher
from tests.postgres import MADE, QUICK, Cluster, drop_schema, postgres_url

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

ClusterFactory = Callable[..., Cluster]

TOLD_SECONDS: Final = 45
"""Time for a client to hear that its request was dropped, and to get its answer; 20 s less than it would wait by
itself."""

BREAK_CONNECTIONS: Final = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"


def run_in(target: Target, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement in the database of a store; return its rows."""
    with psycopg.connect(target.conninfo, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def cluster() -> Iterator[ClusterFactory]:
    """Start database servers for this test."""
    started: list[Cluster] = []

    def start(*settings: str, standby_of: Cluster | None = None) -> Cluster:
        started.append(Cluster(*QUICK, *settings, standby_of=standby_of))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_killed_server_loses_nothing_that_was_acknowledged(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster
) -> None:
    it = daemon(url=server.url)
    pusher = Pusher(it, peer)

    for _ in range(3):
        pusher.push_until_answered()
        server.signal(signal.SIGKILL)
        server.start()
        pusher.push_until_answered()

    assert pusher.lost() == set()
    assert peer(it).ask("verify")["problems"] == []
    assert "store-read-again" in it.log()
    assert peer(it).shell()["lost_turns"] == 0
    assert it.stop() == 0


def test_what_was_synced_before_the_server_is_killed_is_there_and_of_the_rest_there_are_no_gaps(
    server: Cluster,
) -> None:
    target = target_of(server.url)
    store = PostgresStore(target)
    epoch = store.begin()
    numbers = iter(range(1, 1000))
    for number in islice(numbers, 50):
        store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")], "ready": [(bytes([number]), b"")]}))
    store.sync()
    for number in islice(numbers, 100):
        store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")], "ready": [(bytes([number]), b"")]}))

    server.signal(signal.SIGKILL)
    with pytest.raises(DatabaseError):
        store.sync()
    server.start()

    found = PostgresStore(target)
    kept = [key[0] for key, _ in found.scan("ids", b"", b"\xff", 1000)]
    assert len(kept) >= 50
    assert kept == list(range(1, len(kept) + 1))
    assert [key[0] for key, _ in found.scan("ready", b"", b"\xff", 1000)] == kept
    store.close()
    found.close()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda store, epoch: store.write(epoch, Batch(puts={"ids": [(b"late", b"")]})),
        lambda store, epoch: store.sync(),
        lambda store, epoch: store.inbox_rows([], 1 << 20),
    ],
    ids=["write", "sync", "look"],
)
def test_a_database_that_has_lost_the_last_turns_of_an_epoch_is_noticed_by_the_next_write_sync_and_look(
    target: Target, attempt: Callable[[PostgresStore, int], object]
) -> None:
    with closing(PostgresStore(target)) as store:
        epoch = store.begin()
        for number in range(5):
            store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")]}))
        run_in(target, f"update {target.schema}.schedulers set turn = 2")

        with pytest.raises(DatabaseError, match="lost at least 3 confirmed turns"):
            attempt(store, epoch)

    with closing(PostgresStore(target)) as found:
        assert found.get("ids", [b"late"]) == [None]


def test_the_looks_of_an_idle_minute_write_nothing_to_the_log_of_the_server(cluster: ClusterFactory) -> None:
    # Without the server's own writes.
    server = cluster("autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1d")
    with closing(PostgresStore(target_of(server.url))) as store:
        epoch = store.begin()
        for number in range(200):
            store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")]}))
        store.sync()
        store.inbox_rows([], 1 << 20)  # which may remove earlier dead rows
        before = server.run("select pg_current_wal_insert_lsn()")

        for _ in range(60):
            assert store.inbox_rows([], 1 << 20) == []

        assert server.run("select pg_current_wal_insert_lsn()") == before


@pytest.mark.parametrize("is_new", [False, True])
def test_a_store_whose_schema_is_gone_is_not_made_anew_by_the_process_that_had_it(target: Target, is_new: bool) -> None:
    progress = Progress()
    with closing(PostgresStore(target, progress=progress)) as store:
        store.begin()
    drop_schema(target)
    if is_new:
        make_tables(target)

    with pytest.raises(Damaged, match="the store is gone: "):
        PostgresStore(target, progress=progress)

    assert bool(run_in(target, f"select 1 from pg_namespace where nspname = '{target.schema}'")) == is_new


@pytest.mark.parametrize("dropped", ["schema {schema} cascade", "table {schema}.inbox", "table {schema}.schedulers"])
def test_a_schema_that_is_dropped_beneath_an_idle_daemon_ends_it_with_5_and_it_says_that_the_store_is_gone(
    daemon: DaemonFactory, target: Target, dropped: str
) -> None:
    it = daemon(url=postgres_url(), schema=target.schema)

    run_in(target, f"drop {dropped.format(schema=target.schema)}")

    assert it.ended() == 5
    assert "the store is gone" in it.log()
    assert "Traceback" not in it.log()
    tables = run_in(target, f"select tablename from pg_tables where schemaname = '{target.schema}'")
    assert (dropped.split(".")[-1],) not in tables
    assert bool(tables) == dropped.startswith("table")


def test_a_client_that_waits_is_answered_though_the_daemon_has_lost_its_connections_meanwhile(
    daemon: DaemonFactory, peer: PeerFactory, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll, "WAIT_SECONDS", WAIT_MOST_SECONDS)
    it = daemon(url=postgres_url(), schema=target.schema)
    operator = peer(it)
    operator.push("news", "a")
    with Client(it.url) as client, ThreadPoolExecutor(1) as pool:
        client.status()
        waiting = pool.submit(client.projects.wait, "news")
        for _ in range(2):
            times = it.log().count("store-read-again")
            run_in(target, BREAK_CONNECTIONS, f"taskqueue/{target.schema}")
            while it.log().count("store-read-again") == times:
                pass

        # Without the notice that its request was dropped, the client would wait a minute for the answer, and 5 s more.
        while operator.ask("task-cancel", project="news", taskids=["a"]).get("code") == "unavailable":
            pass
        assert waiting.result(TOLD_SECONDS)


def test_nothing_is_synced_on_a_database_that_has_gone_back(server: Cluster) -> None:
    progress = Progress()
    store = PostgresStore(target_of(server.url), progress=progress)
    epoch = store.begin()
    for number in range(5):
        store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")]}))
    store.sync()

    server.run("update taskqueue.schedulers set turn = 2")
    with pytest.raises(DatabaseError, match="lost at least 3 confirmed turns"):
        store.sync()
    store.close()

    again = PostgresStore(target_of(server.url), progress=progress)
    assert (again.lost_turns, again.lost_synced_turns) == (3, 3)
    assert again.begin() > epoch + 1000
    again.close()


@pytest.mark.parametrize(
    ("durability", "kept", "event", "counted"),
    [("commit", 3, "store-behind turns=2;", 0), ("commit", 2, "store-lost turns=1;", 1),
     ("interval", 3, "store-lost turns=2;", 2), ("commit", 5, "", 0)],
)  # fmt: skip
def test_only_what_was_acknowledged_is_said_to_be_lost_and_else_no_epochs_are_skipped(
    server: Cluster, caplog: pytest.LogCaptureFixture, durability: str, kept: int, event: str, counted: int
) -> None:
    meters = Meters()
    config = msgspec.convert({"store": {"url": server.url, "durability": durability}}, Config)
    opener = StoreOpener(False, meters)
    store = opener.open(config)
    epoch = store.begin()
    for number in range(5):
        store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")]}))
        if number == 2:
            store.sync()
    store.close()
    server.run(f"update taskqueue.schedulers set turn = {kept}")

    again = opener.open(config)

    assert [event in record.message for record in caplog.records] == [True] * (event != "")
    assert meters.lost_turns == counted
    assert (again.begin() > epoch + 1000) == (event[:10] == "store-lost" and durability == "commit")
    again.close()


def test_an_epoch_that_was_begun_without_being_told_is_known_as_its_own_and_another_schedulers_is_not(
    server: Cluster,
) -> None:
    target = target_of(server.url)
    progress = Progress()
    first = PostgresStore(target, progress=progress)
    first.begin()
    before = progress.position
    epoch = first.begin()
    progress.position = before  # as if the connection had broken before the answer
    first.close()

    again = PostgresStore(target, progress=progress)
    assert (again.begin(), again.lost_turns) == (epoch + 1, 0)
    again.close()

    other = PostgresStore(target)
    other.begin()
    for _ in range(2):
        with pytest.raises(Fenced, match="another daemon"):
            PostgresStore(target, progress=progress)
    other.close()


def test_an_epoch_that_another_scheduler_has_begun_anew_after_a_failover_is_not_taken_over(
    server: Cluster,
) -> None:
    target = target_of(server.url)
    progress = Progress()
    first = PostgresStore(target, progress=progress)
    before = server.run("select epoch, turn, owner from taskqueue.schedulers")
    epoch = first.begin()
    first.close()
    epoch_before, turn_before = before[0][:2]
    moved = f"epoch = {epoch_before}, turn = {turn_before}, owner = null, crc = null"
    server.run(f"update taskqueue.schedulers set {moved}")
    server.run(f"update taskqueue.kv_meta set value = '{epoch_before}', crc = null where key = 'epoch'")

    other = PostgresStore(target)
    assert other.begin() == epoch
    other.write(epoch, Batch())
    with pytest.raises(Fenced, match="another daemon"):
        PostgresStore(target, progress=progress)
    other.write(epoch, Batch())
    other.close()


def test_a_server_that_does_not_answer_makes_requests_unavailable_until_it_does(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster
) -> None:
    it = daemon(url=server.url, timeout=1)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()

    server.signal(signal.SIGSTOP)
    pusher.push_until_unavailable()
    assert "did not answer within 1 s" in it.wait_for_log("store-failed")

    server.signal(signal.SIGCONT)
    pusher.push_until_answered()
    assert pusher.lost() == set()


def test_a_daemon_that_makes_its_tables_waits_for_no_standby_without_a_bound(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster("synchronous_standby_names=*")
    it = daemon(url=server.url, schema="taskqueue", timeout=1, start=False)
    it.launch()

    assert "did not answer within 1 s" in it.wait_for_log("store-failed")
    standby = cluster(standby_of=server)
    it.serving()

    Pusher(it, peer).push_until_answered()
    # As many as pushes before the answer.
    [(count,)] = standby.run("select count(*) from taskqueue.kv_ids")
    assert count in range(TASKS, TASKS * 100, TASKS)


def test_nothing_is_acknowledged_that_was_not_sent_to_the_standby_because_somebody_cancelled_the_wait(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
    it = daemon(url=server.url)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()
    server.run("alter system set synchronous_standby_names = '*'")
    server.run("select pg_reload_conf()")
    while not server.run("select pid from pg_stat_activity where wait_event = 'SyncRep'"):  # until it is read
        pusher.push()
    known = len(pusher.acknowledged)

    while not server.run("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"):
        pass

    assert "canceling wait for synchronous replication" in it.wait_for_log("store-failed")
    reason = pusher.push_until_unavailable()
    # Reading the store again waits for the standby, too.
    assert "the standby has not confirmed" in reason or "the database does not answer" in reason
    assert len(pusher.acknowledged) == known


def test_a_daemon_waits_for_a_database_that_is_not_there_yet(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster
) -> None:
    server.signal(signal.SIGKILL)
    it = daemon(url=server.url, start=False)
    it.launch()

    assert "can't connect" in it.wait_for_log("store-failed")
    server.start()
    it.serving()

    Pusher(it, peer).push_until_answered()


def test_a_daemon_that_starts_on_the_same_schema_ends_the_one_before(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster
) -> None:
    first = daemon(url=server.url, schema="taskqueue")
    pusher = Pusher(first, peer)
    pusher.push_until_answered()

    second = daemon(url=server.url, schema="taskqueue")

    assert first.ended() == 3
    assert "another daemon has taken over the store" in first.log()
    assert {row.taskid for row in Client(second.url).tasks.iter("news", "ready")} >= pusher.acknowledged


def test_an_idle_daemon_notices_its_successor_though_nothing_is_ever_asked_of_it(
    daemon: DaemonFactory, target: Target
) -> None:
    first, _ = [daemon(url=postgres_url(), schema=target.schema) for _ in range(2)]

    assert first.ended() == 3
    assert "another daemon has taken over the store" in first.log()


def test_a_daemon_that_stumbles_over_what_its_successor_has_written_says_who_has_and_not_that_it_is_a_bug(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster
) -> None:
    first = daemon(url=server.url, schema="taskqueue", projects={"news": {}})
    second = daemon(url=server.url, schema="taskqueue", projects={"news": {}})
    fetcher, client = peer(second), peer(second)
    fetcher.ask("hello", capacity=1, projects=["news"], holds=[], seen=0)
    for itag in ("one", "two"):  # tasks dispatched anew by the restarting turn count as processing at once
        task = {"taskid": "a", "url": "http://site/", "schedule": {"itag": itag}}
        client.ask("new-task", project="news", tasks=[task])
        (held,) = fetcher.receive()["tasks"]
        if itag == "one":
            report = {key: held[key] for key in ("project", "taskid", "token")} | {"ok": True}
            fetcher.ask("done", tasks=[report])

    peer(first).send("task-cancel", project="news", taskids=["a"])

    assert first.ended() == 3
    assert "another daemon has taken over the store" in first.log()
    assert "bug" not in first.log()


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        ("postgresql://ghost@/postgres?host={folder}", 1, 'role "ghost" does not exist'),
        ("postgresql://postgres@/no-such-database?host={folder}", 1, 'database "no-such-database" does not exist'),
        ("postgresql://postgres@/postgres?hots={folder}", 2, 'invalid URI query parameter: "hots"'),
    ],
)
def test_a_wrong_url_ends_the_start_and_says_why_without_the_password(
    daemon: DaemonFactory, server: Cluster, url: str, status: int, said: str
) -> None:
    it = daemon(url=url.format(folder=server.folder).replace("@", ":geheim@"), start=False)
    it.launch()

    assert it.ended() == status
    assert said in it.log()
    assert "geheim" not in it.log()
    assert "Traceback" not in it.log()


def test_a_database_of_another_encoding_is_refused_and_it_is_said_how_to_make_one(
    daemon: DaemonFactory, server: Cluster
) -> None:
    server.run("create database old encoding 'LATIN1' locale 'C' template template0")
    it = daemon(url=server.url.replace("/postgres?", "/old?"), start=False)
    it.launch()

    assert it.ended() == 1
    assert "its encoding is LATIN1, not UTF8; make a database with: createdb --encoding UTF8" in it.log()


def test_with_a_synchronous_standby_a_failover_loses_nothing(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    primary, standby, it = replicated(daemon, cluster, "synchronous_standby_names=*")
    pusher = Pusher(it, peer)
    for _ in range(20):
        pusher.push_until_answered()

    primary.signal(signal.SIGKILL)
    standby.promote()
    pusher.push_until_answered()

    assert pusher.lost() == set()
    assert peer(it).shell()["lost_turns"] == 0
    assert "store-lost" not in it.log()


def test_what_an_asynchronous_standby_has_lost_is_said_and_counted_and_no_token_is_given_twice(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    primary, standby, it = replicated(daemon, cluster)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()
    before = peer(it).ask("status")["epoch"]
    # From here on nothing reaches the standby, as with a pulled cable.
    standby.signal(signal.SIGSTOP)
    primary.run("select pg_terminate_backend(pid) from pg_stat_replication")
    for _ in range(5):
        pusher.push_until_answered()

    primary.signal(signal.SIGKILL)
    standby.signal(signal.SIGCONT)
    standby.promote()
    pusher.push_until_answered()

    line = it.wait_for_log("store-lost")
    lost = int(line.split("turns=")[1].split(";")[0])
    assert lost >= 5
    assert " ERROR " in line
    assert peer(it).shell()["lost_turns"] == lost
    assert peer(it).ask("status")["epoch"] > before + 1000
    assert 0 < len(pusher.lost()) <= lost * TASKS
    assert peer(it).ask("verify")["problems"] == []


def replicated(daemon: DaemonFactory, cluster: ClusterFactory, *settings: str) -> tuple[Cluster, Cluster, Daemon]:
    """Start a primary, its standby, and a daemon that knows both."""
    primary = cluster()
    standby = cluster(standby_of=primary)
    for setting in settings:
        name, _, value = setting.partition("=")
        primary.run(f"alter system set {name} = '{value}'")
        primary.run("select pg_reload_conf()")
    both: dict[str, Any] = {"url": f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}"}
    return primary, standby, daemon(**both, timeout=5)


def test_a_server_that_a_test_has_left_stopped_and_changed_is_as_new_for_the_next(server: Cluster) -> None:
    new = server.run("show work_mem")
    server.run("create role anna")
    server.run("create schema hers authorization anna")
    server.run("create database hers owner anna")
    server.run("alter system set work_mem = '64kB'")
    server.run("select pg_reload_conf()")
    assert len(server.run(MADE)) == 5
    server.signal(signal.SIGSTOP)

    server.clear()

    assert server.run(MADE) == []
    assert new in (server.run("show work_mem") for _ in range(10))  # the server reads its settings with a delay
