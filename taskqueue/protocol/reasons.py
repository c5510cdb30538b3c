"""Reasons of decoding errors: one line with a place.

    Expected `int`, got `str` - at `$.tasks[3].schedule.priority`      msgspec
    tasks[3].schedule.priority: expected int, got str                  reason

A reason also says what msgspec leaves out, if the type of the decoded value is given: the texts that a field takes, and
words for a pattern.

    Invalid enum value 'onyl' - at `$.on_parent_failure`
    on_parent_failure: 'onyl' is none of fail, only, run, wait; did you mean only?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import inspect

from taskqueue.errors import MAX_REASON_CHARS
from taskqueue.protocol.fields import WORDS
from taskqueue.texts.suggestions import MAX_CHARS, did_you_mean

_WORDS: Final = (
    ("`", ""),
    ("Object contains ", ""),
    ("Object missing ", "missing "),
    ("Expected object", "expected map"),
    ("got None", "got nil"),
    ("got object", "got map"),
    ("MessagePack data is ", ""),
    ("float <= 100000000000.0", "unix seconds of at most 1e11, not milliseconds"),
)
"""Replacements in msgspec's messages: words of MessagePack for words of Python, and no backticks."""

_WHERE: Final = re.compile(r" - at (?:`(key)` in )?`\$\.?([^`]*)`\Z")
_INDEX: Final = re.compile(r"\[(\d+|\.\.\.)\]")
_KEY: Final = "[key]"
"""End of the path of a map's keys."""
_REGEX: Final = "Expected `str` matching regex "
_ENUM: Final = "Invalid enum value "
"""Beginnings of msgspec's messages on a text that a type does not take; the text follows the second one in quotes."""

_WHOLE: Final = "message"


def reason_of(error: Exception, name: str = "", kind: Any = None) -> str:
    """Return the reason of a decoding error, with its place.

    Args:
        error: raised by the decoder.
        name: path of the decoded value in its message, such as ``tasks[3]``; empty: the message itself.
        kind: type of the decoded value; None if no field in it takes only certain texts.
    """
    said = _message(error)
    where = _WHERE.search(said.replace("$[...]", "$"))
    path, is_key = (where[2], bool(where[1])) if where else ("", False)
    taken = _taken(kind).get(_INDEX.sub("[]", path) + (_KEY if is_key else ""), ())
    what = _in_plain_words(_with_taken(said[: where.start()] if where else said, taken))
    key = "key: " if is_key else ""
    return f"{_join(name, path) or _WHOLE}: {key}{what}"[:MAX_REASON_CHARS]


def file_reason(error: Exception, kind: Any = None) -> str:
    """Return the reason why a file, or a line of it, can't be decoded; it has no place if all of it is wrong."""
    return reason_of(error, kind=kind).removeprefix(f"{_WHOLE}: ")


def _message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a string is not utf-8"
    return str(error)


def _join(name: str, field: str) -> str:
    return f"{name}.{field}" if name and field and not field.startswith("[") else name + field


def _with_taken(what: str, taken: Sequence[str]) -> str:
    """Say in msgspec's message which texts are taken; other messages, and those on unknown types, stay as they are."""
    if not taken:
        return what
    if what.startswith(_REGEX):
        return f"Expected {taken[0]}"
    if not what.startswith(_ENUM):
        return what
    said = what.removeprefix(_ENUM)
    maybe = did_you_mean(said[1:-1], taken)
    shown = said if len(said) <= MAX_CHARS else f"{said[:MAX_CHARS]}…"
    return f"{shown} is none of {', '.join(taken)}{maybe and '; '}{maybe}"


@lru_cache
def _taken(kind: Any) -> Mapping[str, tuple[str, ...]]:
    """Map paths of fields in a type, such as ``tasks[].state``, to the texts that they take, or to words for these."""
    found: dict[str, dict[str, None]] = {}
    for path, text in _texts_in("", inspect.type_info(kind)):
        found.setdefault(path.removeprefix("."), {})[text] = None
    return {path: tuple(texts) for path, texts in found.items()}


def _texts_in(path: str, kind: inspect.Type) -> Iterator[tuple[str, str]]:
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            if extra and WORDS in extra:
                yield path, extra[WORDS]
            yield from _texts_in(path, inner)
        case inspect.UnionType(types=kinds):
            for each in kinds:
                yield from _texts_in(path, each)
            if any(isinstance(each, inspect.IntType | inspect.FloatType) for each in kinds):
                yield path, "a number"
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            yield from _texts_in(f"{path}[]", inner)
        case inspect.DictType(key_type=key, value_type=inner):
            yield from _texts_in(f"{path}{_KEY}", key)
            yield from _texts_in(f"{path}[]", inner)
        case inspect.StructType(fields=fields, array_like=is_list):
            for field in fields:
                yield from _texts_in(f"{path}[]" if is_list else f"{path}.{field.encode_name}", field.type)
        case inspect.LiteralType(values=texts):
            yield from ((path, str(text)) for text in texts)


def _in_plain_words(said: str) -> str:
    """Reword msgspec's message: ``Object missing required field `url``` is ``missing required field url``."""
    for theirs, ours in _WORDS:
        said = said.replace(theirs, ours)
    return said if said[1:2].isupper() else said[:1].lower() + said[1:]
