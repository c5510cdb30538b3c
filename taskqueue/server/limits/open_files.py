"""The limit of open files, and how many of them connections may use.

The store keeps up to ``tuning.OPEN_FILES`` tables open and must always be able to open one more; a listening socket
without free descriptors would try to accept, and fail, in a loop.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

from taskqueue.store.rocksdb.tuning import OPEN_FILES

SPARE_FILES: Final = 256
"""For logs, sockets, files read at a start, and connections that arrive faster than they are refused."""


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def max_connections(files: int) -> int:
    """How many of ``files`` may be connections: what the store and SPARE_FILES leave, but at least a quarter."""
    return max(files - OPEN_FILES - SPARE_FILES, files // 4)
