"""Option --json: the output of commands for programs.

A command that lists things prints an object per line, as they arrive; others print one object. Objects have all
fields of the daemon's messages under their names; fields are added over time, never renamed. Times are unix seconds,
infinite numbers are text, and parts of a task's body that JSON can't hold are ``{"$msgpack": "base64"}``. The output is
ASCII: control characters that a terminal would obey are escaped, such as ``\\u001b``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import click

from taskqueue.display.json_values import as_plain
from taskqueue.terminal.lines import say, say_lines
from taskqueue.texts.visible_text import visible

Command = TypeVar("Command", bound=Callable[..., object])


DELETE: Final = b"\x7f"


def json_option(command: Command) -> Command:
    """Add the option --json to a command that shows one object."""
    return click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")(command)


def json_lines_option(command: Command) -> Command:
    """Add the option --json to a command that lists objects."""
    return click.option("--json", "as_json", is_flag=True, help="For programs: a JSON object a line.")(command)


def print_object(value: object) -> None:
    """Print one object, indented."""
    say_lines(json.dumps(as_plain(value), indent=2))


def print_lines(values: Iterable[object]) -> None:
    """Print one object per line."""
    for value in values:
        say(json.dumps(as_plain(value)))


def visible_json(line: bytes) -> bytes:
    """Escape control characters in ``line``, one line of JSON in UTF-8."""
    if line.isascii() and DELETE not in line:
        return line
    text = line.decode()
    return line if text.isprintable() else "".join(map(_visible, text)).encode()


def _visible(char: str) -> str:
    # The only control character of ASCII that json does not escape.
    return char if visible(char) == char else visible(json.dumps(char)[1:-1])
