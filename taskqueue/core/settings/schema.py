"""Settings as types: from a setting's type alone it is checked and explained, wherever it was said.

So the message and the check can't disagree: ``Annotated[float, Meta(ge=0)]`` is "a number of at least 0 or
inf", because a number without an upper bound may be inf. A size is a whole number of bytes or a text such as
"8 MiB", a duration a number of seconds or a text such as "30d" (both: ``units``). ``Meta(extra={"words": ...,
"secret": True})`` gives the words itself and keeps the value out of the line.

A setting may be a table of a type of its own (``on_finished``), or of several by name (``cron``); then each line names
the innermost key. ``where`` is the path to a setting: a section of the config file; empty: it stands alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, inspect

from taskqueue.units import parse_duration, parse_size, size_text

Section = TypeVar("Section", bound=Struct)

SIZE: Final = {"unit": "bytes"}
"""``Meta(extra=SIZE)`` marks a size."""

DURATION: Final = {"unit": "seconds"}
"""``Meta(extra=DURATION)`` marks a duration that may be said as a text, too (``units``)."""

DURATION_SAID: Final = {"words": 'a duration such as "90s", "5m" or "12h", or a number of seconds'}
"""``Meta(extra=DURATION_SAID)`` marks a duration that stays the text that says it; of a number one is made."""

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that need no quotes."""
SHOWN_CHARS: Final = 100


def problems(where: str, table: Mapping[str, Any], kind: type[Struct]) -> Iterator[str]:
    """What is wrong with a section of this kind; ``where`` names it."""
    for key, value in table.items():
        if key not in kind.__struct_fields__:
            yield unknown(where, key, kind)
        else:
            yield from setting_problems(where, key, value, kind)


def setting_problems(where: str, key: str, value: Any, kind: type[Struct]) -> Iterator[str]:
    """What is wrong with one setting that such a section has."""
    within = _table(_type(key, kind))
    if isinstance(within, inspect.StructType) and isinstance(value, dict):
        yield from problems(path(where, key), value, within.cls)
    elif (named := _named(within)) is not None and isinstance(value, dict):
        yield from _named_problems(path(where, key), value, named)
    elif not _converts(key, value, kind):
        yield wrong(where, key, value, kind)


def convert(table: Mapping[str, Any], kind: type[Section]) -> Section:
    """A section without problems, as a value."""
    return msgspec.convert(_plain_table(table, kind), kind)


def unknown(where: str, key: str, kind: type[Struct]) -> str:
    """The line for a key that there isn't."""
    return f"{path(where, key)} is not a setting; {there_are(key, kind.__struct_fields__)}"


def there_are(name: str, known: Sequence[str]) -> str:
    """What to say of a name that is none of those known: the one that is most like it, and all."""
    alike = get_close_matches(name, known, 1)
    return f"did you mean {alike[0]}? There are {', '.join(known)}" if alike else f"there are {', '.join(known)}"


def wrong(where: str, key: str, value: Any, kind: type[Struct]) -> str:
    """The line for a value that can't be used: ``limits.turn_tasks must be a whole number, not "many"``."""
    wanted = _type(key, kind)
    said = "" if _is_secret(wanted) else f", not {shown(value)}"
    return f"{must_be(where, key, kind)}{said}"


def must_be(where: str, key: str, kind: type[Struct]) -> str:
    """The line without the value."""
    return f"{path(where, key)} must be {_words(_type(key, kind))}"


def path(where: str, key: object) -> str:
    """The key in its section; in quotes if it could be taken for more than one, as in the file."""
    name = key if isinstance(key, str) and BARE.fullmatch(key) else shown(key)
    return f"{where}.{name}" if where else name


SHOWN_DEPTH: Final = 4
"""Of lists and tables in one another that a message quotes."""


