"""Files of tasks, and exports of a store: lines of JSON beside MessagePack.

    python -m benchmarks.files                    50,000 tasks, about two minutes
    python -m benchmarks.files --tasks 5000       in twenty seconds

Each step runs in a process of its own and is counted in its CPU time. *Read* is what ``taskqueue push --file`` does
with a file before it sends anything: each task checked as the daemon would check it. *Export* and *import* are what
``taskqueue store`` does, with a store on disk; *its form alone* is the part of that which differs. Memory is what a
process takes at most to read the file, more than before it; once for the file, and once for it ten times over.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgpack
import msgspec

from benchmarks.harness import Column, Report
from taskqueue.calendar import Calendar
from taskqueue.cli.input.task_lines import TaskLines
from taskqueue.core.tasks.task import STATE_NAMES
from taskqueue.protocol.value_stream import values
from taskqueue.store.rocksdb.read_only import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.export_formats import JSON, MESSAGEPACK, ExportFormat
from taskqueue.store.tools.exporter import export_lines
from taskqueue.store.tools.importer import import_lines
from taskqueue.store.tools.store_stats import project_records

COMMAND: Final = "python -m benchmarks.files"
COLUMNS: Final = [
    Column("json", "JSON", "µs", 1),
    Column("msgpack", "MessagePack", "µs", 1),
    Column("times", "as fast", "times", 1),
    Column("json_bytes", "JSON", "MB"),
    Column("msgpack_bytes", "MessagePack", "MB"),
]
ROUNDS: Final = 3

Task = dict[str, Any]

# ------------------------------------------------------------------------------------------------ made-up tasks


def small(number: int) -> Task:
    """How to fetch it, and a note for its handler."""
    fetch = {"headers": {"Accept": "text/html", "Referer": "http://site.example/"}}
    return {"url": _url(number), "fetch": fetch, "process": {"callback": "parse"}, "save": {"page": number}}


def page(number: int) -> Task:
    """A page that was fetched already, 4 KB of text."""
    return {"url": _url(number), "body": {"page": "Wörter, words. " * 256, "number": number}}


def binary(number: int) -> Task:
    """4 KB of bytes, such as a compressed page."""
    return {"url": _url(number), "body": {"page": number.to_bytes(4, "big") * 1024, "number": number}}


def _url(number: int) -> str:
    return f"http://site.example/section/{number % 97}/page-{number}.html"


def _in_json(value: object) -> str:
    """What whoever has to send bytes in JSON does."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(value)


KINDS: Final[dict[str, Callable[[int], Task]]] = {
    "a small body": small,
    "a page of 4 KB": page,
    "bytes, 4 KB": binary,
}


def write(folder: Path, kind: Callable[[int], Task], count: int) -> None:
    """Both files."""
    with (folder / "tasks.jsonl").open("w") as lines, (folder / "tasks.msgpack").open("wb") as packed:
        for number in range(count):
            task = kind(number)
            lines.write(json.dumps(task, default=_in_json) + "\n")
            packed.write(msgpack.packb(task))


# ------------------------------------------------------------------------------------------------ steps


def read(path: Path, times: int = 1) -> int:
    """As ``taskqueue push --file`` does; the number of tasks."""
    source = _pushed(path, times)
    return sum(1 for _ in TaskLines("", source, {}, print))


def _pushed(path: Path, times: int) -> Iterator[str | bytes]:
    for _ in range(times):
        if path.suffix == ".msgpack":
            with path.open("rb") as packed:
                yield from values(packed)
        else:
            with path.open() as lines:
                yield from lines


def fill(path: Path, store: Path) -> None:
    """A store with the tasks of a file that is to be pushed."""
    parts = [msgpack.packb({"taskqueue": 1, "projects": [{"name": "bench"}]})]
    for number, task in enumerate(TaskLines("", _pushed(path, 1), {}, print)):
        kept = {"project": "bench", "taskid": task.taskid, "state": "ready", "url": task.url, "priority": number % 7}
        parts.append(b"\x86" + msgpack.packb(kept)[1:] + msgpack.packb("body") + bytes(task.body))
    parts.append(msgpack.packb({"tasks": len(parts) - 1}))
    with closing(RocksStore(store)) as kept_in:
        list(import_lines(kept_in, parts, "refuse", 0.0, Calendar(), MESSAGEPACK))


def form_of(path: Path) -> ExportFormat:
    """That of a file of this name."""
    return MESSAGEPACK if path.suffix == ".msgpack" else JSON


