"""Planted bugs are noticed by the tests that they name; ``make mutants`` tries all bugs."""

from __future__ import annotations

from typing import Final

import pytest

from tests.mutants.all import MUTANTS
from tests.mutants.mutant import ROOT, Mutant, unnoticed
from tests.simulation.mutants import MUTANTS as LAW_BREAKERS
from tests.simulation.mutants import Mutant as LawBreaker

QUICK: Final = (
    "a late success does not use up its token",
    "after a failure replies are covered by the syncs of before",
    "restore skips 1 epoch",
    "nothing is ever synced",
)


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name in QUICK], ids=lambda one: one.name)
def test_a_planted_bug_is_noticed_by_the_tests_that_are_named_for_it(mutant: Mutant) -> None:
    assert unnoticed(mutant) == []


def test_a_bug_that_does_nothing_is_not_said_to_be_noticed() -> None:
    test = "unit/server/test_backoff.py::test_after_something_has_worked_they_begin_anew"
    idle = MUTANTS[0]._replace(tests=(test,))

    assert unnoticed(idle) == [f"{test} passes"]


def test_each_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("mutant", [*MUTANTS, *LAW_BREAKERS], ids=lambda one: one.name)
def test_each_bug_finds_what_it_replaces(mutant: Mutant | LawBreaker) -> None:
    mutant.plant(lambda owner, name, value: getattr(owner, name))


@pytest.mark.parametrize("test", sorted({test for mutant in MUTANTS for test in mutant.tests}))
def test_each_test_that_is_named_is_there(test: str) -> None:
    path, _, name = test.partition("::")

    assert f"def {name}(" in (ROOT / "tests" / path).read_text()
