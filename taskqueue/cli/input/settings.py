"""Settings of a project as written on the command line: ``rate=5 retry_delay=30,60 group=shops``.

Only the form is checked here, strictly, by the type that each setting has in ``settings``: a number, a duration
such as ``30d``, durations with commas between them, true or false, a text, or a table in JSON. The daemon checks the
values.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import NoReturn

import click

from taskqueue.display.projects import flat_settings, is_empty_setting, setting_text
from taskqueue.protocol.fields import Setting
from taskqueue.settings import reader
from taskqueue.settings.description import described
from taskqueue.settings.settings import Settings
from taskqueue.units import parse_duration

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf", re.ASCII)
FLAGS = {"true": True, "false": False}
NONE = "null"
"""An absent table, as in JSON."""


def parse(words: Iterable[str]) -> dict[str, Setting]:
    """Settings by name.

    Raises:
        click.BadParameter: a word isn't name=value, or a name comes twice, or a value isn't written as its kind is.
    """
    settings: dict[str, Setting] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.BadParameter(f'"{word}" is not of the form name=value, such as rate=5')
        if name in settings:
            raise click.BadParameter(f"{name} is given twice")
        settings[name] = _value(name, value)
    return settings


def _value(name: str, written: str) -> Setting:
    setting = described(Settings).get(name)
    kind = setting and setting.form
    if setting is not None and written in setting.texts:
        return written
    if kind == "number":
        return _number(written, reader.must_be("", name, Settings), written)
    if kind == "duration":
        return _duration(written, reader.must_be("", name, Settings), written)
    if kind == "durations":
        rule = f"{name} must be durations with commas between them, such as 30s,5m,1h"
        return [_duration(part, rule, written) for part in written.split(",")]
    if kind == "flag":
        return _flag(name, written)
    if kind == "table":
        return _table(name, written)
    # Of a setting that is unknown here the daemon says which there are.
    return written


def _number(part: str, rule: str, written: str) -> int | float:
    if not NUMBER.fullmatch(part):
        raise click.BadParameter(f'{rule}, not "{written}"')
    return int(part) if part.lstrip("+-").isdigit() else float(part)


def _duration(part: str, rule: str, written: str) -> Setting:
    return _number(part, rule, written) if NUMBER.fullmatch(part) or parse_duration(part) is None else part


def _flag(name: str, written: str) -> bool:
    if written not in FLAGS:
        raise click.BadParameter(f'{reader.must_be("", name, Settings)}, not "{written}"')
    return FLAGS[written]


def _table(name: str, written: str) -> Setting:
    if written == NONE:
        return None
    table = json_of(name, written)
    if not isinstance(table, dict):
        raise click.BadParameter(f'{name} must be a JSON object, such as \'{name}={{"key": "value"}}\'')
    return table


def json_of(name: str, written: str) -> Setting:
    """A value written as JSON.

    Raises:
        click.BadParameter: it is none; the message begins with the name.
    """
    try:
        value: Setting = json.loads(written, parse_constant=_refuse)
    except ValueError as error:
        raise click.BadParameter(f"{name} is not JSON: {error}") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def changes(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> str:
    """What has changed, in one line: ``rate=5 (was 1), fetch.proxy removed (was a:1)``; quoted as a shell needs it.

    A setting that is not used, such as an empty text, counts as one that is not there.
    """
    old, new = (
        dict(said for said in flat_settings(settings) if not is_empty_setting(said[1])) for settings in (before, after)
    )
    names = [name for name in {**new, **old} if name not in old or name not in new or old[name] != new[name]]
    return ", ".join(_change(name, old, new) for name in names) or "nothing changed"


def _change(name: str, old: Mapping[str, Setting], new: Mapping[str, Setting]) -> str:
    now = shlex.quote(f"{name}={setting_text(new[name])}") if name in new else f"{name} removed"
    return f"{now} (was {setting_text(old[name])})" if name in old else now
