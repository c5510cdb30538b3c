"""Two decision tables by themselves: outcomes of a new-task, and of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.model.push_outcome import decide, due_at
from taskqueue.core.model.retry import Retry, after_failure, after_timeout
from taskqueue.core.model.spec import NO_SPEC, Spec
from taskqueue.core.model.task import CANCELLED, DELAYED, FAILED, PROCESSING, READY, SUCCESS, Task
from taskqueue.protocol.fields import NIL, Wall
from taskqueue.protocol.values import Schedule
from taskqueue.settings.settings import Settings

NOW = Wall(1_000_000.0)
FORCE: dict[str, Any] = {"force_update": True}
CANCEL: dict[str, Any] = {"force_update": True, "cancel": True}


def known(state: int, **facts: Any) -> Task:
    given: dict[str, Any] = {"priority": 5, "itag": "v1", "lastcrawltime": NOW - 100} | facts
    return Task(1, "a", state, 0, 1, **given)


SCHEDULED = known(DELAYED, exetime=NOW + 50)
HELD_BACK = known(DELAYED, exetime=NOW + 50, held_back=True)


@pytest.mark.parametrize(
    ("task", "schedule", "outcome"),
    [
        (None, {}, "new"),
        (None, FORCE, "new"),
        (None, CANCEL, "ignored"),
        (known(READY), {}, "ignored"),
        (known(READY), {"priority": 6}, "merged"),
        (known(READY), {"itag": "v2", "age": 1.0}, "ignored"),
        (known(READY), FORCE, "replaced"),
        (known(READY), CANCEL, "cancelled"),
        (known(READY), {"cancel": True}, "ignored"),
        (SCHEDULED, {}, "merged"),
        (SCHEDULED, {"exetime": NOW + 49}, "merged"),
        (SCHEDULED, {"exetime": NOW + 50}, "ignored"),
        (SCHEDULED, {"exetime": NOW + 51, "priority": 6}, "merged"),
        (SCHEDULED, FORCE, "replaced"),
        (HELD_BACK, {}, "ignored"),
        (HELD_BACK, {"priority": 6}, "merged"),
        (HELD_BACK, FORCE, "replaced"),
        (HELD_BACK, CANCEL, "cancelled"),
        (known(PROCESSING), {"priority": 9, "itag": "v2"}, "ignored"),
        (known(PROCESSING), FORCE, "deferred"),
        (known(PROCESSING), CANCEL, "cancelled"),
        (known(SUCCESS), {"priority": 9}, "ignored"),
        (known(SUCCESS), {"itag": "v1"}, "ignored"),
        (known(SUCCESS), {"itag": ""}, "ignored"),
        (known(SUCCESS), {"itag": "v2"}, "restarted"),
        (known(SUCCESS), {"age": 100.0}, "ignored"),
        (known(SUCCESS), {"age": 99.0}, "restarted"),
        (known(FAILED), FORCE, "restarted"),
        (known(CANCELLED), FORCE, "restarted"),
        (known(FAILED), CANCEL, "cancelled"),
        (known(CANCELLED), CANCEL, "ignored"),
    ],
)
def test_what_becomes_of_a_new_task(task: Task | None, schedule: dict[str, Any], outcome: str) -> None:
    assert decide(task, Schedule(**schedule), NOW) == outcome


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [({}, 0), ({"exetime": NOW}, 0), ({"exetime": NOW + 1}, NOW + 1), ({"delay": 5, "exetime": 1.0}, NOW + 5)],
)
def test_when_a_task_may_first_run(schedule: dict[str, Any], expected: float) -> None:
    assert due_at(Schedule(**schedule), NOW) == expected


RECURRING: dict[str, Any] = {"auto_recrawl": True, "age": 7200.0}


@pytest.mark.parametrize(
    ("schedule", "retried", "expected"),
    [
        ({}, 0, Retry(30.0, True)),
        ({}, 2, Retry(21_600.0, True)),
        ({}, 3, None),
        ({"retries": 0}, 0, None),
        ({"retries": 99}, 50, Retry(86_400.0, True)),
        ({"age": 10.0}, 1, Retry(10.0, True)),
        (RECURRING, 1, Retry(3600.0, True)),
        (RECURRING, 9, Retry(7200.0, True)),
        (RECURRING | {"age": 1e6}, 9, Retry(86_400.0, True)),
        ({"auto_recrawl": True}, 9, None),
    ],
)
def test_what_a_failure_leads_to(schedule: dict[str, Any], retried: int, expected: Retry | None) -> None:
    assert after_failure(Spec("", Schedule(**schedule), NIL), Settings(), retried) == expected


@pytest.mark.parametrize(
    ("timed_out", "retried", "expected"),
    [(False, 0, Retry(0.0, True)), (False, 3, None), (True, 1, Retry(3600.0, True)), (True, 3, None)],
)
def test_what_a_lease_that_ran_out_leads_to(timed_out: bool, retried: int, expected: Retry | None) -> None:
    assert after_timeout(NO_SPEC, Settings(), retried, timed_out=timed_out) == expected
