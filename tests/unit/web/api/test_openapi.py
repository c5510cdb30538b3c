"""The OpenAPI document describes everything, and its examples match their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.insight import WhyReply
from taskqueue.web.api.examples import BODIES
from taskqueue.web.api.interface import OPERATIONS
from taskqueue.web.api.openapi import document

DOCUMENT: Final = document(OPERATIONS)
DESCRIBED: Final[dict[str, dict[str, Any]]] = {
    operation["operationId"]: operation for path in DOCUMENT["paths"].values() for operation in path.values()
}


def fields(schema: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of an object, or of its alternatives, by name."""
    for field, each in schema.get("properties", {}).items():
        yield f"{name}.{field}", each
    for each in schema.get("anyOf", ()):
        yield from fields(each, name)


def all_fields() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        yield from fields(schema, name)
    for name, operation in DESCRIBED.items():
        for content in (operation.get("requestBody") or operation["responses"]["200"])["content"].values():
            yield from fields(content["schema"], name)


def fault(value: Any, schema: dict[str, Any]) -> str | None:
    """Fault of a value by its schema; None: none."""
    found = Draft202012Validator({**schema, "components": DOCUMENT["components"]}).iter_errors(value)
    return next((each.message for each in found), None)


def test_each_parameter_is_described() -> None:
    parameters = [(name, each) for name, operation in DESCRIBED.items() for each in operation["parameters"]]

    assert [f"{name}: {each['name']}" for name, each in parameters if not each.get("description")] == []


def test_each_field_is_described() -> None:
    assert [name for name, field in all_fields() if not field.get("description")] == []


def test_what_is_described_is_described_to_readers_of_json() -> None:
    told = [each["description"] for _, each in all_fields()]

    assert [each for each in told if "None" in each or "``" in each] == []


@pytest.mark.parametrize("name", DESCRIBED)
def test_each_operation_has_examples_that_are_what_its_schemas_say(name: str) -> None:
    operation = DESCRIBED[name]
    content = [operation["responses"]["200"]["content"]["application/json"]]
    if "requestBody" in operation:
        content.append(operation["requestBody"]["content"]["application/json"])
    said = [(each["example"], each["schema"]) for each in (*content, *operation["parameters"]) if "example" in each]

    assert all("example" in each for each in content)
    assert all("example" in each for each in operation["parameters"] if each["in"] == "path")
    assert [each for each in (fault(*one) for one in said) if each] == []


def test_an_answer_of_the_daemon_has_the_example_of_the_protocol() -> None:
    reply = EXAMPLES[WhyReply]
    answer = DESCRIBED["get-projects-project-why"]["responses"]["200"]["content"]["application/json"]

    assert isinstance(reply, WhyReply)
    assert answer["example"]["sentence"] == reply.sentence


def test_no_example_is_of_an_operation_that_there_is_not() -> None:
    assert BODIES.keys() - DESCRIBED.keys() == set()
