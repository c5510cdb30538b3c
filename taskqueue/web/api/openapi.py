"""OpenAPI document (3.1) of the HTTP API, made from its table, with JSON schemas (2020-12).

Schemas of arguments and answers are made from the types that decode and encode them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.descriptions import COMMON, descriptions
from taskqueue.web.api.answering import AS_TEXT, ENVELOPE
from taskqueue.web.api.decoding import JSON, Decoding
from taskqueue.web.api.examples import body_example, example, reply_example
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.problems import MEDIA_TYPE
from taskqueue.web.api.pushing import LINES
from taskqueue.web.api.repeats import HEADER, KEY_CHARS

Schema = dict[str, Any]

PROBLEM: Final[Schema] = {
    "type": "object",
    "description": "Why a request was refused (RFC 9457).",
    "properties": {
        "type": {"type": "string", "description": "Always about:blank."},
        "title": {"type": "string", "description": "The status in words."},
        "status": {"type": "integer", "description": "HTTP status."},
        "detail": {"type": "string", "description": "One line for users."},
        "code": {"type": "string", "description": "Error code of the daemon or of this API, for programs."},
        "field": {"type": "string", "description": "Field that the problem is about, such as tasks[3].url."},
    },
    "required": ["type", "title", "status", "detail"],
}

KEY: Final[Schema] = {
    "name": HEADER,
    "in": "header",
    "description": "A repeat with the same key gets the same answer, and nothing is done twice.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS, "pattern": "^[ -~]+$"},
}

PLACE: Final = "#/components/schemas/"

REFUSED: Final[Schema] = {
    "description": "The request was refused.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": f"{PLACE}Problem"}}},
}

OUTCOME: Final[Schema] = {
    "type": "object",
    "description": "Outcome of a task.",
    "properties": {
        "outcome": {
            "enum": ["new", "merged", "replaced", "deferred", "restarted", "cancelled", "ignored", "rejected"],
            "description": "See the table of outcomes in docs/reference/rules.md.",
        },
        "field": {"type": "string", "description": "Wrong field of a rejected task."},
        "detail": {"type": "string", "description": "Reason for a rejected task."},
    },
    "required": ["outcome"],
}

PUSHED: Final[Schema] = {
    "anyOf": [
        {"$ref": f"{PLACE}Outcome"},
        {
            "type": "object",
            "properties": {
                "outcomes": {
                    "type": "array",
                    "items": {"$ref": f"{PLACE}Outcome"},
                    "description": "Outcomes of the tasks, in order.",
                }
            },
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
    answers = reply_schemas(
        [each.answers for each in operations], {each.answers for each in operations if each.further is not None}
    )
    schemas: dict[str, Schema] = {**components, **answers, "Problem": PROBLEM, "Outcome": OUTCOME}
    for operation in operations:
        _exemplify(operation, paths[operation.path][operation.method.lower()], schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "taskqueue",
            "version": "1",
            "summary": "Everything that taskqueue's command line can ask or do.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _said(operations: Sequence[Operation]) -> tuple[Mapping[str, Mapping[str, Schema]], dict[str, Schema]]:
    """Return schemas of path parameters and arguments by operation, and the types in them."""
    rows = [
        (operation.name, name, kind, name not in operation.parameters)
        for operation in operations
        for name, kind in {**_kinds(operation), **operation.parameter_types()}.items()
    ]
    found, components = request_schemas(kind for _, _, kind, _ in rows)
    by_name: dict[str, dict[str, Schema]] = {operation.name: {} for operation in operations}
    for (operation_name, name, _, _), schema in zip(rows, found, strict=True):
        by_name[operation_name][name] = schema
    return by_name, components


def _exemplify(operation: Operation, described: dict[str, Any], schemas: Mapping[str, Schema]) -> None:
    """Give an operation examples: of names in its path, of its body and of its answer."""
    for parameter in described["parameters"]:
        if parameter["in"] == "path":
            parameter["example"] = example(parameter["schema"], schemas, PLACE, parameter["name"])
    said = described.get("requestBody", {}).get("content", {}).get(JSON)
    if said is not None:
        said["example"] = body_example(operation) or example(said["schema"], schemas, PLACE)
    answer = described["responses"]["200"]["content"][JSON]
    answer["example"] = reply_example(operation) or example(answer["schema"], schemas, PLACE)


def _kinds(operation: Operation) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(Decoding(operation).said)}


def _described(operation: Operation, said: Mapping[str, Schema]) -> dict[str, Any]:
    fields = msgspec.structs.fields(Decoding(operation).said)
    meanings = _meanings(operation)
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": said[name]} | _description(meanings[name])
        for name in operation.parameters
    ]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "x-right": operation.right,
        "parameters": parameters,
        "responses": {"200": _answer(operation), "default": REFUSED},
    }
    if operation.has_query:
        parameters += [
            {"name": field.encode_name, "in": "query", "required": field.required, "schema": said[field.encode_name]}
            | _description(meanings[field.name])
            for field in fields
        ]
    elif fields:
        described["requestBody"] = _body(operation, fields, said)
    if operation.method != "GET":
        parameters.append(KEY)
    return described


def _meanings(operation: Operation) -> Mapping[str, str]:
    """Describe each field of its path, query or body."""
    kinds = [operation.asks] if operation.arguments is None else [operation.asks, operation.arguments]
    meanings = dict(COMMON)
    for kind in kinds:
        meanings |= descriptions(kind)
    return meanings


def _body(
    operation: Operation, fields: Sequence[msgspec.structs.FieldInfo], said: Mapping[str, Schema]
) -> dict[str, Any]:
    meanings = _meanings(operation)
    schema: Schema = {
        "type": "object",
        "properties": {
            field.encode_name: said[field.encode_name] | _description(meanings[field.name]) for field in fields
        },
        "required": [field.encode_name for field in fields if field.required],
        "additionalProperties": False,
    }
    if operation.whole:
        schema = said[operation.whole]
    content: dict[str, Any] = {JSON: {"schema": schema}}
    for media_type in operation.takes:
        content[media_type] = {"schema": {"type": "string", "description": "An object or a URL per line."}}
    return {"required": bool(operation.whole or schema.get("required")), "content": content}


def _answer(operation: Operation) -> dict[str, Any]:
    schema: Schema = {"$ref": PLACE + operation.answers.__name__}
    content = {JSON: {"schema": PUSHED if LINES in operation.gives else schema}}
    for media_type in operation.gives:
        content[media_type] = {"schema": {"type": "string", "description": "An outcome per line."}}
    return {"description": operation.summary, "content": content}


# -------------------------------------------------------------------------------------------------------------- schemas

SAID: Final = "said."
"""Prefix of type names in requests, where fields may be missing; replies always have all fields."""

_ANCHORS: Final = (("\\A", "^"), ("\\Z", "$"))
"""Anchors of regular expressions in Python, and in ECMAScript."""


def request_schemas(kinds: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Make schemas of arguments, and of the types in them, by name."""
    kinds = list(kinds)
    found, components = msgspec.json.schema_components(kinds, ref_template=PLACE + SAID + "{name}")
    meanings = {
        cls.__name__: {**COMMON, **descriptions(cls)} for kind in kinds for cls in _structs(inspect.type_info(kind))
    }
    for name, schema in components.items():
        for field, each in schema.get("properties", {}).items():
            schema["properties"][field] = each | _description(meanings[name].get(field, ""))
    named = {f"{SAID}{name}": _changed(each) for name, each in components.items()}
    return [_changed(each) for each in found], named


