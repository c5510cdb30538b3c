"""All bugs that tests must notice."""

from __future__ import annotations

from typing import Final

from tests.mutants import core, server, store
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (*core.MUTANTS, *server.MUTANTS, *store.MUTANTS)
