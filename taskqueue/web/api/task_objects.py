"""Tasks as the HTTP interface takes them: the same objects as lines of ``taskqueue push --file``, and urls alone.

Times are unix seconds, or text: a date with time and zone, a duration such as "5m". A body, or a part of one, that JSON
can't say is ``{"$msgpack": "base64"}``, as it is shown.
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
from taskqueue.protocol.fields import MAX_PARENTS, MAX_URL_CHARS, Priority, ProjectName, Retries, SlotName, TaskId
from taskqueue.protocol.packed_json import PACKED, as_msgpack
from taskqueue.protocol.values import NewTask
from taskqueue.web.api.problems import Problem, field_of

REASON_CHARS: Final = 400


Moment = float | str
Duration = float | str


class RecrawlBounds(Struct):
    """The shortest and the longest time between two runs.

    Attributes:
        min: duration between two runs, at least.
        max: duration between two runs, at most.
    """

    min: Duration
    max: Duration


class TaskObject(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A task as it is pushed; moments are unix seconds or ISO 8601 with a zone, durations seconds or such as "5m".

    Attributes:
        url: what the task fetches.
        taskid: of 128 bytes at most; by itself it is made of the url.
        fetch, process, save: sent along, as the body's map.
        body: sent along instead of that map.
        canonical: send the url in the one way that its page has.
        depends_on: what it waits for: taskids, or pairs of project and taskid.
        on_parent_failure: what becomes of it when one of these fails.
        schedule: the fields below may also stand there.
        priority: larger first.
        exetime: moment before which it must not run.
        delay: duration from its arrival before which it must not run; wins over exetime.
        retries: further attempts after a failure; else the project's setting.
        age: duration for which a success stays good.
        itag: another one than the stored one restarts a task that is over.
        auto_recrawl: with age: run it again each age.
        force_update: this schedule and body win over the stored ones.
        cancel: with force_update: end the task.
        timeout: duration that processing may take.
        expires_at: moment after which it is not worth running any more.
        slot: whose pace it keeps to.
        recrawl: run it again and again, at an interval that follows the changes of its page.
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


class PushedTasks(Struct, forbid_unknown_fields=True):
    """Tasks for a project.

    Attributes:
        tasks: a task, a url, or a list of these.
    """

    project: ProjectName
    tasks: TaskObject | str | list[TaskObject | str]


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
