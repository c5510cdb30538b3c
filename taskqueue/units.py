"""How long: one way to write it, wherever a person writes it: in settings, on the command line, in a line of a file.

A number of seconds, or a text: a number, with a point if it is a part, and s, m, h or d: "90s", "1.5h", "30d". A text
without a unit is one of seconds. What is stored and sent is seconds.
"""

from __future__ import annotations

import re
from typing import Final

TEXT: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([smhd]?)", re.ASCII)
UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
EXAMPLES: Final = '"90s", "5m", "12h" or "30d"'
"""For messages about what is none."""


def seconds_of(written: str) -> float | None:
    """``"5m"`` as 300; None: it is no duration."""
    read = TEXT.fullmatch(written)
    return float(read[1]) * UNIT_SECONDS[read[2]] if read else None
