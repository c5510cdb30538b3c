"""Hostile files of tasks, and exports, through the commands that read them."""

from __future__ import annotations

import io
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import msgpack
import pytest

from taskqueue.cli.input.task_lines import TaskLines
from taskqueue.cli.main import main
from taskqueue.protocol.codec import encode
from taskqueue.protocol.tasks import NewTasks
from taskqueue.protocol.value_stream import lines, values
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from tests.unit.store.tools.test_hostile_imports import changed, damaged

Run = Callable[..., tuple[int, str, str]]

MUTANTS = 1500

TASKS: list[dict[str, Any]] = [
    {"url": "http://s/a", "priority": 3, "save": {"page": 1}, "taskid": "x", "age": "30d", "exetime": "2027-01-01"},
    {"url": "http://s/b", "schedule": {"delay": 60, "itag": "v", "retries": 3, "expires_at": 1e10},
     "fetch": {"method": "POST", "data": "x=1", "headers": {"a": "b"}}, "process": [1], "canonical": True},
    {"url": "http://s/c", "body": {"any": [1, 2]}, "age": "5m", "force_update": True, "auto_recrawl": True},
]  # fmt: skip

MEMORY_BYTES = 2 << 30
"""Limit of address space of a command that reads an endless line, with all that Python itself takes."""

HEAD = '{"taskqueue":2,"projects":[{"name":"news"}]}\n'


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``taskqueue`` in a private folder; return exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("packed", [False, True])
def test_any_change_of_a_task_is_a_task_or_a_complaint(packed: bool) -> None:
    for seed in range(MUTANTS):
        chance = random.Random(seed)
        task = changed(chance.choice(TASKS), chance)
        try:
            file = msgpack.packb(task) if packed else json.dumps(task, default=repr).encode()
        except OverflowError:
            continue
        if chance.random() < 0.3:
            file = damaged(file, chance)
        complaints: list[str] = []
        source = (
            values(io.BytesIO(file)) if packed else lines(io.TextIOWrapper(io.BytesIO(file), "utf-8", "replace"), 9999)
        )
        defaults: dict[str, Any] = chance.choice([{}, {"priority": 1}, {"save": {"q": 1}}, {"body": [1]}])

        read = TaskLines("tasks:", source, defaults, complaints.append)

        for task in read:
            encode(NewTasks(session="s", n=1, project="news", tasks=[task]))
        assert len(complaints) == read.bad, f"seed {seed}: {file!r}"


def test_a_line_without_an_end_is_one_complaint_after_the_tasks_before_it() -> None:
    complaints: list[str] = []
    read = TaskLines("tasks:", lines(io.StringIO("http://s/a\n" + "x" * 100), 50), {}, complaints.append)

    assert [task.url for task in read] == ["http://s/a"]
    assert complaints == ["tasks: line 2 is longer than 50"]


def test_the_places_of_a_million_empty_lines_take_no_memory() -> None:
    read = TaskLines(
        "tasks:", chain(repeat("\n", 1_000_000), ["http://s/a", "", "http://s/b"]), {}, lambda problem: None
    )

    assert len(list(read)) == 2
    assert (read.where(0), read.where(1)) == ("tasks:1000001", "tasks:1000003")
    assert sum(map(sys.getsizeof, vars(read).values())) < 10_000


@pytest.mark.parametrize("command", ["push", "import"])
@pytest.mark.parametrize("name", ["endless.jsonl", "endless.msgpack"])
def test_a_file_that_is_one_endless_line_is_refused_within_bounded_memory(
    tmp_path: Path, command: str, name: str
) -> None:
    """The file is sparse; in memory it would be a terabyte."""
    with (tmp_path / name).open("wb") as file:
        file.write(b"\xc6\xff\xff\xff\xff" if name.endswith("msgpack") else HEAD.encode() + b"x")
        file.truncate(1 << 40)
    words = {
        "push": ["push", "news", "--file", name, "--daemon", "tcp://127.0.0.1:9"],
        "import": ["store", "import", name],
    }

    done = subprocess.run(
        [sys.executable, "-m", "taskqueue.cli.main", *words[command], *([] if command == "push" else ["--store", "s"])],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )  # fmt: skip

    assert done.returncode == 1
    assert "is longer than " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_complaint_does_not_repeat_a_line_of_megabytes(run: Run) -> None:
    Path("tasks.jsonl").write_text(json.dumps({"x" * (1 << 20): 1}) + "\n")

    status, _, said = run("push", "news", "--file", "tasks.jsonl", "--daemon", "tcp://127.0.0.1:9")

    assert status == 1
    assert len(said) < 1500


def test_an_import_that_is_refused_leaves_the_store_as_it_was(run: Run) -> None:
    task = '{"project":"news","taskid":"a","state":"ready","url":"u"}\n'
    Path("good").write_text(HEAD + task + '{"tasks":1}\n')
    assert run("store", "import", "good", "--store", "s")[0] == 0
    Path("bad").write_text('{"taskqueue":2,"projects":[{"name":"news","state":"stopped"},{"name":"x","pause":[-1]}]}\n')

    status, shown, said = run("store", "import", "bad", "--merge", "--store", "s")

    assert (status, shown, said.count("\n")) == (1, "", 1)
    assert 'line 1: project "x": pause.failures: expected a number' in said
    with closing(ReadOnlyStore("s")) as reader:
        assert len(reader.scan("projects", b"", b"\xff", 9)) == 1
        assert len(reader.scan("ids", b"", b"\xff", 9)) == 1
