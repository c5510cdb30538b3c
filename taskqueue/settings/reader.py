"""Reader of settings: one walk over a table that takes valid values and reports what is wrong with the rest.

    table ──read──► section, as a value
               └──► note(problem): path, what it must be, what it is not

Types say what a setting may be (``description``). A setting may be a table with a type of its own (``on_finished``), or
several by name (``cron``); then each problem names the innermost key. A type with ``ONE_OF`` needs exactly one of two
settings. ``where`` is the path to a section of the config file; empty if there is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from taskqueue.errors import Rejected
from taskqueue.settings.description import Description, described
from taskqueue.texts.suggestions import did_you_mean, there_are
from taskqueue.texts.units import parse_duration, parse_size

Section = TypeVar("Section", bound=Struct)

Note = Callable[[str], object]
"""Callback that receives a problem."""

Problem = Callable[[], str]
"""Function that describes a problem. Similar names take time to find, and a request may have thousands of unknown
names, of which only the first is described."""

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that need no quotes."""
SHOWN_CHARS: Final = 100


def read(where: str, table: Mapping[str, Any], kind: type[Section], note: Note) -> Section:
    """Read a section from the valid settings of a table; report problems of the rest in the order of its keys."""
    section, found = _read(where, table, kind)
    for problem in found:
        note(problem())
    return section


def _read(where: str, table: Mapping[str, Any], kind: type[Section]) -> tuple[Section, list[Problem]]:
    """Read a section from the valid settings of a table; return it with the problems of the rest."""
    known = described(kind)
    said: dict[str, Any] = {}
    found: dict[str, list[Problem]] = {}
    for key, value in table.items():
        setting = known.get(key)
        if setting is None:
            found[key] = [partial(unknown, where, key, kind)]
        elif isinstance(value, dict) and setting.form == "table":
            said[key], found[key] = _read_within(path(where, key), value, setting)
        else:
            said[key] = _plain(value, setting)
    section = _converted(said, kind)
    if section is None:
        for key in [key for key, value in said.items() if _converted({key: value}, kind) is None]:
            del said[key]
            found.setdefault(key, []).append(partial(_wrong, where, key, table[key], kind))
        section = msgspec.convert(said, kind)
    in_order = [problem for key in table for problem in found.get(key, ())]
    one_of = getattr(kind, "ONE_OF", ())
    if one_of and sum(bool(table.get(key)) for key in one_of) != 1:
        in_order.append(partial(_not_one, where, one_of))
    return section, in_order


def problems(where: str, table: Mapping[str, Any], kind: type[Struct]) -> list[str]:
    """List the problems of a section of this kind; ``where`` names it."""
    found: list[str] = []
    read(where, table, kind, found.append)
    return found


def convert(table: Mapping[str, Any], kind: type[Section]) -> Section:
    """Convert a table into a section.

    Raises:
        Rejected: with the code ``setting`` and the first problem.
    """
    return read("", table, kind, refuse)


def refuse(problem: str) -> None:
    """Reject settings at the first problem; usable as a ``Note``.

    Raises:
        Rejected: always; with the code ``setting``.
    """
    raise Rejected("setting", problem)


def unknown(where: str, key: str, kind: type[Struct]) -> str:
    """Describe an unknown key, and the setting that is probably meant."""
    said = f"{path(where, key)} is not a setting"
    for table, setting in described(kind).items():
        for inner in () if setting.section is None else setting.section.__struct_fields__:
            if key == f"{table}.{inner}":
                return f"{said}; it is {inner} in the table {table}"
            if key == f"{table}_{inner}":
                return f"{said}; did you mean {table}.{inner}?"
    return f"{said}; {there_are(key, kind.__struct_fields__)}"


def must_be(where: str, key: str, kind: type[Struct]) -> str:
    """Describe the valid values of a setting: ``advanced.turn_tasks must be a whole number``."""
    return f"{path(where, key)} must be {described(kind)[key].words}"


def path(where: str, key: object) -> str:
    """Return the path of a key in its section; a key that is not BARE is in quotes, as in the file."""
    name = key if isinstance(key, str) and BARE.fullmatch(key) else shown(key)
    return f"{where}.{name}" if where else name


SHOWN_DEPTH: Final = 4
"""Nesting depth of lists and tables that a message quotes."""


def shown(value: Any) -> str:
    """Format a value about as the config file has it, on one line, cut after SHOWN_CHARS."""
    text = _written(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …"


def _wrong(where: str, key: str, value: Any, kind: type[Struct]) -> str:
    """Describe an invalid value: ``advanced.turn_tasks must be a whole number, not "many"``."""
    setting = described(kind)[key]
    said = "" if setting.secret else f", not {shown(value)}"
    maybe = did_you_mean(value, setting.choices) if isinstance(value, str) else ""
    return f"{must_be(where, key, kind)}{said}{maybe and '; '}{maybe}"


def _read_within(where: str, table: dict[str, Any], setting: Description) -> tuple[Any, list[Problem]]:
    """Read a setting that is a table, or several by name; return it without its invalid parts, with their problems."""
    if setting.section is not None:
        return _read(where, table, setting.section)
    if setting.sections is None:
        return table, []
    strays = [(name, part) for name, part in table.items() if not isinstance(part, dict)]
    found: list[Problem] = [partial(_no_section, where, name, part) for name, part in strays]
    sections: dict[str, Any] = {}
    for name, part in table.items():
        if isinstance(part, dict):
            sections[name], its = _read(path(where, name), part, setting.sections)
            found += its
    return sections, found


def _not_one(where: str, names: Iterable[str]) -> str:
    return f"{where}: give one of {' and '.join(names)}"


def _no_section(where: str, name: str, value: Any) -> str:
    return f"{path(where, name)} must be a section, not {shown(value)}"


def _plain(value: Any, setting: Description) -> Any:
    """Convert sizes into bytes and durations into seconds; leave other values as they are."""
    if setting.alone and isinstance(value, str):
        return [value]
    if setting.items is not None and isinstance(value, list | tuple):
        return [_plain(part, setting.items) for part in value]
    if setting.endless and value == "inf":
        return inf
    if not setting.unit:
        return value
    if isinstance(value, str):
        number = parse_duration(value) if setting.unit == "seconds" else None
        number = parse_size(value) if setting.unit == "bytes" else number
        return value if number is None else number
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}s" if is_number and setting.unit == "text" else value


def _converted(said: Mapping[str, Any], kind: type[Section]) -> Section | None:
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError:
        return None


def _written(value: Any, depth: int = 0) -> str:
    """Format a value; what is nested deeper than SHOWN_DEPTH becomes an ellipsis: a peer may nest to any depth."""
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
