"""The promises P1 to P11 of ``taskqueue.store.contract``, on every store."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from msgpack import packb
from rocksdict import Options, Rdict

from taskqueue.core.model.records import ProjectRecord, SessionRecord, WriteSet
from taskqueue.errors import Fenced, FormatError, StoreError
from taskqueue.protocol.fields import Setting
from taskqueue.store.contract import Batch, Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.records.format import FORMAT, FORMAT_KEY, META, Migrations
from taskqueue.store.records.layout import FAMILIES
from taskqueue.store.records.migrations import MIGRATIONS
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.memory_store import Disk, MemoryStore

END = b"\xff" * 4


class Ground(Protocol):
    """Type of the fixture ``ground``."""

    path: Path

    def open(self, migrations: Migrations = MIGRATIONS) -> Store: ...

    def close(self) -> None: ...


def put(store: Store, epoch: int, family: str, *keys: bytes, value: bytes = b"v") -> None:
    store.write(epoch, Batch(puts={family: [(key, value) for key in keys]}))


def keys_of(store: Store, family: str) -> list[bytes]:
    return [key for key, _ in store.scan(family, b"", END, 1_000_000)]


# ------------------------------------------------------------------------------------------------ P1, P5, P7

WRITER = """
import sys
from taskqueue.store.contract import Batch
from taskqueue.store.rocksdb.rocks_store import RocksStore
store = RocksStore(sys.argv[1])
epoch = store.begin()
for n in range(1, 1_000_000):
    key = n.to_bytes(4, "big")
    store.write(epoch, Batch(puts={"ids": [(key, b"i" * 100)], "ready": [(key, b"r" * 100)]}))
    print(n, flush=True)
"""


def kill_a_writer(path: Path, after: int) -> int:
    """Let a process write batches 1, 2, …, and kill it after some; return the last one that it reported as written."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(after):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        return max(after, *(int(line) for line in writer.stdout.read().split(b"\n")[:-1] or [b"0"]))


def batches_in(path: Path) -> tuple[list[int], list[int]]:
    """Return the writer's batches in the store, as seen through each of the two families that they changed."""
    store = RocksStore(path)
    ids, ready = ([int.from_bytes(key, "big") for key in keys_of(store, family)] for family in ("ids", "ready"))
    store.close()
    return ids, ready


def test_what_was_written_survives_kill_9_whole_and_without_gaps(tmp_path: Path) -> None:
    last = kill_a_writer(tmp_path, after=500)

    ids, ready = batches_in(tmp_path)

    assert ids == ready
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) >= last


@pytest.mark.parametrize("lost_bytes", [1, 100, 1_000, 20_000])
def test_a_log_that_was_cut_off_leaves_the_first_batches_and_each_of_them_whole(
    tmp_path: Path, lost_bytes: int
) -> None:
    kill_a_writer(tmp_path, after=200)
    log = max(tmp_path.glob("*.log"), key=lambda path: path.stat().st_size)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - lost_bytes)

    ids, ready = batches_in(tmp_path)

    assert ids == ready
    assert ids == list(range(1, len(ids) + 1))
    assert ids


def test_a_batch_is_there_in_all_its_families_after_opening_again(ground: Ground) -> None:
    store = ground.open()
    store.write(store.begin(), Batch(puts={family: [(b"k", family.encode())] for family in FAMILIES}))

    store = ground.open()

    assert [store.get(family, [b"k"]) for family in FAMILIES] == [[family.encode()] for family in FAMILIES]


# ------------------------------------------------------------------------------------------------ P2


def test_a_read_sees_the_last_write(store: Store) -> None:
    epoch = store.begin()

    put(store, epoch, "ids", b"a", value=b"1")
    put(store, epoch, "ids", b"a", value=b"2")

    assert store.get("ids", [b"a"]) == [b"2"]
    assert store.scan("ids", b"", END, 10) == [(b"a", b"2")]


def test_get_answers_in_the_order_of_its_keys_with_none_for_what_is_not_there(store: Store) -> None:
    put(store, store.begin(), "ids", b"a", b"c")

    assert store.get("ids", [b"c", b"b", b"a", b"c"]) == [b"v", None, b"v", b"v"]
    assert store.get("ids", []) == []


def test_a_value_may_be_empty(store: Store) -> None:
    put(store, store.begin(), "ids", b"a", value=b"")

    assert store.get("ids", [b"a"]) == [b""]


# ------------------------------------------------------------------------------------------------ P3


