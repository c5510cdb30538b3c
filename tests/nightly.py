"""How much of a kind a test tries: enough of it in each run, more with TASKQUEUE_NIGHTLY=1, when nobody waits."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

NIGHTLY: Final = os.environ.get("TASKQUEUE_NIGHTLY") == "1"
"""True if this run may take hours."""


def usually(each_run: T, *, nightly: T) -> T:
    """The count or the cases of each run, or those of a nightly one, which must have all that each run has."""
    return nightly if NIGHTLY else each_run


TIMES: Final = usually(1, nightly=10)
"""How many times as many seeds and examples are tried as in each run, where more can always be tried."""