def export(store: Path, path: Path) -> None:
    """As ``taskqueue store export`` does."""
    form = form_of(path)
    with closing(ReadOnlyStore(str(store))) as reader, path.open("wb") as file:
        for part in export_lines(reader, project_records(reader), range(1, len(STATE_NAMES)), form):
            file.write(part + form.end)


def bring(path: Path, store: Path) -> None:
    """As ``taskqueue store import`` does."""
    form = form_of(path)
    with path.open("rb") as file, closing(RocksStore(store)) as kept_in:
        list(import_lines(kept_in, values(file) if form is MESSAGEPACK else file, "refuse", 0.0, Calendar(), form))


def say(exported: Path, form: ExportFormat) -> float:
    """What an export does without its store: from the bodies as the store has them to parts; seconds."""
    lines = [MESSAGEPACK.decode_task(part) for part in _tasks(exported)]
    began = time.process_time()
    for line in lines:
        form.encode(msgspec.structs.replace(line, body=form.to_value(line.body)))
    return time.process_time() - began


def understand(exported: Path, form: ExportFormat) -> float:
    """What an import does without its store: from parts to the bodies as the store has them; seconds."""
    lines = [MESSAGEPACK.decode_task(part) for part in _tasks(exported)]
    parts = [form.encode(msgspec.structs.replace(line, body=form.to_value(line.body))) for line in lines]
    began = time.process_time()
    for part in parts:
        form.to_msgpack(form.decode_task(part).body)
    return time.process_time() - began


def _tasks(exported: Path) -> list[bytes]:
    with exported.open("rb") as file:
        return list(values(file))[1:-1]


def _child(answer: Any, step: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    before, began = _memory("VmRSS"), time.process_time()
    step(*arguments)
    answer.send((time.process_time() - began, _memory("VmHWM") - before))


def _memory(which: str) -> float:
    """MiB that this process has, or had at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def alone(step: Callable[..., object], *arguments: Any) -> tuple[float, float]:
    """Seconds of CPU, and MiB of memory at most, of a step in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, step, arguments))
    process.start()
    seconds, mebibytes = ours.recv()
    process.join()
    return seconds, mebibytes


# ------------------------------------------------------------------------------------------------ all of it


def main() -> None:
    """Read, export and import each kind, in turns."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tasks", type=int, default=50_000)
    count = made.parse_args().tasks
    report = Report("files", f"{count:,} tasks, CPU time a task", COMMAND, COLUMNS)
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="taskqueue-bench-") as folder:
            measure(report, name, kind, count, Path(folder))
    report.print()


def measure(report: Report, name: str, kind: Callable[[int], Task], count: int, folder: Path) -> None:
    """One kind of task."""
    lines, packed, store = folder / "tasks.jsonl", folder / "tasks.msgpack", folder / "store"
    write(folder, kind, count)
    fill(packed, store)
    for _ in range(ROUNDS):
        note(report, f"read, {name}", count, lines, packed, alone(read, lines)[0], alone(read, packed)[0])
    out_json, out_packed = folder / "crawl.jsonl", folder / "crawl.msgpack"
    for _ in range(ROUNDS):
        seconds = [alone(export, store, path)[0] for path in (out_json, out_packed)]
        note(report, f"export, {name}", count, out_json, out_packed, *seconds)
    for _ in range(ROUNDS):
        for what, step in (("its form alone, written", say), ("its form alone, read", understand)):
            note(
                report,
                f"{what}, {name}",
                count,
                out_json,
                out_packed,
                step(out_packed, JSON),
                step(out_packed, MESSAGEPACK),
            )
    for turn in range(ROUNDS):
        seconds = [alone(bring, path, folder / f"{path.name}-{turn}")[0] for path in (out_json, out_packed)]
        note(report, f"import, {name}", count, out_json, out_packed, *seconds)
    once, ten = (alone(read, packed, times)[1] for times in (1, 10))
    report.note(f"Memory to read the MessagePack file, {name}: {once:.0f} MiB, and ten times over {ten:.0f} MiB.")


def note(report: Report, row: str, count: int, lines: Path, packed: Path, json_s: float, packed_s: float) -> None:
    """The figures of a round."""
    report.add(
        row,
        {
            "json": 1e6 * json_s / count,
            "msgpack": 1e6 * packed_s / count,
            "times": json_s / packed_s,
            "json_bytes": lines.stat().st_size / 1e6,
            "msgpack_bytes": packed.stat().st_size / 1e6,
        },
    )


if __name__ == "__main__":
    main()
