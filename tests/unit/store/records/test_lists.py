"""Lists of tasks: a part of an order, in either direction, filtered by globs, on every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from msgspec import Raw

from taskqueue.core.model.needs import FoundList, ListRef, Needs
from taskqueue.core.model.records import KeptAttempt, WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import DELAYED, FAILED, NO_FLOOR, READY, SUCCESS, TASK_BYTES, Task, ready_key, time_key
from taskqueue.errors import Unreadable
from taskqueue.protocol.values import Attempt, Schedule
from taskqueue.store.contract import Batch, Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.records.layout import MAX_INLINE_ERROR_BYTES, taskid_at
from taskqueue.store.records.tasks import LOOKED_UP

P = 7
ERRORS = ["HTTP 503", "no title", "HTTP 404", "timeout", "HTTP 503"]


class Ground(Protocol):
    """Type of the fixture ``ground``."""

    store: Store

    def open(self) -> Ledger: ...


def keep(
    ledger: Ledger, state: int, count: int = len(ERRORS), *, run: bool = True, errors: Sequence[str] = ERRORS
) -> None:
    """Keep tasks a, b, c, … in this order, each ended with one of these errors."""
    tasks, attempts = [], []
    for seq in range(count):
        name = chr(ord("a") + seq)
        key = ready_key(0, seq) if state == READY else time_key(100.0 + seq, seq)
        task = Task(P, name, state, key, seq, lastcrawltime=50.0 if run else 0.0, attempts=1 if run else 0)
        task.spec = Spec(f"http://{'ab'[seq % 2]}.org/{seq}", Schedule(), Raw(b"\xc0"))
        tasks.append(task)
        if run:
            attempts.append(KeptAttempt(P, name, 0, Attempt(50.0, "failed", "f", 0.5, errors[seq % len(errors)])))
    ledger.commit(WriteSet(moves=[(task, 0, 0, task.seq, True, False) for task in tasks], attempts=attempts))


def listed(ledger: Ledger, state: int, **fields: Any) -> FoundList:
    ref = ListRef(P, state, 0, NO_FLOOR, False, 100, 100, 1 << 20, "", "", True)._replace(**fields)
    [found] = ledger.find(Needs(lists=[ref])).lists.values()
    assert found.ref == ref
    return found


def names(found: FoundList) -> str:
    return "".join(task.taskid for task in found.tasks)


@pytest.mark.parametrize("state", [READY, DELAYED, FAILED])
def test_a_part_is_listed_with_the_last_attempts(ledger: Ledger, state: int) -> None:
    keep(ledger, state)

    found = listed(ledger, state)

    assert names(found) == "abcde"
    assert [found.attempts[task.taskid].error for task in found.tasks] == ERRORS
    assert found.next is None
    assert all(task.spec and task.size > TASK_BYTES for task in found.tasks)


def test_a_part_may_be_listed_backwards(ledger: Ledger) -> None:
    keep(ledger, FAILED)

    first = listed(ledger, FAILED, newest=True, limit=2)
    assert names(first) == "ed"
    assert first.next is not None
    rest = listed(ledger, FAILED, newest=True, end=first.next, start=time_key(101.0, 0))

    assert (names(rest), rest.next) == ("cb", None)


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("state", [DELAYED, FAILED])
@pytest.mark.parametrize("bounds", [{"rows": 1}, {"limit": 1}, {"limit_bytes": 1}, {"rows": 2, "limit": 3}])
@pytest.mark.parametrize("globs", [{}, {"error": "HTTP 503"}, {"url": "*a.org*"}, {"url": "*a*", "error": "*o*"}])
def test_pages_leave_nothing_out_and_have_nothing_twice(
    ledger: Ledger, newest: bool, state: int, bounds: dict[str, Any], globs: dict[str, Any]
) -> None:
    keep(ledger, state, 13)
    whole = names(listed(ledger, state, newest=newest, **globs))
    assert whole

    pages = [listed(ledger, state, newest=newest, **bounds, **globs)]
    while (following := pages[-1].next) is not None:
        bound = {"end": following} if newest else {"start": following}
        pages.append(listed(ledger, state, newest=newest, **bounds, **globs, **bound))

    assert "".join(map(names, pages)) == whole


@pytest.mark.parametrize("state", [READY, DELAYED, FAILED])
def test_globs_pick_tasks_by_url_and_by_last_error(ledger: Ledger, state: int) -> None:
    keep(ledger, state)

    assert names(listed(ledger, state, error="HTTP *")) == "ace"
    assert names(listed(ledger, state, url="*b.org*")) == "bd"
    assert names(listed(ledger, state, url="*a.org*", error="*503")) == "ae"
    assert names(listed(ledger, state, error="no such*")) == ""
    assert names(listed(ledger, state, url="*A.ORG*", error="http *", ignore_case=True)) == "ace"


def test_of_what_is_over_no_url_is_read_where_the_error_does_not_match(ground: Ground, ledger: Ledger) -> None:
    """The task's spec is damaged, which no reader notices."""
    keep(ledger, FAILED)
    [(key, _)] = ground.store.scan("specs", b"", b"\xff" * 8, 1)
    ground.store.write(1, Batch(puts={"specs": [(key, b"\xc1")]}))

    assert names(listed(ledger, FAILED, error="timeout")) == "d"
    with pytest.raises(Unreadable, match="family specs"):
        listed(ledger, FAILED)


