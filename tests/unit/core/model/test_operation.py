"""The table of operations: running ones take turns, and some ended ones are remembered."""

from __future__ import annotations

from taskqueue.core.model.operation import ENDED_KEPT, Operation, OperationTable
from taskqueue.core.model.records import OperationProgress, OperationRecord


def operation(id: int, ended_at: float = 0.0, number: int = 0) -> Operation:
    progress = OperationProgress(id, "retry", ["news"], False, 0, 0, 0, 1.0, ended_at, number=number)
    return Operation(OperationRecord(progress, bound=id), [1])


def test_operations_have_their_turns_one_after_the_other() -> None:
    table = OperationTable()
    first, second = operation(1), operation(2)
    table.add(first)
    table.add(second)

    table.pass_on(first)

    assert list(table.running) == [2, 1]


def test_one_that_has_ended_is_remembered_until_many_others_have() -> None:
    table = OperationTable()
    table.add(operation(1, ended_at=5.0))
    forgotten = [table.add(operation(2 + n, ended_at=6.0 + n)) for n in range(ENDED_KEPT)]

    assert forgotten == [None] * (ENDED_KEPT - 1) + [1]
    assert 1 not in table.by_id


def test_after_a_start_the_one_that_ended_first_is_forgotten_first() -> None:
    table = OperationTable()
    running = operation(1)
    table.load([running, operation(2, ended_at=9.0), operation(3, ended_at=8.0)])

    forgotten = [table.add(operation(4 + n, ended_at=10.0 + n)) for n in range(ENDED_KEPT - 2)]
    assert forgotten == [None] * (ENDED_KEPT - 2)
    assert table.end(running) == 3


def test_an_operation_is_found_by_its_id_or_its_number() -> None:
    table = OperationTable()
    old, new = operation(1001), operation(1002, number=1)
    table.load([old, new])

    assert [table.find(each) for each in (1001, 1002, 1, 0, 2)] == [old, new, new, None, None]


def test_after_a_start_numbers_go_on_behind_the_largest_that_is_remembered() -> None:
    table = OperationTable()
    table.load([operation(1001, number=7, ended_at=9.0), operation(1002)])

    assert table.next_number == 8
