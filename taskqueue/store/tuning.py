"""How RocksDB is set up; figures in docs/decisions/0001-record-layout.md.

* Ids are looked up at random: small blocks, and bloom filters also over what is not yet in files, so that a never-seen
  id costs no disk.
* All else is read in the order of its keys: larger blocks.
* Memory is bounded: one block cache, with indexes and filters in it, and one budget for memtables.
"""

from __future__ import annotations

from typing import Final

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options

MEMTABLES_BYTES: Final = 128 << 20
MEMTABLE_BYTES: Final = 8 << 20
LOG_BYTES: Final = 256 << 20
OPEN_FILES: Final = 1000
BLOCK_BYTES: Final = 16 << 10
IDS_BLOCK_BYTES: Final = 4 << 10
BLOOM_BITS: Final = 10
MEMTABLE_BLOOM_RATIO: Final = 0.05


def database() -> Options:
    """Of the database: bounded threads, files and memory; the log replayed up to the first torn record."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_max_total_wal_size(LOG_BYTES)
    options.set_db_write_buffer_size(MEMTABLES_BYTES)
    # One thread writes: a memtable that many could fill at once costs it a quarter more (benchmarks/store.py).
    options.set_allow_concurrent_memtable_write(False)
    options.set_enable_write_thread_adaptive_yield(False)
    options.set_max_background_jobs(2)
    options.set_max_open_files(OPEN_FILES)
    options.set_bytes_per_sync(1 << 20)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    return options


def _family(table: BlockBasedOptions, cache: Cache) -> Options:
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.lz4())
    return options


def for_ordered_keys(cache: Cache) -> Options:
    """Of families that are read in the order of their keys."""
    table = BlockBasedOptions()
    table.set_block_size(BLOCK_BYTES)
    return _family(table, cache)


def for_random_keys(cache: Cache) -> Options:
    """Of families that are asked for random keys, most of which were never there."""
    table = BlockBasedOptions()
    table.set_block_size(IDS_BLOCK_BYTES)
    table.set_bloom_filter(BLOOM_BITS, False)
    options = _family(table, cache)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO)
    return options
