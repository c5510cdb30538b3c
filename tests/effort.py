"""How much is tried where more can always be tried: little in each run, ten times as much in ``make nightly``."""

from __future__ import annotations

import os
from typing import Final

TIMES: Final = int(os.environ.get("TASKQUEUE_TIMES", "1"))
"""How many times as many seeds and examples are tried as in an ordinary run."""