def test_a_scan_goes_by_bytes_with_its_start_and_without_its_end(store: Store) -> None:
    put(store, store.begin(), "ready", b"\x02", b"\x01\xff", b"\x01", b"\x00", b"\xff", b"\x01\x00")

    assert [key for key, _ in store.scan("ready", b"\x01", b"\xff", 10)] == [b"\x01", b"\x01\x00", b"\x01\xff", b"\x02"]


def test_a_scan_stops_at_its_limit(store: Store) -> None:
    put(store, store.begin(), "ready", b"a", b"b", b"c")

    assert [key for key, _ in store.scan("ready", b"", END, 2)] == [b"a", b"b"]
    assert store.scan("ready", b"", END, 0) == []


@pytest.mark.parametrize(("start", "end"), [(b"b", b"b"), (b"c", b"a"), (b"x", b"z")])
def test_a_scan_of_an_empty_range_is_empty(store: Store, start: bytes, end: bytes) -> None:
    put(store, store.begin(), "ready", b"a", b"b", b"c")

    assert store.scan("ready", start, end, 10) == []
    assert store.scan_back("ready", start, end, 10) == []


def test_a_scan_back_has_the_same_range_with_the_last_entries_first(store: Store) -> None:
    put(store, store.begin(), "ready", b"\x02", b"\x01\xff", b"\x01", b"\x00", b"\xff", b"\x01\x00")

    entries = store.scan_back("ready", b"\x01", b"\xff", 10)

    assert entries == store.scan("ready", b"\x01", b"\xff", 10)[::-1]
    assert len(entries) == 4


def test_a_scan_back_stops_at_its_limit(store: Store) -> None:
    put(store, store.begin(), "ready", b"a", b"b", b"c")

    assert [key for key, _ in store.scan_back("ready", b"", END, 2)] == [b"c", b"b"]
    assert store.scan_back("ready", b"", END, 0) == []


# ------------------------------------------------------------------------------------------------ P4


def test_in_a_batch_puts_win_over_deletes_and_over_drops(store: Store) -> None:
    epoch = store.begin()
    put(store, epoch, "ready", b"a", b"b", b"c", b"d", value=b"old")

    store.write(
        epoch,
        Batch(
            puts={"ready": [(b"a", b"new"), (b"b", b"new")]},
            deletes={"ready": [b"b", b"d", b"never there"]},
            drops=[("ready", b"a", b"d")],
        ),
    )

    assert store.scan("ready", b"", END, 10) == [(b"a", b"new"), (b"b", b"new")]


def test_a_key_that_is_put_again_has_the_last_value_whatever_else_is_put_for_the_first_time(store: Store) -> None:
    epoch = store.begin()
    for family in ("ready", "specs"):
        put(store, epoch, family, b"a", value=b"old")
        store.write(epoch, Batch(puts={family: [(b"a", b"new")], "history": [(b"h", b"1")], "failed": [(b"f", b"1")]}))
        put(store, epoch, "failed", b"g")

        assert store.get(family, [b"a"]) == [b"new"]
        assert keys_of(store, "failed") == [b"f", b"g"]


def test_a_key_that_was_looked_for_in_vain_has_the_last_value_that_is_put_then(store: Store) -> None:
    epoch = store.begin()
    for value in (b"1", b"2", b"3"):
        store.get("ids", [b"a", b"b", b"c"])
        store.write(epoch, Batch(puts={"ids": [(b"a", b"0"), (b"b", value), (b"a", value)], "ready": [(b"k", value)]}))
        assert store.get("ids", [b"a", b"b", b"c"]) == [value, value, None]

    store.write(epoch, Batch(deletes={"ids": [b"a"]}, drops=[("ids", b"b", b"z")]))
    assert store.get("ids", [b"a", b"b"]) == [None, None]
    for value in (b"4", b"5"):
        store.write(epoch, Batch(puts={"ids": [(b"a", value), (b"b", value), (b"c", value)]}))
    assert store.get("ids", [b"a", b"b", b"c"]) == [b"5", b"5", b"5"]


def test_a_long_drop_takes_all_at_once_and_what_is_put_there_afterwards_stays(ground: Ground) -> None:
    store = ground.open()
    epoch = store.begin()
    project, others = b"\0\0\0\5", [b"\0\0\0\4z", b"\0\0\0\6"]
    many = [project + number.to_bytes(4, "big") for number in range(5000)]
    for batch in (many, others):
        put(store, epoch, "ready", *batch)

    new = [project + b"\0\0\0\1", project + b"\xff"]
    dropped = ("ready", project, b"\0\0\0\6")
    store.write(epoch, Batch(drops=[dropped], puts={"ready": [(key, b"new") for key in new]}))
    wanted = [(others[0], b"v"), (new[0], b"new"), (new[1], b"new"), (others[1], b"v")]

    for _ in range(3):
        assert store.scan("ready", b"", END, 10_000) == wanted
        assert store.scan_back("ready", b"", END, 10_000) == wanted[::-1]
        assert store.get("ready", [many[0], new[0], others[0]]) == [None, b"new", b"v"]
        for number in range(4):
            put(store, epoch, "ids", bytes([number]))
        store = ground.open()
        epoch = store.begin()

    store.write(epoch, Batch(drops=[dropped]))
    assert keys_of(store, "ready") == others


