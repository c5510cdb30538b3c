"""What a sound store may lack: the exceptions to "each task has a record, an entry in its order, a spec".

| a task that is | has | may lack |
|---|---|---|
| ready, delayed | record, entry in the order, spec | |
| processing | lease, spec; its record may say where it was before | its record, while it is *unlisted* |
| over | record, entry in the order, spec | |
| over and *bare* | record | entry, spec, history: retention has deleted them |
| *cleared* | perhaps record and spec, until they are swept | its entry, which ``clear`` has dropped |

Bare tasks are counted among those of their state; cleared ones are not counted.
"""

from __future__ import annotations

from taskqueue.core.tasks.task import LIVE, Task


def is_cleared(task: Task, cleared: int) -> bool:
    """Whether ``clear`` has dropped the task of this record; ``cleared`` is the largest seq that its project was
    cleared of.
    """
    return task.state in LIVE and task.seq <= cleared


def may_be_unlisted(leased: Task) -> bool:
    """Whether the leased task may lack a record: it never came back, so the turn that created it may have handed it
    out.
    """
    return not leased.attempts and not leased.lastcrawltime
