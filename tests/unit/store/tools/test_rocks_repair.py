"""Repairs of damaged stores: the new store is sound, and losses are reported."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.model.task import READY
from taskqueue.errors import StoreError
from taskqueue.protocol.choices import TaskState
from taskqueue.store.files.log_records import BLOCK, HEADER, MIDDLE
from taskqueue.store.files.manifest import read_manifest
from taskqueue.store.records import layout
from taskqueue.store.records.epochs import SKIPPED_EPOCHS
from taskqueue.store.records.reading import pages
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON, VERSION, FirstLine, LastLine, ProjectLine, TaskLine
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import import_lines
from taskqueue.store.tools.rocks_repair import Repaired, repair
from taskqueue.store.tools.store_stats import project_records
from tests.nightly import usually

if TYPE_CHECKING:
    from tests.unit.store.conftest import Crawl

TASKS = 1200
STATES: tuple[TaskState, ...] = ("ready", "delayed", "success")


def lines() -> Iterator[bytes]:
    """Yield an export of a store with two projects."""
    yield JSON.encode(FirstLine(VERSION, [ProjectLine("news"), ProjectLine("shop")]))
    for n in range(TASKS):
        name = ("news", "shop")[n % 2]
        state: TaskState = STATES[n % 3]
        yield JSON.encode(
            TaskLine(f"task-{n:05d}", state, f"http://site/{n}", exetime=2e9 * (n % 3 == 1), project=name)
        )
    yield JSON.encode(LastLine(TASKS))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store whose entries are in tables."""
    path = tmp_path_factory.mktemp("made") / "store"
    with closing(RocksStore(path)) as store:
        for _ in import_lines(store, lines(), "refuse", 0.0, Calendar()):
            pass
        store.compact()
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


def repaired(path: str | Path, to: Path) -> Repaired:
    """Repair a store, and check that the old one is unchanged, and the new one sound."""
    before = {file.name: file.read_bytes() for file in Path(path).iterdir() if file.is_file()}
    done = repair(str(path), str(to), 0.0, Calendar(), lambda tasks: None)
    assert {file.name: file.read_bytes() for file in Path(path).iterdir() if file.is_file()} == before
    assert os.listdir(to.parent).count(to.name) == 1
    with closing(RocksStore(to)) as store:
        found = check(store, Findings())
        assert (found.problems, found.tasks) == ([], done.tasks)
        assert store.begin() == done.epoch + 1
    return done


def states(path: Path) -> dict[str, str]:
    """Return the states of news's tasks, by taskid."""
    found = {}
    with closing(ReadOnlyStore(str(path))) as reader:
        for state, family in layout.ORDERS.items():
            for page in pages(reader, family):
                keys = [layout.spec_key_of(key) for key, _ in page]
                for spec in reader.get(layout.SPECS, keys):
                    assert spec is not None
                    found[layout.decode_spec(spec)[0]] = layout.ORDERS[state]
    return found


