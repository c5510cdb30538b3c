"""Checks that the memory that settings allow fits into ``limits.memory``.

    program, store cache and memtables, heads, slots, leases   settings; at most SETTINGS_PART of the bound
    messages and connections                                   the rest; see ``connection_guard``

docs/operations.md explains the sum.
"""

from __future__ import annotations

from typing import Final

from taskqueue.errors import SettingError
from taskqueue.server.config.config_file import Config
from taskqueue.store.rocksdb.tuning import MEMTABLES_BYTES
from taskqueue.units import size_text

PROGRAM_BYTES: Final = 45_000_000
SLOT_BYTES: Final = 1024
"""Memory of a slot without its tasks."""
LEASE_BYTES: Final = 512
"""Memory of a leased task, without its url and its body."""
HEADS_PART: Final = 1.625
"""Memory as a multiple of ``limits.memory_bytes``: 1 for heads; a quarter for large bodies whose turn has come; a
quarter for bodies of leases; an eighth for updates that wait for the end of a lease.
"""
SETTINGS_PART: Final = 0.8
"""Part of ``limits.memory`` that settings may allow; the rest is for messages."""


def check(config: Config) -> None:
    """Check the budget.

    Raises:
        SettingError: the settings allow more than fits; the message says what would fit.
    """
    limits = config.limits
    settled = needed_bytes(config)
    if settled > SETTINGS_PART * limits.memory:
        least = int(settled / SETTINGS_PART / (1 << 20)) + 1
        raise SettingError(
            f"limits.memory = {size_text(limits.memory)} is too little for "
            f"limits.memory_bytes = {size_text(limits.memory_bytes)}, limits.max_leases = {limits.max_leases}, "
            f"limits.memory_slots = {limits.memory_slots} and store.cache = {size_text(config.store.cache)}: "
            f'lower one of these, or set limits.memory = "{least} MiB"'
        )


def needed_bytes(config: Config) -> int:
    """Memory that the settings allow the daemon to use, without messages."""
    limits = config.limits
    heads = int(HEADS_PART * limits.memory_bytes)
    counted = LEASE_BYTES * limits.max_leases + SLOT_BYTES * limits.memory_slots
    embedded = 0 if config.store.url else MEMTABLES_BYTES + config.store.cache
    return PROGRAM_BYTES + embedded + heads + counted
