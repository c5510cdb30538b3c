"""All bugs that tests must notice."""

from __future__ import annotations

from typing import Final

from tests.mutants import client, core, server, store
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (*client.MUTANTS, *core.MUTANTS, *server.MUTANTS, *store.MUTANTS)
