"""Examples of requests and answers for the OpenAPI document.

Bodies and answers that are messages of the protocol are those of ``taskqueue.protocol.examples``, as JSON of HTTP.
``BODIES`` has the bodies of operations with arguments of their own. Other examples are made of their schemas, field by
field: a field has the value that ``VALUES`` has for its name, if that fits, else the plainest value of its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from taskqueue.protocol.examples import EXAMPLES
from taskqueue.web.api.answering import json_of
from taskqueue.web.api.decoding import Decoding
from taskqueue.web.api.http_operation import Operation

Schema = Mapping[str, Any]

REF: Final = "$ref"

VALUES: Final[Mapping[str, Any]] = {
    "project": "news",
    "projects": "news",
    "name": "news",
    "group": "papers",
    "taskid": "a1b2c3",
    "taskids": "a1b2c3",
    "url": "https://example.com/page/2",
    "flow": "nightly",
    "slot": "example.com",
    "entry": "daily",
    "fetcher": "crawler1:4711",
    "id": "7340032",
    "token": "9007199254740993",
    "stale": "9007199254740993",
    "number": "7340033",
    "keys": "rate",
    "at": 1790000000.0,
    "lastcrawltime": 1790000000.0,
    "pushed_at": 1790000000.0,
    "began_at": 1790000000.0,
    "seconds": 10.0,
    "epoch": 7,
    "version": "1.0.0",
    "durability": "commit",
    "python": "3.11.2",
    "actor": "anna@web1",
    "address": "10.0.0.7",
    "what": "project set",
    "detail": "rate=5 (was 20)",
    "changed": "rate=5 (was 20)",
    "sentence": 'project "news" is running at its limit of 8/s',
    "error": "HTTP 503",
    "reason": "",
    "by": "host",
    "next": None,
}
"""Value by name of a field, for the field itself or the items of its list, if the schema allows it."""

DAILY: Final = {"cron": "0 3 * * *", "zone": "Europe/Berlin", "task": {"url": "https://example.com/"}}
LEASE: Final = {"project": "news", "taskid": "a1b2c3", "token": "9007199254740993"}

BODIES: Final[Mapping[str, Any]] = {
    "post-projects-project-tasks": {"url": "https://example.com/page/2", "priority": 5},
    "put-projects-project-cron-entry": DAILY,
    "post-projects-pause": {"seconds": 600},
    "post-groups-group-pause": {"seconds": 600},
    "post-projects-project-flows-flow-stage": {
        "tasks": [{"url": "https://example.com/1"}, {"url": "https://example.com/2", "depends_on": ["a1b2c3"]}]
    },
    "post-projects-project-import": {"export": "2f6bfcd0", "begin": {"parts": 20311, "settings": {"rate": 5}}},
    "post-leases": {"limit": 4, "projects": ["news"], "seconds": 30},
    "post-leases-done": {"tasks": [{**LEASE, "ok": True, "new": ["https://example.com/page/3"]}]},
    "post-leases-note": {"notes": [{**LEASE, "note": 0.25}]},
    "post-leases-extend": {"leases": [LEASE], "seconds": 600},
}
"""Body by name of an operation."""


def body_example(operation: Operation) -> Any:
    """The body of an operation, as in the protocol's example of its request; None if that says nothing of it."""
    if operation.name in BODIES:
        return BODIES[operation.name]
    if operation.arguments is not None:
        return None
    asked = EXAMPLES[operation.asks]
    if operation.whole:
        return json_of(getattr(asked, operation.whole))
    said = {field.name: field for field in msgspec.structs.fields(Decoding(operation).said)}
    values = {name: getattr(asked, name) for name in said}
    return {name: json_of(value) for name, value in values.items() if value != said[name].default}


def reply_example(operation: Operation) -> Any:
    """The answer of an operation, as in the protocol's example of its reply; None if HTTP has one of its own."""
    if operation.answers not in EXAMPLES or operation.gives:
        return None
    paged = {} if operation.further is None else {"next": None}
    return json_of(EXAMPLES[operation.answers]) | paged


def example(schema: Schema, components: Mapping[str, Schema], place: str, name: str = "") -> Any:
    """Make a value that the schema allows.

    Args:
        place: prefix of references to components.
        name: name of its field, or of the list that contains it; empty for the whole.
    """
    schema = _resolved(schema, components, place)
    if name in VALUES and _fits(VALUES[name], schema, components, place):
        return VALUES[name]
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    if "default" in schema and schema["default"] is not None:
        return schema["default"]
    if choices := schema.get("anyOf"):
        return example(choices[0], components, place, name)
    return _of_type(schema, components, place, name)


def _of_type(schema: Schema, components: Mapping[str, Schema], place: str, name: str) -> Any:
    match _types(schema):
        case ["object", *_]:
            needed = schema.get("required", ())
            return {each: example(schema["properties"][each], components, place, each) for each in needed}
        case ["array", *_]:
            parts = schema.get("prefixItems") or ([schema["items"]] if schema.get("items") else [])
            return [example(each, components, place, name) for each in parts]
        case ["string", *_]:
            return "1" if "pattern" in schema else ""
        case ["boolean", *_]:
            return False
        case ["integer" | "number", *_]:
            return max(0, schema.get("minimum", 0))
    return None


def _fits(value: Any, schema: Schema, components: Mapping[str, Schema], place: str) -> bool:
    schema = _resolved(schema, components, place)
    if "anyOf" in schema:
        return any(_fits(value, each, components, place) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {str: "string", float: "number", int: "integer", type(None): "null"}
    return kinds[type(value)] in _types(schema)


def _resolved(schema: Schema, components: Mapping[str, Schema], place: str) -> Schema:
    return components[schema[REF].removeprefix(place)] if REF in schema else schema


def _types(schema: Schema) -> list[str]:
    kind = schema.get("type", ())
    return [kind] if isinstance(kind, str) else list(kind)
