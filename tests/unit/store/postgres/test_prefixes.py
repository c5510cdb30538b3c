"""Dropped ranges: entries stored elsewhere read as if they were not, and retired ones read as gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.store.postgres.prefixes import RESERVED, Prefixes, Retired
from tests.memory_store import Entries

FAMILY = "ready"
PREFIXES = [number.to_bytes(4, "big") for number in (0, 1, 2, 0x00FFFFFF, 0x01000000, 0x7FFFFFFF)]
SUFFIXES = [b"", b"\0", b"a", b"\xff\xff"]
KEYS = [prefix + suffix for prefix in PREFIXES for suffix in SUFFIXES]
BOUNDS = [b"", *KEYS, b"\x00\x00", b"\x01", b"\xff" * 8]


def after(prefix: bytes) -> bytes:
    return (int.from_bytes(prefix, "big") + 1).to_bytes(4, "big")


class Table:
    """Table whose ranges are retired instead of deleted, beside a map from which they are deleted at once."""

    def __init__(self) -> None:
        self.prefixes = Prefixes()
        self.rows = Entries({})
        self.plain = Entries({})

    def put(self, key: bytes, value: bytes) -> None:
        self.rows.put(self.prefixes.stored_key(FAMILY, key), value)
        self.plain.put(key, value)

    def retire(self, prefix: bytes) -> None:
        self.prefixes.retire(FAMILY, prefix)
        self.plain.drop(prefix, after(prefix))

    def free(self) -> None:
        for retired in [*self.prefixes.retired]:
            self.rows.drop(*retired.range())
            self.prefixes.freed(retired)
        for prefix, stored_as in self.prefixes.idle_moves(FAMILY):
            if not self.rows.scan(*Retired(FAMILY, stored_as).range(), 1):
                self.prefixes.put_back(FAMILY, prefix)

    def reopen(self) -> None:
        moved = self.prefixes.moved.get(FAMILY, {})
        rows = [(FAMILY, stored_as, prefix) for prefix, stored_as in moved.items()]
        retired = [(family, stored_as, None) for family, stored_as in self.prefixes.retired]
        self.prefixes = Prefixes([*rows, *retired])

    def scan(self, start: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
        return [
            (prefix + key[len(stored_as) :], value)
            for first, last, prefix, stored_as in self.prefixes.segments(FAMILY, start, end)
            for key, value in self.rows.scan(first, last, 1000)
        ]


STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), st.binary(max_size=2)),
    st.tuples(st.just("retire"), st.sampled_from(PREFIXES)),
    st.tuples(st.just("free")),
    st.tuples(st.just("reopen")),
)


@given(steps=st.lists(STEPS, max_size=30), start=st.sampled_from(BOUNDS), end=st.sampled_from(BOUNDS))
def test_any_range_reads_as_if_what_is_dropped_were_deleted_at_once(
    steps: list[tuple[str, ...]], start: bytes, end: bytes
) -> None:
    table = Table()
    for name, *arguments in steps:
        getattr(table, name)(*arguments)

    assert table.scan(start, end) == table.plain.scan(start, end, 1000)
    assert table.scan(b"", b"\xff" * 8) == table.plain.scan(b"", b"\xff" * 8, 1000)


@given(steps=st.lists(STEPS, max_size=30))
def test_when_all_is_freed_nothing_is_left_of_it_and_what_is_empty_is_stored_as_itself_again(
    steps: list[tuple[str, ...]],
) -> None:
    table = Table()
    for name, *arguments in steps:
        getattr(table, name)(*arguments)
    table.free()

    assert not table.prefixes.retired
    assert len(table.rows.keys) == len(table.plain.keys)
    moved = table.prefixes.moved.get(FAMILY, {})
    assert all(table.plain.scan(prefix, after(prefix), 1) for prefix in moved)
    assert all(stored_as >= RESERVED for stored_as in moved.values())


def test_a_range_that_is_not_that_of_one_prefix_is_not_retired() -> None:
    assert Prefixes.prefix_of("ready", b"\0\0\0\1", b"\0\0\0\2") == b"\0\0\0\1"
    assert Prefixes.prefix_of("ready", b"\0\0\0\1", b"\0\0\0\3") == b""
    assert Prefixes.prefix_of("failures", b"", b"\0\0\0\1") == b""
    assert Prefixes.prefix_of("reruns", bytes(8), bytes(7) + b"\1") == bytes(8)
