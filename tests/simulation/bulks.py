"""Law O1: a bulk operation changes each old task that it selects exactly once, and none that arrived later.

Each step writes its progress, which says which tasks it has decided: those between two taskids. Their states before the
turn are known; if the turn also did something else with a task, both results are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from taskqueue.core.model.records import OperationRecord
from taskqueue.core.model.task import DELAYED, READY, STATE_NAMES, seq_in
from tests.simulation.tasks import ON_FAILURE
from tests.simulation.truth import Held, Name, Progress, Truth
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.laws import Round

MEANT: Final = {
    "retry": ("failed",),
    "cancel": STATE_NAMES[1:4],
    "reprioritise": STATE_NAMES[1:4],
    "reschedule": STATE_NAMES[1:3],
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
            if is_own or name in touched or not self._is_settled(held, wanted):
                rows.append((name, record, False))
            elif STATE_NAMES[held.state] in wanted:
                rows.append((name, record, True))
        return rows

    def _is_settled(self, held: Held, wanted: Sequence[str]) -> bool:
        """Whether the turn can't have changed the task by itself before the step."""
        return held.state == READY or held.state > 3 or (held.state == DELAYED and "ready" in wanted)

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
