"""Failed attempts in the order of their times: their keys, and scans over them."""

from __future__ import annotations

from taskqueue.core.tasks.failure import FailuresRef, FoundFailures, KeptFailure
from taskqueue.core.tasks.task import KEY_BYTES
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record


def failure_key(place: int) -> bytes:
    """The key in FAILURES of a failure's place."""
    return place.to_bytes(KEY_BYTES, "big")


def failure_place(key: bytes) -> int:
    """The place encoded in a key of FAILURES."""
    return int.from_bytes(key, "big")


def find_failures(store: Store, ref: FailuresRef) -> FoundFailures:
    """Answer a FailuresRef; one entry more than asked for is read, to know which comes next.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    entries = store.scan(layout.FAILURES, failure_key(ref.start), failure_key(ref.end), ref.limit + 1)
    failures = [
        KeptFailure(failure_place(key), decode_record(layout.FAILURES, key, layout.decode_failure, value))
        for key, value in entries[: ref.limit]
    ]
    return FoundFailures(ref, failures, failure_place(entries[-1][0]) if len(entries) > ref.limit else 0)
