"""Why a frame could not be decoded, in one line: ``tasks[3].schedule.priority: expected int, got str``.

msgspec says it as ``Expected `int`, got `str` - at `$.tasks[3].schedule.priority```; the words change here.
"""

from __future__ import annotations

import re
from typing import Final

from taskqueue.errors import MAX_REASON_CHARS

MALFORMED: Final = (ValueError, RecursionError)
"""What decoding can raise: msgspec's errors and UnicodeDecodeError are ValueErrors; or deep nesting."""


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
"""MessagePack's words for Python's, and no ornaments."""

_WHERE = re.compile(r" - at (?:`(key)` in )?`\$\.?([^`]*)`\Z")


def reason_of(error: Exception, name: str = "") -> str:
    """What is wrong, and where.

    Args:
        error: raised by the decoder.
        name: path of the decoded value in its message, such as ``tasks[3]``; empty if it is the message.
    """
    said = _message(error)
    where = _WHERE.search(said.replace("$[...]", "$"))
    what = _in_plain_words(said[: where.start()] if where else said)
    field = _join(name, where[2] if where else "") or "message"
    kind = "key: " if where and where[1] else ""
    return f"{field}: {kind}{what}"[:MAX_REASON_CHARS]


def _message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a string is not utf-8"
    return str(error)


def _join(name: str, field: str) -> str:
    return f"{name}.{field}" if name and field and not field.startswith("[") else name + field


def _in_plain_words(said: str) -> str:
    """``Object missing required field `url``` as ``missing required field url``."""
    for theirs, ours in _WORDS:
        said = said.replace(theirs, ours)
    return said[:1].lower() + said[1:]
