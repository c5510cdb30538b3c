"""Options of a task that is pushed, typed and explained once for all functions that take them.

``push``, ``new_task`` and functions around them take these keywords as ``**options: Unpack[PushOptions]`` (PEP 692), so
editors and type checkers see each with its type; ``explains_options`` appends the explanations to a docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, TypeVar

from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.values import Recrawl, TaskOf
from taskqueue.texts.suggestions import there_are
from taskqueue.texts.units import EXAMPLES, parse_duration

Moment = float | datetime
"""Unix seconds, or an aware datetime."""
Duration = float | str | timedelta
"""Seconds, a text such as "90s", "5m" or "30d", or a timedelta."""

Taking = TypeVar("Taking", bound=Callable[..., object])


class RecrawlBounds(TypedDict):
    """Shortest and longest interval between two runs of a task: seconds, or a text such as "12h"."""

    min: Duration
    max: Duration


class PushOptions(TypedDict, total=False):
    """Keywords of a push, all optional.

    Options:
        taskid: identity of the task in its project, 1 to 128 bytes; None: ``taskqueue.default_taskid`` of the URL.
        fetch, process, save: parts of the body, sent along unchanged as a map; any MessagePack-able values.
        body: sent along instead of that map.
        priority: larger first, 32 bits; 0 by default.
        exetime: unix seconds, or an aware datetime, before which the task must not run; None: any time.
        delay: time from the task's arrival at the daemon before which it must not run: seconds, a text such as "5m", or
            a timedelta; overrides exetime.
        retries: further attempts after a failure; None: the project's setting.
        age: time for which a success stays good: seconds, or such a text or timedelta; None: for ever.
        itag: a value that differs from the stored one restarts a finished task.
        auto_recrawl: run the task again each age, which must be given, too.
        force_update: this schedule and body replace the stored ones.
        cancel: with force_update: cancel the task.
        timeout: time that processing may take: seconds, or such a text or timedelta; None: the project's
            processing_timeout.
        expires_at: unix seconds, or an aware datetime, after which the task is not worth running: instead of being
            dispatched it then ends as cancelled.
        slot: slot with whose pace the task runs, in a project with slots, 1 to 253 characters; None: that of its host
            or domain.
        recrawl: run the task again and again, at an interval between these bounds that gets shorter if its page has
            changed and longer if not, such as ``{"min": "1h", "max": "30d"}``; the first interval is age, or else the
            shortest.
        repeat: with recrawl, or auto_recrawl and age: successes after which it runs again, at most; None: no limit.
        job: name of the run that the task comes by, such as "monday", 1 to 64 ASCII letters, digits, "_", "-" and ".";
            tasks that it leads to get it, too, unless they name one. None: no job, or that of the task that led to it.
        depends_on: tasks that must succeed first, at most 1,000: taskids of its own project, or pairs (project,
            taskid); docs/howto/dependencies.md has the rules.
        on_parent_failure: reaction if one of these fails, is cancelled or expires: ``"fail"`` (the default), ``"run"``,
            or ``"wait"`` until it succeeds after all; ``"only"``, with depends_on: it runs if one has failed, and
            is cancelled if none has.
        canonical: send ``taskqueue.canonical_url`` of the URL, and make the taskid from it.
    """

    taskid: str | None
    fetch: Mapping[str, Any] | None
    process: Mapping[str, Any] | None
    save: Any
    body: Any
    priority: int
    exetime: Moment | None
    delay: Duration | None
    retries: int | None
    age: Duration | None
    itag: str | None
    auto_recrawl: bool
    force_update: bool
    cancel: bool
    timeout: Duration | None
    expires_at: Moment | None
    slot: str | None
    recrawl: RecrawlBounds | None
    repeat: int | None
    job: str | None
    depends_on: Sequence[str | tuple[str, str]] | None
    on_parent_failure: ParentFailure
    canonical: bool


OPTIONS: Final = frozenset(PushOptions.__annotations__)
"""Names of all push options."""


def explains_options(function: Taking) -> Taking:
    """Append the explanation of each keyword in PushOptions to a function's docstring, where ``help`` shows it."""
    if function.__doc__ and PushOptions.__doc__:  # ``python -OO`` takes them away.
        explained = inspect.cleandoc(PushOptions.__doc__).partition("\n\n")[2]
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{explained}"
    return function


def check_options(names: Mapping[str, Any]) -> None:
    """Check that all names are options.

    Raises:
        TypeError: a name is unknown; the message names it.
    """
    if unknown := sorted(names.keys() - OPTIONS):
        raise TypeError(f"{unknown[0]}: unknown option; {there_are(unknown[0], sorted(OPTIONS))}")


def parents(named: Sequence[str | tuple[str, str]] | None) -> tuple[str | TaskOf, ...]:
    """Return the tasks to wait for in the form that the daemon takes; pairs may also be lists, as in JSON.

    Raises:
        TypeError: ``named`` is a single value (a text would be read as one taskid per letter), or an element is not a
            task reference.
    """
    if isinstance(named, str | bytes | Mapping):
        raise TypeError(f"depends_on: expected several tasks, got one {type(named).__name__}; put it into a list")
    return tuple(_parent(place, each) for place, each in enumerate(named or ()))


def _parent(place: int, named: str | Sequence[str]) -> str | TaskOf:
    if isinstance(named, str):
        return named
    if isinstance(named, tuple | list) and len(named) == 2:
        return TaskOf(*named)
    raise TypeError(f"depends_on[{place}]: expected a taskid or (project, taskid), got {named!r}")


def recrawl_bounds(said: RecrawlBounds) -> Recrawl:
    """Return the bounds in the form that the daemon takes.

    Raises:
        TypeError, ValueError: ``said`` is not a pair of bounds.
    """
    if not isinstance(said, Mapping) or said.keys() != {"min", "max"}:
        raise TypeError(f'schedule.recrawl: expected {{"min": seconds, "max": seconds}}, got {said!r}')
    try:
        return Recrawl(seconds("schedule.recrawl.min", said["min"]), seconds("schedule.recrawl.max", said["max"]))
    except TypeError:  # One of them is neither a number nor a text, so they can't be compared.
        raise TypeError(f"schedule.recrawl: expected numbers of seconds, or durations, got {said!r}") from None
    except ValueError as error:
        said_at = "" if str(error).startswith("schedule.") else "schedule.recrawl: "
        raise ValueError(f"{said_at}{error}") from None


def unix_seconds(field: str, at: Moment) -> float:
    """Convert a moment to unix seconds.

    Raises:
        ValueError: the moment is a datetime without a time zone, which could mean any clock.
    """
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError(f"{field}: {at.isoformat()} has no time zone; give it one, such as tzinfo=UTC")
    return at.timestamp()


def unix_seconds_or_0(field: str, at: Moment | None) -> float:
    """Convert an optional moment to unix seconds; None becomes 0.

    Raises:
        ValueError: see ``unix_seconds``.
    """
    return 0.0 if at is None else unix_seconds(field, at)


def seconds(field: str, duration: Duration) -> float:
    """Convert a duration to seconds.

    Raises:
        ValueError: the duration is an invalid text.
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if not isinstance(duration, str):
        return duration
    if (found := parse_duration(duration)) is None:
        raise ValueError(f"{field}: expected seconds, or a duration such as {EXAMPLES}, not {duration!r}")
    return found
