"""Settings of a project as they are written on the command line: ``rate=5 burst=10 retry_delay=30,60``.

Only the form is checked here, strictly: which settings there are and which values are good, the daemon knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import click

from taskqueue.core.messages import Setting

LISTS = ("retry_delay",)
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf", re.ASCII)


def parse(words: Iterable[str]) -> dict[str, Setting]:
    """Settings by name.

    Raises:
        click.BadParameter: a word isn't name=value, or a name comes twice, or a value isn't made of numbers.
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
    """A number; a list of them for a setting that is a list, or where there is a comma."""
    if name in LISTS or "," in written:
        return [
            float(_number(part, f"{name} must be numbers with commas between them", written))
            for part in written.split(",")
        ]
    return _number(written, f"{name} must be a number", written)


def _number(part: str, rule: str, written: str) -> int | float:
    if not NUMBER.fullmatch(part):
        raise click.BadParameter(f'{rule}, not "{written}"')
    return int(part) if part.lstrip("+-").isdigit() else float(part)


def text(value: Setting) -> str:
    """A setting as ``parse`` reads it."""
    if isinstance(value, list | tuple):
        return ",".join(text(part) for part in value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def in_words(settings: Mapping[str, Setting]) -> str:
    """All of them in one line, in order."""
    return " ".join(f"{name}={text(value)}" for name, value in settings.items())
