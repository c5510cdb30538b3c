"""Tasks as the HTTP interface takes them: the same objects as lines of ``taskqueue push --file``, and urls alone.

Times are unix seconds, or text: a date with time and zone, a duration such as "5m". A body, or a part of one, that JSON
can't say is ``{"$msgpack": "base64"}``, as it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Raw
from msgspec.json import encode

from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.task_objects import BODIES, FieldError, Times, arguments
from taskqueue.client.tasks.url_rules import check_meant
from taskqueue.protocol.fields import NewTask
from taskqueue.protocol.packed_json import PACKED, as_msgpack
from taskqueue.web.api.problems import Problem, field_of

REASON_CHARS: Final = 400


class Flaw(NamedTuple):
    """Why something is no task."""

    field: str
    detail: str


def _moment(field: str, written: str) -> datetime:
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        raise FieldError(field, f"{field}: {written!r} is no time, such as 2027-01-31T18:00:00+01:00") from None


TIMES: Final[Times] = {
    "exetime": lambda written: _moment("exetime", written),
    "expires_at": lambda written: _moment("expires_at", written),
}
"""Durations as text are taken by ``new_task`` itself."""


def task_of(item: Any) -> NewTask | Flaw:
    """The task that a value of JSON stands for, or why it is none."""
    try:
        return _task(item)
    except FieldError as error:
        return Flaw(error.field, str(error)[:REASON_CHARS])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)[:REASON_CHARS]
        return Flaw(field_of(reason) or "url", reason)


def needed_task(name: str, item: Any) -> NewTask:
    """The task that a value of JSON stands for.

    Raises:
        Problem: it stands for none.
    """
    found = task_of(item)
    if isinstance(found, Flaw):
        raise Problem(400, f"{name}: {found.detail}", f"{name}.{found.field}", "malformed")
    return found


def _task(item: Any) -> NewTask:
    if isinstance(item, str):
        item = {"url": item}
    if not isinstance(item, Mapping):
        raise FieldError("task", f"expected a task or a url, got {type(item).__name__}")
    said = arguments(dict(item), TIMES)
    check_meant(said["url"])
    for name in BODIES:
        if isinstance(said.get(name), dict) and said[name].keys() == {PACKED}:
            said[name] = _packed(name, said[name])
    return new_task(**said)


def _packed(name: str, value: Mapping[str, Any]) -> Raw:
    try:
        return as_msgpack(Raw(encode(value)))
    except (ValueError, OverflowError) as error:
        raise FieldError(name, f"{name}: {error}") from None
