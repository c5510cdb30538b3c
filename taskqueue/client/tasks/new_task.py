"""New tasks, as producers describe them: what the daemon would refuse is found where it was written.

The body that is sent is a map with those of ``fetch``, ``process`` and ``save`` that were given, or whatever ``body``
is. The daemon never looks into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

import msgspec
from msgspec import Raw

from taskqueue.client.tasks.identity import as_text, canonical_url, default_taskid
from taskqueue.client.tasks.push_options import (
    OPTIONS,
    PushOptions,
    check_options,
    explains_options,
    parents,
    recrawl_bounds,
    seconds,
    unix_seconds,
)
from taskqueue.protocol.checks import is_too_long, long_reason
from taskqueue.protocol.codec import reason_of
from taskqueue.protocol.fields import MAX_TASKID_BYTES, NIL, PLAIN, UNSAID, NewTask, Schedule

ENCODING: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding can raise."""
TOO_LARGE: Final = "expected an integer of at most 64 bits"
CULPRIT_DEPTH: Final = 10

WAITS: Final = frozenset({"depends_on", "on_parent_failure"})
"""Options that say what a task waits for."""

BODIES: Final = frozenset({"fetch", "process", "save", "body"})
"""Options that are sent along: parts of a body, or the body."""

SCHEDULES: Final = OPTIONS - WAITS - BODIES - {"taskid", "canonical"}
"""Options that say when and how often it runs."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[NewTask]] = msgspec.msgpack.Decoder(NewTask)


@explains_options
def new_task(url: str, *, project: str | None = None, **options: Unpack[PushOptions]) -> NewTask:
    """Describe a task, for ``push_many``, for ``done(new=...)`` and for handlers to return.

    Args:
        url: what to crawl; at most 8192 characters.
        project: another project than that of the call it is passed to.
        options: see below.

    Raises:
        ValueError: an argument is out of its range, or body and one of its parts are both given.
        TypeError: an argument is unknown, or of a type that it can't be, such as a body that can't be encoded as
            MessagePack.

    Each error names the argument, and where in it the trouble is.
    """
    if not options:
        return _checked(NewTask(default_taskid(url), url, PLAIN, NIL, project))
    if not OPTIONS.issuperset(options):
        check_options(options)
    fetch, taskid = options.get("fetch"), options.get("taskid")
    raw = NIL if BODIES.isdisjoint(options) else _packed_body(options)
    if options.get("canonical"):
        url = canonical_url(url)
    if taskid is None:
        taskid = default_taskid(url, fetch)
    task = NewTask(taskid, url, PLAIN if SCHEDULES.isdisjoint(options) else _schedule(options), raw, project)
    return _checked(task if WAITS.isdisjoint(options) else _waiting(task, options))


def _waiting(task: NewTask, said: PushOptions) -> NewTask:
    return msgspec.structs.replace(
        task, depends_on=parents(said.get("depends_on")), on_parent_failure=said.get("on_parent_failure", "fail")
    )


def _packed_body(said: PushOptions) -> Raw:
    fetch, process, save, body = said.get("fetch"), said.get("process"), said.get("save"), said.get("body")
    whole = body_of(fetch, process, save, body)
    return NIL if whole is None else packed(whole, {"fetch": fetch, "process": process, "save": save, "body": body})


def _schedule(said: PushOptions) -> Schedule:
    # Most tasks say none of these; a call for each would take as long as half of the schedule.
    exetime, expires_at = said.get("exetime"), said.get("expires_at")
    delay, age, timeout = said.get("delay"), said.get("age"), said.get("timeout")
    recrawl = said.get("recrawl")
    return Schedule(
        said.get("priority", 0),
        UNSAID if exetime is None else unix_seconds("exetime", exetime),
        None if delay is None else seconds("schedule.delay", delay),
        said.get("retries"),
        None if age is None else seconds("schedule.age", age),
        said.get("itag"),
        said.get("auto_recrawl", False),
        said.get("force_update", False),
        said.get("cancel", False),
        None if timeout is None else seconds("schedule.timeout", timeout),
        None if expires_at is None else unix_seconds("expires_at", expires_at),
        said.get("slot"),
        None if recrawl is None else recrawl_bounds(recrawl),
    )


def body_of(fetch: Any, process: Any, save: Any, body: Any) -> Any:
    """The body, or the map of the parts that were given; None if nothing was.

    Raises:
        ValueError: both were given.
    """
    parts = {"fetch": fetch, "process": process, "save": save}
    given = {name: part for name, part in parts.items() if part is not None}
    if body is not None and given:
        raise ValueError("body: give either body or fetch, process and save, not both")
    return given or body


def _checked(task: NewTask) -> NewTask:
    """The task, if the daemon would take it: a mistake shows where it was made, not in a batch of thousands."""
    as_text("url", task.url)
    if len(as_text("taskid", task.taskid).encode()) > MAX_TASKID_BYTES:
        raise ValueError(f"taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8")
    if task.schedule.itag is not None:
        as_text("schedule.itag", task.schedule.itag)
    if task.schedule.slot is not None:
        as_text("schedule.slot", task.schedule.slot)
    try:
        checked = _decoder.decode(_encoder.encode(task))
    except OverflowError:
        name, _ = _culprit("schedule", msgspec.structs.asdict(task.schedule))
        raise ValueError(f"{name}: {TOO_LARGE}") from None
    except ValueError as error:
        raise ValueError(reason_of(error)) from None
    for place, parent in enumerate(checked.depends_on):
        if is_too_long(parent if isinstance(parent, str) else parent.taskid):
            raise ValueError(long_reason(f"depends_on[{place}]"))
    return checked


def packed(value: Any, parts: Mapping[str, Any]) -> Raw:
    """A value as it is sent; ``parts`` are the arguments that it was made of.

    Raises:
        TypeError, ValueError: it can't be said in MessagePack; names the innermost argument, key or index.
    """
    try:
        return Raw(_encoder.encode(value))
    except ENCODING as error:
        name, culprit = _culprit("", parts)
        if isinstance(error, TypeError):
            raise TypeError(f"{name}: {type(culprit).__name__} can't be encoded as MessagePack") from None
        raise ValueError(f"{name}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    match error:
        case OverflowError():
            return TOO_LARGE
        case RecursionError():
            return "nested too deep"
        case UnicodeEncodeError():
            return f"{error.object!r} can't be written as utf-8"
    return str(error)


def _culprit(name: str, value: Any, depth: int = 0) -> tuple[str, Any]:
    """What in a value can't be encoded: its path, and itself; not deeper than anybody would read."""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        inner = [(f"{name}.{key}" if name else str(key), part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(f"{name}[{index}]", part) for index, part in enumerate(value)]
    for path, part in inner if depth < CULPRIT_DEPTH else ():
        try:
            _encoder.encode(part)
        except ENCODING:
            return _culprit(path, part, depth + 1)
    return name, value
