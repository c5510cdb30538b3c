"""Settings of a project as written on the command line: ``rate=5 retry_delay=30,60 slot.delay=2 group=shops``.

Only the form is checked here, strictly, by the type that each setting has in ``settings``: a number, a duration
such as ``30d``, durations with commas between them, a text, or a table in JSON. The daemon checks the values.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import click
from msgspec import Struct

from taskqueue.display.projects import is_empty_setting, setting_text
from taskqueue.protocol.fields import Setting
from taskqueue.settings import reader
from taskqueue.settings.description import Description, described
from taskqueue.settings.flat_names import flat, keys_of
from taskqueue.settings.settings import Settings
from taskqueue.texts.units import parse_duration

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf", re.ASCII)
NONE = "null"
"""Written value of an absent table, as in JSON."""


def parse(words: Iterable[str]) -> dict[str, Setting]:
    """Parse settings into values by name; a key such as ``slot.delay=2`` is put into its table.

    Raises:
        click.BadParameter: a word isn't name=value, a name is repeated, or a value has the wrong form for its kind.
    """
    settings: dict[str, Setting] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.BadParameter(f'"{word}" is not of the form name=value, such as rate=5')
        if not _put(settings, keys_of(name), _read(keys_of(name), value, Settings)):
            raise click.BadParameter(f"{name} is given twice")
    return settings


def _put(table: dict[str, Setting], keys: Sequence[str], value: Setting) -> bool:
    """Add a setting; return False if it is present already, or if a parent key is not a table."""
    first, *rest = keys
    if not rest:
        return table.setdefault(first, value) is value
    inner = table.setdefault(first, {})
    return isinstance(inner, dict) and _put(inner, rest, value)


def _read(keys: Sequence[str], written: str, kind: type[Struct], where: str = "") -> Setting:
    """Parse a value by the types that its key may have; keys unknown here are left to the daemon to refuse."""
    first, *rest = keys
    setting = described(kind).get(first)
    if setting is None:
        return written
    if not rest:
        return _value(reader.path(where, first), setting, written)
    within = reader.path(where, first)
    if setting.section is not None:
        return _read(rest, written, setting.section, within)
    return _anything(written) if setting.sections is None else _table(reader.path(within, rest[0]), written)


def _value(name: str, setting: Description, written: str) -> Setting:
    rule = f"{name} must be {setting.words}"
    match setting.form:
        case _ if written in setting.texts:
            return written
        case "number":
            return _number(written, rule, written)
        case "duration":
            return _duration(written, rule, written)
        case "durations":
            rule = f"{name} must be durations with commas between them, such as 30s,5m,1h"
            return [_duration(part, rule, written) for part in written.split(",")]
        case "table":
            return _table(name, written)
        case "any":
            return _anything(written)
    return written


def _anything(written: str) -> Setting:
    """Parse a value of any type: JSON, or else the text itself."""
    try:
        return json_of("", written)
    except click.BadParameter:
        return written


def _number(part: str, rule: str, written: str) -> int | float:
    if not NUMBER.fullmatch(part):
        raise click.BadParameter(f'{rule}, not "{written}"')
    return int(part) if part.lstrip("+-").isdigit() else float(part)


def _duration(part: str, rule: str, written: str) -> Setting:
    return _number(part, rule, written) if NUMBER.fullmatch(part) or parse_duration(part) is None else part


def _table(name: str, written: str) -> Setting:
    if written == NONE:
        return None
    table = json_of(name, written)
    if not isinstance(table, dict):
        raise click.BadParameter(f'{name} must be a JSON object, such as \'{name}={{"key": "value"}}\'')
    return table


def json_of(name: str, written: str) -> Setting:
    """Parse a value written as JSON.

    Raises:
        click.BadParameter: it is invalid; the message begins with the name.
    """
    try:
        value: Setting = json.loads(written, parse_constant=_refuse)
    except ValueError as error:
        raise click.BadParameter(f"{name} is not JSON: {error}") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def changes(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> str:
    """Describe changes in one line: ``rate=5 (was 1), fetch.proxy removed (was a:1)``, quoted for a shell.

    An unused setting, such as an empty text, counts as absent.
    """
    old, new = (dict(said for said in flat(settings) if not is_empty_setting(said[1])) for settings in (before, after))
    names = [name for name in {**new, **old} if name not in old or name not in new or old[name] != new[name]]
    return ", ".join(_change(name, old, new) for name in names) or "nothing changed"


def _change(name: str, old: Mapping[str, Setting], new: Mapping[str, Setting]) -> str:
    now = shlex.quote(f"{name}={setting_text(new[name])}") if name in new else f"{name} removed"
    return f"{now} (was {setting_text(old[name])})" if name in old else now
