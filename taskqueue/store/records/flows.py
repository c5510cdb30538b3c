"""Flows and their staged tasks: keys and values, how a turn writes them, and how it looks them up.

    flows      number ──► FlowRecord
    stages     number, index ──► the task as it was staged         stage_ids    number, taskid ──► index

Staged tasks stay as long as the flow is known: they are the list of its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct as Packing
from typing import Final

from msgspec.msgpack import Decoder

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Found, FoundStage, MemberRef, StageRef
from taskqueue.core.model.records import FlowRecord, WriteSet
from taskqueue.core.model.task import SUCCESS, Task
from taskqueue.protocol.values import Attempt, NewTask
from taskqueue.store.contract import Batch, Entry, Store
from taskqueue.store.records import layout
from taskqueue.store.records.edges import read_tasks
from taskqueue.store.records.format import META
from taskqueue.store.records.reading import decode_record
from taskqueue.store.records.tasks import kept_attempts

PAGE_BYTES: Final = 4 << 20
"""Bytes of staged tasks that end a page, but not before its first task."""

FIRST_READ: Final = 8
"""Tasks of the first read for a page; each further read has twice as many, as long as they are small."""

_NUMBER: Final = Packing(">I")
_PLACE: Final = Packing(">II")

flow_key = _NUMBER.pack
"""number -> bytes: encode a key of FLOWS, and the beginning of keys of STAGES and STAGE_IDS."""

stage_key = _PLACE.pack
"""(number, index) -> bytes: encode a key of STAGES."""

encode_index = _NUMBER.pack
"""index -> bytes: encode a value of STAGE_IDS."""

decode_flow: Final = Decoder(FlowRecord).decode
decode_staged: Final = Decoder(NewTask).decode


def member_key(flow: int, taskid: str) -> bytes:
    """Encode a key of STAGE_IDS."""
    return flow_key(flow) + taskid.encode()


def flow_of(key: bytes) -> int:
    """Decode the number in a key of FLOWS, STAGES or STAGE_IDS."""
    return int(_NUMBER.unpack_from(key)[0])


def decode_index(value: bytes) -> int:
    """Decode a value of STAGE_IDS; ``struct.error`` if it is malformed."""
    return int(_NUMBER.unpack(value)[0])


def add_flows(batch: Batch, writes: WriteSet) -> None:
    """Add one turn's changes of flows to a batch."""
    dropped = set(writes.dropped_flows)
    for record in writes.flows:
        if record.number not in dropped:
            batch.puts[layout.FLOWS].append((flow_key(record.number), layout.encode(record)))
    for flow, index, task in writes.staged:
        if flow not in dropped:
            batch.puts[layout.STAGES].append((stage_key(flow, index), layout.encode(task)))
            batch.puts[layout.STAGE_IDS].append((member_key(flow, task.taskid), encode_index(index)))
    for number in writes.dropped_flows:
        start, end = flow_key(number), flow_key(number + 1)
        batch.deletes[layout.FLOWS].append(start)
        batch.drops += [(layout.STAGES, start, end), (layout.STAGE_IDS, start, end)]
    if writes.next_flow is not None:
        batch.puts[META].append((layout.NEXT_FLOW_KEY, b"%d" % writes.next_flow))


def find_members(store: Store, refs: Sequence[MemberRef], found: Found) -> None:
    """Answer MemberRefs.

    Raises:
        StoreError: the store failed.
        Unreadable: an index can't be decoded.
    """
    refs = [ref for ref in dict.fromkeys(refs) if ref not in found.members]
    keys = [member_key(*ref) for ref in refs]
    found.members |= {
        ref: decode_record(layout.STAGE_IDS, key, decode_index, value)
        for ref, key, value in zip(refs, keys, store.get(layout.STAGE_IDS, keys), strict=True)
        if value is not None
    }


def find_stages(store: Store, refs: Iterable[StageRef], found: Found) -> None:
    """Answer StageRefs.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    for ref in refs:
        page = FoundStage(_read(store, ref), {})
        found.stages[ref] = page
        if ref.shown:
            _find_shown(store, ref, page, found)


def _read(store: Store, ref: StageRef) -> list[NewTask]:
    tasks: list[NewTask] = []
    size, count = 0, FIRST_READ
    while len(tasks) < ref.limit and size < PAGE_BYTES:
        some = min(count, ref.limit - len(tasks))
        entries = _scan(store, ref, len(tasks), some)
        tasks += [decode_record(layout.STAGES, key, decode_staged, value) for key, value in entries]
        if len(entries) < some:
            break
        size += sum(len(value) for _, value in entries)
        count *= 2
    return tasks


def _scan(store: Store, ref: StageRef, skipped: int, limit: int) -> list[Entry]:
    """Read entries of the page behind its first ``skipped`` ones."""
    if ref.backwards:
        end = stage_key(ref.flow, ref.first + 1 - skipped)
        return store.scan_back(layout.STAGES, flow_key(ref.flow), end, limit)
    return store.scan(layout.STAGES, stage_key(ref.flow, ref.first + skipped), flow_key(ref.flow + 1), limit)


def _find_shown(store: Store, ref: StageRef, page: FoundStage, found: Found) -> None:
    """Look up the states of a page's tasks, and their parents in the flow."""
    refs = [TaskRef(ref.shown, task.taskid) for task in page.tasks]
    tasks, awaited = read_tasks(store, [each for each in refs if each not in found.tasks])
    found.tasks.update(tasks)
    found.awaited |= awaited
    known = [found.tasks[each] for each in refs if each in found.tasks]
    page.attempts = _last_attempts(store, [task for task in known if task.state == SUCCESS])
    page.attempts |= kept_attempts(store, [task for task in known if task.taskid not in page.attempts])
    named = [MemberRef(ref.flow, each) for task in page.tasks for each in task.depends_on if isinstance(each, str)]
    find_members(store, named, found)


def _last_attempts(store: Store, tasks: Sequence[Task]) -> dict[str, Attempt]:
    """Return the attempts of successes, by taskid, if their entries have them."""
    family = layout.ORDERS[SUCCESS]
    keys = [layout.order_key(task.project, task.key) for task in tasks]
    attempts = {
        task.taskid: decode_record(family, key, layout.decode_success, key, value)
        for task, key, value in zip(tasks, keys, store.get(family, keys), strict=True)
        if value is not None
    }
    return {taskid: attempt for taskid, attempt in attempts.items() if attempt is not None}
