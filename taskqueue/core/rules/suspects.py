"""Tasks that may kill their fetchers: who is suspected, how many suspects run at once, and when one is to blame.

A handler that ends its process, by a segfault or by taking all memory, can't be reported. What is seen is a fetcher
that falls silent, with all that it ran:

    fetcher falls silent ──► one crash more for each task that it ran ──► ready, behind its equals
                             reported, whatever the outcome               no crashes

Rules:
1. What a fetcher runs are the oldest of its leases, as many as it has slots, those apart that it has passed on. A task
   that kills at once was in no hello, so that hellos can't tell.
2. A task without crashes is no suspect. Those with one take at most a quarter of a fetcher's slots, and one slot at
   least; those with more run one at a time.
3. The crash that reaches ``max_crashes`` counts only for the sole suspect among what the fetcher ran, or for all that
   it ran, if that was one task. It is a failed attempt then. So one that kills among a hundred innocent ones fails
   alone.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.projects.session import Session
from taskqueue.core.tasks.task import Task

SUSPECT_PART: Final = 4
"""Tasks with one crash may take one part in so many of a fetcher's slots."""


def blame(session: Session) -> dict[int, bool]:
    """Tokens of what a fetcher runs, and whether the task would be to blame if the fetcher went silent now."""
    own = (task for token, task in session.leases.items() if token not in session.passed)
    started = list(islice(own, session.slots))
    suspects = [task for task in started if task.crashes] if len(started) > 1 else started
    return {task.token: len(suspects) == 1 and task is suspects[0] for task in started}


def may_try(session: Session, task: Task) -> bool:
    """Whether the fetcher may have the suspect beside those that it has already."""
    crashes = session.suspects.values()
    if task.crashes > 1:
        return all(others <= 1 for others in crashes)
    return sum(others == 1 for others in crashes) < max(1, session.slots // SUSPECT_PART)
