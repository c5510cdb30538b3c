"""Descriptions of the settings of a section, derived from their types, for all checks and explanations.

So message and check can't disagree: ``Annotated[float, Meta(ge=0)]`` is "a number of at least 0 or inf", because a
number without an upper bound may be inf. A size is a whole number of bytes or a text such as "8 MiB", a duration a
number of seconds or a text such as "30d" (both: ``units``). The text "inf" may stand for inf, because JSON lacks the
number. ``Meta(extra={"words": ..., "secret": True})`` overrides the words and keeps the value out of messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct, inspect

from taskqueue.texts.units import size_text

SIZE: Final = {"unit": "bytes"}
"""Marks a size: ``Meta(extra=SIZE)``."""

DURATION: Final = {"unit": "seconds"}
"""Marks a duration that may be a text (``units``): ``Meta(extra=DURATION)``."""

DURATION_SAID: Final = {"unit": "text", "words": 'a duration such as "90s", "5m" or "12h", or a number of seconds'}
"""Marks a duration that is kept as text; a number becomes one: ``Meta(extra=DURATION_SAID)``."""

ALONE: Final = {"alone": True}
"""Marks a list of texts of which a single one may be written without brackets: ``Meta(extra=ALONE)``."""

Form = Literal["number", "duration", "durations", "flag", "text", "table", "any"]
"""Form in which a setting is written on a command line."""


class Description(NamedTuple):
    """Description of a setting's valid values.

    Attributes:
        words: for messages: it must be …
        unit: ``bytes`` for a size; ``seconds`` or ``text`` for a duration, see above.
        secret: True if messages must not show the value.
        endless: True if a number or duration has no upper bound and may be inf.
        texts: texts that may stand instead of a number or duration, such as "auto".
        items: description of the items of a list.
        alone: True if a text may stand for a list of it alone.
        choices: texts of which it is one; empty if it may be another, too.
        section: type of a table that has a type of its own.
        sections: type of each table in a table of tables by name.
    """

    words: str
    form: Form
    unit: str = ""
    secret: bool = False
    endless: bool = False
    texts: tuple[str, ...] = ()
    items: Description | None = None
    alone: bool = False
    choices: tuple[str, ...] = ()
    section: type[Struct] | None = None
    sections: type[Struct] | None = None


@lru_cache
def described(kind: type[Struct]) -> Mapping[str, Description]:
    """Describe the settings of a section, by name; cached, because it takes a millisecond."""
    return {field.name: _describe(inspect.type_info(field.type)) for field in msgspec.structs.fields(kind)}


def _describe(kind: inspect.Type) -> Description:
    match kind:
        case inspect.Metadata(type=inner, extra=dict(extra)):
            return _marked(_describe(inner), inner, extra)
        case inspect.UnionType():  # may also be absent
            first, *others = (each for each in kind.types if not isinstance(each, inspect.NoneType))
            return _or_texts(_describe(first), others)
        case inspect.FloatType():
            endless = kind.le is None
            words = f"a number{_range(kind, _number)}{' or inf' if endless else ''}"
            return Description(words, "number", endless=endless)
        case inspect.IntType():
            return Description(f"a whole number{_range(kind, _number)}", "number")
        case inspect.BoolType():
            return Description("true or false", "flag")
        case inspect.LiteralType():
            choices = tuple(map(str, kind.values))
            return Description("one of " + ", ".join(map(json.dumps, choices)), "text", choices=choices)
        case inspect.StructType():
            return Description("a section", "table", section=kind.cls)
        case inspect.DictType():
            each = kind.value_type
            return Description(
                "a section", "table", sections=each.cls if isinstance(each, inspect.StructType) else None
            )
        case inspect.VarTupleType():
            items = _describe(kind.item_type)
            words = f"a list of {kind.min_length} to {kind.max_length} items, each {items.words}"
            return Description(words, "durations" if items.unit else "text", items=items)
        case inspect.AnyType():
            return Description("any value", "any")
        case inspect.StrType(max_length=int(most)):
            return Description(f"a text of at most {most:_} characters", "text")
    return Description("a text", "text")


def _or_texts(plain: Description, others: Sequence[inspect.Type]) -> Description:
    texts = [str(value) for each in others if isinstance(each, inspect.LiteralType) for value in each.values]
    return plain._replace(words=", or ".join([plain.words, *map(json.dumps, texts)]), texts=tuple(texts))


def _marked(plain: Description, kind: inspect.Type, extra: Mapping[str, object]) -> Description:
    """Add to a description what ``Meta(extra=…)`` says of the setting."""
    unit, words, form = str(extra.get("unit", "")), str(extra.get("words", plain.words)), plain.form
    if unit == "bytes" and isinstance(kind, inspect.IntType):
        words = f'a size such as "8 MiB"{_range(kind, size_text)}'
    elif unit == "seconds" and isinstance(kind, inspect.FloatType):
        number = f"a number of seconds{_range(kind, _number)}"
        words = f'a duration such as "90s" or "12h", {number if plain.endless else f"or {number}"}'
        words, form = f"{words}, or inf" if plain.endless else words, "duration"
    return plain._replace(words=words, form=form, unit=unit, secret="secret" in extra, alone="alone" in extra)


def _range(kind: inspect.IntType | inspect.FloatType, shown: Callable[[float], str]) -> str:
    bounds = (("at least", kind.ge), ("more than", kind.gt), ("at most", kind.le))
    said = " and ".join(f"{words} {shown(bound)}" for words, bound in bounds if bound is not None)
    return f" of {said}" if said else ""


def _number(bound: float) -> str:
    return f"{bound:,.0f}".replace(",", "_") if float(bound).is_integer() else str(bound)
