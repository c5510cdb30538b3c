"""The OpenAPI document (3.1) of the interface, made of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from taskqueue.web.api import schemas
from taskqueue.web.api.decoding import JSON, Decoding
from taskqueue.web.api.operation import Operation
from taskqueue.web.api.problems import MEDIA_TYPE
from taskqueue.web.api.pushing import LINES
from taskqueue.web.api.repeats import HEADER, KEY_CHARS
from taskqueue.web.api.schemas import PLACE, Schema

PROBLEM: Final[Schema] = {
    "type": "object",
    "description": "Why a request was refused (RFC 9457).",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "For people, in one line."},
        "code": {"type": "string", "description": "For programs: the daemon's, or that of this interface."},
        "field": {"type": "string", "description": "That it is about, such as tasks[3].url."},
    },
    "required": ["type", "title", "status", "detail"],
}

KEY: Final[Schema] = {
    "name": HEADER,
    "in": "header",
    "description": "Whoever sends the same with the same key again is answered again, and nothing is done twice.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS, "pattern": "^[ -~]+$"},
}

REFUSED: Final[Schema] = {
    "description": "It was refused.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": f"{PLACE}Problem"}}},
}

OUTCOME: Final[Schema] = {
    "type": "object",
    "description": "What became of a task.",
    "properties": {
        "outcome": {"enum": ["new", "merged", "replaced", "deferred", "restarted", "cancelled", "ignored", "rejected"]},
        "field": {"type": "string", "description": "If it was rejected: what of it is wrong."},
        "detail": {"type": "string", "description": "If it was rejected: why."},
    },
    "required": ["outcome"],
}

PUSHED: Final[Schema] = {
    "anyOf": [
        {"$ref": f"{PLACE}Outcome"},
        {
            "type": "object",
            "properties": {"outcomes": {"type": "array", "items": {"$ref": f"{PLACE}Outcome"}}},
            "required": ["outcomes"],
        },
    ]
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Describe all operations; the addresses are those of a web process without a root path."""
    said, components = _said(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, said[operation.name])
    answers = schemas.answered(
        [each.answers for each in operations], {each.answers for each in operations if each.further is not None}
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "taskqueue",
            "version": "1",
            "summary": "Everything that the command line of taskqueue can ask or do.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {**components, **answers, "Problem": PROBLEM, "Outcome": OUTCOME},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _said(operations: Sequence[Operation]) -> tuple[Mapping[str, Mapping[str, Schema]], dict[str, Schema]]:
    """By operation, schemas of its parameters in the path and of what it says; and types that are in these."""
    rows = [
        (operation.name, name, kind, name not in operation.parameters)
        for operation in operations
        for name, kind in {**_kinds(operation), **operation.parameter_types()}.items()
    ]
    found, components = schemas.said(kind for _, _, kind, _ in rows)
    by_name: dict[str, dict[str, Schema]] = {operation.name: {} for operation in operations}
    for (operation_name, name, _, _), schema in zip(rows, found, strict=True):
        by_name[operation_name][name] = schema
    return by_name, components


def _kinds(operation: Operation) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(Decoding(operation).said)}


def _described(operation: Operation, said: Mapping[str, Schema]) -> dict[str, Any]:
    fields = msgspec.structs.fields(Decoding(operation).said)
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": said[name]} for name in operation.parameters
    ]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "x-role": operation.role,
        "parameters": parameters,
        "responses": {"200": _answer(operation), "default": REFUSED},
    }
    if operation.has_query:
        parameters += [
            {"name": field.encode_name, "in": "query", "required": field.required, "schema": said[field.encode_name]}
            for field in fields
        ]
    elif fields:
        described["requestBody"] = _body(operation, fields, said)
    if operation.method != "GET":
        parameters.append(KEY)
    return described


def _body(
    operation: Operation, fields: Sequence[msgspec.structs.FieldInfo], said: Mapping[str, Schema]
) -> dict[str, Any]:
    schema: Schema = {
        "type": "object",
        "properties": {field.encode_name: said[field.encode_name] for field in fields},
        "required": [field.encode_name for field in fields if field.required],
        "additionalProperties": False,
    }
    if operation.whole:
        schema = said[operation.whole]
    content: dict[str, Any] = {JSON: {"schema": schema}}
    for media_type in operation.takes:
        content[media_type] = {"schema": {"type": "string", "description": "An object or a url a line."}}
    return {"required": bool(operation.whole or schema.get("required")), "content": content}


def _answer(operation: Operation) -> dict[str, Any]:
    schema: Schema = {"$ref": PLACE + operation.answers.__name__}
    content = {JSON: {"schema": PUSHED if LINES in operation.gives else schema}}
    for media_type in operation.gives:
        content[media_type] = {"schema": {"type": "string", "description": "An outcome a line."}}
    return {"description": operation.summary, "content": content}
