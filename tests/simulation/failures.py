"""Law A1: the turn in which a failed attempt ends writes it to the failures, and nothing else.

A turn writes failed attempts twice: to the histories of tasks, and to the failures. The history of a task that is
cleared in the same turn is dropped; the failure stays.
"""

from __future__ import annotations

from collections import Counter

from taskqueue.core.model.records import WriteSet


def wrong_failures(kept: WriteSet) -> str:
    """Describe the problem with the failures of a turn; "" if there is none."""
    attempts = Counter(
        (each.project, each.taskid)
        for each in kept.attempts
        if each.attempt.outcome not in ("success", "expired", "upstream", "slow")
    )
    failures = Counter((failure.project, failure.taskid) for _, failure in kept.failures)
    if missing := attempts - failures:
        return f"failed attempts are not among the failures: {sorted(missing.elements())}"
    gone = {*kept.cleared, *kept.dropped_projects}
    if made_up := [each for each in (failures - attempts).elements() if each[0] not in gone]:
        return f"failures of which the histories have no attempts: {sorted(made_up)}"
    numbers = [key & 0xFFFF_FFFF_FFFF_FFFF for key, _ in kept.failures]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else []):
        return f"the numbers of failures have gaps: {numbers}"
    return ""
