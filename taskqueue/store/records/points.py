"""Reads the history of events: at start the slice that is being written, later single points."""

from __future__ import annotations

from typing import Final

from taskqueue.core.parts.daemon_minutes import DaemonMinute
from taskqueue.core.parts.history import LoadedSlices, PointsRef, Row
from taskqueue.protocol.choices import Resolution
from taskqueue.store.contract import StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.pages import pages

LATEST: Final = 2**32 - 1
"""Above every time that a point can have."""


def load_slices(store: StoreReader, resolution: Resolution) -> LoadedSlices:
    """All slices of a resolution, and the points of the newest one. Costs as much as there are slices, and projects.

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
    """How the daemon was by the minute; nothing in a store of before that was kept.

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
    """Answer a PointsRef: points in the order of its times; None where there is none.

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
    """Start and end of the keys of all projects' points at one time, in minutes or hours since 1970."""
    first, last = layout.point_key(resolution, at, 1), layout.point_key(resolution, at + 1, 1)
    return first, last[:5]
