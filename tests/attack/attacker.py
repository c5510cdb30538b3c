"""Process of one attack, started by ``measure``.

    python -m tests.attack.attacker ROW URL SECONDS [SCALE [SERVER_KEY]]

It prints ``begin`` when everything is prepared, and its result as the last line; the prefix ``harm: `` means that the
attack has reached its aim. A daemon with keys refuses an attacker that would have to be heard: it then tries to come
in, over and over.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from tests.attack.attack import Attack, Refused
from tests.attack.of_bytes import AGAIN_SECONDS
from tests.attack.of_sessions import Harm
from tests.attack.rows import ROWS


def main(name: str, url: str, seconds: str, scale: str = "1", server: str = "") -> None:
    """Attack, and print the result."""
    row = ROWS[name]
    attack = Attack(url, float(seconds), row.connections, float(scale), server)
    try:
        try:
            said = row.attack(attack)
        except Refused:
            said = knock(attack)
        print(said, flush=True)
    except Harm as harm:
        print(f"harm: {harm}", flush=True)


def knock(attack: Attack) -> str:
    """Try to come in without a key, over each connection, until the time is up.

    Raises:
        Harm: the daemon let the attacker in.
    """
    refused = [0]

    def try_again(_: int) -> None:
        while attack.goes_on():
            with suppress(OSError):
                try:
                    attack.connected().close()
                except Refused:
                    refused[0] += 1
                else:
                    raise Harm("let in without a key")
            time.sleep(AGAIN_SECONDS)

    if not attack.has_begun:
        attack.begin()
    attack.each(try_again)
    return f"refused at the door, {refused[0]:,} times"


if __name__ == "__main__":
    main(*sys.argv[1:])
