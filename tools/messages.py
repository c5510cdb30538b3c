"""Generate docs/reference/messages.md: a section per message, from its type, its descriptions and its example.

    python -m tools.messages            write the page, as `make messages` does

A section has a sentence, a table of fields (types, bounds, defaults), and the example as JSON and in bytes. Values that
messages consist of come after the messages. Rules are written by hand, in docs/reference/protocol.md.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, Struct, inspect

from taskqueue.protocol import daemon, exports, fetchers, fields, flows, insight, operations, projects, slots, tasks
from taskqueue.protocol.base import ErrorReply, Reply, Request
from taskqueue.protocol.codec import encode
from taskqueue.protocol.descriptions import COMMON, descriptions
from taskqueue.protocol.examples import EXAMPLES
from taskqueue.protocol.fetchers import HelloWanted, Select
from taskqueue.protocol.messages import REPLY_TO, REQUESTS

PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "messages.md"
RULES: Final = (PAGE.parent / "protocol.md").read_text(encoding="utf-8")
WIDTH: Final = 110
"""Characters in a line of an example."""

NOUNS: Final = {
    "Tasks": tasks,
    "Projects and groups": projects,
    "Exports": exports,
    "Fetchers": fetchers,
    "Slots": slots,
    "Flows": flows,
    "Operations": operations,
    "What happened, and why": insight,
    "The daemon": daemon,
}
"""Headings of sections, and the modules of their messages."""

HEAD: Final = """\
# Messages

All messages of the [protocol](protocol.md), with their fields and an example of each as JSON and in bytes. This page
is made, by `make messages`, from the types that the daemon decodes and encodes.

| notation | MessagePack |
|---|---|
| text | str, valid UTF-8; bounds count characters |
| name | text of 1 to 64 ASCII letters, digits, `_`, `-` and `.`, but neither `.` nor `..` |
| taskid | text of 1 to 128 bytes |
| glob | text of at most 256 characters; `*`: any characters, `?`: any one, `[abc]`: one of these; case counts |
| int | any integer format, from 0 to 2^63 - 1 unless the table says otherwise |
| int32 | an integer from -2^31 to 2^31 - 1 |
| number | integer or float, not NaN; finite unless the description allows infinity |
| bool | true or false |
| any | any one value, which the daemon never reads |
| setting | nil, bool, integer, float, text, list or map with text keys |
| list, map | array, map |

