"""Crashes at every write: a short world is played once to count its writes, then again for each, before and after."""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.play import Play
from tests.simulation.storage import Fault, Plan
from tests.simulation.world import Weather

SHORT_SECONDS: Final = 60.0
WEATHER: Final = Weather(turn_seconds=2.0, sync_seconds=1.0, drop=0.05, repeat=0.1, power_cut=0.5)
FAULTS: Final[tuple[Fault, ...]] = ("crash before", "crash after", "fails", "unknown")


def _play(plan: Plan) -> int:
    return Play("short", weather=WEATHER, storm_seconds=SHORT_SECONDS, plan=plan).run().crashes


@pytest.mark.parametrize("fault", FAULTS)
def test_no_law_is_broken_by_a_fault_at_any_write(fault: Fault) -> None:
    counted = Plan()
    assert _play(counted) == 0
    assert counted.tried > 30

    for write in range(1, counted.tried + 1):
        _play(Plan(write, fault))
