"""``taskqueue store`` on a database: making tables for a role that may not, inspecting, and copying."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from taskqueue.cli.main import main
from taskqueue.store.contract import Batch
from taskqueue.store.postgres.postgres_store import PostgresStore
from taskqueue.store.postgres.session import target_of
from tests.integration.conftest import ROOT
from tests.postgres import Cluster, binaries
from tests.unit.cli.conftest import with_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory

Run = Callable[..., tuple[int, str, str]]

LINES = [
    '{"taskqueue":1,"projects":[{"name":"news"},{"name":"shop"}]}',
    '{"project":"news","taskid":"a","state":"ready","url":"http://site/a"}',
    '{"project":"news","taskid":"b","state":"success","url":"http://site/b","ended_at":1700000000.0}',
    '{"project":"shop","taskid":"c","state":"failed","url":"http://site/c","ended_at":1700000000.0}',
    '{"tasks":3}',
]


@pytest.fixture
def server(server: Cluster) -> Cluster:
    """Server with a role without any rights yet."""
    server.run("create role taskqueue login")
    return server


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``taskqueue store`` in this process; return exit status, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["store", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def filled(server: Cluster, run: Run, tmp_path: Path) -> str:
    """URL of a store with two projects and three tasks."""
    (tmp_path / "export.jsonl").write_text("\n".join(LINES) + "\n")
    status, shown, said = run("import", tmp_path / "export.jsonl", "--store", server.url)
    assert (status, said) == (0, "")
    assert shown == f"{where(server)}, a new store: brought in 3 tasks, made 2 projects\n"
    return server.url


def where(server: Cluster) -> str:
    return f"postgresql://{server.folder}/postgres schema taskqueue"


def own(server: Cluster) -> str:
    """URL of the role with few rights."""
    return server.url.replace("postgres@", "taskqueue@")


def make_by_hand(server: Cluster, sql: str) -> None:
    """Run the printed SQL, and grant what it says to the daemon's role."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql)
        for granted in re.findall(r"^-- (grant .* to taskqueue;)$", sql, re.MULTILINE):
            connection.execute(granted)


def one_task_after_another(it: Daemon, peer: PeerFactory) -> None:
    """Use all tables as a daemon does: push, run, drop, and start again."""
    client, fetcher = peer(it), peer(it)
    client.push("news", *(f"t{number}" for number in range(3000)))
    fetcher.ask("hello", capacity=10)
    [*tasks] = fetcher.receive()["tasks"]
    done = [{name: task[name] for name in ("project", "taskid", "token")} for task in tasks]
    assert fetcher.ask("done", tasks=done)["outcomes"] == ["done"] * len(done)
    client.ask("project-do", project="news", action="clear")
    it.kill()
    it.start()
    peer(it).push("news", "later")
    assert peer(it).ask("verify")["problems"] == []


# ------------------------------------------------------------------------------------------------ making it


def test_a_daemon_whose_role_may_make_no_tables_runs_in_those_that_were_printed(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster, run: Run
) -> None:
    status, sql, said = run("init", "--print-sql", "--store", own(server))
    assert (status, said) == (0, "")
    make_by_hand(server, sql)
    make_by_hand(server, sql)
    assert "its tables are empty" in run("show", own(server))[2]

    it = daemon(url=own(server), schema="taskqueue")
    one_task_after_another(it, peer)

    server.run("create role reader login")
    for granted in re.findall(r"(grant [^;]* to reader);", sql):
        server.run(granted)
    for looking in (["show"], ["show", "--by", "project"], ["check"], ["export"]):
        assert run(*with_store(looking, server.url.replace("postgres@", "reader@")))[0] == 0
    with psycopg.connect(own(server)) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("create table taskqueue.mine (id int)")
    assert it.stop() == 0
    assert "ERROR" not in it.log()


def test_the_printed_statements_make_the_tables_that_a_daemon_makes(server: Cluster, run: Run) -> None:
    made = "select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns "
    tuned = "select relname, reloptions from pg_class c join pg_namespace n on n.oid = relnamespace "
    assert run("init", "--store", server.url)[0] == 0
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(run("init", "--print-sql", "--store", server.url)[1].replace("taskqueue.", "other."
            ).replace("schema if not exists taskqueue", "schema if not exists other"))  # fmt: skip

    for sql, column in ((made, "table_schema"), (tuned, "nspname")):
        one, other = (
            server.run(f"{sql} where {column} = '{schema}' order by 1, 2") for schema in ("taskqueue", "other")
        )
        assert one
        assert one == other


