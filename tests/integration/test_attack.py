"""The attacks of ``make attack`` in a short form: what doesn't depend on how fast this machine is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from tests.attack.measure import Conditions, attacker
from tests.attack.rows import ROWS
from tests.attack.target import MIB, STOP_SECONDS, target
from tests.attack.waits import polite_client
from tests.integration.conftest import WAIT_SECONDS

COMMAND: Final = str(Path(sys.executable).parent / "taskqueue")
SECONDS: Final = 1.0
MOST_BYTES: Final = 500 * MIB
"""Each attack would take more, if nothing bounded it."""
LEFT_BYTES: Final = 150 * MIB
"""More than before, when the attacker has gone."""
TASKS: Final = 5


ROWS_AND_SCALES: Final = [
    ("empty-parts", 0.1),
    ("jump", 1.0),
    ("large-frames", 1.0),
    ("requests-1-mb", 1.0),
    ("wishes", 0.2),
]


@pytest.mark.parametrize(("name", "scale"), ROWS_AND_SCALES)
def test_beside_a_bad_peer_others_are_served_and_memory_stays_bounded(name: str, scale: float) -> None:
    under = Conditions(COMMAND, SECONDS, MOST_BYTES, scale)
    with target(COMMAND, MOST_BYTES) as it, polite_client(it.url) as polite:
        assert polite.wait_for_tasks(TASKS, WAIT_SECONDS)
        before = it.memory()

        with attacker(ROWS[name], it, under) as attacking:
            attacking.begin()
            served = polite.wait_for_tasks(TASKS, WAIT_SECONDS)
            note = attacking.wait(SECONDS)

        assert not it.killed, f"{it.peak_bytes / MIB:.0f} MiB"
        assert served
        assert not note.startswith(("harm", "the attacker failed", "cut off")), note
        assert it.comes_below(before + LEFT_BYTES, WAIT_SECONDS)
        assert polite.wait_for_tasks(TASKS, WAIT_SECONDS)
        assert it.stop() is not None, f"SIGTERM was not heard within {STOP_SECONDS} s"
