"""Looks up what the core needs: each family that is concerned is read once a turn, in one batch.

    tasks, whole ──ids──► records ──(whole)──► specs, errors
    orders       ──scan─► records ──specs──►  tasks with specs, as many as the limits allow
    specs, sessions       straight

What the store does not know is left out. What it has and can't be read is Corrupt: guessing would lose tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn, TypeVar

from taskqueue.core.kept import OUTCOME_WINDOW, Found, FoundOrder, Needs, OrderRef, SpecRef, TaskRef
from taskqueue.core.replies import AnyReply
from taskqueue.core.task import NO_FLOOR, SUCCESS, TASK_BYTES, Spec, Task
from taskqueue.errors import Corrupt
from taskqueue.store import layout
from taskqueue.store.contract import Family, Store

T = TypeVar("T")
Entry = tuple[bytes, bytes]

FIRST_SPECS: Final = 8
"""Specs read at first for an order; each further read asks for twice as many, so long as bodies are small."""

MOST_SPECS: Final = 1024

NEAR_SEQS: Final = 16
"""Keys are close together if their seqs span at most so many times their number."""


def find(store: Store, needs: Needs) -> Found:
    """Answer the needs.

    Raises:
        StoreError: the store failed.
        Corrupt: a record can't be read; the message names its family and key.
    """
    found = Found()
    _find_tasks(store, needs, found)
    found.specs = _specs(store, needs.specs)
    found.orders = [_order(store, ref) for ref in needs.orders]
    found.sessions = {session: _outcomes(store, session) for session in needs.sessions}
    return found


def read(family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T:
    """Decode what lies at a key; Corrupt says where it lies if that fails."""
    try:
        return decode(*value)
    except layout.UNREADABLE as error:
        refuse(family, key, str(error))


def refuse(family: Family, key: bytes, reason: str) -> NoReturn:
    """Stop: going on without this record could lose a task."""
    raise Corrupt(f"store: family {family}, key {key.hex()}: can't be read ({reason}); restore the store from a backup")


# ------------------------------------------------------------------------------------------------ by taskid


def _find_tasks(store: Store, needs: Needs, found: Found) -> None:
    found.tasks = _tasks(store, [*needs.tasks, *needs.whole])
    whole = [found.tasks[ref] for ref in needs.whole if ref in found.tasks]
    refs = [SpecRef(task.project, task.seq) for task in whole]
    specs = _specs(store, refs)
    for ref, task in zip(refs, whole, strict=True):
        if ref in specs:
            layout.fill(task, specs[ref])
    found.errors = _errors(store, refs)


def _tasks(store: Store, refs: Sequence[TaskRef]) -> dict[tuple[int, str], Task]:
    keys = [layout.id_key(project, taskid) for project, taskid in refs]
    return {
        ref: read(layout.IDS, key, layout.task_of, *ref, record)
        for ref, key, record in zip(refs, keys, store.get(layout.IDS, keys), strict=True)
        if record is not None
    }


def _specs(store: Store, refs: Sequence[SpecRef]) -> dict[SpecRef, Spec]:
    keys = [layout.seq_key(project, seq) for project, seq in refs]
    return {
        ref: read(layout.SPECS, key, layout.decode_spec, value)[1]
        for ref, key, value in zip(refs, keys, store.get(layout.SPECS, keys), strict=True)
        if value is not None
    }


def _errors(store: Store, refs: Sequence[SpecRef]) -> dict[SpecRef, str]:
    keys = [layout.seq_key(project, seq) for project, seq in refs]
    return {
        ref: read(layout.ERRORS, key, bytes.decode, value)
        for ref, key, value in zip(refs, keys, store.get(layout.ERRORS, keys), strict=True)
        if value is not None
    }


def _outcomes(store: Store, session: str) -> dict[int, AnyReply]:
    prefix = layout.session_key(session)
    entries = store.scan(layout.OUTCOMES, prefix, prefix + b"\xff", OUTCOME_WINDOW)
    return dict(read(layout.OUTCOMES, key, layout.decode_outcome, value) for key, value in entries)


# ------------------------------------------------------------------------------------------------ by order


def _order(store: Store, ref: OrderRef) -> FoundOrder:
    """One entry more than asked for is read, to know whether the order ends here."""
    start, end = _bounds(ref)
    entries = store.scan(layout.ORDERS[ref.state], start, end, ref.limit + 1)
    tasks = _within(ref.limit_bytes, _whole(store, ref, entries[: ref.limit]))
    return FoundOrder(ref, tasks, end=len(tasks) == len(entries))


def _bounds(ref: OrderRef) -> tuple[bytes, bytes]:
    """The keys of the order from its start on; from above every key, none."""
    end = layout.project_key(ref.project + 1)
    return (end if ref.start >= NO_FLOOR else layout.order_key(ref.project, ref.start)), end


def _within(limit_bytes: int, tasks: Iterator[Task]) -> list[Task]:
    """Tasks up to the one with which urls and bodies come to the limit; the first one in any case."""
    taken: list[Task] = []
    total = 0
    for task in tasks:
        taken.append(task)
        total += task.size - TASK_BYTES
        if total >= limit_bytes:
            break
    return taken


def _whole(store: Store, ref: OrderRef, entries: list[Entry]) -> Iterator[Task]:
    """The tasks of the entries, read as they are asked for, so that large bodies are not read in vain."""
    first, count = 0, FIRST_SPECS
    while first < len(entries):
        yield from _some(store, ref, entries[first : first + count])
        first, count = first + count, min(2 * count, MOST_SPECS)


def _some(store: Store, ref: OrderRef, entries: list[Entry]) -> Iterator[Task]:
    family = layout.ORDERS[ref.state]
    spec_keys = [layout.spec_key_of(key) for key, _ in entries]
    specs = _near(store, spec_keys)
    for (key, _), record, spec_key in zip(entries, _records(store, ref, entries), spec_keys, strict=True):
        value = specs.get(spec_key)
        if value is None:
            refuse(layout.SPECS, spec_key, "it is missing")
        taskid, spec = read(layout.SPECS, spec_key, layout.decode_spec, value)
        task = read(family, key, layout.task_of, ref.project, taskid, record)
        layout.fill(task, spec)
        yield task


def _near(store: Store, keys: list[bytes]) -> dict[bytes, bytes | None]:
    """The specs of an order's next tasks, which are mostly neighbours because tasks were made one after the other.

    Reading on costs a fifth of looking a key up, so where keys are close together one scan over up to twice as many
    entries comes first; what it did not reach is looked up.
    """
    first, last = min(keys), max(keys)
    near: dict[bytes, bytes | None] = {}
    if layout.seq_of(last) - layout.seq_of(first) <= NEAR_SEQS * len(keys):
        near.update(store.scan(layout.SPECS, first, last + b"\0", 2 * len(keys)))
    far = [key for key in keys if key not in near]
    near.update(zip(far, store.get(layout.SPECS, far), strict=True))
    return near


def _records(store: Store, ref: OrderRef, entries: list[Entry]) -> list[bytes]:
    """The records of the entries: live tasks have them in the order itself, what is over under its taskid."""
    if ref.state < SUCCESS:
        return [value for _, value in entries]
    keys = [layout.project_key(ref.project) + taskid for _, taskid in entries]
    records = [record for record in store.get(layout.IDS, keys) if record is not None]
    if len(records) < len(keys):
        refuse(layout.ORDERS[ref.state], entries[0][0], "here or soon after it is the name of an unknown task")
    return records