STATES_OF_NEWS = {
    "ready-1": "ready", "ready-2": "ready", "leased": "ready", "unlisted": "ready", "delayed": "delayed",
    "ended": "success", "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip
"""States by taskid of the crawl on the disk, if nothing of it is lost."""


def test_of_a_sound_store_nothing_is_lost(stored: Crawl, tmp_path: Path) -> None:
    done = repaired(stored.path, tmp_path / "new")

    assert done.lost == []
    assert (done.tasks, done.projects) == (9, 2)
    assert done.epoch > SKIPPED_EPOCHS
    assert states(tmp_path / "new") == STATES_OF_NEWS


def results(path: Path) -> dict[str, bytes]:
    """Return the results of news's tasks, by taskid."""
    with closing(ReadOnlyStore(str(path))) as reader:
        return {key[4:].decode(): value for page in pages(reader, layout.RESULTS) for key, value in page}


def test_results_are_saved_with_their_tasks(stored: Crawl, tmp_path: Path) -> None:
    repaired(stored.path, tmp_path / "new")

    assert results(tmp_path / "new") == {"ended": b"\x81\xa1r\xc4\x01b", "leased": b"\x07"}


@pytest.mark.parametrize("value", [b"", b"\xc3\xc3"])
def test_a_result_that_can_not_be_read_is_named_and_its_task_saved(stored: Crawl, tmp_path: Path, value: bytes) -> None:
    stored.put(layout.RESULTS, layout.id_key(1, "ended"), value)

    done = repaired(stored.path, tmp_path / "new")

    assert done.lost == ["news: task 'ended': its result can't be read"]
    assert (done.tasks, results(tmp_path / "new")) == (9, {"leased": b"\x07"})


@pytest.mark.parametrize("taskid", ["ready-1", "delayed", "ended", "failed"])
def test_a_task_without_its_record_keeps_the_place_that_its_order_says(
    stored: Crawl, tmp_path: Path, taskid: str
) -> None:
    stored.delete(layout.IDS, layout.id_key(1, taskid))

    done = repaired(stored.path, tmp_path / "new")

    assert done.lost == []
    assert states(tmp_path / "new") == STATES_OF_NEWS


@pytest.mark.parametrize("taskid", ["ready-1", "delayed", "ended"])
def test_a_task_without_its_place_keeps_the_one_that_its_record_says(
    crawl: Crawl, stored: Crawl, tmp_path: Path, taskid: str
) -> None:
    stored.delete(layout.ORDERS[crawl.task(taskid).state], crawl.place(taskid))

    repaired(stored.path, tmp_path / "new")

    assert states(tmp_path / "new") == STATES_OF_NEWS


def test_a_task_of_which_only_the_spec_is_left_is_ready(crawl: Crawl, stored: Crawl, tmp_path: Path) -> None:
    stored.delete(layout.ORDERS[crawl.task("failed").state], crawl.place("failed"))
    stored.delete(layout.IDS, layout.id_key(1, "failed"))

    repaired(stored.path, tmp_path / "new")

    assert states(tmp_path / "new")["failed"] == layout.ORDERS[READY]


def test_a_live_task_without_its_spec_is_named_and_one_that_is_over_stays_known(
    crawl: Crawl, stored: Crawl, tmp_path: Path
) -> None:
    for taskid in ("ready-1", "ended"):
        stored.delete(layout.SPECS, layout.seq_key(1, crawl.task(taskid).seq))

    done = repaired(stored.path, tmp_path / "new")

    assert done.lost == ["news: task 'ready-1': its URL and body can't be read"]
    with closing(ReadOnlyStore(str(tmp_path / "new"))) as reader:
        assert reader.get(layout.IDS, [layout.id_key(1, "ended")]) != [None]


def test_tasks_of_a_project_without_its_record_are_in_one_that_is_stopped(stored: Crawl, tmp_path: Path) -> None:
    stored.delete(layout.PROJECTS, layout.project_key(1))

    done = repaired(stored.path, tmp_path / "new")

    assert len(done.lost) == 1
    with closing(ReadOnlyStore(str(tmp_path / "new"))) as reader:
        assert {record.name: record.state for record in project_records(reader)} == {
            "empty": "running",
            "recovered-1": "stopped",
        }


def table_of(path: Path, family: str) -> Path:
    """Return the only table of a family."""
    name = (path / "CURRENT").read_text().strip()
    with (path / name).open("rb") as file:
        manifest = read_manifest(name, file)
    (number,) = (number for of, number in manifest.tables if manifest.families[of] == family)
    return path / f"{number:06d}.sst"


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("family", ["ids", "specs", "ready", "success", "projects", "meta"])
def test_all_but_a_block_of_a_table_is_saved(path: Path, tmp_path: Path, family: str) -> None:
    table = table_of(path, family)
    flip(table, min(20_000, table.stat().st_size // 4))

    done = repaired(path, tmp_path / "new")

    assert done.lost
    assert done.tasks > TASKS // 2


FAMILIES = ("ids", "ready", "delayed", "success", "projects", "meta")
WAYS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "without its end": lambda table: flip(table, -10),
    "cut": lambda table: os.truncate(table, 100),
}
EACH_ONCE = [("gone", family) for family in FAMILIES] + [(way, "ids") for way in ("without its end", "cut")]


@pytest.mark.parametrize(("way", "family"), usually(EACH_ONCE, nightly=list(product(WAYS, FAMILIES))))
def test_without_a_table_the_tasks_are_saved_by_what_the_others_have(
    path: Path, tmp_path: Path, way: str, family: str
) -> None:
    WAYS[way](table_of(path, family))

    done = repaired(path, tmp_path / "new")

    assert done.lost
    assert done.tasks == TASKS


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "CURRENT").unlink(),
        lambda path: next(path.glob("MANIFEST-*")).unlink(),
        lambda path: flip(next(path.glob("MANIFEST-*")), 100),
        lambda path: os.truncate(next(path.glob("MANIFEST-*")), 300),
        lambda path: next(path.glob("*.log")).unlink(),
    ],
)
def test_without_a_manifest_or_an_empty_log_all_is_saved(
    path: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    damage(path)

    done = repaired(path, tmp_path / "new")

    assert done.lost
    assert done.tasks == TASKS


def middle_part(log: bytearray) -> int:
    """Find the start of a part that is neither the first nor the last of a batch."""
    return next(at for at in range(0, len(log), BLOCK) if log[at + HEADER.size - 1] == MIDDLE)


@pytest.mark.parametrize("length", [1, BLOCK], ids=["a byte", "all of it"])
def test_a_batch_that_lacks_a_part_of_the_middle_is_left_out_and_the_others_are_saved(
    tmp_path: Path, length: int
) -> None:
    with closing(RocksStore(tmp_path / "living")) as store:
        for _ in import_lines(store, lines(), "refuse", 0.0, Calendar()):
            pass
        store.sync()
        shutil.copytree(tmp_path / "living", tmp_path / "store")
    (log,) = (tmp_path / "store").glob("*.log")
    content = bytearray(log.read_bytes())
    at = middle_part(content) + 100
    content[at : at + length] = bytes(byte ^ 1 for byte in content[at : at + length])
    log.write_bytes(content)

    done = repaired(tmp_path / "store", tmp_path / "new")

    assert done.lost[0].startswith(f"{log.name}, at byte ")
    assert 0 < done.tasks < TASKS


def test_nothing_is_written_over(path: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("mine")

    with pytest.raises(StoreError, match="not empty"):
        repair(str(path), str(tmp_path / "new"), 0.0, Calendar(), lambda tasks: None)


def test_a_folder_without_a_store_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="this folder has no files of a store"):
        repair(str(tmp_path), str(tmp_path / "new"), 0.0, Calendar(), lambda tasks: None)
    assert not (tmp_path / "new").exists()