def test_each_table_whose_rows_come_and_go_has_settings_of_its_own_for_autovacuum(server: Cluster, run: Run) -> None:
    assert run("init", "--store", server.url)[0] == 0

    tables = "select relname, reloptions from pg_class where relnamespace = 'taskqueue'::regnamespace and relkind = 'r'"
    without = {name for name, options in server.run(tables) if "autovacuum_vacuum_scale_factor" not in str(options)}
    assert without == {"versions"}


def test_a_daemon_whose_role_may_make_no_tables_says_how_they_are_made(daemon: DaemonFactory, server: Cluster) -> None:
    it = daemon(url=own(server), schema="taskqueue", start=False)
    it.launch()

    assert it.ended() == 1
    assert "permission denied for database postgres" in it.log()
    assert "taskqueue store init --print-sql" in it.log()
    assert "Traceback" not in it.log()


def test_a_daemon_makes_its_tables_in_a_schema_of_its_own(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster
) -> None:
    server.run("create schema mine authorization taskqueue")

    it = daemon(url=own(server), schema="mine")

    assert peer(it).push("news", "a") == ["new"]


def test_init_makes_an_empty_store_once(server: Cluster, run: Run) -> None:
    assert run("show", server.url)[2].endswith("there is no store; start a daemon with this address to make one\n")

    assert run("init", "--store", server.url) == (0, f"{where(server)}: made an empty store\n", "")
    assert run("init", "--store", server.url)[1].endswith("there is a store already; nothing was changed\n")
    assert run("check", server.url)[1].endswith(" entries of 0 tasks: all agree\n")
    assert "No projects." in run("show", server.url)[1]


# -------------------------------------------------------------------------------------------------- looking


def test_stats_tell_tasks_exactly_and_rows_and_bytes_of_the_tables(run: Run, server: Cluster, filled: str) -> None:
    shown = [line.split() for line in run("show", filled)[1].splitlines()]

    assert " ".join(shown[0]).startswith(f"{where(server)}: 3 tasks, ")
    assert ["news", "running", "1", "0", "0", "1", "0", "0"] in shown
    assert ["shop", "running", "0", "0", "0", "0", "1", "0"] in shown
    assert ["family", "keys", "size"] in shown

    server.run("analyze")
    found = json.loads(run("show", "--json", filled)[1])
    families = {family["name"]: family for family in found["families"]}
    assert (found["tasks"], found["epoch"]) == (3, 1)
    assert found["table_bytes"] == sum(family["table_bytes"] for family in families.values())
    assert [families[name]["keys"] for name in ("ids", "specs", "ready", "projects", "leases")] == [3, 3, 1, 2, 0]
    assert families["ids"]["table_bytes"] > 8000
    assert not {"cache", "levels"} & set(found)


def test_stats_by_project_divide_the_tables_among_them(run: Run, filled: str) -> None:
    sizes = json.loads(run("show", "--by", "project", "--json", filled)[1])

    assert [(size["name"], size["tasks"]) for size in sizes["projects"]] == [("news", 2), ("shop", 1)]
    assert all(size["size_bytes"] > 0 for size in sizes["projects"])


def test_check_names_what_does_not_agree(run: Run, filled: str) -> None:
    with closing(PostgresStore(target_of(filled))) as store:
        [(key, _)] = store.scan("ready", b"", b"\xff", 10)
        store.write(store.begin(), Batch(deletes={"ready": [key]}))

    status, shown, said = run("check", filled)

    assert status == 1
    assert "project news task 'a'" in shown
    assert "do not agree" in said


def test_a_folder_on_the_command_line_counts_more_than_a_database_in_the_config(
    run: Run, tmp_path: Path, filled: str
) -> None:
    (tmp_path / "taskqueue.toml").write_text(f'[store]\nurl = "{filled}"\n')
    config = ("-c", tmp_path / "taskqueue.toml")
    run("init", "--store", tmp_path / "folder")

    assert json.loads(run("show", "--json", *config)[1])["tasks"] == 3
    assert json.loads(run("show", "--json", *config, tmp_path / "folder")[1])["tasks"] == 0


# ------------------------------------------------------------------------------------------------- changing


