"""Law S8: store and memory of the scheduler are equal, order included.

Two comparisons: heads in memory with the whole orders in the store, read through the ledger in use; and a scheduler
that is loaded from a copy of the store with the running one. Capacities and fairness of projects are not stored, so
they are not compared.
"""

from __future__ import annotations

from math import isclose
from typing import Any, Final

from taskqueue.calendar import Calendar
from taskqueue.core.model.heads import Head
from taskqueue.core.model.needs import Needs, OrderRef
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot_queue import SlotQueue
from taskqueue.core.model.slot_records import SlotRef
from taskqueue.core.model.task import DELAYED, READY, SLOT_SHIFT, Task
from taskqueue.core.scheduler import Scheduler
from taskqueue.store.contract import Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.findings import Findings
from tests.simulation.world import Violation

EVERYTHING: Final = 1 << 40
REFILLS: Final = 100


def compare_with_store(core: Scheduler, ledger: Ledger) -> None:
    """Check that heads have exactly the stored entries below their floors, and counts are those of the store."""
    for project in core._state.projects.by_name.values():
        ready = project.queue.ready
        if isinstance(ready, SlotQueue):
            _compare_slots(project, ready, ledger)
        for state, order in ((READY, ready), (DELAYED, project.queue.delayed)):
            if isinstance(order, SlotQueue):
                continue
            ref = OrderRef(project.number, state, 0, EVERYTHING, EVERYTHING)
            stored = ledger.find(Needs(orders=[ref])).orders[0].tasks
            below = [task for task in stored if task.key < order.floor]
            _same(project, f"order {state}", [_row(task) for task in below], [_row(task) for task in _held(order)])
            _same(project, f"count {state}", len(stored), project.queue.counts[state])


def _compare_slots(project: Project, ready: SlotQueue, ledger: Ledger) -> None:
    """Check the heads of slots in memory; the store's own check says whether other slots are found in time."""
    for slot in ready.slots.by_number.values():
        ref = SlotRef(project.number, slot.number, slot.number << SLOT_SHIFT, EVERYTHING, EVERYTHING)
        stored = ledger.find(Needs(slots=[ref])).slots[ref].tasks
        below = [task for task in stored if task.key < slot.head.floor]
        what = f"slot {slot.record.name}"
        _same(project, what, [_row(task) for task in below], [_row(task) for task in _held(slot.head)])


def snapshot_equals_reload(core: Scheduler, copy: Store, boot_id: str, now: Now) -> None:
    """Check that a scheduler that is loaded from a copy of the store equals the running one."""
    problems = check(copy, Findings()).problems
    if problems:
        raise Violation("S12", "", "; ".join(map(str, problems)))
    ledger, config = Ledger(copy), core._state.config
    fresh = Scheduler(ledger.begin(boot_id), config, Calendar(), now)
    for _ in range(REFILLS):
        turn = fresh.begin(now, [])
        ledger.commit(turn.decide(ledger.find(turn.needs)).writes)
        if fresh.next_event_at(now) > now.boot:
            break
    running, loaded = core._state.projects.by_name, fresh._state.projects.by_name
    missing = [name for name in loaded if name not in running and name not in config.projects]
    if missing or any(name not in loaded for name in running):
        raise Violation("S8", "", f"projects: {sorted(running)} are loaded as {sorted(loaded)}")
    minutes = core._state.daemon_minutes.by_place
    if fresh._state.daemon_minutes.by_place != minutes:
        raise Violation("S8", "", f"the {len(minutes)} minutes of the daemon's history are loaded as others")
    for name, project in running.items():
        _compare(project, loaded[name], now)


def _compare(running: Project, loaded: Project, now: Now) -> None:
    _same(running, "state", loaded.state, running.state)
    _same(running, "overrides", loaded.overrides, running.overrides)
    _same(running, "totals", loaded.totals.row(), running.totals.row())
    _same(running, "counts", loaded.queue.counts, running.queue.counts)
    _same(running, "leases", _leases(loaded), _leases(running))
    _same(running, "pause", (loaded.pause.record, loaded.pause.out), (running.pause.record, running.pause.out))
    _same(running, "end", _end(loaded, now), _end(running, now))
    _same(running, "cron", loaded.cron, running.cron)
    tokens = loaded.bucket.available(now.boot), running.bucket.available(now.boot)
    if not isclose(*tokens, abs_tol=1e-6):
        _same(running, "tokens", *tokens)
    _same_head(running, DELAYED, loaded.queue.delayed, running.queue.delayed)
    fresh, ready = loaded.queue.ready, running.queue.ready
    if isinstance(fresh, SlotQueue) and isinstance(ready, SlotQueue):
        _same(running, "leases of slots", fresh.slots.leases, ready.slots.leases)
    elif isinstance(fresh, Head) and isinstance(ready, Head):
        _same_head(running, READY, fresh, ready)
    else:
        _same(running, "is divided", type(fresh), type(ready))


def _same_head(running: Project, state: int, fresh: Head, order: Head) -> None:
    common = min(len(fresh), len(order))
    _same(running, f"head {state}", _rows(fresh, common), _rows(order, common))


def _end(project: Project, now: Now) -> tuple[Any, ...]:
    """Collect the project's progress towards its end."""
    queue = project.queue
    waiting = queue.unfinished, queue.waiting_retries
    return waiting, project.armed, project.finished, project.is_held(now.wall), project.cleared


def _held(order: Head) -> list[Task]:
    return [order.entries[key] for key in sorted(order.entries)]


def _rows(order: Head, count: int) -> list[dict[str, Any]]:
    return [_row(task) for task in _held(order)[:count]]


_FIELDS: Final = (
    "taskid", "key", "seq", "state", "priority", "exetime", "token", "retried", "lastcrawltime", "held_back",
    "timed_out", "itag", "apart", "attempts", "put_off", "pushed_at", "job",
)  # fmt: skip


def _row(task: Task) -> dict[str, Any]:
    """Collect all stored fields of a task; its spec may not have been read yet."""
    return {field: getattr(task, field) for field in _FIELDS}


def _leases(project: Project) -> dict[str, Any]:
    return {
        task.taskid: (_row(task), task.lease.session, task.lease.number, task.lease.deferred)
        for token, task in sorted(project.queue.processing.leased.items())
        if task.lease is not None
    }


def _same(project: Project, what: str, stored: Any, running: Any) -> None:
    if stored == running:
        return
    raise Violation("S8", project.name, f"{what}: the store has {_first(stored, running)}")


def _first(stored: Any, running: Any) -> str:
    """Describe the first difference."""
    if not (isinstance(stored, list) and isinstance(running, list)):
        return f"{stored}, the scheduler {running}"
    pairs = zip(stored, running, strict=False)
    one, other = next(((one, other) for one, other in pairs if one != other), (len(stored), len(running)))
    return f"{one}, the scheduler {other}"
