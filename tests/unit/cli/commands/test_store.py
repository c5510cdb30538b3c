"""The store commands on stores without a daemon."""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from taskqueue.store.contract import Batch
from taskqueue.store.records import layout
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.unit.cli.conftest import Run, with_store

LINES = [
    '{"taskqueue":1,"projects":[{"name":"news","overrides":{"rate":2}},{"name":"shop"}]}',
    '{"project":"news","taskid":"a","state":"ready","url":"http://site/a","body":{"save":1}}',
    '{"project":"news","taskid":"b","state":"success","url":"http://site/b","ended_at":1700000000.0}',
    '{"project":"shop","taskid":"c","state":"failed","url":"http://site/c","ended_at":1700000000.0}',
    '{"tasks":3}',
]


@pytest.fixture
def filled(run: Run) -> str:
    """Store with two projects and three tasks."""
    Path("export.jsonl").write_text("\n".join(LINES) + "\n")
    assert run("import", "export.jsonl", "--store", "filled") == (
        0,
        "filled, a new store: brought in 3 tasks, made 2 projects\n",
        "",
    )
    return "filled"


def damage(path: str) -> None:
    with closing(RocksStore(path)) as store:
        store.write(store.begin(), Batch(deletes={layout.IDS: [layout.id_key(1, "a")]}))


def test_only_their_owner_may_read_what_the_store_commands_make(run: Run, filled: str) -> None:
    before = os.umask(0)
    try:
        assert run("import", "export.jsonl", "--store", "mine")[0] == 0
        assert run("backup", "copy", "--store", "mine")[0] == 0
        assert run("export", "--store", "mine", "-o", "out.jsonl")[0] == 0
    finally:
        umask = os.umask(before)

    made = [Path("out.jsonl"), *Path("mine").iterdir(), *Path("copy").iterdir()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in made} == {0o600}
    assert umask == 0  # a program that calls commands keeps its own umask


def test_stats_tell_tasks_bytes_and_what_the_cache_needs(run: Run, filled: str) -> None:
    status, shown, _ = run("show", filled)

    assert status == 0
    assert shown.startswith("filled: 3 tasks, ")
    assert ["news", "running", "1", "0", "0", "1", "0", "0"] in [line.split() for line in shown.splitlines()]
    assert "of an id" in shown


def test_stats_warn_when_the_cache_is_too_short_for_the_ids(run: Run, filled: str) -> None:
    Path("taskqueue.toml").write_text('[store]\npath = "big"\ncache = 1048576\n')
    rows = [{"project": "news", "taskid": f"{n:0128}", "state": "ready", "url": "u"} for n in range(150_000)]
    Path("big.jsonl").write_text("\n".join([LINES[0], *map(json.dumps, rows), '{"tasks":150000}']) + "\n")
    run("import", "big.jsonl", "-c", "taskqueue.toml")

    shown = run("show", "-c", "taskqueue.toml")[1]

    assert "The cache is too short for the ids: " in shown
    assert "store.cache is 1 MiB" in shown
    assert json.loads(run("show", "--json", "-c", "taskqueue.toml")[1])["cache"]["is_short"]


def test_stats_for_programs_have_every_figure(run: Run, filled: str) -> None:
    found = json.loads(run("show", "--json", filled)[1])

    assert found["tasks"] == 3
    assert [(project["name"], project["counts"]["failed"]) for project in found["projects"]] == [
        ("news", 0),
        ("shop", 1),
    ]
    assert {"families", "levels", "cache", "file_bytes", "log_bytes", "epoch", "format"} <= found.keys()


@pytest.mark.parametrize(
    "command", [["show"], ["show", "--json"], ["export"], ["backup", "copy"], ["import", "--merge", "export.jsonl"]]
)
def test_a_project_that_can_not_be_read_is_named_in_one_line(run: Run, filled: str, command: list[str]) -> None:
    with closing(RocksStore(filled)) as store:
        store.write(store.begin(), Batch(puts={layout.PROJECTS: [(layout.project_key(2), b"\xc1nonsense")]}))

    status, _, said = run(*with_store(command, filled))

    assert status == 1
    assert said.startswith("taskqueue: store: family projects, key 00000002: can't be read (")
    assert said.count("\n") == 1


def test_the_config_file_names_the_store(run: Run, filled: str) -> None:
    Path("taskqueue.toml").write_text(f'[store]\npath = "{filled}"\n')

    assert run("check", "--config", "taskqueue.toml")[0] == 0
    assert run("check", "--config", "taskqueue.toml", "nowhere")[0] == 1


