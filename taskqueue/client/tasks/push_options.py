"""What can be said of a task when it is pushed, typed and explained once for everybody who takes it.

``push``, ``new_task`` and whoever wraps them take these keywords as ``**options: Unpack[PushOptions]`` (PEP 692), so
editors and type checkers see each with its type; ``explains_options`` adds what is said of each here to a docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, TypeVar

from taskqueue.alike import there_are
from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.values import Recrawl, TaskOf
from taskqueue.units import EXAMPLES, parse_duration

Moment = float | datetime
"""Unix seconds, or a date and time that knows its zone."""
Duration = float | str | timedelta
"""Seconds, or a text such as "90s", "5m" or "30d", or a timedelta."""

Taking = TypeVar("Taking", bound=Callable[..., object])


class RecrawlBounds(TypedDict):
    """The shortest and the longest time between two runs of a task: seconds, or a text such as "12h"."""

    min: Duration
    max: Duration


class PushOptions(TypedDict, total=False):
    """Keywords of a push, each of which may be left out.

    Options:
        taskid: its identity in its project, 1 to 128 bytes; None: ``default_taskid`` of the url.
        fetch, process, save: sent along as they are, as the body's map; any MessagePack-able values.
        body: sent along instead of that map.
        priority: larger first, 32 bits; 0 if nothing is said.
        exetime: unix seconds, or an aware datetime, before which it must not run; None is any time.
        delay: seconds, a text such as "5m", or a timedelta, from its arrival at the daemon before which it must not
            run; wins over exetime.
        retries: further attempts after a failure; None: the project's setting.
        age: seconds, or such a text or timedelta, for which a success stays good; None is for ever.
        itag: a value that differs from the stored one restarts a task that is over.
        auto_recrawl: with age: run it again each age.
        force_update: this schedule and body win over the stored ones.
        cancel: with force_update: end the task.
        timeout: seconds, or such a text or timedelta, that processing may take; None: the project's processing_timeout.
        expires_at: unix seconds, or an aware datetime, after which it is not worth running any more: instead of being
            handed out it then ends as cancelled.
        slot: whose pace it keeps to in a project with slots, 1 to 253 characters; None: that of its host or domain.
        recrawl: run it again and again, at an interval between these bounds that gets shorter when its page has changed
            and longer when not, such as ``{"min": "1h", "max": "30d"}``; the first one is age, or else the shortest.
        depends_on: what it waits for until each has succeeded, at most 1,000: taskids of its own project, or pairs
            (project, taskid); docs/howto/dependencies.md has the rules.
        on_parent_failure: what becomes of it when one of them fails, is cancelled or expires: ``"fail"``, if nothing is
            said, ``"run"``, or ``"wait"`` until it succeeds after all.
        canonical: send, and make the taskid of, ``canonical_url`` of the url.
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
    depends_on: Sequence[str | tuple[str, str]] | None
    on_parent_failure: ParentFailure
    canonical: bool


OPTIONS: Final = frozenset(PushOptions.__annotations__)
"""Their names."""


def explains_options(function: Taking) -> Taking:
    """Say in a function's docstring, too, what PushOptions says of each of its keywords: ``help`` shows no other."""
    if function.__doc__ and PushOptions.__doc__:  # ``python -OO`` takes them away.
        explained = inspect.cleandoc(PushOptions.__doc__).partition("\n\n")[2]
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{explained}"
    return function


def check_options(names: Mapping[str, Any]) -> None:
    """See that all of them are known.

    Raises:
        TypeError: one is not; the message names it.
    """
    if unknown := sorted(names.keys() - OPTIONS):
        raise TypeError(f"{unknown[0]}: unknown option; {there_are(unknown[0], sorted(OPTIONS))}")


def parents(named: Sequence[str | tuple[str, str]] | None) -> tuple[str | TaskOf, ...]:
    """What a task waits for, as the daemon is told it; pairs may also be lists, as JSON has them.

    Raises:
        TypeError: it is one where several are meant: a text would be a taskid a letter. Or one of them is no task.
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
    """The bounds as the daemon is told them.

    Raises:
        TypeError, ValueError: they are none.
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
    """A moment as the daemon is told it.

    Raises:
        ValueError: it is a datetime without a zone: nobody else knows the clock that it was read from.
    """
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError(f"{field}: {at.isoformat()} has no time zone; give it one, such as tzinfo=UTC")
    return at.timestamp()


def unix_seconds_or_0(field: str, at: Moment | None) -> float:
    """A moment that may be left out, as the daemon is told it: 0 if it is.

    Raises:
        ValueError: see ``unix_seconds``.
    """
    return 0.0 if at is None else unix_seconds(field, at)


def seconds(field: str, duration: Duration) -> float:
    """A duration as the daemon is told it.

    Raises:
        ValueError: it is a text that is none.
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if not isinstance(duration, str):
        return duration
    if (found := parse_duration(duration)) is None:
        raise ValueError(f"{field}: expected seconds, or a duration such as {EXAMPLES}, not {duration!r}")
    return found
