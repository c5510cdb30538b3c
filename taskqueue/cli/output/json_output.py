"""The option --json: what commands show people as tables and sentences, for programs.

A command that lists things prints an object a line, as it gets them; any other command one object. Each has every field
of the daemon's own views, under the names that messages have; fields are added over time, never renamed. Times are unix
seconds, infinite numbers are text, and what JSON can't hold of a task's body stands as ``{"$msgpack": "base64"}``. All
of it is ASCII: what a terminal would obey stands there as ``\\u001b`` or the like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from math import isinf
from typing import Any, Final, TypeVar

import click
import msgspec

from taskqueue.protocol.replies import Reply
from taskqueue.terminal.lines import say, say_lines
from taskqueue.visible_text import visible

Command = TypeVar("Command", bound=Callable[..., object])


DELETE: Final = b"\x7f"

ENVELOPE: Final = ("type", *Reply.__struct_fields__)


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
    """The same JSON with control characters escaped; ``line`` is one line of JSON in UTF-8."""
    if line.isascii() and DELETE not in line:
        return line
    text = line.decode()
    return line if text.isprintable() else "".join(map(_visible, text)).encode()


def _visible(char: str) -> str:
    # The one character of ASCII that json leaves as it is.
    return char if visible(char) == char else visible(json.dumps(char)[1:-1])


def without_envelope(reply: Reply) -> dict[str, Any]:
    """A reply as plain values, without the fields that every message has."""
    return {name: value for name, value in as_plain(reply).items() if name not in ENVELOPE}


def as_plain(value: object) -> Any:
    """A message as plain values for JSON: every field, in order."""
    if isinstance(value, msgspec.Struct):
        return {field.encode_name: as_plain(getattr(value, field.name)) for field in msgspec.structs.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(part) for part in value]
    if isinstance(value, msgspec.Raw):
        return _as_plain_body(value)
    return str(value) if isinstance(value, float) and isinf(value) else value


def _as_plain_body(packed: msgspec.Raw) -> Any:
    from taskqueue.store.tools.export_lines import ABSENT, as_json

    written = as_json(packed)
    return None if written == ABSENT else json.loads(bytes(written))
