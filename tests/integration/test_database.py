"""A database that goes away beneath a daemon: it says so, answers ``unavailable``, reads the store again, goes on.

Nothing acknowledged is lost when the server is killed; what an asynchronous standby lost is said and counted.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from taskqueue import Client
from taskqueue.errors import DatabaseError, Fenced
from taskqueue.server.config.config_file import Config
from taskqueue.server.meters import Meters
from taskqueue.server.store_opener import StoreOpener
from taskqueue.store.contract import Batch
from taskqueue.store.postgres.fence import Progress
from taskqueue.store.postgres.postgres_store import PostgresStore
from taskqueue.store.postgres.target import target_of
from tests.integration.pusher import TASKS, Pusher
from tests.postgres import QUICK, Cluster

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

ClusterFactory = Callable[..., Cluster]


@pytest.fixture
def cluster() -> Iterator[ClusterFactory]:
    """Start servers of the test's own."""
    started: list[Cluster] = []

    def start(*settings: str, standby_of: Cluster | None = None) -> Cluster:
        started.append(Cluster(*QUICK, *settings, standby_of=standby_of))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_killed_server_loses_nothing_that_was_acknowledged(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
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
    cluster: ClusterFactory,
) -> None:
    server = cluster()
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


def test_nothing_is_synced_on_a_database_that_has_gone_back(cluster: ClusterFactory) -> None:
    server = cluster()
    progress = Progress()
    store = PostgresStore(target_of(server.url), progress=progress)
    epoch = store.begin()
    for number in range(5):
        store.write(epoch, Batch(puts={"ids": [(bytes([number]), b"")]}))
    store.sync()

    server.run("update taskqueue.schedulers set turn = 2")
    with pytest.raises(DatabaseError, match="lost at least 3 turns"):
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
    cluster: ClusterFactory, caplog: pytest.LogCaptureFixture, durability: str, kept: int, event: str, counted: int
) -> None:
    server, meters = cluster(), Meters()
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
    cluster: ClusterFactory,
) -> None:
    target = target_of(cluster().url)
    progress = Progress()
    first = PostgresStore(target, progress=progress)
    first.begin()
    before = progress.position
    epoch = first.begin()
    progress.position = before  # as if the connection had broken before the answer came
    first.close()

    again = PostgresStore(target, progress=progress)
    assert (again.begin(), again.lost_turns) == (epoch + 1, 0)
    again.close()

    other = PostgresStore(target)
    other.begin()
    for _ in range(2):
        with pytest.raises(Fenced, match="another scheduler"):
            PostgresStore(target, progress=progress)
    other.close()


def test_an_epoch_that_another_scheduler_has_begun_anew_after_a_failover_is_not_taken_over(
    cluster: ClusterFactory,
) -> None:
    server = cluster()
    target = target_of(server.url)
    progress = Progress()
    first = PostgresStore(target, progress=progress)
    before = server.run("select epoch, turn, owner from taskqueue.schedulers")
    epoch = first.begin()
    first.close()
    server.run(f"update taskqueue.schedulers set epoch = {before[0][0]}, turn = {before[0][1]}, owner = null")
    server.run(f"update taskqueue.kv_meta set value = '{before[0][0]}' where key = 'epoch'")

    other = PostgresStore(target)
    assert other.begin() == epoch
    other.write(epoch, Batch())
    with pytest.raises(Fenced, match="another scheduler"):
        PostgresStore(target, progress=progress)
    other.write(epoch, Batch())
    other.close()


def test_a_server_that_does_not_answer_makes_requests_unavailable_until_it_does(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
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
    # As often as it was pushed before it was answered.
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
    while not server.run("select pid from pg_stat_activity where wait_event = 'SyncRep'"):  # until it has read it
        pusher.push()
    known = len(pusher.acknowledged)

    while not server.run("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"):
        pass

    assert "canceling wait for synchronous replication" in it.wait_for_log("store-failed")
    assert "standby was not waited for" in pusher.push_until_unavailable()
    assert len(pusher.acknowledged) == known


def test_a_daemon_waits_for_a_database_that_is_not_there_yet(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
    server.signal(signal.SIGKILL)
    it = daemon(url=server.url, start=False)
    it.launch()

    assert "can't connect" in it.wait_for_log("store-failed")
    server.start()
    it.serving()

    Pusher(it, peer).push_until_answered()


def test_a_daemon_that_starts_on_the_same_schema_ends_the_one_before(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
    first = daemon(url=server.url, schema="taskqueue")
    pusher = Pusher(first, peer)
    pusher.push_until_answered()

    second = daemon(url=server.url, schema="taskqueue")
    peer(first).send("new-task", project="news", tasks=[{"taskid": "late", "url": "http://site/"}])

    assert first.ended() == 3
    assert "another scheduler has taken over the store" in first.log()
    assert {row.taskid for row in Client(second.url).tasks.all("news", "ready")} == pusher.acknowledged


def test_a_daemon_that_stumbles_over_what_its_successor_has_written_says_who_has_and_not_that_it_is_a_bug(
    daemon: DaemonFactory, peer: PeerFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
    first = daemon(url=server.url, schema="taskqueue", projects={"news": {}})
    second = daemon(url=server.url, schema="taskqueue", projects={"news": {}})
    fetcher, client = peer(second), peer(second)
    fetcher.ask("hello", capacity=1, projects=["news"], holds=[], seen=0)
    for itag in ("one", "two"):  # what is handed out anew by the turn that restarts it is known as processing at once
        task = {"taskid": "a", "url": "http://site/", "schedule": {"itag": itag}}
        client.ask("new-task", project="news", tasks=[task])
        (held,) = fetcher.receive()["tasks"]
        if itag == "one":
            report = {key: held[key] for key in ("project", "taskid", "token")} | {"ok": True}
            fetcher.ask("done", tasks=[report])

    peer(first).send("task-cancel", project="news", taskids=["a"])

    assert first.ended() == 3
    assert "another scheduler has taken over the store" in first.log()
    assert "bug" not in first.log()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://nobody-known@/postgres?host={folder}", 'role "nobody-known" does not exist'),
        ("postgresql://postgres@/no-such-database?host={folder}", 'database "no-such-database" does not exist'),
        ("postgresql://postgres@/postgres?hots={folder}", 'invalid URI query parameter: "hots"'),
    ],
)
def test_a_wrong_url_ends_the_start_and_says_why_without_the_password(
    daemon: DaemonFactory, cluster: ClusterFactory, url: str, said: str
) -> None:
    it = daemon(url=url.format(folder=cluster().folder).replace("@", ":geheim@"), start=False)
    it.launch()

    assert it.ended() == 1
    assert said in it.log()
    assert "geheim" not in it.log()
    assert "Traceback" not in it.log()


def test_a_database_of_another_encoding_is_refused_and_it_is_said_how_to_make_one(
    daemon: DaemonFactory, cluster: ClusterFactory
) -> None:
    server = cluster()
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
    # From here on nothing reaches it, as behind a cable that was pulled.
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
    """A primary, its standby, and a daemon that knows both."""
    primary = cluster()
    standby = cluster(standby_of=primary)
    for setting in settings:
        name, _, value = setting.partition("=")
        primary.run(f"alter system set {name} = '{value}'")
        primary.run("select pg_reload_conf()")
    both: dict[str, Any] = {"url": f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}"}
    return primary, standby, daemon(**both, timeout=5)