def test_a_drop_takes_its_range_and_nothing_else(store: Store) -> None:
    epoch = store.begin()
    put(store, epoch, "ready", b"a", b"b", b"bb", b"c")
    put(store, epoch, "delayed", b"b")

    store.write(epoch, Batch(drops=[("ready", b"b", b"c")]))

    assert keys_of(store, "ready") == [b"a", b"c"]
    assert keys_of(store, "delayed") == [b"b"]
    assert store.get("ready", [b"b"]) == [None]


def test_what_was_dropped_stays_gone_after_opening_again(ground: Ground) -> None:
    store = ground.open()
    epoch = store.begin()
    put(store, epoch, "ready", b"a", b"b")
    store.write(epoch, Batch(drops=[("ready", b"a", b"b")]))

    store = ground.open()

    assert keys_of(store, "ready") == [b"b"]


# ------------------------------------------------------------------------------------------------ P6, P7


def test_a_power_cut_leaves_what_was_synced() -> None:
    disk = Disk()
    store = MemoryStore(disk)
    epoch = store.begin()
    put(store, epoch, "ids", b"synced")
    store.sync()
    put(store, epoch, "ids", b"lost")

    disk.power_cut()

    assert keys_of(MemoryStore(disk), "ids") == [b"synced"]


def test_of_what_was_not_synced_a_power_cut_leaves_the_first_batches_only() -> None:
    disk = Disk()
    store = MemoryStore(disk)
    epoch = store.begin()
    for key in b"a", b"b", b"c":
        put(store, epoch, "ids", key)

    disk.power_cut(lucky=2)

    assert keys_of(MemoryStore(disk), "ids") == [b"a", b"b"]


def test_a_sync_in_another_thread_disturbs_nobody(ground: Ground) -> None:
    store = ground.open()
    epoch = store.begin()
    done = threading.Event()

    def sync() -> None:
        while not done.is_set():
            store.sync()

    thread = threading.Thread(target=sync)
    thread.start()
    for n in range(300):
        put(store, epoch, "ids", n.to_bytes(2, "big"))
    done.set()
    thread.join()

    assert len(keys_of(ground.open(), "ids")) == 300


# ------------------------------------------------------------------------------------------------ P8


def test_each_epoch_is_greater_than_every_one_before(ground: Ground) -> None:
    epochs = [ground.open().begin() for _ in range(3)]
    store = ground.open()
    epochs += [store.begin(), store.begin()]

    assert epochs == sorted(set(epochs))


def test_a_write_under_an_older_epoch_is_fenced_and_writes_nothing(store: Store) -> None:
    older = store.begin()
    newer = store.begin()

    with pytest.raises(Fenced, match=f"epoch {older} has ended, {newer} has begun"):
        put(store, older, "ids", b"a")

    assert keys_of(store, "ids") == []


def test_an_epoch_of_before_a_restart_is_fenced(ground: Ground) -> None:
    older = ground.open().begin()
    store = ground.open()
    store.begin()

    with pytest.raises(Fenced):
        put(store, older, "ids", b"a")


def test_a_second_scheduler_on_the_same_disk_fences_the_first() -> None:
    disk = Disk()
    first = MemoryStore(disk)
    epoch = first.begin()
    MemoryStore(disk).begin()

    with pytest.raises(Fenced):
        put(first, epoch, "ids", b"a")


def test_an_epoch_survives_a_power_cut() -> None:
    disk = Disk()
    epoch = MemoryStore(disk).begin()

    disk.power_cut()

    assert MemoryStore(disk).begin() > epoch


def test_a_store_whose_epochs_are_used_up_says_so(store: Store) -> None:
    store.write(store.begin(), Batch(puts={META: [(b"epoch", b"%d" % (2**20 - 1))]}))

    with pytest.raises(StoreError, match="used up"):
        store.begin()


# ------------------------------------------------------------------------------------------------ P9