def _structs(info: Any) -> Iterator[type[Struct]]:
    """Yield the object types in a type, itself included."""
    if isinstance(info, inspect.StructType):
        yield info.cls
        parts = [field.type for field in info.fields]
    else:
        parts = [*getattr(info, "types", ()), *getattr(info, "item_types", ())]
        parts += [getattr(info, name) for name in ("type", "item_type", "value_type") if hasattr(info, name)]
    for part in parts:
        yield from _structs(part)


def reply_schemas(kinds: Iterable[type[Struct]], paged: Collection[type[Struct]]) -> dict[str, Schema]:
    """Make schemas of answers and of the types in them, by name; those in ``paged`` have further pages.

    msgspec's do not fit: an answer has all fields, whatever their defaults, and objects where MessagePack has arrays.
    """
    components: dict[str, Schema] = {}
    for kind in kinds:
        _of(inspect.type_info(kind), components)
    for kind in paged:
        components[kind.__name__]["properties"]["next"] = FOLLOWING
        components[kind.__name__]["required"] = list(components[kind.__name__]["properties"])
    return components


FOLLOWING: Final = {"type": ["string", "null"], "description": "Address of the next page; null on the last page."}

TEXT: Final = {"type": "string", "pattern": "^[0-9]+$"}
"""Schema of a number of up to 63 bits."""


def _of(info: Any, components: dict[str, Schema]) -> Schema:
    match info:
        case inspect.StructType():
            if info.cls.__name__ not in components:
                components[info.cls.__name__] = {}
                components[info.cls.__name__] |= _object(info, components)
            return {"$ref": PLACE + info.cls.__name__}
        case inspect.Metadata():
            return _of(info.type, components)
        case inspect.UnionType():
            return {"anyOf": [_of(each, components) for each in info.types]}
        case inspect.LiteralType():
            return {"enum": list(info.values)}
        case inspect.ListType() | inspect.VarTupleType():
            return {"type": "array", "items": _of(info.item_type, components)}
        case inspect.TupleType():
            return {"type": "array", "prefixItems": [_of(each, components) for each in info.item_types]}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _of(info.value_type, components)}
        case inspect.FloatType():
            return {"anyOf": [{"type": "number"}, {"const": "inf"}]}
    return dict(PLAIN.get(type(info), {}))


PLAIN: Final[Mapping[type, Schema]] = {
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.StrType: {"type": "string"},
}


def _object(info: inspect.StructType, components: dict[str, Schema]) -> Schema:
    described = {**COMMON, **descriptions(info.cls)}
    hidden = ENVELOPE if issubclass(info.cls, AnyReply) else ()
    properties = {
        field.encode_name: _field(info.cls, field, components) | _description(described.get(field.name, ""))
        for field in info.fields
        if field.name not in hidden
    }
    return {
        "type": "object",
        "description": described[""],
        "properties": properties,
        "required": list(properties),
    }


def _field(kind: type, field: inspect.Field, components: dict[str, Schema]) -> Schema:
    if (kind, field.name) not in AS_TEXT:
        return _of(field.type, components)
    several = isinstance(field.type, inspect.ListType)
    return {"type": "array", "items": TEXT} if several else dict(TEXT)


def _description(description: str) -> Schema:
    return {"description": description} if description else {}


def _changed(value: Any) -> Any:
    """Convert a schema's regular expressions, and drop parts of descriptions that are for readers of the code."""
    if isinstance(value, list):
        return [_changed(part) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _changed(part) for name, part in value.items()}
    if isinstance(pattern := changed.get("pattern"), str):
        for ours, theirs in _ANCHORS:
            pattern = pattern.replace(ours, theirs)
        changed["pattern"] = pattern
    if isinstance(description := changed.get("description"), str):
        changed["description"] = " ".join(description.partition("Attributes:")[0].split())
    return changed
