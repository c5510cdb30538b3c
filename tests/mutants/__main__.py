"""Plant bugs, and check that the tests named for them fail, and pass without them.

.venv/bin/python -m tests.mutants            all bugs; exit status 1 if one is not noticed
.venv/bin/python -m tests.mutants sync       bugs with that word in their name
"""

from __future__ import annotations

import sys

from tests.mutants.all import MUTANTS
from tests.mutants.mutant import run, unnoticed


def main() -> int:
    """Print the table; return 1 if a mutant is not noticed."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [mutant for mutant in MUTANTS if word in mutant.name]
    if not chosen:
        sys.exit(f"no planted bug has {word!r} in its name")
    sick = [case for case in run([test for mutant in chosen for test in mutant.tests]) if case.failure]
    for case in sick:
        print(f"fails without any bug: {case.test}: {case.failure}")
    survivors = 0
    for mutant in chosen:
        problems = unnoticed(mutant)
        survivors += bool(problems)
        print(f"{mutant.name:<64} {'NOT NOTICED: ' + '; '.join(problems) if problems else 'noticed'}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} noticed")
    return 1 if sick or survivors else 0


if __name__ == "__main__":
    sys.exit(main())
