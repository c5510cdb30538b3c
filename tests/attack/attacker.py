"""Process of one attack, started by ``measure``.

    python -m tests.attack.attacker ROW URL SECONDS [SCALE]

It prints ``begin`` when everything is prepared, and its result as the last line; the prefix ``harm: `` means that the
attack has reached its aim.
"""

from __future__ import annotations

import sys

from tests.attack.attack import Attack
from tests.attack.of_sessions import Harm
from tests.attack.rows import ROWS


def main(name: str, url: str, seconds: str, scale: str = "1") -> None:
    """Attack, and print the result."""
    row = ROWS[name]
    try:
        print(row.attack(Attack(url, float(seconds), row.connections, float(scale))), flush=True)
    except Harm as harm:
        print(f"harm: {harm}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
