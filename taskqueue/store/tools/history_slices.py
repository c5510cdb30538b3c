"""Exports and imports the history of events, one part per minute and hour; ``export_lines`` has the fields.

A point that the store already has stays as it is. A new point of a minute or hour that the store already has is added
to the sum over all projects; for a minute or hour that it does not have, the sum is that of the part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import add
from typing import cast

from taskqueue.core.parts.history import NO_EVENTS, SECONDS
from taskqueue.store.contract import Batch, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.pages import pages
from taskqueue.store.records.points import LATEST, slice_range
from taskqueue.store.tools.export_lines import Events, SliceLine, Sums


def slices_of(store: StoreReader, names: Mapping[int, str], *, whole: bool) -> Iterator[SliceLine]:
    """The history of these projects, by number; with the sums over all projects if ``whole``.

    Raises:
        StoreError: the store failed.
        Unreadable: a point can't be decoded.
    """
    for resolution, seconds in SECONDS.items():
        for page in pages(store, layout.POINTS, layout.point_key(resolution, 0), layout.point_key(resolution, LATEST)):
            for key, value in page:
                at = decode_record(layout.POINTS, key, layout.point_of, key)[1]
                _, *events = decode_record(layout.POINTS, key, layout.decode_slice, value)
                projects = dict(_points(store, slice_range(resolution, at), names))
                if projects or whole:
                    yield SliceLine(resolution, at * seconds, projects, cast(Sums, tuple(events)) if whole else None)


def _points(store: StoreReader, keys: tuple[bytes, bytes], names: Mapping[int, str]) -> Iterator[tuple[str, Events]]:
    for page in pages(store, layout.POINTS, *keys):
        for key, value in page:
            name = names.get(decode_record(layout.POINTS, key, layout.point_of, key)[2])
            if name is not None:
                yield name, decode_record(layout.POINTS, key, layout.decode_point, value)


def slice_batch(store: StoreReader, line: SliceLine, numbers: Mapping[str, int]) -> Batch:
    """The batch that imports a part; ``numbers`` of the projects by name. Earlier parts of that time must have been
    written.
    """
    at = line.at // SECONDS[line.history]
    known = _known(store, line, at, numbers)
    sum_key = layout.point_key(line.history, at)
    kept = store.get(layout.POINTS, [sum_key])[0]
    count, *events = (
        (0, *NO_EVENTS) if kept is None else decode_record(layout.POINTS, sum_key, layout.decode_slice, kept)
    )
    new = {name: row for name, row in line.projects.items() if name not in known}
    if kept is None and line.all is not None:
        events = list(line.all)
    else:
        for row in new.values():
            events = list(map(add, events, row))
    if not new and kept is not None:
        return Batch()
    puts = [(layout.point_key(line.history, at, numbers[name]), layout.encode(row)) for name, row in new.items()]
    return Batch(puts={layout.POINTS: [*puts, (sum_key, layout.encode((count + len(new), *events)))]})


def _known(store: StoreReader, line: SliceLine, at: int, numbers: Mapping[str, int]) -> frozenset[str]:
    """Names of the projects that already have a point at that time."""
    keys = [layout.point_key(line.history, at, numbers[name]) for name in line.projects]
    points = zip(line.projects, store.get(layout.POINTS, keys), strict=True)
    return frozenset(name for name, value in points if value is not None)