def test_what_was_never_run_has_no_attempt(ledger: Ledger) -> None:
    keep(ledger, READY, run=False)

    assert listed(ledger, READY).attempts == {}
    assert names(listed(ledger, READY, error="*503*")) == ""


def test_attempts_are_read_only_where_they_are_wanted(ledger: Ledger) -> None:
    keep(ledger, SUCCESS)

    assert listed(ledger, SUCCESS, attempts=False).attempts == {}


def test_a_glob_that_costs_much_ends_a_page_early(ledger: Ledger) -> None:
    keep(ledger, FAILED, 13, errors=["a" * 2000])

    found = listed(ledger, FAILED, error="*" + "[ab]" * 60 + "*c")

    assert found.next is not None
    assert names(found) == ""


# ------------------------------------------------------------------------------------------------ where errors lie


def without_histories(ground: Ground) -> None:
    """Delete all histories."""
    ground.store.write(1, Batch(drops=[("history", b"", b"\xff" * 8)]))


def test_a_short_error_of_what_failed_lies_in_the_order_and_is_found_without_a_look_up(
    ground: Ground, ledger: Ledger
) -> None:
    keep(ledger, FAILED, errors=["größer", "", "x" * MAX_INLINE_ERROR_BYTES])
    without_histories(ground)

    assert names(listed(ledger, FAILED, error="größer")) == "ad"
    assert names(listed(ledger, FAILED, error="")) == "abcde"
    assert names(listed(ledger, FAILED, error="x*")) == "c"
    assert names(listed(ledger, FAILED)) == "abcde"


def test_a_long_error_is_looked_up(ground: Ground, ledger: Ledger) -> None:
    keep(ledger, FAILED, errors=["short", "x" * (MAX_INLINE_ERROR_BYTES + 1)])

    assert names(listed(ledger, FAILED, error="x*")) == "bd"
    without_histories(ground)
    assert names(listed(ledger, FAILED, error="x*")) == ""


def test_what_failed_in_an_older_store_has_its_error_in_its_history(ground: Ground, ledger: Ledger) -> None:
    keep(ledger, FAILED)
    entries = ground.store.scan("failed", b"", b"\xff" * 8, 10)
    ground.store.write(1, Batch(puts={"failed": [(key, taskid_at(value)) for key, value in entries]}))

    assert names(listed(ledger, FAILED, error="HTTP *")) == "ace"
    assert names(listed(ledger, FAILED)) == "abcde"


def test_a_page_looks_up_a_bounded_number_of_errors(ledger: Ledger) -> None:
    count = LOOKED_UP + 3
    keep(ledger, FAILED, count, errors=["x" * (MAX_INLINE_ERROR_BYTES + 1)])

    first = listed(ledger, FAILED, error="no such", limit=2 * count)
    assert first.next is not None
    rest = listed(ledger, FAILED, error="x*", limit=2 * count, start=first.next)
    assert len(rest.tasks) == 3


def test_a_task_that_fails_again_has_its_new_error_there(ground: Ground, ledger: Ledger) -> None:
    keep(ledger, FAILED, 1)
    [task] = listed(ledger, FAILED).tasks
    move = (task, FAILED, task.key, task.seq, False, False)
    task.key = time_key(500.0, task.seq)
    ledger.commit(
        WriteSet(moves=[move], attempts=[KeptAttempt(P, "a", 0, Attempt(500.0, "failed", "f", 0.5, "second"))])
    )

    assert names(listed(ledger, FAILED, error="second")) == "a"
    assert names(listed(ledger, FAILED, error="HTTP*")) == ""
