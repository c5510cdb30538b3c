"""Plants the bug that the environment names, before anything else runs here: see ``tests.mutants.mutant``."""

import os
import sys
import traceback


def _plant(name: str) -> None:
    from tests.mutants.all import MUTANTS
    from tests.mutants.mutant import NOT_PLANTED, replace

    try:
        (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
        mutant.plant(replace)
    except BaseException:
        # A process that continued would have no bug, and its tests would pass unnoticed.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(NOT_PLANTED)


if wanted := os.environ.get("TASKQUEUE_TEST_MUTANT"):
    _plant(wanted)
