"""Reader of tasks as lines of text, for ``taskqueue push --file``.

A line is a URL, or a JSON object. An object needs a ``url``; its other keys are the arguments of
``taskqueue.new_task``; those that belong to the schedule may also stand in an object ``schedule``, as on the wire:

    https://example.com/
    {"url": "https://example.com/a", "priority": 5, "save": {"page": 1}}
    {"url": "https://example.com/b", "schedule": {"delay": 60}, "fetch": {"method": "POST", "data": "x=1"}}
    {"url": "https://example.com/d", "depends_on": ["a", ["other-project", "b"]], "on_parent_failure": "run"}
    {"url": "https://example.com/c", "exetime": "2026-12-01T08:00:00+01:00", "age": "30d"}

``packed_tasks`` reads the same from MessagePack.

A moment is a number of unix seconds, a duration a number of seconds; both may be text as on the command line
(``times``). Empty lines are skipped. URLs other than http, https and ``data:`` are refused unless every scheme is
accepted (``new_task.check_typed``).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import click

from taskqueue.cli.input import packed_tasks, times
from taskqueue.client.tasks.new_task import check_typed, new_task
from taskqueue.client.tasks.task_objects import FieldError, Times, arguments, completed
from taskqueue.protocol.value_stream import BrokenStream
from taskqueue.protocol.values import NewTask


def _typed(name: str, parser: Callable[[str], float]) -> Callable[[str], float]:
    def parsed(written: str) -> float:
        try:
            return parser(written)
        except click.BadParameter as error:
            raise FieldError(name, f"{name}: {error.message}") from None

    return parsed


TIMES: Final[Times] = {
    name: _typed(name, parser)
    for name, parser in (
        ("exetime", times.moment),
        ("expires_at", times.moment),
        ("delay", times.seconds),
        ("age", times.seconds),
        ("timeout", times.seconds),
    )
}
"""Fields that may be given as text, and their parsers."""


class TaskLines:
    """Parser of lines into tasks, in order; invalid lines are reported, counted and skipped.

    Args:
        name: prefix of line numbers in messages, such as "tasks.jsonl:".
        source: the lines, or maps in MessagePack.
        defaults: arguments of ``new_task`` that a line may override.
        complain: called with a message for each invalid line.
        any_scheme: accept URLs of every scheme.

    Attributes:
        bad: number of invalid lines so far.
    """

    def __init__(
        self,
        name: str,
        source: Iterable[str | bytes],
        defaults: Mapping[str, Any],
        complain: Callable[[str], None],
        *,
        any_scheme: bool = False,
    ) -> None:
        self._name = name
        self._source = source
        self._defaults = defaults
        self._complain = complain
        self._any_scheme = any_scheme
        self._skipped_at: list[int] = []
        self._skipped: list[int] = []
        self.bad = 0

    def __iter__(self) -> Iterator[NewTask]:
        try:
            yield from self._tasks()
        except BrokenStream as error:
            self.bad += 1
            self._complain(f"{self._name.removesuffix('task ').rstrip()} {error}")

    def _tasks(self) -> Iterator[NewTask]:
        place = 0
        for number, line in enumerate(self._source, 1):
            if (task := self._task(number, line.strip() if isinstance(line, str) else line)) is None:
                self._skip(place, number - place)
                continue
            place += 1
            yield task

    def _task(self, number: int, line: str | bytes) -> NewTask | None:
        if not line:
            return None
        try:
            return parse(line, self._defaults, any_scheme=self._any_scheme)
        except ValueError as error:
            self.bad += 1
            self._complain(f"{self._name}{number}: {error}")
            return None

    def _skip(self, place: int, skipped: int) -> None:
        """Record that ``skipped`` lines before this task contain no tasks."""
        if self._skipped_at and self._skipped_at[-1] == place:
            self._skipped[-1] = skipped
        else:
            self._skipped_at.append(place)
            self._skipped.append(skipped)

    def where(self, place: int) -> str:
        """Name of the line with the task number ``place``, counted from 0."""
        found = bisect_right(self._skipped_at, place)
        return f"{self._name}{place + 1 + (self._skipped[found - 1] if found else 0)}"


def parse(line: str | bytes, defaults: Mapping[str, Any], *, any_scheme: bool = False) -> NewTask:
    """Parse a line, or a map in MessagePack, into a task.

    Args:
        defaults: arguments of ``new_task`` that it may override.
        any_scheme: accept URLs of every scheme, in this line.

    Raises:
        ValueError: it is invalid; the message says why.
    """
    if not defaults and isinstance(line, bytes) and (plain := packed_tasks.plain_task(line)) is not None:
        check_typed(plain.url, any_scheme=any_scheme)
        return plain
    said = _said(line)
    check_typed(said["url"], any_scheme=any_scheme)
    try:
        return new_task(**completed(defaults, said))
    except TypeError as error:
        raise ValueError(str(error)) from None


def _said(line: str | bytes) -> dict[str, Any]:
    if isinstance(line, bytes):
        return arguments(packed_tasks.arguments(line), TIMES)
    return arguments(_object(line), TIMES) if line.startswith("{") else {"url": line}


def _object(line: str) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    return said


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