def shown(value: Any) -> str:
    """As the file has it, near enough, on one line."""
    text = _written(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …"


def sound(table: Mapping[str, Any], kind: type[Section]) -> Section:
    """What of a table can be used, as a value; the rest is left out."""
    return convert(dict(pair for key, value in table.items() for pair in _usable(key, value, kind)), kind)


def _named_problems(where: str, tables: Mapping[str, Any], kind: type[Struct]) -> Iterator[str]:
    for name, table in tables.items():
        if isinstance(table, dict):
            yield from problems(path(where, name), table, kind)
        else:
            yield f"{path(where, name)} must be a section, not {shown(table)}"


def _usable(key: str, value: Any, kind: type[Struct]) -> Iterator[tuple[str, Any]]:
    if key not in kind.__struct_fields__:
        return
    within = _table(_type(key, kind))
    if isinstance(within, inspect.StructType) and isinstance(value, dict):
        yield key, sound(value, within.cls)
    elif (named := _named(within)) is not None and isinstance(value, dict):
        yield key, {name: sound(table, named) for name, table in value.items() if isinstance(table, dict)}
    elif _converts(key, value, kind):
        yield key, value


def _table(kind: inspect.Type) -> inspect.StructType | inspect.DictType | None:
    """The table that a setting is, if it is one, whether or not it may also be absent."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next((each for each in kinds if isinstance(each, inspect.StructType | inspect.DictType)), None)


def _named(kind: inspect.Type | None) -> type[Struct] | None:
    """What there is several of, by name, in a setting that is a table of tables."""
    if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.StructType):
        return kind.value_type.cls
    return None


def _converts(key: str, value: Any, kind: type[Struct]) -> bool:
    try:
        convert({key: value}, kind)
    except msgspec.ValidationError:
        return False
    return True


def _plain_table(table: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """A section with sizes in bytes and durations in seconds; everything else, and what is none of these, as it is."""
    types = _types(kind)
    return {key: _plain(value, types[key]) if key in types else value for key, value in table.items()}


def _plain(value: Any, kind: inspect.Type) -> Any:
    if isinstance(value, str):
        return _number_said(value, _present(kind))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value}s" if isinstance(kind, inspect.Metadata) and kind.extra == DURATION_SAID else value
    if isinstance(value, dict):
        within = _table(kind)
        if isinstance(within, inspect.StructType):
            return _plain_table(value, within.cls)
        if (named := _named(within)) is not None:
            return {key: _plain_table(part, named) if isinstance(part, dict) else part for key, part in value.items()}
    elif isinstance(value, list | tuple) and (items := _items(kind)) is not None:
        return [_plain(part, items) for part in value]
    return value


def _number_said(text: str, kind: inspect.Type) -> Any:
    """The number that a text says; the text, if it says none or is to stay one."""
    if _is_duration(kind):
        seconds = parse_duration(text)
        return text if seconds is None else seconds
    size = parse_size(text) if _is_size(kind) else None
    return text if size is None else size


def _present(kind: inspect.Type) -> inspect.Type:
    """What a setting is if it is not absent."""
    if isinstance(kind, inspect.UnionType):
        return next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    return kind


def _items(kind: inspect.Type) -> inspect.Type | None:
    """Of a setting that is a list."""
    inner = kind.type if isinstance(kind, inspect.Metadata) else kind
    return inner.item_type if isinstance(inner, inspect.VarTupleType) else None


def _type(key: str, kind: type[Struct]) -> inspect.Type:
    return _types(kind)[key]


@lru_cache
def _types(kind: type[Struct]) -> dict[str, inspect.Type]:
    """Of each setting; to find them out takes a millisecond, too long for each of ten thousand projects."""
    return {field.name: inspect.type_info(field.type) for field in msgspec.structs.fields(kind)}


def _is_size(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.Metadata) and kind.extra == SIZE


def is_number(key: str, kind: type[Struct]) -> bool:
    """Such a section has a setting of that name, and it is a number."""
    described = _types(kind).get(key)
    inner = described.type if isinstance(described, inspect.Metadata) else described
    return isinstance(inner, inspect.IntType | inspect.FloatType)


def is_duration(key: str, kind: type[Struct]) -> bool:
    """The setting of that name, which such a section has, may be said as a text such as "30d"."""
    return _is_duration(_type(key, kind))


def are_durations(key: str, kind: type[Struct]) -> bool:
    """It is a list of such."""
    items = _items(_type(key, kind))
    return items is not None and _is_duration(items)


def _is_duration(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.Metadata) and kind.extra == DURATION


def _is_secret(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.Metadata) and "secret" in (kind.extra or {})


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(type=inspect.IntType() as number) if _is_size(kind):
            return f'a size such as "8 MiB"{_range(number, size_text)}'
        case inspect.Metadata(type=inspect.FloatType() as number) if _is_duration(kind):
            seconds, inf = f"a number of seconds{_range(number, _number)}", ", or inf" if number.le is None else ""
            return f'a duration such as "90s" or "12h", {"" if inf else "or "}{seconds}{inf}'
        case inspect.Metadata(extra={"words": str(words)}):
            return words
        case inspect.FloatType():
            return f"a number{_range(kind, _number)}" + (" or inf" if kind.le is None else "")
        case inspect.IntType():
            return f"a whole number{_range(kind, _number)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return "one of " + ", ".join(f'"{value}"' for value in kind.values)
        case inspect.UnionType():
            return _words(_present(kind))
        case inspect.StructType() | inspect.DictType():
            return "a section"
        case inspect.StrType(max_length=int(most)):
            return f"a text of at most {most:_} characters"
        case inspect.VarTupleType():
            return f"a list of {kind.min_length} to {kind.max_length} items, each {_words(kind.item_type)}"
    return "a text"


def _range(kind: inspect.IntType | inspect.FloatType, shown: Callable[[float], str]) -> str:
    bounds = (("at least", kind.ge), ("more than", kind.gt), ("at most", kind.le))
    said = " and ".join(f"{words} {shown(bound)}" for words, bound in bounds if bound is not None)
    return f" of {said}" if said else ""


def _number(bound: float) -> str:
    return f"{bound:,.0f}".replace(",", "_") if float(bound).is_integer() else str(bound)


def _written(value: Any, depth: int = 0) -> str:
    """What lies deeper than anybody would read is an ellipsis: a peer may nest as deep as it likes."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple() | dict() if depth == SHOWN_DEPTH:
            return "…"
        case list() | tuple():
            return f"[{', '.join(_written(part, depth + 1) for part in value)}]"
        case dict():
            pairs = (f"{path('', str(key))} = {_written(part, depth + 1)}" for key, part in value.items())
            return "{" + ", ".join(pairs) + "}"
        case None:
            return "null"
    return str(value)
