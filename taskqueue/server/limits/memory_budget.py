"""What the daemon's memory is for: the parts of ``limits.memory`` that settings and constants bound.

    the program, the store's cache and memtables, heads, leases      settings; must fit under WATCHED_AT of the bound
    what connections make it hold                                    the rest; see ``watcher``

docs/operations.md explains the sum.
"""

from __future__ import annotations

from typing import Final

from taskqueue.errors import ConfigError
from taskqueue.server.config.config_file import Config
from taskqueue.store.rocksdb.tuning import MEMTABLES_BYTES
from taskqueue.units import size_text

PROGRAM_BYTES: Final = 45_000_000
LEASE_BYTES: Final = 512
"""Of a task that a fetcher has, without its url and its body."""
HEADS_PART: Final = 1.625
"""Of ``limits.memory_bytes``: heads; a quarter for large bodies whose turn has come; a quarter for bodies of leases;
an eighth for updates that wait for the end of a lease."""
SETTINGS_PART: Final = 0.8
"""Of ``limits.memory``: what settings may take; the rest is for messages."""


def check(config: Config) -> None:
    """See to it that what the settings allow fits into the memory that the daemon may take.

    Raises:
        ConfigError: it does not; says by how much.
    """
    limits = config.limits
    settled = needed_bytes(config)
    if settled > SETTINGS_PART * limits.memory:
        least = int(settled / SETTINGS_PART / (1 << 20)) + 1
        raise ConfigError(
            f"limits.memory = {size_text(limits.memory)} is too little for "
            f"limits.memory_bytes = {size_text(limits.memory_bytes)}, limits.max_leases = {limits.max_leases} "
            f"and store.cache = {size_text(config.store.cache)}: "
            f'lower one of these, or set limits.memory = "{least} MiB"'
        )


def needed_bytes(config: Config) -> int:
    """What the settings allow the daemon to take, without messages."""
    limits = config.limits
    heads = int(HEADS_PART * limits.memory_bytes)
    return PROGRAM_BYTES + MEMTABLES_BYTES + config.store.cache + heads + LEASE_BYTES * limits.max_leases