A field without a default is required in a request and always present in a reply. Besides its own fields, each request
has `type`, `v`, `session` and `n`, and each reply `type`, `v` and `n`: see [envelope](protocol.md#envelope).
"""


class Reference:
    """Page in the making: values are listed as the messages name them."""

    def __init__(self) -> None:
        self._values: dict[type[Struct], None] = {}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the whole page."""
        yield HEAD
        shown: set[type] = set()
        for heading, noun in NOUNS.items():
            yield f"## {heading}\n"
            asked = [kind for kind in REQUESTS if kind.__module__ == noun.__name__]
            for kind in asked:
                yield from self._message(kind, Request)
            for kind in dict.fromkeys(REPLY_TO[each] for each in asked if REPLY_TO[each] not in shown):
                shown.add(kind)
                yield from self._message(kind, Reply)
        yield "## Messages that answer no request\n"
        yield from self._message(Select, None)
        yield from self._message(HelloWanted, None)
        yield "## Refusals\n"
        yield from self._message(ErrorReply, Reply)
        yield "## Values\n"
        yield from self._all_values()

    def _message(self, kind: type[Struct], base: type[Struct] | None) -> Iterator[str]:
        tag = tag_of(kind)
        yield f"### {tag}\n"
        said = descriptions(kind, "nil")[""]
        if kind in REPLY_TO:
            reply = tag_of(REPLY_TO[kind])
            said += f" Answered by [`{reply}`](#{reply})."
        if f"\n### {tag}\n" in RULES:
            said += f" [Rules](protocol.md#{tag})."
        yield f"{said}\n"
        yield from self._table(kind, () if base is None else base.__struct_fields__)
        yield from example_of(kind)

    def _all_values(self) -> Iterator[str]:
        shown: set[type[Struct]] = set()
        while left := [kind for kind in self._values if kind not in shown]:
            shown.add(left[0])
            yield from self._value(left[0])

    def _value(self, kind: type[Struct]) -> Iterator[str]:
        yield f"### {name_of(kind)}\n"
        is_list = kind.__struct_config__.array_like
        yield descriptions(kind, "nil")[""] + (" A list of these, in this order.\n" if is_list else "\n")
        yield from self._table(kind, ())

    def _table(self, kind: type[Struct], known: Iterable[str]) -> Iterator[str]:
        rows = [field for field in msgspec.structs.fields(kind) if field.name not in known]
        if not rows:
            yield "It has no fields of its own.\n"
            return
        told = {**COMMON, **descriptions(kind, "nil")}
        yield "| field | type | default | meaning |\n|---|---|---|---|"
        for field in rows:
            text = self._text(inspect.type_info(field.type))
            yield f"| `{field.encode_name}` | {text} | {default_of(field)} | {sentence(told.get(field.name, ''))} |"
        yield ""

    def _text(self, info: Any) -> str:
        """Format a type in the notation of the page."""
        match info:
            case inspect.Metadata():
                return str((info.extra or {}).get(fields.NOTATION) or self._text(info.type))
            case inspect.StructType():
                self._values.setdefault(info.cls)
                return f"[{name_of(info.cls)}](#{name_of(info.cls).lower()})"
            case inspect.UnionType():
                return self._union(info)
            case inspect.LiteralType():
                return ", ".join(f'`"{value}"`' for value in info.values)
            case inspect.ListType() | inspect.VarTupleType():
                return f"list of {self._text(without_nil(info.item_type))}{length(info, '')}"
            case inspect.TupleType():
                return f"list of {' and '.join(map(self._text, info.item_types))}"
            case inspect.DictType():
                return f"map of {self._text(info.key_type)} to {self._text(info.value_type)}"
            case inspect.StrType():
                return f"text{length(info, ' characters')}"
            case inspect.IntType():
                return f"int{bounds(info)}"
            case inspect.FloatType():
                return f"number{bounds(info)}"
        return PLAIN[type(info)]

    def _union(self, info: inspect.UnionType) -> str:
        if info == inspect.type_info(fields.Setting):
            return "setting"
        # nil comes last, as the exception.
        parts = [part for part in info.types if not isinstance(part, inspect.NoneType)]
        text = " or ".join(map(self._text, parts))
        if len(parts) == len(info.types):
            return text
        return f"{text}, or nil" if "," in text else f"{text} or nil"


PLAIN: Final[Mapping[type, str]] = {
    inspect.NoneType: "nil",
    inspect.BoolType: "bool",
    inspect.RawType: "any",
    inspect.AnyType: "any",
}


def tag_of(kind: type[Struct]) -> str:
    """Return the ``type`` of a message."""
    return str(kind.__struct_config__.tag)


def name_of(kind: type[Struct]) -> str:
    """Return the name of a value, the same for the twin that has results as MessagePack."""
    return kind.__name__.removeprefix("Packed")


def sentence(text: str) -> str:
    """Make a sentence of a description."""
    return text[:1].upper() + text[1:].removesuffix(".")


def without_nil(info: Any) -> Any:
    """Return the type of an item that a sender writes; nil stands for an item that could not be decoded."""
    if not isinstance(info, inspect.UnionType):
        return info
    parts = tuple(part for part in info.types if not isinstance(part, inspect.NoneType))
    return parts[0] if len(parts) == 1 else inspect.UnionType(parts)


def length(info: Any, unit: str) -> str:
    """Format the bounds of a text or a list."""
    match info.min_length, info.max_length:
        case None, None:
            return ""
        case None, most:
            return f", at most {most:,}{unit}"
        case least, most:
            return f", {least:,} to {most:,}{unit}"
    return ""


def bounds(info: inspect.IntType | inspect.FloatType) -> str:
    """Format the bounds of a number."""
    words = [
        f"{word} {figure(bound)}"
        for word, bound in (("above", info.gt), ("from", info.ge), ("below", info.lt), ("to", info.le))
        if bound is not None
    ]
    return f" {' '.join(words)}" if words else ""


def figure(bound: float) -> str:
    """Format a bound for readers: 10,000, 1e9, 2^63 - 1."""
    if bound in (2**63 - 1, 2**32 - 1):
        return f"2^{int(bound).bit_length()} - 1"
    if bound >= 1e7:
        return f"{bound:g}".replace("e+0", "e").replace("e+", "e")
    return f"{bound:,}".removesuffix(".0")


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """Format the default of a field; empty if the field is required."""
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if default is NODEFAULT:
        return ""
    if default is None or default is fields.NIL:
        return "nil"
    if isinstance(default, Struct):
        return "`{}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    return f"`{json.dumps(default)}`"


def example_of(kind: type[Struct]) -> Iterator[str]:
    """Yield the example of a message, as JSON and in bytes."""
    frame = encode(EXAMPLES[kind])
    yield f"```json\n{pretty(msgspec.msgpack.decode(frame))}\n```\n"
    octets = textwrap.fill(frame.hex(" "), 3 * 32)
    yield f"<details><summary>{len(frame)} bytes</summary>\n\n```text\n{octets}\n```\n\n</details>\n"


def pretty(value: Any, indent: int = 0) -> str:
    """Format JSON in lines of at most WIDTH characters, if it can be divided."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= WIDTH or not value or not isinstance(value, list | dict):
        return line
    deeper = indent + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {pretty(part, deeper + len(name) + 4)}" for name, part in value.items()]
    else:
        parts = [pretty(part, deeper) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inside = textwrap.indent(",\n".join(parts), "  ")
    return f"{opening}\n{inside}\n{closing}"


def page() -> str:
    """Generate the whole page."""
    return "\n".join(Reference().lines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
