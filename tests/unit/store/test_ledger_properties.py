"""Any sequence of changes: both stores have the same bytes, and the ledger finds what a plain dict remembers."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import Needs, OrderRef, PageRef
from taskqueue.core.model.records import KeptAttempt, WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    CANCELLED,
    DELAYED,
    FAILED,
    PROCESSING,
    READY,
    SUCCESS,
    Task,
    ready_key,
    time_key,
)
from taskqueue.protocol.fields import Boot, Token
from taskqueue.protocol.values import Attempt, NewTask, Schedule
from taskqueue.store.contract import Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.records.layout import FAMILIES, LAST_KEY
from tests.memory_store import Disk, MemoryStore
from tests.unit.store.fields import fields_of

PROJECTS = (1, 2)
OVER = (SUCCESS, FAILED, CANCELLED)

Steps = list[tuple[str, int, str, int]]

steps: st.SearchStrategy[Steps] = st.lists(
    st.tuples(
        st.sampled_from(["to", "to", "to", "restart", "replace", "fail", "fail", "defer", "clear", "drop", "crash"]),
        st.sampled_from(PROJECTS),
        st.sampled_from("abcde"),
        st.integers(0, 1000),
    ),
    max_size=40,
)


class Model:
    """Model in a plain dict: tasks as they were last kept, and their attempts by index."""

    def __init__(self) -> None:
        self.tasks: dict[TaskRef, Task] = {}
        self.histories: dict[TaskRef, dict[int, Attempt]] = {}
        self._seq = 0

    def change(self, step: str, project: int, taskid: str, dice: int) -> WriteSet:
        """Make the change, and return its writes."""
        ref = TaskRef(project, taskid)
        if step == "drop":
            self.tasks = {ref: task for ref, task in self.tasks.items() if ref.project != project}
            self.histories = {ref: slots for ref, slots in self.histories.items() if ref.project != project}
            return WriteSet(dropped_projects=[project])
        if step == "clear":
            return self._clear(project)
        task = self.tasks.get(ref)
        if task is None:
            task = self.tasks[ref] = Task(project, taskid, 0, 0, 0)
        return self._changed(step, task, dice)

    def _changed(self, step: str, task: Task, dice: int) -> WriteSet:
        old_state, old_key, old_seq = task.state, task.key, task.seq
        had_deferred = task.lease is not None and task.lease.deferred is not None
        attempts: list[KeptAttempt] = []
        renewed = not old_state or (step == "restart" and old_state in OVER)
        if renewed:
            self._renew(task)
        if renewed or step == "replace":
            task.spec = Spec(f"http://site/{dice}", Schedule(priority=dice), Raw(b"\xcd" + dice.to_bytes(2, "big")))
        if step == "fail":
            attempts = [self._attempt(task, dice)]
        _place(task, PROCESSING if step == "defer" else 1 + dice % 6, dice)
        if step == "defer" and task.lease is not None:
            task.lease.deferred = NewTask(task.taskid, f"http://deferred/{dice}")
        spec_changed = renewed or step == "replace"
        move = (copied(task), old_state, old_key, old_seq, spec_changed, had_deferred)
        return WriteSet(moves=[move], attempts=attempts)

    def _attempt(self, task: Task, dice: int) -> KeptAttempt:
        attempt = Attempt(dice, "failed", error=f"error {dice}")
        self.histories.setdefault(TaskRef(task.project, task.taskid), {})[task.attempts] = attempt
        kept = KeptAttempt(task.project, task.taskid, task.attempts, attempt)
        task.attempts = (task.attempts + 1) % ATTEMPTS_KEPT
        return kept

    def _clear(self, project: int) -> WriteSet:
        live = {ref: task for ref, task in self.tasks.items() if ref.project == project and task.state not in OVER}
        for ref in live:
            del self.tasks[ref]
            self.histories.pop(ref, None)
        return WriteSet(cleared=[project], forgotten=list(live.values()))

    def _renew(self, task: Task) -> None:
        self._seq += 1
        task.seq = self._seq


def _place(task: Task, state: int, dice: int) -> None:
    task.state, task.priority, task.retried, task.token = state, dice - 500, dice % 5, Token(dice)
    task.held_back, task.itag, task.lastcrawltime = dice % 2 == 0, "i" * (dice % 3), 1 + dice / 8
    task.job = "monday" if dice % 7 == 0 else ""
    keys = {READY: ready_key(task.priority, task.seq), PROCESSING: task.seq}
    task.key = keys.get(state) or time_key(dice / 16, task.seq)
    task.lease = Lease(f"s{dice}", dice, Boot(dice + 0.5), Boot(dice + 0.25)) if state == PROCESSING else None


def copied(task: Task) -> Task:
    """Make another task with the same fields."""
    it = Task(task.project, task.taskid, task.state, task.key, task.seq)
    for name, value in fields_of(task).items():
        setattr(it, name, value)
    return it


RECORDED = (
    "project", "taskid", "state", "key", "seq", "priority", "exetime", "token", "retried", "lastcrawltime",
    "held_back", "timed_out", "apart", "attempts", "itag", "job",
)  # fmt: skip


def seen(task: Task) -> tuple[object, ...]:
    """Return all fields of a task without its lease, and without those that only memory has."""
    return *(getattr(task, name) for name in RECORDED), fields_of(task.spec)


def in_order(ledger: Ledger, project: int, state: int) -> list[tuple[object, ...]]:
    [found] = ledger.find(Needs(orders=[OrderRef(project, state, 0, 100, 1 << 20)])).orders
    assert found.end
    return [seen(task) for task in found.tasks]


def seen_on_pages(ledger: Ledger, project: int) -> list[str]:
    """Read taskids, two a page."""
    seen: list[str] = []
    end = False
    while not end:
        ref = PageRef(project, seen[-1] if seen else "", 2, whole=True, errors=True)
        [page] = ledger.find(Needs(pages=[ref])).pages.values()
        seen += [task.taskid for task in page.tasks]
        end = page.end
    return seen


@settings(max_examples=40, deadline=None)
@given(steps)
def test_after_any_changes_both_stores_have_the_same_bytes(empty_rocks: Callable[[], Store], steps: Steps) -> None:
    stores: list[Store] = [MemoryStore(Disk()), empty_rocks()]
    ledgers = [Ledger(store) for store in stores]
    for ledger in ledgers:
        ledger.begin("boot", bytes)
    model = Model()
    for step in steps:
        writes = WriteSet() if step[0] == "crash" else model.change(*step)
        for ledger in ledgers:
            ledger.begin("boot", bytes) if step[0] == "crash" else ledger.commit(writes)

    for family in FAMILIES:
        contents = [store.scan(family, b"", LAST_KEY, 1000) for store in stores]
        assert contents[0] == contents[1], family


@settings(max_examples=100, deadline=None)
@given(steps)
def test_after_any_changes_the_ledger_finds_what_a_plain_dict_remembers(steps: Steps) -> None:
    ledger = Ledger(MemoryStore(Disk()))
    ledger.begin("boot", bytes)
    model = Model()
    for step in steps:
        ledger.begin("boot", bytes) if step[0] == "crash" else ledger.commit(model.change(*step))

    refs = [TaskRef(project, taskid) for project in PROJECTS for taskid in "abcdef"]
    found = ledger.find(Needs(whole=refs, histories=refs))
    leased = {TaskRef(task.project, task.taskid): task for task in ledger.begin("boot", bytes).leased}

    assert found.tasks.keys() == model.tasks.keys()
    assert {ref: slots for ref, slots in found.histories.items() if slots} == model.histories
    for ref, task in model.tasks.items():
        assert fields_of(found.tasks[ref].spec) == fields_of(task.spec)
        if task.state == PROCESSING:
            assert fields_of(leased.pop(ref).lease) == fields_of(task.lease)
        else:
            assert seen(found.tasks[ref]) == seen(task)
    assert not leased
    for project in PROJECTS:
        assert seen_on_pages(ledger, project) == sorted(ref.taskid for ref in model.tasks if ref.project == project)
        for state in (READY, DELAYED, *OVER):
            there = [task for task in model.tasks.values() if (task.project, task.state) == (project, state)]
            assert in_order(ledger, project, state) == [seen(task) for task in sorted(there, key=lambda t: t.key)]
