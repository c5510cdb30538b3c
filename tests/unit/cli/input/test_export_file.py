"""Exports in files: what is refused before anything is imported, and the steps that are made of the rest."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import msgpack
import pytest

from taskqueue.cli.input.export_file import STEP_TASKS, ExportFile
from taskqueue.protocol.fields import MAX_EDGES
from taskqueue.store.tools.importer import BadLine

FIRST: Final = {"taskqueue": 6, "projects": [{"name": "news"}]}


def line(taskid: str, **fields: Any) -> dict[str, Any]:
    return {"project": "news", "taskid": taskid, "state": "ready", "url": "http://a/"} | fields


def written(folder: Path, *parts: Any) -> Path:
    """Write an export in JSON with these parts between its first and last line."""
    count = sum("taskid" in part for part in parts)
    file = folder / "news.jsonl"
    file.write_text("".join(json.dumps(part) + "\n" for part in (FIRST, *parts, {"tasks": count})))
    return file


def test_steps_bring_tasks_and_then_points_each_once_and_in_order(tmp_path: Path) -> None:
    points = [{"history": every, "at": 7200, "projects": {"news": [1] * 6}} for every in ("minute", "hour")]
    export = ExportFile(str(written(tmp_path, *(line(f"t{n}") for n in range(STEP_TASKS + 5)), *points)))

    steps = list(export.steps(3))

    assert (export.parts, export.tasks) == (STEP_TASKS + 7, STEP_TASKS + 5)
    told = [(step.first, len(step.tasks)) for step in steps]
    assert told == [(3, STEP_TASKS), (STEP_TASKS + 3, 2), (STEP_TASKS + 6, 0)]
    assert [task.taskid for step in steps for task in step.tasks] == [f"t{n}" for n in range(3, STEP_TASKS + 5)]
    assert [(step.every, len(step.points)) for step in steps[1:]] == [("minute", 1), ("hour", 1)]
    assert list(export.steps(export.parts)) == []


def test_a_step_has_no_more_edges_than_a_message_may_have(tmp_path: Path) -> None:
    parents = [[f"p{n}"] for n in range(1000)]
    export = ExportFile(str(written(tmp_path, *(line(f"t{n}", parents=parents) for n in range(25)))))

    edges = [sum(len(task.parents) for task in step.tasks) for step in export.steps(0)]

    assert edges == [MAX_EDGES, MAX_EDGES, 5000]


def test_a_file_that_has_changed_since_it_was_read_first_never_yields_its_last_step(tmp_path: Path) -> None:
    file = written(tmp_path, *(line(f"t{n}") for n in range(STEP_TASKS + 5)))
    export = ExportFile(str(file))
    file.write_text(file.read_text().replace("http://a/", "http://c/"))

    steps = export.steps(0)
    assert len(next(steps).tasks) == STEP_TASKS
    with pytest.raises(BadLine, match="it has changed meanwhile; delete the project, and import it again"):
        next(steps)


def test_an_export_of_tasks_that_wait_for_each_other_is_refused_with_their_names(tmp_path: Path) -> None:
    circle = [line(f"t{n}", state="blocked", parents=[[f"t{(n + 1) % 9}"]]) for n in range(9)]
    before = [line("a", parents=[["b"], ["b", 0, "shop"]]), line("b", state="delayed", parents=[["t3"], ["unknown"]])]

    with pytest.raises(BadLine) as refused:
        ExportFile(str(written(tmp_path, *before, *circle)))

    assert str(refused.value) == (
        "t3 → t4 → t5 → … → t1 → t2 → t3: they would wait for each other for ever; take a parent from one of them"
    )


def test_tasks_of_an_export_that_wait_for_each_other_no_more_are_taken(tmp_path: Path) -> None:
    tasks = [
        line("a", state="blocked", parents=[["b"], ["c"], ["a", 0, "shop"]]),
        line("b", state="blocked", parents=[["c"], ["a", 1]]),
        line("c", state="failed", parents=[["a"]], ended_at=5),
    ]

    assert ExportFile(str(written(tmp_path, *tasks))).tasks == 3


def test_an_export_with_more_edges_than_can_be_searched_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [line(child, state="blocked", parents=[[parent]]) for child, parent in ("ab", "ba", "cd")]
    for most, is_refused in ((3, True), (2, False)):
        monkeypatch.setattr("taskqueue.cli.input.export_file.WAITS_MOST", most)

        with pytest.raises(BadLine) if is_refused else nullcontext():
            assert ExportFile(str(written(tmp_path, *tasks))).tasks == 3


DEEP: Final = 100_000


@pytest.mark.parametrize(
    "export",
    [
        json.dumps(FIRST).encode() + b'\n{"project":"news","taskid":"a","state":"ready","url":"u","body":'
        + b"[" * DEEP + b"]" * DEEP + b'}\n{"tasks":1}\n',
        b'{"taskqueue":6,"projects":' + b"[" * DEEP,
        msgpack.packb(FIRST) + b"\x81\xa4body" + b"\x91" * DEEP + b"\xc0",
        msgpack.packb(FIRST) + b"\xdf\xff\xff\xff\xff",
        msgpack.packb({"taskqueue": 6, "projects": [{"name": "news", "overrides": {"rate": float("nan")}}]}),
        b"", b"\x00", b"\xc1", b"{}", b"\x80", b"null\n", b"[]\n",
        json.dumps(FIRST).encode() + b'\n{"tasks":0,"tasks":1}\n',
        json.dumps(FIRST).encode() + b'\n{"history":"hour","at":1,"projects":{"shop":[1,1,1,1,1,1]}}\n{"tasks":0}\n',
        json.dumps(FIRST | {"projects": [{"name": "\x1b[31mred"}]}).encode(),
    ],
    ids=range(15),
)  # fmt: skip
def test_what_is_no_export_of_one_project_is_refused_in_a_few_words(tmp_path: Path, export: bytes) -> None:
    file = tmp_path / "news"
    file.write_bytes(export)

    with pytest.raises(BadLine) as refused:
        ExportFile(str(file))

    assert len(str(refused.value)) < 600
    assert "\x1b" not in str(refused.value)
