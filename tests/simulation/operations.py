"""Laws O1 and O2, of bulk operations and their undos.

O1: a bulk operation changes each old task that it selects exactly once, and none that arrived later.

O2: an undo gives each of these tasks back what it was, or makes it what a deferred update said, unless something else
has been written of it since; and a task that has been handed out since stays as it is. The cancel of its flow may end a
task in the turn in which it comes back. What becomes of tasks that wait for one of these: see ``edges``.

Each step writes its progress, which says which tasks it has decided: those between two taskids. Their states before the
turn are known; if the turn also did something else with a task, both results are allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from taskqueue.core.model.records import OperationRecord
from taskqueue.core.model.task import (
    BLOCKED,
    CANCELLED,
    DELAYED,
    OVER,
    PRIORITY_TOP,
    PROCESSING,
    READY,
    SEQ_BITS,
    STATE_NAMES,
    Task,
    key_time,
    seq_in,
)
from taskqueue.core.model.undo_rows import PARENTS_NOW, UndoCursor, UndoPage, UndoRow, UndoRows
from taskqueue.protocol.values import NewTask
from tests.simulation.tasks import ON_FAILURE
from tests.simulation.truth import EPSILON, Held, Name, Progress, Touch, Truth
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.laws import Round

MEANT: Final = {
    "retry": ("failed",),
    "cancel": (*STATE_NAMES[1:4], "blocked"),
    "reprioritise": (*STATE_NAMES[1:4], "blocked"),
    "reschedule": (*STATE_NAMES[1:3], "blocked"),
}


class Bulks:
    """Judge of operations."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def step(self, turn: Round, touched: set[Name]) -> list[tuple[Name, OperationRecord, bool]]:
        """List (task, operation, surely): changes that the steps of this turn must make, or (not surely) may."""
        changed = []
        records = {record.progress.id: record for record in turn.kept.operations}
        for record in records.values():
            before = self._truth.progress.get(record.progress.id)
            if record.progress.action not in MEANT:
                continue
            if before is not None:
                self._check_way(before, record)
                rows = self._about(before, record, touched)
                self._check_count(before, record, rows)
                changed += [] if record.progress.dry_run else rows
            bound = before.bound if before is not None else record.bound
            members = before.members if before is not None else tuple(turn.kept.members[record.progress.id])
            now = Progress(members, record.position, record.after, record.progress.matched, bound)
            self._truth.journal.put(self._truth.progress, record.progress.id, now)
        return changed

    def _check_way(self, before: Progress, record: OperationRecord) -> None:
        if (record.position, record.after) < (before.position, before.after):
            reason = f"operation {record.progress.id} was at {before.after!r}, and is at {record.after!r} now"
            raise Violation("O1", record.after, reason)

    def _about(
        self, before: Progress, record: OperationRecord, touched: set[Name]
    ) -> list[tuple[Name, OperationRecord, bool]]:
        number = before.members[before.position] if before.position < len(before.members) else 0
        is_through = record.position > before.position
        rows = []
        for name, held in self._truth.tasks.items():
            is_met = before.after < name.taskid and (is_through or name.taskid <= record.after)
            if held.number != number or not is_met or seq_in(held.key) > before.bound or held.bare:
                continue
            # The url of a task that was made for a failed one is not known here.
            is_own = name.taskid.startswith(ON_FAILURE) and bool(record.progress.filter.url)
            if record.progress.filter.url and not (
                is_own or fnmatchcase(f"http://{name.project}/{name.taskid}", record.progress.filter.url)
            ):
                continue
            job = record.progress.filter.job
            if job and job != held.job:
                if name in touched or name in self._truth.deferred:
                    rows.append((name, record, False))
                continue
            wanted: Sequence[str] = record.progress.filter.states or MEANT[record.progress.action]
            if is_own or name in touched or not self._is_settled(held, wanted) or self._may_be_released(name, held):
                rows.append((name, record, False))
            elif STATE_NAMES[held.state] in wanted:
                rows.append((name, record, True))
        return rows

    def _is_settled(self, held: Held, wanted: Sequence[str]) -> bool:
        """Whether the turn can't have changed the task by itself before the step."""
        is_same_when_due = held.state == DELAYED and ("ready" in wanted) == ("delayed" in wanted)
        return held.state == READY or held.state > 3 or is_same_when_due

    def _may_be_released(self, name: Name, held: Held) -> bool:
        """Whether the ends of parents may have changed the task in the turn, before the step."""
        return held.state == BLOCKED or name in self._truth.upstream or name in self._truth.dropped

    def _check_count(
        self, before: Progress, record: OperationRecord, rows: list[tuple[Name, OperationRecord, bool]]
    ) -> None:
        least, most = sum(surely for _, _, surely in rows), len(rows)
        gained = record.progress.matched - before.matched
        if not least <= gained <= most:
            reason = (
                f"operation {record.progress.id} was about {least} to {most} tasks, and says that it was about {gained}"
            )
            raise Violation("O1", rows[0][0].taskid if rows else "", reason)


