"""What may be missing from a store that is sound: the exceptions to "each task has its record, its place, its spec".

| a task that is | has | may lack |
|---|---|---|
| ready, delayed | record, entry in the order, spec | |
| processing | lease, spec; its record may say where it was before | its record, while it is *unlisted* |
| over | record, entry in the order, spec | |
| over and *bare* | record | entry, spec, history: retention has taken them |
| *left* by ``clear`` | record, perhaps; spec, perhaps | its entry: it means nothing, and is swept away |

Tasks that are bare are counted among those of their state; those that are left are not counted.
"""

from __future__ import annotations

from taskqueue.core.tasks.task import PROCESSING, Task


def is_cleared(task: Task, cleared: int) -> bool:
    """``clear`` has dropped the task of this record; ``cleared`` is that of its project."""
    return task.state <= PROCESSING and task.seq <= cleared


def may_be_unlisted(leased: Task) -> bool:
    """The task of this lease has never come back, so it may have been handed out in the turn that made it."""
    return not leased.attempts and not leased.lastcrawltime