def test_a_store_that_is_closed_refuses_with_one_line(ground: Ground) -> None:
    store = ground.open()
    epoch = store.begin()
    ground.close()

    with pytest.raises(StoreError, match="closed"):
        put(store, epoch, "ids", b"a")
    with pytest.raises(StoreError, match="closed"):
        store.sync()
    with pytest.raises(StoreError, match="closed"):
        store.get("ids", [b"a"])


FULL_DISK = """
import resource, sys
from taskqueue.errors import StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.rocksdb.rocks_store import RocksStore
store = RocksStore(sys.argv[1])
epoch = store.begin()
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
for n in range(1, 1_000):
    key = n.to_bytes(4, "big")
    try:
        store.write(epoch, Batch(puts={"ids": [(key, b"i" * 1000)], "ready": [(key, b"r" * 1000)]}))
    except StoreError as error:
        print(n, error)
        break
"""


def test_a_write_that_the_disk_refuses_is_a_store_error_and_leaves_whole_batches(tmp_path: Path) -> None:
    script = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False
    )
    failed, _, message = script.stdout.partition(" ")

    ids, ready = batches_in(tmp_path)

    assert "could not write" in message, script
    assert ids == ready
    assert ids in (list(range(1, int(failed))), list(range(1, int(failed) + 1)))


def test_after_a_write_that_the_disk_refused_closing_is_a_store_error_and_lets_go(tmp_path: Path) -> None:
    script = subprocess.run(
        [sys.executable, "-c", FULL_DISK + CLOSE_AND_OPEN, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert "could not close the store: " in script.stdout, script
    assert script.stdout.endswith("opened\n")


CLOSE_AND_OPEN = """
try:
    store.close()
except StoreError as error:
    print(error)
RocksStore(sys.argv[1]).close()
print("opened")
"""


def damaged(path: Path) -> None:
    """Make a store with unreadable entries."""
    store = RocksStore(path)
    epoch = store.begin()
    chance = random.Random(1)
    store.write(epoch, Batch(puts={"ready": [(b"%06d" % n, chance.randbytes(1000)) for n in range(1000)]}))
    store.sync()
    store.compact()
    store.close()
    table = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(bytes(100_000))


@pytest.mark.parametrize("opened", [RocksStore, lambda path: ReadOnlyStore(str(path))])
def test_a_scan_that_can_not_be_read_on_is_an_error_and_no_end_and_holds_nothing(
    tmp_path: Path, opened: Callable[[Path], RocksStore | ReadOnlyStore]
) -> None:
    damaged(tmp_path)
    store = opened(tmp_path)

    with pytest.raises(StoreError, match=r"could not read the store: .*orrupt") as held:
        store.scan("ready", b"", b"\xff", 10_000)

    store.close()
    RocksStore(tmp_path).close()
    del held


def test_a_scan_backwards_that_can_not_be_read_on_is_an_error_too(tmp_path: Path) -> None:
    damaged(tmp_path)
    store = RocksStore(tmp_path)

    with pytest.raises(StoreError, match=r"could not read the store: .*orrupt") as held:
        store.scan_back("ready", b"", b"\xff", 10_000)

    store.close()
    RocksStore(tmp_path).close()
    del held


# ------------------------------------------------------------------------------------------------ P10


def test_equal_keys_in_two_families_are_two_entries(store: Store) -> None:
    epoch = store.begin()
    put(store, epoch, "ids", b"k", value=b"1")
    put(store, epoch, "specs", b"k", value=b"2")

    store.write(epoch, Batch(deletes={"ids": [b"k"]}))

    assert store.get("ids", [b"k"]) == [None]
    assert store.get("specs", [b"k"]) == [b"2"]


# ------------------------------------------------------------------------------------------------ P11


def as_format(ground: Ground, version: int) -> None:
    """Leave a store with one task, marked as of this format."""
    store = ground.open()
    store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"%d" % version)], "ids": [(b"k", b"as it was")]}))
    ground.close()


def test_a_new_store_has_the_present_format(store: Store) -> None:
    assert store.get(META, [FORMAT_KEY]) == [b"%d" % FORMAT]


def test_a_newer_format_is_refused_with_what_to_do(ground: Ground) -> None:
    as_format(ground, FORMAT + 1)

    with pytest.raises(FormatError, match=f"format {FORMAT + 1} is newer than {FORMAT}.*start the version"):
        ground.open()


def test_every_older_format_has_its_way_up() -> None:
    assert list(MIGRATIONS) == list(range(1, FORMAT))


def test_an_older_format_without_a_way_up_is_refused_with_what_to_do(ground: Ground) -> None:
    as_format(ground, FORMAT - 1)

    with pytest.raises(FormatError, match=r"too old to be migrated.*earlier version"):
        ground.open(migrations={})


