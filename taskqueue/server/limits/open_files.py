"""How many files this process may have open, and how many of them connections may be.

The store keeps up to ``tuning.OPEN_FILES`` tables open and must always be able to open one more; a listening socket
that is out of descriptors would try to accept, and fail, again and again.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

from taskqueue.store.rocksdb.tuning import OPEN_FILES

SPARE_FILES: Final = 256
"""For logs, sockets, what is read at a start, and connections that come faster than they are refused."""


def raise_limit() -> int:
    """Take as many open files as the process may have; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def max_connections(files: int) -> int:
    """How many of so many open files may be connections; a quarter of them if the store would leave less."""
    return max(files - OPEN_FILES - SPARE_FILES, files // 4)
