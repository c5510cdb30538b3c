"""Looking up failed attempts, in the order of their times."""

from __future__ import annotations

from taskqueue.core.failure import FailuresRef, FoundFailures, KeptFailure
from taskqueue.store import layout
from taskqueue.store.contract import Store
from taskqueue.store.reading import read


def find_failures(store: Store, ref: FailuresRef) -> FoundFailures:
    """Answer a FailuresRef; one entry more than asked for is read, to know which comes next.

    Raises:
        StoreError: the store failed.
        Corrupt: a record can't be read.
    """
    entries = store.scan(layout.FAILURES, layout.failure_key(ref.start), layout.failure_key(ref.end), ref.limit + 1)
    failures = [
        KeptFailure(layout.failure_place(key), read(layout.FAILURES, key, layout.decode_failure, value))
        for key, value in entries[: ref.limit]
    ]
    return FoundFailures(ref, failures, layout.failure_place(entries[-1][0]) if len(entries) > ref.limit else 0)
