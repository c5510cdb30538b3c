"""Damage in a database: a checksum per row reveals what was changed beneath the daemon."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from taskqueue import Client
from taskqueue.cli.main import main
from taskqueue.errors import Damaged, FormatError, RequestRejected, Unreadable
from taskqueue.store.contract import Batch
from taskqueue.store.postgres.postgres_snapshot import DatabaseSnapshot
from taskqueue.store.postgres.postgres_store import DROPPED_AT_ONCE, PostgresStore
from taskqueue.store.postgres.tables import TABLES_VERSION, completing
from tests.postgres import postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from taskqueue.store.postgres.session import Target
    from tests.integration.conftest import DaemonFactory, Peer, PeerFactory

PROJECT = b"\0\0\0\7"
ROWS = [(PROJECT + b"%02d" % number, b"value %d" % number) for number in range(20)]
FLIPPED = "set_byte(value, 0, get_byte(value, 0) # 1)"
END = b"\xff" * 8


@pytest.fixture
def sql(target: Target) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Operator's connection, which finds the tables by their plain names."""
    with psycopg.connect(postgres_url(), options=f"-c search_path={target.schema}", autocommit=True) as connection:
        yield connection


@pytest.fixture
def store(target: Target) -> Iterator[PostgresStore]:
    with closing(PostgresStore(target)) as opened:
        opened.write(opened.begin(), Batch(puts={"ids": ROWS}))
        yield opened


# ------------------------------------------------------------------------------------------------ checksums


@pytest.mark.parametrize(
    "change",
    [
        f"update kv_ids set value = {FLIPPED} where key = %s",
        "update kv_ids set value = substring(value from 1 for octet_length(value) - 1) where key = %s",
        "update kv_ids set value = '' where key = %s",
        "update kv_ids set crc = crc # 1 where key = %s",
        # A row of another key, and one of another family.
        "update kv_ids set (value, crc) = (select value, crc from kv_ids where key = '\\x000000073031') where key = %s",
        "update kv_ids set (value, crc) = (select value, crc from kv_meta where key = 'format') where key = %s",
    ],
    ids=["flipped", "cut", "emptied", "another checksum", "another key", "another family"],
)
def test_a_row_that_was_changed_beneath_the_daemon_is_not_returned_and_is_noted(
    store: PostgresStore, sql: psycopg.Connection[tuple[Any, ...]], change: str
) -> None:
    wanted = [key for key, _ in ROWS]

    sql.execute(change, [wanted[5]])

    sound = ROWS[:5] + ROWS[6:]
    assert store.get("ids", wanted) == [value if key != wanted[5] else None for key, value in ROWS]
    # As many as were asked for: one fewer would mean that there are no more.
    assert store.scan("ids", PROJECT, END, 10) == sound[:10]
    assert store.scan_back("ids", PROJECT, END, 15) == sound[::-1][:15]
    assert [(row.family, row.key, row.reason) for row in store.damaged] == [
        ("ids", wanted[5], "its checksum does not match")
    ]


