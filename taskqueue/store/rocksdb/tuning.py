"""RocksDB's options. docs/why/decisions/0003-rocksdb-options.md has the measurements and the rejected alternatives.

* Ids are looked up at random: small blocks, not compressed, and bloom filters also over memtables, so that a never-seen
  id costs no disk access. Their indexes and filters, 2.3 bytes an id, must stay in the cache. Other blocks come from
  the operating system's cache, if it has them, at nearly the same cost.
* All other families are read in key order: larger blocks.
* Most writes are soon overwritten or deleted (a task is ready, leased and done within moments), so memtables are merged
  before they are flushed: short-lived entries never reach a table.
* Small families that grow only at their ends would get a table with each flush, which no compaction merges with others.
* Memory is bounded: one block cache, with indexes and filters in it, and one budget for memtables. Tables use no memory
  outside of these. The log is bounded, too, because a start after kill -9 reads all of it.
"""

from __future__ import annotations

from typing import Final

from rocksdict import BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, DBRecoveryMode, Options

from taskqueue.core.model.task import CANCELLED, FAILED
from taskqueue.store.contract import Family
from taskqueue.store.records.layout import FAILURES, IDS, LOG, ORDERS, UNDO_ROWS

MEMTABLES_BYTES: Final = 96 << 20
"""Memory of the memtables of all families; beyond it the family with the oldest memtable is flushed."""

MEMTABLE_BYTES: Final = 4 << 20
MEMTABLES_MERGED: Final = 8
MEMTABLES_MOST: Final = 12
"""Memtables per family, at most.

Inserting into a small memtable costs less than into a large one (writing a lifecycle took 7.3 µs with 4 MiB, 8.1 with
8, 10.2 with 32), and merged ones are flushed like a large one: with a million known tasks RocksDB's threads took 4.0 µs
of CPU for a lifecycle, and 1,419 bytes were written; with 8 MiB each flushed alone, 5.9 µs and 1,672 bytes.
"""

LOG_BYTES: Final = 128 << 20
"""Size of the write-ahead log beyond which memtables are flushed so that it can be deleted.

Replaying it after kill -9 took 1.0 s of CPU, on a slow core; 64 MiB 0.5 s, 256 MiB 1.2 s.
"""

OPEN_FILES: Final = 1000
BLOCK_BYTES: Final = 16 << 10
IDS_BLOCK_BYTES: Final = 4 << 10
BLOOM_BITS: Final = 10
IDS_TABLE_BYTES: Final = 16 << 20
"""Size of a table of ids.

A table's filter is one block and has to fit into one of the 64 shards of the cache. In tables of 64 MiB it has 1.5 MB:
with a cache of 64 MiB it was read anew for each batch, and a known id of ten million cost 24 µs. In these it costs 7 to
9 µs, with a cache of 64 MiB as with one of 256.
"""

MEMTABLE_BLOOM_RATIO: Final = 0.05
COMPRESSION: Final = DBCompressionType.lz4()
IDS_COMPRESSION: Final = DBCompressionType.none()
"""Compression of ids: none.

A known id of ten million costs 4.1 µs of CPU and 87 bytes; in compressed blocks 4.7 µs and 53 bytes.
"""


GROWING: Final = frozenset({FAILURES, LOG, UNDO_ROWS, ORDERS[FAILED], ORDERS[CANCELLED]})
"""Small families whose keys ascend with time.

Tables that don't overlap are moved to the lowest level as they are: in an hour at 9,000 lifecycles a second, of which
each fiftieth failed once, ``failures`` got four tables of 32 KB a minute, each with its descriptor. Merged by size they
are a few at any time, for writing each entry some times more.
"""


def database() -> Options:
    """Make database options: bounded threads, files and memory; the log is replayed up to the first torn record."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_max_total_wal_size(LOG_BYTES)
    options.set_db_write_buffer_size(MEMTABLES_BYTES)
    # Only one thread writes. A memtable for concurrent writers costs it a quarter more (benchmarks/store.py).
    options.set_allow_concurrent_memtable_write(False)
    options.set_enable_write_thread_adaptive_yield(False)
    options.set_max_background_jobs(2)
    options.set_max_open_files(OPEN_FILES)
    options.set_bytes_per_sync(1 << 20)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    return options


def _family(table: BlockBasedOptions, cache: Cache, compression: DBCompressionType) -> Options:
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_min_write_buffer_number_to_merge(MEMTABLES_MERGED)
    options.set_max_write_buffer_number(MEMTABLES_MOST)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(compression)
    return options


def for_family(family: Family, cache: Cache) -> Options:
    """Make a family's options; ids have random look-ups, most of them of absent keys."""
    if family == IDS:
        return _for_random_keys(cache)
    options = _for_ordered_keys(cache)
    if family in GROWING:
        options.set_compaction_style(DBCompactionStyle.universal())
    return options


def _for_ordered_keys(cache: Cache) -> Options:
    table = BlockBasedOptions()
    table.set_block_size(BLOCK_BYTES)
    return _family(table, cache, COMPRESSION)


def _for_random_keys(cache: Cache) -> Options:
    table = BlockBasedOptions()
    table.set_block_size(IDS_BLOCK_BYTES)
    table.set_bloom_filter(BLOOM_BITS, False)
    options = _family(table, cache, IDS_COMPRESSION)
    options.set_target_file_size_base(IDS_TABLE_BYTES)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO)
    return options
