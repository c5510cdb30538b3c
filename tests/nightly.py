"""Amounts that tests try: enough in each run, more in a nightly one with TASKQUEUE_NIGHTLY=1."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

NIGHTLY: Final = os.environ.get("TASKQUEUE_NIGHTLY") == "1"
"""True if this run may take hours."""


def usually(each_run: T, *, nightly: T) -> T:
    """Return the count or the cases of each run, or those of a nightly run, which must include them."""
    return nightly if NIGHTLY else each_run


TIMES: Final = usually(1, nightly=10)
"""Factor of seeds and examples in tests that can always try more."""
