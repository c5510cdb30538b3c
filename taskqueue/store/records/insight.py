"""Events by time: failed attempts, counts by the minute and hour, and the daemon's own figures by the minute.

failures   place of the failure ──► Failure                                 scanned, in the order of their times
points     series, time, project ──► events, or a DaemonMinute              at start all slices, and
                                                                            the newest one; later single points
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.attempt_records import FailuresRef, FoundFailures, KeptFailure
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.history import LoadedSlices, PointsRef, Row
from taskqueue.core.model.task import KEY_BYTES
from taskqueue.protocol.choices import Resolution
from taskqueue.store.contract import Store, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.reading import decode_record, pages


def failure_key(place: int) -> bytes:
    """Encode the key in FAILURES of a failure's place."""
    return place.to_bytes(KEY_BYTES, "big")


def failure_place(key: bytes) -> int:
    """Decode the place in a key of FAILURES."""
    return int.from_bytes(key, "big")


def find_failures(store: Store, ref: FailuresRef) -> FoundFailures:
    """Answer a FailuresRef; one entry more than asked for is read, to know the next place.

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


LATEST: Final = 2**32 - 1
"""Time above all that a point can have."""


def load_slices(store: StoreReader, resolution: Resolution) -> LoadedSlices:
    """Load all slices of a resolution, and the points of the newest one; the cost grows with slices and projects.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    loaded = LoadedSlices()
    start, end = layout.point_key(resolution, 0), layout.point_key(resolution, LATEST)
    for page in pages(store, layout.POINTS, start, end):
        for key, value in page:
            projects, *events = decode_record(layout.POINTS, key, layout.decode_slice, value)
            loaded.slices[_named(key)[1]] = projects
            loaded.sum = tuple(events)
    last = next(reversed(loaded.slices), 0)
    for page in pages(store, layout.POINTS, *slice_range(resolution, last)):
        loaded.rows |= {_named(key)[2]: decode_record(layout.POINTS, key, layout.decode_point, v) for key, v in page}
    return loaded


def load_daemon_minutes(store: StoreReader) -> list[DaemonMinute]:
    """Load the daemon's own figures by the minute; none from a store that is older than these.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    return [
        decode_record(layout.POINTS, key, layout.decode_daemon_minute, value)
        for page in pages(store, layout.POINTS, *layout.DAEMON_MINUTES)
        for key, value in page
    ]


def find_points(store: StoreReader, ref: PointsRef) -> list[Row | None]:
    """Answer a PointsRef: points in the order of its times; None for a time without one.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    keys = [layout.point_key(ref.resolution, at, ref.project) for at in ref.times]
    return [
        None if value is None else _events(key, value)
        for key, value in zip(keys, store.get(layout.POINTS, keys), strict=True)
    ]


def _events(key: bytes, value: bytes) -> Row:
    if layout.point_of(key)[2]:
        return decode_record(layout.POINTS, key, layout.decode_point, value)
    return decode_record(layout.POINTS, key, layout.decode_slice, value)[1:]


def _named(key: bytes) -> tuple[Resolution, int, int]:
    return decode_record(layout.POINTS, key, layout.point_of, key)


def slice_range(resolution: Resolution, at: int) -> tuple[bytes, bytes]:
    """Return start and end of the keys of all projects' points at one time, in minutes or hours since 1970."""
    first, last = layout.point_key(resolution, at, 1), layout.point_key(resolution, at + 1, 1)
    return first, last[:5]
