"""The table of the HTTP API covers everything that a request can say, with the right of each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from taskqueue.access.rights import right_of
from taskqueue.protocol.daemon import WhoIs
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from taskqueue.web.api.http_operation import OWN, Operation
from taskqueue.web.api.interface import OPERATIONS
from tools import reference


def test_each_request_of_the_protocol_has_an_operation() -> None:
    asked = {operation.asks for operation in OPERATIONS}

    # Who a user is, the web process asks for itself.
    assert [kind for kind in REQUESTS if kind not in asked] == [WhoIs]


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_whatever_a_request_can_say_an_operation_can_say(kind: type[AnyRequest]) -> None:
    plain = [operation for operation in OPERATIONS if operation.asks is kind and operation.arguments is None]
    said = {name for each in plain for name in (*each.parameters, *each.fixed, *each.said().__struct_fields__)}

    # Arguments of types of their own, such as a task in JSON, have tests of their own.
    assert not plain or set(kind.__struct_fields__) - OWN - said == set()


def test_no_two_operations_have_one_name() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_takes_the_right_of_its_request(operation: Operation) -> None:
    # Hellos of HTTP want tasks, as the example does.
    example: Any = EXAMPLES[operation.asks]
    fixed = {key: value for key, value in operation.fixed.items() if key == "action"}

    assert operation.right == right_of(msgspec.structs.replace(example, **fixed))


def test_the_reference_has_each_operation_with_its_right_and_fields() -> None:
    made = reference.operations()
    rows = [f"| `{each.method}` | `{each.path}` | {each.right} | " for each in OPERATIONS]

    assert [row for row in rows if row not in made] == []
    assert "| `seconds` | query |" in made