def test_check_says_that_all_agree(run: Run, filled: str) -> None:
    assert run("check", filled) == (0, "filled: checked 11 entries of 3 tasks: all agree\n", "")


def test_check_says_what_does_not_agree_and_fails(run: Run, filled: str) -> None:
    damage(filled)

    status, shown, said = run("check", filled)

    assert status == 1
    assert shown.startswith("ids: project news task 'a' (key ")
    assert "): the task is unknown; an entry says ready\n" in shown
    assert "do not agree" in said


def test_check_shows_so_many_and_counts_all(run: Run, filled: str) -> None:
    damage(filled)

    status, shown, said = run("check", "--show", "0", filled)

    assert (status, shown) == (1, "")
    assert said == "filled: checked 10 entries of 3 tasks: 2 do not agree, 2 more than shown\n"


@pytest.mark.parametrize("command", [["show"], ["check"], ["compact"], ["export"], ["backup", "copy"]])
def test_a_store_that_is_not_there_is_not_made(run: Run, command: list[str]) -> None:
    status, _, said = run(*with_store(command, "nowhere"))

    assert status == 1
    assert said.startswith("taskqueue: nowhere: there is no store here")
    assert os.listdir(".") == []


def test_what_was_backed_up_is_restored(run: Run, filled: str) -> None:
    assert run("backup", "copy", "--store", filled)[1].startswith("copy: 3 tasks, ")
    before = run("export", "--store", filled)[1]

    status, shown, _ = run("restore", "copy", "--store", "again")

    assert (status, shown.partition(";")[0]) == (0, "again: restored from copy")
    assert run("export", "--store", "again")[1] == before


def test_a_store_is_restored_over_another_one_only_when_told_so(run: Run, filled: str) -> None:
    run("backup", "copy", "--store", filled)
    refused = run("restore", "copy", "--store", filled)
    damage(filled)

    status, shown, _ = run("restore", "copy", "--replace", "--store", filled)

    assert refused[2] == "taskqueue: filled: there is a store here already; use --replace to move it aside\n"
    assert status == 0
    assert shown.endswith("filled.replaced: the store that was there\n")
    assert run("check", filled)[0] == 0
    assert run("check", "filled.replaced")[0] == 1
    assert run("restore", "copy", "--replace", "--store", filled)[1].endswith(
        "filled.replaced-2: the store that was there\n"
    )


def test_compact_tells_the_bytes_before_and_after(run: Run, filled: str) -> None:
    status, shown, _ = run("compact", filled)

    assert status == 0
    assert " before, " in shown
    assert run("check", filled)[0] == 0


def test_export_and_import_go_through_pipes_and_files(run: Run, filled: str) -> None:
    assert run("export", "--store", filled, "-o", "out.jsonl") == (0, "", "")

    assert Path("out.jsonl").read_text() == run("export", "--store", filled)[1]
    assert run("import", "out.jsonl", "--store", "other")[0] == 0


def test_export_takes_projects_and_states(run: Run, filled: str) -> None:
    rows = run("export", "--store", filled, "news", "--state", "success")[1].splitlines()

    assert [json.loads(row).get("taskid") for row in rows] == [None, "b", None]
    assert [project["name"] for project in json.loads(rows[0])["projects"]] == ["news"]
    assert run("export", "--store", filled, "none")[2] == 'taskqueue: project "none" is unknown\n'


def test_import_into_a_project_with_tasks_needs_a_word(run: Run, filled: str) -> None:
    refused = run("import", "export.jsonl", "--store", filled)

    assert refused[0] == 1
    assert 'project "news" has tasks already; use --merge' in refused[2]
    assert run("import", "--merge", "export.jsonl", "--store", filled)[1] == (
        "filled: brought in 0 tasks, made 0 projects, 3 tasks known already\n"
    )


def test_stats_by_project_say_what_each_takes_the_largest_first(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n".join(LINES) + "\n")
    run("import", "lines", "--store", "here")

    status, out, _ = run("show", "here", "--by", "project")
    plain = json.loads(run("show", "here", "--by", "project", "--json")[1])

    rows = [line.split() for line in out.splitlines()]
    assert status == 0
    assert [row[:2] for row in rows[1:3]] == [["news", "2"], ["shop", "1"]]
    assert rows[3][:3] == ["of", "no", "project"]
    assert [project["name"] for project in plain["projects"]] == ["news", "shop"]
    assert plain["projects"][0]["families"]["specs"] > 0
