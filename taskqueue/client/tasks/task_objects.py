"""Tasks as objects, as in JSON: lines of a file, and bodies of requests.

An object needs a ``url``; its other keys are the arguments of ``new_task``. Those that belong to the schedule may also
stand in an object ``schedule``, as on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from taskqueue.client.tasks.pushes import with_defaults
from taskqueue.protocol.values import Schedule
from taskqueue.texts.suggestions import there_are

Times = Mapping[str, Callable[[str], Any]]
"""Converters from a text to an argument of ``new_task``, by field; they raise ValueError for an invalid text."""

PARTS: Final = (
    "url", "taskid", "fetch", "process", "save", "body", "canonical", "depends_on", "on_parent_failure",
)  # fmt: skip
BODIES: Final = ("fetch", "process", "save", "body")
"""Fields with a task's content: parts, or one body instead."""
KEYS: Final = (*PARTS, "schedule", *Schedule.__struct_fields__)


class FieldError(ValueError):
    """A field of an object is invalid.

    Attributes:
        field: name of the field.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def completed(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Complete given arguments of ``new_task`` by the defaults that fit them."""
    return with_defaults(_fitting(defaults, said), said)


def _fitting(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the defaults without a body, or without its parts, if the line has the other of the two."""
    own = [name for name in BODIES if name in said]
    if not own:
        return defaults
    gone = BODIES if "body" in own else ("body",)
    return {name: value for name, value in defaults.items() if name not in gone}


def arguments(said: dict[str, Any], times: Times) -> dict[str, Any]:
    """Return the arguments of ``new_task`` in an object; its schedule is removed from it.

    Args:
        times: converters of fields that may be texts.

    Raises:
        FieldError: a field is unknown, given twice, or invalid; or there is no URL.
    """
    _know("a task", said, KEYS)
    schedule, fetch = said.pop("schedule", {}), {} if said.get("fetch") is None else said["fetch"]
    for name, part in (("schedule", schedule), ("fetch", fetch)):
        if not isinstance(part, dict):
            raise FieldError(name, f"{name} must be an object")
    _know("a schedule", schedule, Schedule.__struct_fields__)
    return _joined(schedule, said, times)


def _joined(schedule: dict[str, Any], said: dict[str, Any], times: Times) -> dict[str, Any]:
    if "url" not in said:
        raise FieldError("url", "there is no url")
    for key in schedule:
        if key in said:
            raise FieldError(key, f"{key} is given twice")
    joined = {**schedule, **said}
    texts = {name: said for name, said in joined.items() if name in times and isinstance(said, str)}
    return joined | {name: times[name](said) for name, said in texts.items()}


def _know(what: str, said: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in said:
        if key not in keys:
            raise FieldError(key, f"{key} is not a field of {what}; {there_are(key, keys)}")
