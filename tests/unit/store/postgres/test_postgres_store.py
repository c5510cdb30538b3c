"""A key that was looked up and absent counts as new when it is put, once."""

from __future__ import annotations

from taskqueue.store.contract import Entry
from taskqueue.store.postgres.postgres_store import KEYS_MOST, AbsentKeys


def entries(*keys: bytes) -> list[Entry]:
    return [(key, b"value") for key in keys]


def test_what_was_looked_for_in_vain_is_new_once() -> None:
    absent = AbsentKeys()
    absent.note([b"a", b"b", b"c"], [None, b"known", None])

    assert absent.divide(entries(b"a", b"b", b"d")) == (entries(b"a"), entries(b"b", b"d"))
    assert absent.divide(entries(b"a", b"c")) == (entries(b"c"), entries(b"a"))
    assert absent.divide(entries(b"c")) == ([], entries(b"c"))


def test_of_a_key_that_is_put_twice_only_the_first_entry_is_new() -> None:
    absent = AbsentKeys()
    absent.note([b"a"], [None])

    assert absent.divide([(b"a", b"1"), (b"a", b"2")]) == ([(b"a", b"1")], [(b"a", b"2")])


def test_what_was_looked_for_long_ago_is_forgotten_and_is_new_only_once_if_it_was_looked_for_again() -> None:
    absent = AbsentKeys()
    absent.note([b"old", b"again"], [None, None])
    for number in range(2 * KEYS_MOST + 2):
        if number == KEYS_MOST + 10:
            absent.note([b"again"], [None])
        absent.note([number.to_bytes(4, "big")], [None])

    assert absent.divide(entries(b"old", b"again")) == (entries(b"again"), entries(b"old"))
    assert absent.divide(entries(b"again")) == ([], entries(b"again"))
