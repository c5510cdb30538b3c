"""The attacks of ``make attack`` in a short form, on a daemon with little memory, checked independently of speed."""

from __future__ import annotations

import sys
from typing import Final

import pytest

from tests.attack.measure import Conditions, attacker
from tests.attack.rows import ROWS
from tests.attack.target import MIB, STOP_SECONDS, target
from tests.attack.waits import polite_client
from tests.integration.conftest import WAIT_SECONDS, Peer
from tests.integration.nursery import Forked

SECONDS: Final = 1.0
SETTINGS: Final = """\
cache = "16 MiB"
[limits]
memory = "512 MiB"
max_leases = 2000
[advanced]
queue_bytes = "32 MiB"
"""
MOST_BYTES: Final = 700 * MIB
"""Most resident memory; above the daemon's limit, because its watch may be late on a busy machine."""
LEFT_BYTES: Final = 256 * MIB
"""Most memory kept after the attacker has left, above that before."""
TASKS: Final = 5

ROWS_AND_SCALES: Final = [
    ("claimed-ids", 1.0),
    ("empty-parts", 0.1),
    ("endless-parts", 1.0),
    ("greetings", 0.15),
    ("idle-hard", 1.0),
    ("jump", 1.0),
    ("large-frames", 1.0),
    ("leases", 0.02),
    ("requests-1-mb", 1.0),
    ("silent", 0.2),
    ("stolen-ids", 0.2),
    ("strangers", 1.0),
    ("unread", 0.1),
    ("waits", 0.2),
    ("wishes", 0.1),
]


WITH_KEYS: Final = [
    ("claimed-ids", 1.0),
    ("greetings", 0.15),
    ("half-handshakes", 1.0),
    ("silent", 0.2),
    ("strangers", 1.0),
    ("unread", 0.1),
    ("wrong-keys", 1.0),
]


@pytest.mark.parametrize(("name", "scale"), ROWS_AND_SCALES)
def test_beside_a_bad_peer_others_are_served_and_memory_stays_bounded(name: str, scale: float) -> None:
    assert_served_beside(name, scale, has_keys=False)


@pytest.mark.parametrize(("name", "scale"), WITH_KEYS)
def test_beside_a_bad_peer_without_a_key_those_with_one_are_served(name: str, scale: float) -> None:
    assert_served_beside(name, scale, has_keys=True)


def assert_served_beside(name: str, scale: float, *, has_keys: bool) -> None:
    under, row = Conditions(sys.executable, SECONDS, MOST_BYTES, scale, has_keys), ROWS[name]
    daemon = target(sys.executable, MOST_BYTES, row.files, row.hard, settings=SETTINGS, start=Forked, has_keys=has_keys)
    with daemon as it, polite_client(it.url, it.key) as polite:
        assert polite.wait_for_tasks(TASKS, WAIT_SECONDS)
        before = it.memory()

        with attacker(row, it, under) as attacking:
            attacking.begin()
            newcomer = Peer(it.url, key=it.key)
            assert newcomer.ask("hello")["type"] == "welcome"
            served = polite.wait_for_tasks(TASKS, WAIT_SECONDS)
            note = attacking.wait(SECONDS)

        newcomer.close()
        assert not it.killed, f"{it.peak_bytes / MIB:.0f} MiB"
        assert served
        assert not note.startswith(("harm", "the attacker failed", "cut off")), note
        assert it.comes_below(before + LEFT_BYTES, WAIT_SECONDS)
        assert polite.wait_for_tasks(TASKS, WAIT_SECONDS)
        assert it.stop() is not None, f"SIGTERM was not heard within {STOP_SECONDS} s"
