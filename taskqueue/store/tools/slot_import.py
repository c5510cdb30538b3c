"""Tasks that are imported into projects that are divided into slots already: a daemon moves them to theirs.

What is imported knows no numbers of slots. So ready tasks lie in the range of number 0, with an entry that leads there,
and the project says that it is moving. A project that the import makes is not divided yet: the daemon does it.
"""

from __future__ import annotations

from taskqueue.core.tasks.records import WriteSet
from taskqueue.core.tasks.slots.slot_records import SlotWrites
from taskqueue.core.tasks.slots.slot_table import entry_of
from taskqueue.core.tasks.task import READY


def have_moved(writes: WriteSet) -> None:
    """Have the ready tasks among these new ones moved, where their projects are divided; ``projects`` has them all."""
    records = {record.number: record for record in writes.projects}
    best: dict[int, int] = {}
    for task, *_ in writes.moves:
        division = records[task.project].slots
        if task.state == READY and division is not None and division.by != "none":
            division.is_moving = True
            best[task.project] = min(task.key, best.get(task.project, task.key))
    for number, key in best.items():
        writes.slots.append(SlotWrites(number, 0, old={(0, entry_of(key)): True}))
