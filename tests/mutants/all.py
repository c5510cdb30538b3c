"""All bugs that tests must notice."""

from __future__ import annotations

from typing import Final

from tests.mutants import client, core, metrics, recrawl, server, slots, store, web
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *client.MUTANTS,
    *core.MUTANTS,
    *metrics.MUTANTS,
    *recrawl.MUTANTS,
    *server.MUTANTS,
    *slots.MUTANTS,
    *store.MUTANTS,
    *web.MUTANTS,
)
