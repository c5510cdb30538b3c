"""Years of faults: 80 seeds of bad weather, 800 in ``make nightly``; the same seed always has the same trace."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.nightly import TIMES
from tests.simulation.play import play
from tests.simulation.storage import StoreName

SEEDS: Final = 80 * TIMES
SEEDS_WITH_CREW: Final = 20 * TIMES
SEEDS_WITH_GRAPHS: Final = 20 * TIMES
SEEDS_WITH_SLOTS: Final = 20 * TIMES
SEEDS_WITH_IMPORTS: Final = 10 * TIMES
CHUNK: Final = 5
SOME: Final = 10
"""Seeds whose worlds are checked together."""
ROOT: Final = Path(__file__).parents[2]

played_once = cache(play)
"""Play of a seed in plain weather, cached for all tests of a process."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_law_holds_in_any_weather(first: int) -> None:
    for seed in range(first, first + CHUNK):
        played_once(seed)


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_CREW, CHUNK))
def test_every_law_holds_where_fetchers_have_priorities_and_are_drained(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed, crewed=True)


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_GRAPHS, CHUNK))
def test_every_law_holds_where_tasks_wait_for_others(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed, graphs=True)


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_SLOTS, CHUNK))
def test_every_law_holds_where_projects_are_divided_into_slots(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed, slotted=True)


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_IMPORTS, CHUNK))
def test_every_law_holds_where_a_project_is_imported_again_and_again(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed, restored=True)


def test_most_turns_hold_several_messages() -> None:
    played = [played_once(seed) for seed in range(SOME)]

    crowded = [one for one in played if one.crowded > 0.5]

    assert len(crowded) > SOME / 2


def test_heads_are_read_further_hundreds_of_times_also_in_turns_that_change_what_was_read() -> None:
    played = [played_once(seed) for seed in range(SOME)]

    tiny = [one for one in played if one.busy_refills > 50]

    assert len(tiny) >= SOME / 2
    assert all(one.refills > 100 for one in tiny)


@pytest.mark.parametrize("store", ["rocks", "postgres"])
@pytest.mark.parametrize("seed", [3, 7, 12, 4, 10, 18][: 3 * TIMES])
def test_a_world_on_a_real_store_is_the_same_to_the_last_line(seed: int, store: StoreName) -> None:
    on_real = play(seed, store)
    in_memory = play(seed, forgetful=False)

    assert on_real.digest == in_memory.digest


@pytest.mark.parametrize("seed", [3, 5])
def test_a_world_is_the_same_whatever_the_order_of_hashes(seed: int) -> None:
    digests = [_digest(seed, hash_seed) for hash_seed in ("0", "1", "4711")]

    assert len(set(digests)) == 1


def _digest(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--digest"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
