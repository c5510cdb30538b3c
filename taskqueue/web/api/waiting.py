"""Requests that wait, for many askers: each has a session of its own, because a session waits once for one thing.

Sessions are used again, so there are as many as ever waited at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskqueue.web.api.repeats import Known

FIRST_NUMBER: Final = 1 << 62
"""Of requests that wait; those of ``repeats`` are smaller."""


class WaitingSessions:
    """Those of one web process."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._number = FIRST_NUMBER

    @contextmanager
    def known_as(self) -> Iterator[Known]:
        """A session that waits for nothing, and a number in it."""
        session = self._free.pop() if self._free else f"wait-{secrets.token_hex(16)}"
        self._number += 1
        try:
            yield session, self._number
        finally:
            self._free.append(session)