def test_an_import_does_not_take_the_store_from_a_daemon(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster, run: Run, tmp_path: Path
) -> None:
    it = daemon(url=server.url, schema="taskqueue")
    peer(it).push("shop", "a")
    (tmp_path / "lines").write_text("\n".join(LINES) + "\n")

    status, _, said = run("import", tmp_path / "lines", "--merge", "-c", it.config_file)

    assert status == 1
    assert said.startswith(f"taskqueue: {where(server)}: a daemon uses this store")
    assert peer(it).push("shop", "b") == ["new"]
    assert it.stop() == 0
    assert run("import", tmp_path / "lines", "--merge", "-c", it.config_file)[0] == 0


def test_an_import_that_was_killed_is_completed_by_another_one(server: Cluster, run: Run, tmp_path: Path) -> None:
    rows = [{"project": "news", "taskid": f"t{n}", "state": "ready", "url": "http://site/"} for n in range(5000)]
    whole = [LINES[0], *map(json.dumps, rows), '{"tasks":5000}']
    (tmp_path / "half").write_text("\n".join(whole[:3000]) + "\n")
    (tmp_path / "whole").write_text("\n".join(whole) + "\n")

    assert run("import", tmp_path / "half", "--store", server.url)[0] == 1
    server.signal(signal.SIGKILL)
    server.start()
    status, shown, _ = run("import", tmp_path / "whole", "--merge", "--store", server.url)

    # The half was never synced, so the database may have lost it, but nothing else.
    assert status == 0
    found = re.search(r"brought in ([\d,]+) tasks, made \d projects?(?:, ([\d,]+) tasks known already)?", shown)
    assert found is not None
    assert sum(int(number.replace(",", "")) for number in found.groups() if number) == 5000
    assert run("check", server.url)[0] == 0


def test_a_restored_database_gives_no_token_twice(
    daemon: DaemonFactory, peer: PeerFactory, server: Cluster, tmp_path: Path
) -> None:
    it = daemon(url=server.url, schema="taskqueue")
    peer(it).push("news", "a", "b")
    it.stop()
    program = binaries() / "pg_dump"
    dumped = subprocess.run([program, "-n", "taskqueue", server.url], check=True, capture_output=True, text=True)
    it.start()
    before = tokens(peer(it))
    it.stop()
    server.run("drop schema taskqueue cascade")
    restoring = [str(binaries() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", server.url]
    subprocess.run(restoring, check=True, capture_output=True, input=dumped.stdout, text=True)

    document = (ROOT / "docs" / "howto" / "postgresql.md").read_text()
    statements = re.findall(r"^((?:update|delete from) taskqueue\..*);$", document, re.MULTILINE)
    assert len(statements) == 3
    for sql in statements:
        server.run(sql)
    it.start()

    again = tokens(peer(it))
    assert before.keys() == again.keys() == {"a", "b"}
    assert not {*before.values()} & {*again.values()}
    assert peer(it).ask("status")["epoch"] > 1024


def tokens(fetcher: Peer) -> dict[str, int]:
    """Take two tasks as a fetcher; return their tokens by taskid."""
    fetcher.ask("hello", capacity=2)
    given: dict[str, int] = {}
    while len(given) < 2:
        given |= {task["taskid"]: task["token"] for task in fetcher.receive()["tasks"]}
    return given


def test_a_backup_is_an_export_that_is_there_whole_and_says_what_it_lacks(
    run: Run, tmp_path: Path, filled: str
) -> None:
    file = tmp_path / "monday.msgpack"

    status, shown, said = run("backup", file, "--store", filled)

    assert (status, said) == (0, "")
    assert shown.startswith(f"{file}: 3 tasks, ")
    assert "pg_dump" in shown
    assert list(tmp_path.glob("monday*")) == [file]
    assert run("import", file, "--store", tmp_path / "restored")[0] == 0
    assert run("export", "--store", tmp_path / "restored")[1] == run("export", "--store", filled)[1]
    assert run("backup", file, "--store", filled)[2].endswith("is there already; an export needs a file of its own\n")


def test_a_backup_that_fails_leaves_nothing(run: Run, tmp_path: Path, server: Cluster, filled: str) -> None:
    server.run("delete from taskqueue.kv_specs")

    status, shown, said = run("backup", tmp_path / "monday", "--store", filled)

    assert (status, shown) == (1, "")
    assert "it is missing" in said
    assert list(tmp_path.glob("monday*")) == []