class Undone(NamedTuple):
    """Row that an undo has decided: its task, what it was, and whether nothing else has touched it since.

    Attributes:
        has_run: it has been handed out since.
        began_at: unix seconds at which the operation began.
        is_through: False if it has children that later steps will look at.
        update: update that was deferred when the operation cancelled it; None if there was none.
    """

    name: Name
    row: UndoRow
    action: str
    surely: bool
    has_run: bool
    began_at: float
    is_through: bool
    update: NewTask | None


class Undos:
    """Judge of undos."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._marked: dict[Name, int] = {}
        self._cancels: set[int] = set()
        self._decided: list[Undone] = []

    def step(
        self,
        turn: Round,
        numbers: Mapping[int, str],
        touched: set[Name],
        changed: Sequence[tuple[Name, OperationRecord, bool]],
    ) -> list[Undone]:
        """List the rows that undos have decided in this turn; judge the rows that operations have written.

        Args:
            changed: changes of this turn by operations; see ``Bulks.step``.
        """
        self._decided, self._marked = [], {}
        records = {record.progress.id: record for record in turn.kept.operations}
        self._cancels = {number for number, record in records.items() if record.progress.action == "cancel"}
        for record in records.values():
            if record.undo is not None:
                self._decided += self._decide(record, numbers, touched)
        for operation, position, page in turn.kept.undo_pages:
            self._truth.journal.put(self._truth.undo_pages, (operation, position), page)
            for row in page.rows:
                self._check_row(Name(numbers[page.project], row.taskid), row, operation, touched)
        for name, record, surely in changed:
            if surely and record.rows is not None and name not in self._marked:
                raise Violation("O2", name.taskid, f"operation {record.progress.id} changed it, and has no row of it")
        return self._decided

    def _check_row(self, name: Name, row: UndoRow, operation: int, touched: set[Name]) -> None:
        held = self._truth.tasks.get(name)
        self._marked[name] = operation
        # Its time or its lease may have run out, and parents may have ended.
        may_differ = name in touched or name in self._truth.upstream or name in self._truth.dropped
        if held is None or may_differ or held.state in (DELAYED, PROCESSING, BLOCKED):
            return
        if (row.state, row.retried, row.priority) != (held.state, held.retried, _priority(held)):
            raise Violation("O2", name.taskid, f"operation {operation} remembers {row}, but it was {held}")

    def _decide(self, record: OperationRecord, numbers: Mapping[int, str], touched: set[Name]) -> Iterator[Undone]:
        cursor = record.undo
        assert cursor is not None
        end, rest = (cursor.rows.pages, 0), cursor.rest
        has_met_all = rest is None and cursor.rows.parents == PARENTS_NOW
        if has_met_all or (record.progress.ended_at and not record.progress.cancelled):
            now = end
        else:
            now = _place(cursor.rows if rest is None else rest)
        before = self._truth.undos.get(cursor.operation, (0, 0))
        self._truth.journal.put(self._truth.undos, cursor.operation, now)
        for position in range(before[0], min(now[0] + 1, cursor.rows.pages)):
            page = self._truth.undo_pages[cursor.operation, position]
            first = before[1] if position == before[0] else 0
            rows = page.rows[first : now[1]] if position == now[0] else page.rows[first:]
            for row in rows if page.project in numbers else ():
                name = Name(numbers[page.project], row.taskid)
                is_last = position == now[0] and row is rows[-1]
                yield self._about(name, row, cursor, page, touched, is_last=is_last)

    def _about(
        self, name: Name, row: UndoRow, cursor: UndoCursor, page: UndoPage, touched: set[Name], *, is_last: bool
    ) -> Undone:
        mark, held = self._truth.touches.get(name), self._truth.tasks.get(name)
        is_there = held is not None and held.number == page.project and not held.bare
        is_marked = mark is not None and mark.operation == cursor.operation and is_there
        surely = is_marked and mark is not None and not mark.is_written and name not in touched
        has_run = is_marked and mark is not None and mark.has_run
        is_through = not (is_last and cursor.rows.after)
        update = page.updates.get(row.taskid)
        return Undone(name, row, cursor.action, surely, has_run, cursor.began_at, is_through, update)

    def cancelled(self) -> Iterator[Name]:
        """Yield the tasks that operations have cancelled in this turn."""
        return (name for name, operation in self._marked.items() if operation in self._cancels)

    def written(self, name: Name, task: Task) -> None:
        """Record that a task was written in this turn."""
        journal, marks = self._truth.journal, self._truth.touches
        operation = self._marked.get(name)
        if operation is not None:
            # Of a task that is over, and was not cancelled, its time had come, too.
            has_expired = task.state in OVER and operation not in self._cancels
            is_written = task.state == PROCESSING or has_expired
            journal.put(marks, name, Touch(operation, is_written=is_written, has_run=False))
        elif (mark := marks.get(name)) is not None:
            journal.put(marks, name, Touch(mark.operation, True, mark.has_run or task.state == PROCESSING))

    def judge(self, turn: Round, ended: Collection[Name]) -> None:
        """Judge what became of the decided tasks, after the turn's writes.

        Of tasks that have run since, law S3 says that they stay: they may not become what they were.

        Args:
            ended: tasks of cancelled flows that this turn has reached, before the undo or after it.
        """
        attempts = turn.kept.attempts
        expired = {(kept.project, kept.taskid) for kept in attempts if kept.attempt.outcome == "expired"}
        for each in self._decided:
            held = self._truth.tasks.get(each.name)
            if held is None or (each.name in ended and held.state == CANCELLED):
                continue
            if each.surely and (held.number, each.name.taskid) not in expired:
                self._check_back(each, held, turn.now.wall)

    def _check_back(self, undone: Undone, held: Held, wall: float) -> None:
        row = undone.row
        if undone.action == "reprioritise":
            is_back = _priority(held) == row.priority
        elif row.state in (READY, DELAYED, PROCESSING):
            is_later = row.state == DELAYED and row.exetime > wall + EPSILON
            is_back = held.state == DELAYED if is_later else held.state in (READY, DELAYED, PROCESSING)
            if is_later and is_back:
                is_back = abs(key_time(held.key) - row.exetime) < EPSILON
            # A task that ran may have been given other parents, which apply once it runs no more.
            is_back = is_back or (row.state == PROCESSING and held.state == BLOCKED)
            # One that runs only after a failure may not be needed any more.
            is_back = is_back or (undone.update is not None and held.state == CANCELLED)
            is_back = is_back and held.retried == (row.retried if undone.update is None else 0)
        else:
            is_back = held.state == row.state or row.state == BLOCKED
        if not is_back:
            raise Violation("O2", undone.name.taskid, f"an undo left it as {held}, and it was {row}")


def _place(rows: UndoRows) -> tuple[int, int]:
    """Return page and row up to which tasks are back; the children of the last one may not all have been looked at."""
    return rows.position, rows.index + bool(rows.after)


def _priority(held: Held) -> int:
    return PRIORITY_TOP - (held.ready_place >> SEQ_BITS)