def test_a_store_that_was_refused_is_as_it_was(ground: Ground) -> None:
    as_format(ground, FORMAT - 1)
    with pytest.raises(FormatError):
        ground.open(migrations={})

    store = ground.open({FORMAT - 1: lambda store, epoch: None})

    assert store.get("ids", [b"k"]) == [b"as it was"]


def test_an_older_format_is_migrated_once(ground: Ground) -> None:
    def double(store: Store, epoch: int) -> None:
        entries = store.scan("ids", b"", END, 100)
        store.write(epoch, Batch(puts={"ids": [(key, value * 2) for key, value in entries]}))

    as_format(ground, FORMAT - 1)

    ground.open({FORMAT - 1: double})
    store = ground.open({FORMAT - 1: double})

    assert store.get(META, [FORMAT_KEY]) == [b"%d" % FORMAT]
    assert store.get("ids", [b"k"]) == [b"as it wasas it was"]


def test_what_was_said_in_format_7_has_its_present_names(ground: Ground) -> None:
    said: dict[str, Setting] = {"rate": 5, "slot": "host", "slot_delay": 2.5, "keep_failed": "30d", "forget": True}
    record = ProjectRecord(7, "news", "running", said)
    store = ground.open()
    puts = {META: [(FORMAT_KEY, b"7")], layout.PROJECTS: [(layout.project_key(7), layout.encode(record))]}
    store.write(store.begin(), Batch(puts=puts))

    store = ground.open()

    [(_, value)] = store.scan(layout.PROJECTS, b"", END, 100)
    assert layout.decode_project(value).overrides == {
        "rate": 5,
        "slot": {"by": "host", "delay": 2.5},
        "keep": {"failed": "30d", "then": "forget"},
    }


def test_sessions_of_format_8_have_no_owner_and_later_ones_keep_theirs(ground: Ground) -> None:
    store = ground.open()
    puts = {META: [(FORMAT_KEY, b"8")], layout.SESSIONS: [(layout.session_key("old"), packb(("old", 5.0)))]}
    store.write(store.begin(), Batch(puts=puts))
    ground.close()

    ledger = Ledger(ground.open())
    [former] = ledger.begin("boot").sessions
    ledger.commit(WriteSet(sessions=[SessionRecord("new", 6.0, "web1 7.5")]))
    ground.close()

    found = Ledger(ground.open()).begin("boot").sessions
    assert former == SessionRecord("old", 5.0)
    assert {record.session: record.owner for record in found} == {"old": "", "new": "web1 7.5"}


def test_a_format_that_is_not_a_number_is_refused(ground: Ground) -> None:
    store = ground.open()
    store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"?")]}))

    with pytest.raises(FormatError, match="not a number"):
        ground.open()


def without_a_family(path: Path) -> None:
    """Remove a family, as if the store came from a version without it."""
    options = {name: Options(raw_mode=True) for name in (*FAMILIES, "default")}
    database = Rdict(str(path), Options(raw_mode=True), options)
    database.drop_column_family("history")
    database.close()


def test_a_newer_directory_that_is_refused_gets_none_of_our_families(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"%d" % (FORMAT + 1))]}))
    store.close()
    without_a_family(tmp_path)

    with pytest.raises(FormatError):
        RocksStore(tmp_path)

    assert "history" not in Rdict.list_cf(str(tmp_path), Options())


def test_a_migration_may_use_families_that_the_older_format_did_not_have(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"%d" % (FORMAT - 1))]}))
    store.close()
    without_a_family(tmp_path)

    store = RocksStore(tmp_path, migrations={FORMAT - 1: lambda store, epoch: put(store, epoch, "history", b"k")})

    assert store.get("history", [b"k"]) == [b"v"]
    store.close()


# ------------------------------------------------------------------------------------------------ a directory

SECOND = """
import sys
from taskqueue.errors import StoreError
from taskqueue.store.rocksdb.rocks_store import RocksStore
try:
    RocksStore(sys.argv[1])
except StoreError as error:
    print(error)
"""


def test_a_second_process_on_a_directory_is_told_which_one_and_why(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)

    second = subprocess.run([sys.executable, "-c", SECOND, str(tmp_path)], capture_output=True, text=True, check=True)

    assert second.stdout == (f"{tmp_path}: another daemon has this store open; stop it, or choose another store.path\n")
    store.close()


def test_a_path_that_can_not_be_a_directory_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="file: could not open the store: it exists, but is not a folder"):
        RocksStore(tmp_path / "file")
