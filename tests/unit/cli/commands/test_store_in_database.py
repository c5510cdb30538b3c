"""Messages of the store commands about databases, without reaching one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run, with_store

URL = "postgresql://taskqueue:geheim@db.invalid/crawl"

WITHOUT_DRIVER = """
import sys
sys.modules["psycopg"] = None
from taskqueue.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""Program that runs the command line without psycopg."""

USING_ONE = ["show", "check", "export", "import FILE", "backup FILE", "init", "init --print-sql"]


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (f"compact {URL}", "vacuum full"),
        (f"restore copy --store {URL}", "pg_restore"),
        (f"restore {URL} --store folder", "pg_restore"),
        (f"backup {URL} --store {URL}", "name a file"),
    ],
)
def test_what_is_for_folders_only_says_what_to_do_with_a_database(run: Run, command: str, instead: str) -> None:
    Path("folder").mkdir()

    status, shown, said = run(*command.split())

    assert (status, shown, said.count("\n")) == (1, "", 1)
    assert "is for stores in folders, and this one is in a database; " in said
    assert instead in said
    assert "geheim" not in said


@pytest.mark.parametrize("places", [f"{URL} repaired", f"folder {URL}"])
def test_a_database_is_repaired_where_it_is(run: Run, places: str) -> None:
    Path("folder").mkdir()

    status, shown, said = run("repair", *places.split())

    assert (status, shown) == (2, "")
    assert "a database is repaired where it is" in said
    assert "geheim" not in said


def test_a_database_in_the_config_is_refused_like_one_on_the_command_line(run: Run) -> None:
    Path("taskqueue.toml").write_text(f'[store]\nurl = "{URL}"\n')

    assert "vacuum full" in run("compact", "-c", "taskqueue.toml")[2]


@pytest.mark.parametrize("command", USING_ONE)
def test_without_the_driver_it_is_said_how_to_install_it(tmp_path: Path, command: str) -> None:
    (tmp_path / "FILE").write_text("{}")
    name = "new" if command == "backup FILE" else "FILE"
    arguments = ["store", *with_store(command.replace("FILE", name).split(), URL)]

    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "taskqueue: psycopg is not installed, which a store in a database needs: "
        "pip install 'taskqueue-scheduler[postgres]'\n"
    )


@pytest.mark.parametrize("command", ["show", "init", "export", "init --print-sql"])
def test_a_url_that_is_none_is_refused(run: Run, command: str) -> None:
    status, _, said = run(*with_store(command.split(), "postgresql://db.invalid/crawl?hots=x"))

    assert status == 2
    assert said == 'taskqueue: store.url: invalid URI query parameter: "hots"\n'


def test_a_server_that_is_not_there_is_named_without_the_password(run: Run) -> None:
    status, shown, said = run("check", "postgresql://taskqueue:geheim@/crawl?host=/nowhere")

    assert (status, shown) == (1, "")
    assert said.startswith("taskqueue: postgresql:///nowhere/crawl schema taskqueue: can't connect: ")
    assert "geheim" not in said


def test_sql_is_printed_for_the_schema_of_the_config(run: Run) -> None:
    Path("taskqueue.toml").write_text(f'[store]\nurl = "{URL}"\nschema = "crawl_2"\n')

    status, shown, _ = run("init", "--print-sql", "-c", "taskqueue.toml")

    assert status == 0
    assert "create schema if not exists crawl_2;" in shown
    assert "grant usage on schema crawl_2 to taskqueue;" in shown
    assert "taskqueue." not in shown.replace("tables of taskqueue", "")


def test_a_folder_needs_no_sql(run: Run) -> None:
    status, shown, said = run("init", "--print-sql", "--store", "folder")

    assert (status, shown) == (1, "")
    assert said == (
        "taskqueue: folder: the store is in a folder, which needs no SQL; name a database by store.url or --store\n"
    )
    assert not Path("folder").exists()


def test_init_makes_an_empty_store_in_a_folder_once(run: Run) -> None:
    assert run("init", "--store", "folder") == (0, "folder: made an empty store\n", "")
    assert run("init", "--store", "folder") == (0, "folder: there is a store already; nothing was changed\n", "")
    assert run("check", "folder")[0] == 0
