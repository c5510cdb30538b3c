"""Tasks as lines of text: what ``taskqueue push --file`` reads.

A line is a url, or a JSON object. An object needs a ``url``; its other keys are the arguments of
``taskqueue.new_task``; those that belong to the schedule may also stand in an object ``schedule``, as on the wire:

    https://example.com/
    {"url": "https://example.com/a", "priority": 5, "save": {"page": 1}}
    {"url": "https://example.com/b", "schedule": {"delay": 60}, "fetch": {"method": "POST", "data": "x=1"}}
    {"url": "https://example.com/d", "depends_on": ["a", ["other-project", "b"]], "on_parent_failure": "run"}
    {"url": "https://example.com/c", "exetime": "2026-12-01T08:00:00+01:00", "age": "30d"}

The same in MessagePack: see ``packed_tasks``.

A moment is a number of unix seconds, a duration one of seconds; or either is text as on the command line (``times``).
Empty lines are skipped. What is no url of http or https, and no ``data:``, is refused, if not every scheme is to be
taken (``url_rules.check_typed``).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import click

from taskqueue.cli.input import packed_tasks, times
from taskqueue.client.tasks.new_task import new_task
from taskqueue.client.tasks.push_many import under
from taskqueue.client.tasks.url_rules import check_typed
from taskqueue.protocol.fields import NewTask, Schedule
from taskqueue.protocol.value_stream import BrokenStream

PARTS: Final = (
    "url", "taskid", "fetch", "process", "save", "body", "canonical", "depends_on", "on_parent_failure",
)  # fmt: skip
TIMES: Final[Mapping[str, Callable[[str], float]]] = {
    "exetime": times.moment,
    "expires_at": times.moment,
    "delay": times.seconds,
    "age": times.seconds,
    "timeout": times.seconds,
}
"""Fields that may be given as text, and their parsers."""
BODIES: Final = ("fetch", "process", "save", "body")
"""Fields with a task's content: parts, or one body instead."""
KEYS: Final = (*PARTS, "schedule", *Schedule.__struct_fields__)


class TaskLines:
    """Parses lines into tasks, in order; invalid lines are reported, counted and skipped.

    Args:
        name: prefix of line numbers in messages, such as "tasks.jsonl:".
        source: the lines, or maps in MessagePack.
        defaults: arguments of ``new_task`` that a line may override.
        complain: called with a message for each invalid line.
        any_scheme: accept urls of every scheme.

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
        """Record that ``skipped`` lines before this place contain no tasks."""
        if self._skipped_at and self._skipped_at[-1] == place:
            self._skipped[-1] = skipped
        else:
            self._skipped_at.append(place)
            self._skipped.append(skipped)

    def where(self, place: int) -> str:
        """The line of the task number ``place``, counted from 0."""
        found = bisect_right(self._skipped_at, place)
        return f"{self._name}{place + 1 + (self._skipped[found - 1] if found else 0)}"


def parse(line: str | bytes, defaults: Mapping[str, Any], *, any_scheme: bool = False) -> NewTask:
    """The task of a line, or of a map in MessagePack.

    Args:
        defaults: arguments of ``new_task`` that it may say otherwise.
        any_scheme: take urls of every scheme.

    Raises:
        ValueError: it is none; the message says why.
    """
    if not defaults and isinstance(line, bytes) and (plain := packed_tasks.plain_task(line)) is not None:
        check_typed(plain.url, any_scheme=any_scheme)
        return plain
    said = _said(line)
    check_typed(said["url"], any_scheme=any_scheme)
    try:
        return new_task(**laid_over(defaults, said))
    except TypeError as error:
        raise ValueError(str(error)) from None


def laid_over(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``new_task``: what is said, and of the defaults what goes with it."""
    return under(_fitting(defaults, said), said)


def _fitting(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The defaults without a body, or without its parts, if the line has the other of the two."""
    own = [name for name in BODIES if name in said]
    if not own:
        return defaults
    gone = BODIES if "body" in own else ("body",)
    return {name: value for name, value in defaults.items() if name not in gone}


def _said(line: str | bytes) -> dict[str, Any]:
    if isinstance(line, bytes):
        return arguments(packed_tasks.arguments(line))
    return arguments(_object(line)) if line.startswith("{") else {"url": line}


def _object(line: str) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    return said


def arguments(said: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``new_task`` that an object says; it is emptied of its schedule.

    Raises:
        ValueError: a field is unknown, given twice, or of a form that it can't have; or there is no url.
    """
    _know("a task", said, KEYS)
    schedule, fetch = said.pop("schedule", {}), {} if said.get("fetch") is None else said["fetch"]
    for name, part in (("schedule", schedule), ("fetch", fetch)):
        if not isinstance(part, dict):
            raise ValueError(f"{name} must be an object")
    _know("a schedule", schedule, Schedule.__struct_fields__)
    return _joined(schedule, said)


def _joined(schedule: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    if "url" not in said:
        raise ValueError("there is no url")
    for key in schedule:
        if key in said:
            raise ValueError(f"{key} is given twice")
    joined = {**schedule, **said}
    texts = {name: said for name, said in joined.items() if name in TIMES and isinstance(said, str)}
    return joined | {name: _time(name, said) for name, said in texts.items()}


def _time(name: str, written: str) -> float:
    try:
        return TIMES[name](written)
    except click.BadParameter as error:
        raise ValueError(f"{name}: {error.message}") from None


def _know(what: str, said: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in said:
        if key not in keys:
            raise ValueError(f"{key} is no field of {what}; there are {', '.join(keys)}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
