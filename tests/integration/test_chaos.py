"""Chaos in a short form: a daemon under load, in every kind of trouble, loses nothing that it acknowledged.

``make chaos`` plays it for some minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.play import play
from tests.chaos.troubles import TROUBLES

ROUNDS: Final = 2
TASKS: Final = 300

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_acknowledged_is_lost(shim_library: Path, tmp_path: Path, trouble: str) -> None:
    played = play(trouble, shim_library, tmp_path, seed=1, rounds=ROUNDS, tasks=TASKS)

    assert played.problems == []
    assert len(played.ledger.pushed) == len(played.ledger.done) == ROUNDS * TASKS
    assert played.ledger.lost == 0
    # A power cut may undo a dispatch that no answer has confirmed.
    assert "power cuts" in trouble or played.ledger.twice == 0
