"""The table of the HTTP API covers everything that a request can say, with the right roles."""

from __future__ import annotations

import pytest

from taskqueue.protocol.base import ChangeRequest
from taskqueue.protocol.messages import REQUESTS, AnyRequest
from taskqueue.web.api.http_operation import OWN, Operation
from taskqueue.web.api.interface import OPERATIONS
from tools import reference


def test_each_request_of_the_protocol_has_an_operation() -> None:
    asked = {operation.asks for operation in OPERATIONS}

    assert [kind for kind in REQUESTS if kind not in asked] == []


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_whatever_a_request_can_say_an_operation_can_say(kind: type[AnyRequest]) -> None:
    plain = [operation for operation in OPERATIONS if operation.asks is kind and operation.arguments is None]
    said = {name for each in plain for name in (*each.parameters, *each.fixed, *each.said().__struct_fields__)}

    # Arguments of types of their own, such as a task in JSON, have tests of their own.
    assert not plain or set(kind.__struct_fields__) - OWN - said == set()


def test_no_two_operations_have_one_name() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_viewers_only_look_and_what_is_lost_is_lost_by_admins(operation: Operation) -> None:
    changes = issubclass(operation.asks, ChangeRequest) or operation.method != "GET"

    assert (operation.role == "viewer") is not changes
    if changes and (operation.path.endswith(("/clear", "/reset", "/settings")) or "/cron/" in operation.path):
        assert operation.role == "admin"
    assert operation.method != "DELETE" or operation.role == "admin"


def test_the_reference_has_each_operation_with_its_role_and_fields() -> None:
    made = reference.operations()
    rows = [f"| `{each.method}` | `{each.path}` | {each.role} | " for each in OPERATIONS]

    assert [row for row in rows if row not in made] == []
    assert "| `seconds` | query |" in made
