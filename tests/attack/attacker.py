"""One attack, in a process of its own; ``measure`` starts it.

    python -m tests.attack.attacker ROW URL SECONDS [SCALE]

The line ``begin`` on stdout says that everything is prepared, the last line what it has to tell; with ``harm: `` before
it, the attack has reached what it was after.
"""

from __future__ import annotations

import sys

from tests.attack.attack import Attack
from tests.attack.of_sessions import Harm
from tests.attack.rows import ROWS


def main(name: str, url: str, seconds: str, scale: str = "1") -> None:
    """Attack, and tell."""
    row = ROWS[name]
    try:
        print(row.attack(Attack(url, float(seconds), row.connections, float(scale))), flush=True)
    except Harm as harm:
        print(f"harm: {harm}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
