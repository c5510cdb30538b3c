"""The benchmark of slots: its store in memory equals the usual one, and its slots may go or wait."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.slots import blocks
from benchmarks.slots.core import Core
from tests.memory_store import Entries


def test_keys_in_blocks_are_those_of_a_sorted_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 2)
    random = Random(1)
    made, plain = blocks.Blocks(), Entries({})

    for _ in range(2000):
        key, start, end = (bytes([random.randrange(64)]) for _ in range(3))
        is_put = random.random() < 0.5
        for each in (made, plain):
            if is_put:
                each.put(key, start)
            else:
                each.delete(key)
        assert made.scan(start, end, 5) == plain.scan(start, end, 5)

    assert made.scan(b"", b"\xff", 100) == plain.scan(b"", b"\xff", 100)


@pytest.mark.parametrize(("slots", "share"), [(0, 1.0), (300, 1.0), (1000, 0.01)])
def test_every_turn_of_the_benchmark_is_full(slots: int, share: float) -> None:
    core = Core(slots, share, beside=50)

    assert core.rate(100, 10) > 0
