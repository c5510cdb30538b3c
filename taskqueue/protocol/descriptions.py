"""Descriptions of messages and their fields, as the docstrings of their types have them.

Each is declared once, in the ``Attributes:`` of a type or in COMMON, and shown by docs/reference/messages.md and by the
OpenAPI document of HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Final

from msgspec import Struct

COMMON: Final[Mapping[str, str]] = {
    "project": "name of the project",
    "taskid": "id of the task in its project",
    "taskids": "ids of tasks in the project",
    "url": "what the task fetches",
    "group": "name of the group of projects",
    "flow": "name of the flow in its project",
    "slot": "name of the slot, such as a host",
    "fetcher": "name of the fetchers",
    "entry": "name of the cron entry in its project",
    "id": "id of the operation",
    "token": "token of the lease",
    "limit": "rows per page, at most",
    "more": "further rows follow the last one of this page",
    "new": "tasks that were new, or that run again",
    "selected": "tasks dispatched",
    "success": "attempts that succeeded",
    "failed": "tasks that failed for good",
    "retried": "failed attempts of tasks that had retries left",
    "timeout": "attempts that ran out of time; they also count as failed or retried",
    "v": "version of the protocol",
    "n": "number of the request",
}
"""Fields that mean the same wherever they are; what a docstring says comes first."""

_FIELD: Final = re.compile(r"^ {4}(\w[\w, ]*): ", re.MULTILINE)


def descriptions(kind: type, nil: str = "null") -> dict[str, str]:
    """Describe the fields of a type, those of its bases included, and the type itself under an empty name.

    Args:
        nil: word for Python's None in the notation of the reader.
    """
    bases = (base for base in kind.__bases__ if base is not Struct and issubclass(base, Struct))
    found = {name: text for base in bases for name, text in descriptions(base, nil).items()}
    whole, _, attributes = cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found[""] = _plain(whole, nil)
    pieces = _FIELD.split(attributes)
    for names, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found |= dict.fromkeys(names.split(", "), _plain(text, nil))
    return found


def _plain(text: str, nil: str) -> str:
    """The text in one line, in the words of JSON or of MessagePack."""
    for ours, theirs in ((r"\b(None|nil)\b", nil), (r"\bTrue\b", "true"), (r"\bFalse\b", "false"), ("``", "`")):
        text = re.sub(ours, theirs, text)
    return " ".join(text.split())