def test_a_reader_that_can_not_note_damage_refuses_the_row(
    store: PostgresStore, target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    sql.execute(f"update kv_ids set value = {FLIPPED} where key = %s", [ROWS[0][0]])

    with closing(DatabaseSnapshot(target)) as snapshot, pytest.raises(Unreadable, match="family ids, key 000000073030"):
        snapshot.scan("ids", PROJECT, END, 10)


def test_a_row_of_a_project_that_is_stored_elsewhere_has_its_own_checksum(
    store: PostgresStore, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    after = b"\0\0\0\x08"
    many = [(PROJECT + number.to_bytes(8, "big"), b"") for number in range(DROPPED_AT_ONCE + 1)]
    epoch = store.begin()
    store.write(epoch, Batch(puts={"ready": many}))
    store.write(epoch, Batch(puts={"ready": ROWS}, drops=[("ready", PROJECT, after)]))

    assert sql.execute("select count(*) from prefixes").fetchone() == (2,)
    assert store.scan("ready", PROJECT, END, 100) == ROWS
    assert store.get("ready", [key for key, _ in ROWS]) == [value for _, value in ROWS]
    sql.execute("update kv_ready set key = overlay(key placing '\\x00000009' from 1 for 4) where value = 'value 3'")
    assert store.scan("ready", PROJECT, b"\0\0\0\x0a", 100) == ROWS[:3] + ROWS[4:]
    assert [row.key for row in store.damaged] == [b"\0\0\0\x0903"]


# ------------------------------------------------------------------------------------------------ older stores


def test_rows_from_before_there_were_checksums_are_read_and_get_one_when_they_are_written(
    target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    with closing(PostgresStore(target)) as store:
        store.write(store.begin(), Batch(puts={"ids": ROWS}))
    make_older(sql)

    with closing(PostgresStore(target)) as store:
        epoch = store.begin()
        assert store.scan("ids", b"", END, 100) == ROWS
        store.write(epoch, Batch(puts={"ids": ROWS[:3]}))
        assert store.scan("ids", b"", END, 100) == ROWS

    assert sql.execute("select count(crc) from kv_ids").fetchone() == (3,)
    assert sql.execute("select number from versions where name = 'tables'").fetchone() == (TABLES_VERSION,)
    assert sql.execute("select count(*) from kv_damaged").fetchone() == (0,)


def test_older_tables_are_not_changed_by_looking_at_them(
    target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    PostgresStore(target).close()
    make_older(sql)

    with pytest.raises(FormatError, match=f"its tables have version 1, not {TABLES_VERSION}"):
        DatabaseSnapshot(target)

    assert sql.execute("select number from versions where name = 'tables'").fetchone() == (1,)


def test_tables_from_before_there_were_undos_are_completed(
    target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    PostgresStore(target).close()
    sql.execute("drop table kv_undo_rows")
    sql.execute("update versions set number = 2 where name = 'tables'")

    PostgresStore(target).close()

    assert sql.execute("select count(*) from kv_undo_rows").fetchone() == (0,)


def make_older(sql: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Make the tables as version 1 had them."""
    for statement in completing("it"):
        name = statement.split()[2].removeprefix("it.")
        sql.execute(f"alter table {name} drop column crc")
    sql.execute("drop table kv_damaged")
    sql.execute("update versions set number = 1 where name = 'tables'")


# ------------------------------------------------------------------------------------------------ the one writer


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("update schedulers set epoch = epoch + 1", "schedulers: its checksum does not match"),
        ("update schedulers set owner = set_byte(owner, 3, get_byte(owner, 3) # 1)", "schedulers: its checksum"),
        ("delete from schedulers", "schedulers: it has 0 rows, not 1"),
        ("insert into schedulers values (1, 77, 0)", "schedulers: it has 2 rows, not 1"),
        ("delete from barriers", "barriers: its row is missing"),
        (f"update kv_meta set value = {FLIPPED} where key = 'epoch'", "family meta"),
        (f"update kv_meta set value = {FLIPPED} where key = 'format'", "family meta"),
    ],
)
def test_damage_to_what_says_who_may_write_ends_a_start_as_damage(
    store: PostgresStore, target: Target, sql: psycopg.Connection[tuple[Any, ...]], change: str, reason: str
) -> None:
    store.close()
    sql.execute(change)

    with pytest.raises(Damaged, match=reason), closing(PostgresStore(target)) as again:
        again.begin()


# ------------------------------------------------------------------------------------------------ the daemon goes on

CUT = "substring(value from 1 for octet_length(value) / 2)"
OF_PROJECT = "where substring(key from 1 for 4) = (select key from kv_projects where position(%s in value) > 0)"

DAMAGES = {
    "ready-cut": f"update kv_ready set value = {CUT} {OF_PROJECT}",
    "ready-flipped": f"update kv_ready set value = {FLIPPED} {OF_PROJECT}",
    "ready-undecodable": f"update kv_ready set value = {CUT}, crc = null {OF_PROJECT}",
    "spec-cut": f"update kv_specs set value = {CUT} {OF_PROJECT}",
    "spec-undecodable": f"update kv_specs set value = {CUT}, crc = null {OF_PROJECT}",
    "spec-deleted": f"delete from kv_specs {OF_PROJECT}",
}
"""Damage done while the daemon is down, by the name of a project with one ready task."""


def test_what_is_damaged_is_set_aside_and_all_other_tasks_go_on(
    daemon: DaemonFactory, peer: PeerFactory, target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    it = daemon(url=postgres_url(), schema=target.schema)
    with Client(it.url) as client:
        for name in DAMAGES:
            client.push(name, "http://site/lost")
        client.push("record-flipped", "http://site/kept")
        client.push("sound", "http://site/1")
        client.push("finished", "http://site/over")
        assert run_all(peer(it), 1, projects=["finished"]) == {"finished http://site/over"}
    it.stop()
    for name, change in DAMAGES.items():
        assert sql.execute(change, [name.encode()]).rowcount == 1
    for each in (b"record-flipped", b"finished"):
        assert sql.execute(f"update kv_ids set value = {FLIPPED} {OF_PROJECT}", [each]).rowcount == 1

    it.start()
    with Client(it.url) as client:
        assert run_all(peer(it), 2) == {"sound http://site/1", "record-flipped http://site/kept"}
        for name in DAMAGES:
            counts = client.projects.get(name).counts
            assert (name, counts.ready, counts.failed) == (name, 0, 1)
        assert client.projects.get("sound").counts.success == 1
        assert client.daemon.verify() == []
        # An unreadable spec makes its task's place unreadable, too.
        assert client.status().shell["damaged_rows"] == len(DAMAGES) + 2
    log = it.log()
    for name in DAMAGES:
        assert f"damaged project={name}" in log
    it.kill()

    it.start()
    with Client(it.url) as client:
        for name in DAMAGES:
            assert client.push(name, "http://site/lost") == "ignored"
            assert client.push(name, "http://site/2") == "new"
        for is_forced in (False, True):
            with pytest.raises(RequestRejected, match="can't be read; run: taskqueue store repair"):
                client.push("finished", "http://site/over", force_update=is_forced)
        assert client.push("finished", "http://site/2") == "new"
        assert client.push("spec-deleted", "http://site/lost", force_update=True) == "restarted"
        counts = client.projects.get("spec-deleted").counts
        assert (counts.ready, counts.failed) == (2, 0)
    assert "spec-deleted http://site/lost" in run_all(peer(it), len(DAMAGES) + 2)


def run_all(fetcher: Peer, count: int, **wishes: object) -> set[str]:
    """Run ``count`` tasks; return their projects and urls."""
    fetcher.ask("hello", capacity=2, **wishes)
    urls: set[str] = set()
    while len(urls) < count:
        for task in fetcher.receive()["tasks"]:
            urls.add(f"{task['project']} {task['url']}")
            done = {name: task[name] for name in ("project", "taskid", "token")}
            assert fetcher.ask("done", tasks=[done])["outcomes"] == ["done"]
    return urls


def test_what_is_damaged_beneath_a_running_daemon_is_written_anew_from_memory_or_has_failed(
    daemon: DaemonFactory, peer: PeerFactory, target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    it = daemon(url=postgres_url(), schema=target.schema, head_tasks=4)
    with Client(it.url) as client:
        client.push("news", "http://site/0")
        client.projects.stop("news")
        client.push_many("news", [f"http://site/{number}" for number in range(1, 20)])
        it.kill()
        it.start()
        assert client.daemon.verify() == []  # the first turn, which reads heads, has ended
        assert sql.execute("delete from kv_specs where position('site/19'::bytea in value) > 0").rowcount == 1
        first = "(select min(key) from kv_ready)"
        assert sql.execute(f"update kv_ready set value = {FLIPPED} where key = {first}").rowcount == 1
        assert client.push("news", "http://site/19", priority=9) == "merged"

        assert len(client.tasks.list("news", "ready").items) == 18
        assert len(client.tasks.list("news", "ready").items) == 19
        assert client.projects.start("news").state == "running"
        ran = run_all(peer(it), 19)

        assert ran == {f"news http://site/{number}" for number in range(19)}
        [failed] = client.tasks.list("news", "failed").items
        assert (failed.url, failed.error) == ("", "damaged")
        counts = client.projects.get("news").counts
        assert (counts.ready, counts.success, counts.failed) == (0, 19, 1)
        assert client.daemon.verify() == []
        assert client.tasks.retry("news", [failed.taskid]) == ["done"]
    assert 'damaged project=news reason="task' in it.log()


# ------------------------------------------------------------------------------------------------ looking and mending

LINES = [
    '{"taskqueue":1,"projects":[{"name":"hurt"},{"name":"sound"}]}',
    *(
        f'{{"project":"{project}","taskid":"{taskid}","state":"{state}","url":"http://site/{taskid}"{rest}}}'
        for project in ("hurt", "sound")
        for taskid, state, rest in (
            ("waits", "ready", ""),
            ("later", "delayed", ',"exetime":4000000000.0'),
            ("done", "success", ',"ended_at":1700000000.0'),
            ("failed", "failed", ',"ended_at":1700000000.0'),
        )
    ),
    '{"tasks":8}',
]
HURT = "where substring(key from 1 for 4) = '\\x00000001'"
WAITS, DONE = (f"and key = '\\x00000001{taskid.encode().hex()}'" for taskid in ("waits", "done"))

ROW_DAMAGES = {
    **{
        f"{family}, {what}": (change.format(name=f"kv_{family}"), mends)
        for family, mends in (
            ("ready", "hurt: task 'waits' has failed: it was ready"),
            ("delayed", "hurt: task 'later' has failed: it was delayed"),
            ("success", "hurt: task 'done' is success, and has its place again"),
            ("failed", "hurt: task 'failed' is failed, and has its place again"),
            ("projects", "project number 1: its record can't be read"),
        )
        for what, change in (
            ("cut", f"update {{name}} set value = {CUT} {HURT}"),
            ("flipped", f"update {{name}} set value = {FLIPPED} {HURT}"),
            ("deleted", f"delete from {{name}} {HURT}"),
        )
    },
    "record of a waiting task, flipped": (
        f"update kv_ids set value = {FLIPPED} {HURT} {WAITS}",
        "hurt: task 'waits': its record is made anew",
    ),
    "record of a finished task, cut": (
        f"update kv_ids set value = {CUT} {HURT} {DONE}",
        "hurt: task 'done': its record is made anew",
    ),
    "specs, flipped": (f"update kv_specs set value = {FLIPPED} {HURT}", "hurt: task 'waits' has failed"),
    "specs, undecodable": (f"update kv_specs set value = {CUT}, crc = null {HURT}", "hurt: task 'later' has failed"),
    "specs, deleted": (f"delete from kv_specs {HURT}", "hurt: task 'done' is success; its URL and body are lost"),
    "meta, flipped": (f"update kv_meta set value = {FLIPPED} where key = 'next_project'", "meta: next_project"),
    "meta, deleted": ("delete from kv_meta where key = 'next_project'", "the next project gets number"),
    "format, cut": ("update kv_meta set value = '' where key = 'format'", "meta: format is"),
    "schedulers, flipped": ("update schedulers set epoch = epoch + 5", "schedulers: its checksum does not match"),
    "schedulers, deleted": ("delete from schedulers", "schedulers: it has 0 rows"),
    "barriers, deleted": ("delete from barriers", "barriers: its row is missing"),
}


@pytest.mark.parametrize(("change", "mends"), ROW_DAMAGES.values(), ids=ROW_DAMAGES)
def test_check_notices_a_damaged_row_and_repair_mends_it(
    target: Target,
    sql: psycopg.Connection[tuple[Any, ...]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    mends: str,
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        status = main(["store", *arguments])
        said = capsys.readouterr()
        return status, said.out + said.err

    (tmp_path / "lines").write_text("\n".join(LINES) + "\n")
    config = tmp_path / "taskqueue.toml"
    config.write_text(f'[store]\nurl = "{postgres_url()}"\nschema = "{target.schema}"\n')
    monkeypatch.setenv("TASKQUEUE_CONFIG", str(config))
    assert run("import", str(tmp_path / "lines"))[0] == 0
    assert run("check") == (0, f"{target.where}: checked 26 entries of 8 tasks: all agree\n")

    assert sql.execute(change.encode()).rowcount > 0

    assert run("check")[0] == 1
    status, said = run("repair", postgres_url())
    assert status == 1
    assert mends in said
    assert "sound" not in said
    status, said = run("check")
    assert (status, "all agree" in said) == (0, True), said
    assert run("repair", postgres_url()) == (0, f"{target.where}: all is sound\n")


@pytest.mark.parametrize(
    ("change", "mends"),
    [
        ("delete from kv_undo_rows where key = (select min(key) from kv_undo_rows)", "operation 1: it can't be undone"),
        (f"update kv_undo_rows set value = {FLIPPED}", "operation 1: it can't be undone"),
        ("delete from kv_operations", "undo_rows: the rows of operation id"),
    ],
    ids=["page deleted", "pages flipped", "operation deleted"],
)
def test_damaged_rows_for_an_undo_are_named_and_mended(
    daemon: DaemonFactory,
    target: Target,
    sql: psycopg.Connection[tuple[Any, ...]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    mends: str,
) -> None:
    it = daemon(url=postgres_url(), schema=target.schema)
    monkeypatch.setenv("TASKQUEUE_CONFIG", str(it.config_file))
    with Client(it.url) as client:
        client.projects.set("news", {"rate": 0.0})
        client.push_many("news", [f"http://site/{number}" for number in range(600)])
        operation = client.operations.wait(client.operations.start("cancel", project="news", url="*").id)
    it.stop()
    assert sql.execute(change.encode()).rowcount > 0

    assert main(["store", "check"]) == 1
    assert main(["store", "repair", postgres_url()]) == 1
    assert mends in capsys.readouterr().out
    assert main(["store", "check"]) == 0
    it.start()
    with Client(it.url) as client, pytest.raises(RequestRejected, match=r"could not be read|there is no operation"):
        client.operations.undo(operation.id)
