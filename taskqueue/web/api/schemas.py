"""JSON schemas (2020-12) of what is said and of what is answered, made of the types that decode and encode it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from taskqueue.protocol.base import Reply
from taskqueue.web.api.json_replies import AS_TEXT, ENVELOPE

Schema = dict[str, Any]

PLACE: Final = "#/components/schemas/"
SAID: Final = "said."
"""Before the names of types that requests have: there fields may be left out, in replies they never are."""

_FIELD: Final = re.compile(r"^ {4}(\w[\w, ]*): ", re.MULTILINE)
_ANCHORS: Final = (("\\A", "^"), ("\\Z", "$"))
"""Of regular expressions in Python, and in ECMAScript."""


def said(kinds: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Schemas of what requests say, and of the types that are in them, by name."""
    found, components = msgspec.json.schema_components(list(kinds), ref_template=PLACE + SAID + "{name}")
    named = {f"{SAID}{name}": each for name, each in components.items()}
    return [_changed(each) for each in found], {name: _changed(each) for name, each in named.items()}


def answered(kinds: Iterable[type[Struct]], paged: Collection[type[Struct]]) -> dict[str, Schema]:
    """Schemas of what is answered, and of the types that are in it, by name; ``paged``: there may be further pages.

    Not msgspec's: an answer has each field, whatever its default, and is an object where MessagePack has an array.
    """
    components: dict[str, Schema] = {}
    for kind in kinds:
        _of(inspect.type_info(kind), components)
    for kind in paged:
        components[kind.__name__]["properties"]["next"] = FOLLOWING
        components[kind.__name__]["required"] = list(components[kind.__name__]["properties"])
    return components


FOLLOWING: Final = {"type": ["string", "null"], "description": "Address of the next page; null: there is none."}

TEXT: Final = {"type": "string", "pattern": "^[0-9]+$"}
"""A number of up to 63 bits."""


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
    described = _described(info.cls)
    hidden = ENVELOPE if issubclass(info.cls, Reply) else ()
    properties = {
        field.encode_name: _field(info.cls, field, components) | _told(described.get(field.name, ""))
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


def _told(description: str) -> Schema:
    return {"description": description} if description else {}


def _described(kind: type) -> dict[str, str]:
    """What a docstring says of each attribute, and of the whole under an empty name."""
    whole, _, attributes = cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found = {"": " ".join(whole.split())}
    pieces = _FIELD.split(attributes)
    for names, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


def _changed(value: Any) -> Any:
    """With regular expressions of JSON schema, and without what is only for readers of the code."""
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
