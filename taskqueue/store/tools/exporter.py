"""Export projects and tasks, as lines of JSON or in MessagePack, in bounded memory; ``export_format`` has the fields.

A processing task is exported as such, but without its lease: an import makes it ready again. Flows, counters, sessions
and operations are not exported; the history of events is. So tasks kept by a rerun are exported without a due time:
after the import no rerun would release them. Of flows a project's line has the number, and that of their tasks that are
not made yet. While ready tasks are sorted anew, those of each order are exported in turn: their common order is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, cast

import msgspec
from msgspec import Raw

from taskqueue.core.model.history import SECONDS
from taskqueue.core.model.records import FlowRecord, ProjectRecord
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import ATTEMPTS_KEPT, OVER, PROCESSING, STATE_NAMES, WAITING, Task, is_held, key_time
from taskqueue.protocol.exports import Events, ExportedParent
from taskqueue.protocol.fields import NIL, UNSAID
from taskqueue.protocol.packed_json import ABSENT
from taskqueue.protocol.values import Attempt
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.flows import decode_flow
from taskqueue.store.records.insight import LATEST, slice_range
from taskqueue.store.records.layout import AWAITED
from taskqueue.store.records.reading import decode_record, pages, raise_unreadable
from taskqueue.store.tools.export_format import (
    JSON,
    VERSION,
    DeferredLine,
    ExportFormat,
    FirstLine,
    LastLine,
    ProjectLine,
    SliceLine,
    Sums,
    TaskLine,
    counting_links,
    parent_lines,
    parents_range,
    policy_of,  # fmt: skip
)
from taskqueue.store.tools.store_stats import project_records

IN_ORDER: Final = (PROCESSING, *sorted(WAITING), *OVER)
"""Order in which states are exported."""

RESULTS_AT_ONCE: Final = 64
"""Tasks whose results, of at most 64 KiB each, and attempts are read together: a database may be a millisecond away."""

LAST_INDEX: Final = ATTEMPTS_KEPT - 1
"""Index of a history that is filled only if all of it is."""

Entry = tuple[bytes, bytes]
History = Literal["none", "projects", "all"]


def export_lines(
    store: StoreReader,
    records: Sequence[ProjectRecord],
    states: Collection[int],
    form: ExportFormat = JSON,
    *,
    history: History = "none",
) -> Iterator[bytes]:
    """Yield the encoded lines of these projects, with their tasks in these states; ``form.end`` belongs after each.

    Args:
        history: events to export: none, those of these projects, or also the sums over all projects.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded, or part of a task is missing.
    """
    flows = _flows(store)
    yield form.encode(FirstLine(VERSION, [project_line(record, form, flows[record.number]) for record in records]))
    count = 0
    names = {record.number: record.name for record in project_records(store)}
    for record in records:
        for task, result, attempts in _with_more(store, _tasks(store, record, states)):
            count += 1
            parents = list(parent_lines(_edges(store, task), task, names))
            yield form.encode(task_line(record.name, task, result, parents, form, attempts))
    if history != "none":
        names = {record.number: record.name for record in records}
        yield from map(form.encode, _slices_of(store, names, whole=history == "all"))
    yield form.encode(LastLine(count))


def _flows(store: StoreReader) -> defaultdict[int, list[FlowRecord]]:
    """Return the flows of each project, by its number."""
    found = defaultdict[int, list[FlowRecord]](list)
    for page in pages(store, layout.FLOWS):
        for key, value in page:
            flow = decode_record(layout.FLOWS, key, decode_flow, value)
            found[flow.project].append(flow)
    return found


def project_line(record: ProjectRecord, form: ExportFormat, flows: Sequence[FlowRecord] = ()) -> ProjectLine:
    """Make the line of a project."""
    overrides = form.encode_settings(record.overrides)
    return ProjectLine(
        name=record.name,
        state=record.state,
        overrides=form.to_value(layout.encode(overrides)) if overrides else ABSENT,
        totals=record.totals,
        pause=record.pause,
        cron=record.cron,
        finished=record.finished,
        newest=bool(record.newest),
        flows=len(flows),
        unmade=sum(flow.tasks - flow.unrolled for flow in flows if not flow.is_cancelled),
    )


def _edges(store: StoreReader, task: Task) -> Iterator[Entry]:
    links = counting_links(task)
    if links is not None and links.number:
        for page in pages(store, layout.PARENTS, *parents_range(task)):
            yield from page


def _tasks(store: StoreReader, record: ProjectRecord, states: Collection[int]) -> Iterator[Task]:
    for state in IN_ORDER:
        if state in states:
            yield from _order(store, record.number, state)
    if any(state in states for state in OVER):
        yield from _bare(store, record.number, states)


def _order(store: StoreReader, number: int, state: int) -> Iterator[Task]:
    family = layout.ORDERS[state]
    for page in pages(store, family, layout.project_key(number), layout.project_key(number + 1)):
        yield from _over(store, family, page) if state in OVER else _live(store, family, state, page)


def _live(store: StoreReader, family: Family, state: int, page: Sequence[Entry]) -> Iterator[Task]:
    deferred = _deferred(store, page) if state == PROCESSING else {}
    for (key, value), (taskid, spec) in zip(page, _specs(store, page), strict=True):
        number = layout.project_of(key)
        if state == PROCESSING:
            task = decode_record(family, key, layout.decode_lease, number, value)
            if task.lease is not None and key in deferred:
                task.lease.deferred = decode_record(layout.DEFERRED, key, layout.decode_deferred, deferred[key])
        else:
            task = decode_record(family, key, layout.task_of, number, taskid, value)
        task.spec = spec
        yield task


def _over(store: StoreReader, family: Family, page: Sequence[Entry]) -> Iterator[Task]:
    taskids = [decode_record(family, key, _taskid, value) for key, value in page]
    keys = [layout.id_key(layout.project_of(key), taskid) for (key, _), taskid in zip(page, taskids, strict=True)]
    records = store.get(layout.IDS, keys)
    for entry, taskid, key, record, (_, spec) in zip(page, taskids, keys, records, _specs(store, page), strict=True):
        if record is None:
            raise_unreadable(layout.IDS, key, "it is missing")
        task = decode_record(layout.IDS, key, layout.task_of, layout.project_of(key), taskid, record)
        task.spec, task.ended = spec, decode_record(family, entry[0], layout.decode_success, *entry)
        yield task


def _taskid(value: bytes) -> str:
    return layout.taskid_at(value).decode()


def _bare(store: StoreReader, number: int, states: Collection[int]) -> Iterator[Task]:
    """Yield the bare tasks, which have only a record."""
    for page in pages(store, layout.IDS, layout.project_key(number), layout.project_key(number + 1)):
        for key, value in page:
            if value == AWAITED:
                continue
            task = decode_record(layout.IDS, key, layout.task_at, key, value)
            if task.bare and task.state in states:
                yield task


def _specs(store: StoreReader, page: Sequence[Entry]) -> Iterator[tuple[str, Spec]]:
    """Yield taskids and specs of the entries of an order."""
    keys = [layout.spec_key_of(key) for key, _ in page]
    for key, value in zip(keys, store.get(layout.SPECS, keys), strict=True):
        if value is None:
            raise_unreadable(layout.SPECS, key, "it is missing")
        yield decode_record(layout.SPECS, key, layout.decode_spec, value)


def _deferred(store: StoreReader, page: Sequence[Entry]) -> dict[bytes, bytes]:
    found = store.get(layout.DEFERRED, [layout.spec_key_of(key) for key, _ in page])
    return {key: value for (key, _), value in zip(page, found, strict=True) if value is not None}


def _with_more(store: StoreReader, tasks: Iterator[Task]) -> Iterator[tuple[Task, bytes | Raw, list[Attempt]]]:
    """Yield tasks with their results, or nil, and their attempts; RESULTS_AT_ONCE are looked up together."""
    while some := list(islice(tasks, RESULTS_AT_ONCE)):
        keys = [layout.id_key(task.project, task.taskid) for task in some if task.has_result]
        results = iter(zip(keys, store.get(layout.RESULTS, keys), strict=True))
        for task, attempts in zip(some, _histories(store, some), strict=True):
            yield task, _result(*next(results)) if task.has_result else NIL, attempts


def _histories(store: StoreReader, tasks: Sequence[Task]) -> Iterator[list[Attempt]]:
    """Yield the attempts of each of these tasks of one project, the oldest first."""
    run = [task for task in tasks if not task.bare and (task.attempts or task.lastcrawltime or task.state in OVER)]
    found = _attempts(
        store, [(task, index) for task in run for index in {*range(task.attempts or ATTEMPTS_KEPT), LAST_INDEX}]
    )
    full = [task for task in run if (task.taskid, LAST_INDEX) in found]
    found |= _attempts(store, [(task, index) for task in full for index in range(task.attempts, LAST_INDEX)])
    for task in tasks:
        if task.ended is not None:
            found[task.taskid, (task.attempts - 1) % ATTEMPTS_KEPT] = task.ended
        places = [(task.taskid, (task.attempts + age) % ATTEMPTS_KEPT) for age in range(ATTEMPTS_KEPT)]
        yield [found[place] for place in places if place in found]


def _attempts(store: StoreReader, places: Sequence[tuple[Task, int]]) -> dict[tuple[str, int], Attempt]:
    """Read the attempts at these indices of tasks of one project, as far as there are any, by taskid and index."""
    keys = [layout.attempt_key(task.project, task.taskid, index) for task, index in places]
    return {
        (task.taskid, index): decode_record(layout.HISTORY, key, layout.decode_attempt, value)
        for (task, index), key, value in zip(places, keys, store.get(layout.HISTORY, keys), strict=True)
        if value is not None
    }


def _result(key: bytes, value: bytes | None) -> bytes:
    if value is None:
        raise_unreadable(layout.RESULTS, key, "it is missing")
    return value


def task_line(
    project: str,
    task: Task,
    result: bytes | Raw,
    parents: list[ExportedParent],
    form: ExportFormat,
    attempts: Sequence[Attempt] = (),
) -> TaskLine:
    """Make the line of a task, which has its spec unless it is bare.

    Args:
        project: name of its project.
    """
    spec = task.spec
    line = TaskLine(
        project=project,
        taskid=task.taskid,
        state=STATE_NAMES[task.state],  # type: ignore[arg-type]
        priority=task.priority,
        exetime=UNSAID if is_held(task) else task.exetime or UNSAID,
        retried=task.retried,
        lastcrawltime=task.lastcrawltime or UNSAID,
        ended_at=key_time(task.key) if task.state in OVER else UNSAID,
        itag=task.itag,
        held_back=task.held_back,
        timed_out=task.timed_out,
        apart=task.apart,
        bare=task.bare,
        deferred=_deferred_line(task, form),
        result=form.to_value(result),
        parents=parents,
        on_parent_failure=policy_of(task),
        pushed_at=task.pushed_at,
        dropped=task.links is not None and task.links.dropped,
        job=task.job,
        attempts=list(attempts),
    )
    if spec is None:
        return line
    body = form.to_value(spec.body)
    said = {"url": spec.url, "schedule": spec.schedule, "depth": spec.depth, "body": body, "page": spec.page}
    return msgspec.structs.replace(line, **said)


def _deferred_line(task: Task, form: ExportFormat) -> DeferredLine | None:
    item = task.lease.deferred if task.lease is not None else None
    return None if item is None else DeferredLine(item.url, item.schedule, form.to_value(item.body))


def _slices_of(store: StoreReader, names: Mapping[int, str], *, whole: bool) -> Iterator[SliceLine]:
    """Yield the history of these projects, given by number; with the sums over all projects if ``whole``.

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
