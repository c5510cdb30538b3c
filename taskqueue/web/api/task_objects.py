"""Tasks as the HTTP API takes them: objects like lines of ``taskqueue push --file``, or URLs.

Times are unix seconds, or text: a date with time and zone, or a duration such as "5m". A body, or a part of one, that
JSON can't represent is ``{"$msgpack": "base64"}``, as in replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta, Raw, Struct
from msgspec.json import encode

from taskqueue.client.tasks.new_task import check_meant, new_task
from taskqueue.client.tasks.task_objects import BODIES, FieldError, Times, arguments
from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.fields import (
    MAX_PARENTS,
    MAX_URL_CHARS,
    JobName,
    Priority,
    ProjectName,
    Retries,
    SlotName,
    TaskId,
)
from taskqueue.protocol.packed_json import PACKED, as_msgpack
from taskqueue.protocol.values import NewTask
from taskqueue.web.api.problems import Problem, field_of

REASON_CHARS: Final = 400


Moment = float | str
Duration = float | str


class RecrawlBounds(Struct):
    """Shortest and longest time between two runs.

    Attributes:
        min: duration between two runs, at least.
        max: duration between two runs, at most.
    """

    min: Duration
    max: Duration


class TaskObject(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Task to push; moments are unix seconds or ISO 8601 with a zone, durations are seconds or texts such as "5m".

    Attributes:
        url: URL to fetch.
        taskid: up to 128 bytes; made from the URL by default.
        fetch, process, save: keys of the body, which is a map.
        body: body instead of that map.
        canonical: true to send the URL in its one canonical spelling.
        depends_on: parents: taskids, or pairs of project and taskid.
        on_parent_failure: what happens to the task if a parent fails; only: it runs only then, which needs parents.
        schedule: may contain the fields below.
        priority: larger first.
        exetime: moment before which it must not run.
        delay: duration from its arrival before which it must not run; overrides exetime.
        retries: further attempts after a failure; default: the project's setting.
        age: duration for which a success stays valid.
        itag: a value that differs from the stored one restarts a finished task.
        auto_recrawl: with age: run it again after each age.
        force_update: this schedule and body replace the stored ones.
        cancel: with force_update: cancel the task.
        timeout: duration that processing may take.
        expires_at: moment after which it need not run any more.
        slot: name of the slot whose pace applies.
        recrawl: run it again and again, at an interval that follows the changes of its page.
        repeat: with recrawl, or auto_recrawl and age: successes after which it runs again, at most.
        job: name of the run that it comes by; tasks that it leads to get it, too.
    """

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    taskid: TaskId | None = None
    fetch: dict[str, Any] | None = None
    process: Any = None
    save: Any = None
    body: Any = None
    canonical: bool = False
    depends_on: Annotated[list[str | list[str]], Meta(max_length=MAX_PARENTS)] = []
    on_parent_failure: ParentFailure = "fail"
    schedule: dict[str, Any] = {}
    priority: Priority = 0
    exetime: Moment | None = None
    delay: Duration | None = None
    retries: Retries | None = None
    age: Duration | None = None
    itag: Annotated[str, Meta(max_length=256)] | None = None
    auto_recrawl: bool = False
    force_update: bool = False
    cancel: bool = False
    timeout: Duration | None = None
    expires_at: Moment | None = None
    slot: SlotName | None = None
    recrawl: RecrawlBounds | None = None
    repeat: Retries | None = None
    job: JobName | None = None


class PushedTasks(Struct, forbid_unknown_fields=True):
    """Tasks for a project.

    Attributes:
        tasks: a task, a URL, or a list of these.
    """

    project: ProjectName
    tasks: TaskObject | str | list[TaskObject | str]


class Flaw(NamedTuple):
    """Reason why something is not a task."""

    field: str
    detail: str


def _moment(field: str, written: str) -> datetime:
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        raise FieldError(field, f"{field}: {written!r} is not a time, such as 2027-01-31T18:00:00+01:00") from None


TIMES: Final[Times] = {
    "exetime": lambda written: _moment("exetime", written),
    "expires_at": lambda written: _moment("expires_at", written),
}
"""Parsers of times; ``new_task`` itself parses durations."""


def task_of(item: Any) -> NewTask | Flaw:
    """Read the task that a JSON value describes, or what is wrong with it."""
    try:
        return _task(item)
    except FieldError as error:
        return Flaw(error.field, str(error)[:REASON_CHARS])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)[:REASON_CHARS]
        return Flaw(field_of(reason) or "url", reason)


def needed_task(name: str, item: Any) -> NewTask:
    """Read the task that a JSON value describes.

    Raises:
        Problem: it does not describe a task.
    """
    found = task_of(item)
    if isinstance(found, Flaw):
        raise Problem(400, f"{name}: {found.detail}", f"{name}.{found.field}", "malformed")
    return found


def _task(item: Any) -> NewTask:
    if isinstance(item, str):
        item = {"url": item}
    if not isinstance(item, Mapping):
        raise FieldError("task", f"expected a task or a URL, got {type(item).__name__}")
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
