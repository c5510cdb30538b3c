"""Planted bugs are noticed; ``make mutants`` tries all of them with more seeds."""

from __future__ import annotations

from typing import Final

import pytest

from tests.nightly import usually
from tests.simulation.mutants import MUTANTS, Mutant, hunt

QUICK: Final = 8
"""Seeds in which easy mutants are caught."""

HARD: Final = (
    "the bucket is full after a restart",
    "finished while a client keeps it open",
    "carry on after a failed commit",
    "reply before sync",
    "a late failure brings its new tasks",
    "missed cron ticks are replayed",
    "a shared bucket is not kept",
    "a link lets go of what a rerun holds",
)
"""Mutants that need a coincidence in less than a fourth of the seeds, so that any change may leave none in QUICK."""

COSTLY: Final = (
    "of two parents that end in one turn one is forgotten",
    "a rerun runs a diamond's end twice",
)
"""Mutants that are caught in a few seeds, but cost a third of all others together."""

LEFT_OUT: Final = usually(HARD + COSTLY, nightly=HARD)


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name not in LEFT_OUT], ids=lambda one: one.name)
def test_a_planted_bug_breaks_its_law(mutant: Mutant) -> None:
    assert hunt(mutant, QUICK) is not None
