"""The daemon's log on stderr: one line per event, ``name key=value key=value``.

    debug    every request, and every task that changed: new select done failed retry timeout ...
    info     stop, reload, changes by operators, events of projects, and a summary per minute of activity
    warning  the clock stepped back; a slot seems to get new tasks without end
    error    the store failed

A task is logged with the net effect of a turn: one that changed twice in a turn is shown with both ends. Unless debug
is on, the functions for debug lines are not called.

The summary is made from the records of changed projects. It costs a look at the projects that a turn changed, and never
wakes an idle daemon:

    first change ──► span begins ──► SUMMARY_SECONDS later: one line ──► none until the next change
"""

from __future__ import annotations

import heapq
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from taskqueue.core.model.attempt_records import kind_of
from taskqueue.core.model.events import Event
from taskqueue.core.model.needs import ChangeRecord
from taskqueue.core.model.records import ProjectRecord, WriteSet
from taskqueue.core.model.task import CANCELLED, DELAYED, FAILED, PROCESSING, READY, SUCCESS, Move, Task
from taskqueue.protocol.messages import AnyRequest, Incoming
from taskqueue.protocol.values import EventTotals
from taskqueue.server.meters import Meters
from taskqueue.terminal.log_lines import LogHandler
from taskqueue.texts.visible_text import visible

log = logging.getLogger("taskqueue")

SPARSE_SECONDS: Final = 10.0
"""Seconds between two log lines about events that peers can cause at will."""

ENDS: Final = {PROCESSING: "select", SUCCESS: "done", FAILED: "failed", CANCELLED: "cancelled"}
"""Event by a task's new state; for ready and delayed it also depends on the old one."""


class SparseLog:
    """Counter whose log line is due at the first occurrence, then every SPARSE_SECONDS at most."""

    def __init__(self) -> None:
        self._count = 0
        self._due_at = 0.0

    def count(self, now: float) -> int:
        """Count one more; return the number since the last line if a line is due now, else 0."""
        self._count += 1
        if now < self._due_at:
            return 0
        told, self._count, self._due_at = self._count, 0, now + SPARSE_SECONDS
        return told


def set_up(level: str) -> None:
    """Log to stderr, from this level up."""
    log.handlers[:] = [LogHandler()]
    log.propagate = False
    set_level(level)


def set_level(level: str) -> None:
    """Change the level: debug, info, warning or error."""
    log.setLevel(level.upper())


def turn_lines(
    incoming: Sequence[Incoming], writes: WriteSet, names: Mapping[int, str], pseudonym: Callable[[str], str]
) -> Iterator[str]:
    """Yield debug lines of a turn: its requests, and the tasks that it changed.

    Args:
        names: project names by number.
        pseudonym: replaces a session id, which must not appear in the daemon log.
    """
    for message in incoming:
        yield _request_line(message.request, pseudonym(message.request.session))
    errors = {(attempt.project, attempt.taskid): kind_of(attempt.attempt) for attempt in writes.attempts}
    for move in writes.moves:
        yield from _move_lines(move, errors, names)


def event_line(event: Event) -> str:
    """Format the line of a project's event."""
    return f"{event.kind} project={event.project} reason={quoted(event.reason)}"


def event_level(event: Event) -> int:
    """Return the level of an event's line: a warning for a trap, which only an operator can end."""
    return logging.WARNING if event.kind == "growing" else logging.INFO


def silent_fetcher_lines(writes: WriteSet) -> Iterator[str]:
    """Yield a line per fetcher that went silent while it ran tasks; these tasks are suspects from then on."""
    crashed = Counter(each.attempt.fetcher for each in writes.attempts if each.attempt.outcome == "crashed")
    for fetcher, tasks in crashed.items():
        yield f"fetcher-silent fetcher={quoted(fetcher)} running={tasks}"


def change_line(entry: ChangeRecord) -> str:
    """Format the line of an operator's change: who changed what, and how many tasks it affected."""
    pairs = {
        "what": entry.what,
        "project": entry.project,
        "group": entry.group,
        "projects": str(len(entry.projects)) if entry.projects else "",
        "tasks": str(entry.count) if entry.count else "",
        "actor": entry.actor,
        "address": entry.address,
        "detail": entry.detail,
    }
    return "change " + " ".join(f"{key}={quoted(value)}" for key, value in pairs.items() if value)


def _request_line(request: AnyRequest, session: str) -> str:
    kind = request.__struct_config__.tag
    return f"request type={kind} session={session} n={request.n}"


def _move_lines(move: Move, errors: Mapping[tuple[int, str], str], names: Mapping[int, str]) -> Iterator[str]:
    task, old = move[:2]
    pairs = {"project": names.get(task.project, str(task.project)), "taskid": task.taskid}
    if task.spec is not None:
        pairs["url"] = task.spec.url
    if error := errors.get((task.project, task.taskid)):
        pairs["error"] = error
    about = " ".join(f"{key}={quoted(value)}" for key, value in pairs.items())
    for event in _events(old, task):
        yield f"{event} {about}"


def _events(old: int, task: Task) -> Iterator[str]:
    new = task.state
    if old == 0:
        yield "new"
    if old == PROCESSING and task.timed_out and new != PROCESSING:
        yield "timeout"
    if new in ENDS and new != old:
        yield ENDS[new]
    elif old == PROCESSING:
        yield {READY: "ready", DELAYED: "retry", PROCESSING: "changed"}[new]
    elif old in ENDS:
        yield "restarted"
    elif old:
        yield "due" if (old, new) == (DELAYED, READY) else "changed"


def quoted(value: str) -> str:
    """Format a value for a log line, in quotes if it could be taken for several."""
    return value if value.isprintable() and not {" ", '"', "="} & set(value) else visible(json.dumps(value))


SUMMARY_SECONDS: Final = 60.0
BUSIEST: Final = 5
"""Projects to name in a line, at most."""

Row = tuple[int, ...]
"""Totals of a project, in the order of the fields of ``EventTotals``."""


class Summary:
    """Activity of all projects since the last summary line.

    Attributes:
        due_at: boot-clock seconds of the next line; inf without activity since the last.
        names: names of the projects seen so far, by number.
    """

    def __init__(self, meters: Meters) -> None:
        self.due_at = inf
        self.names: dict[int, str] = {}
        self._meters = meters
        self._before: dict[int, Row] = {}
        self._after: dict[int, Row] = {}
        self._counted = (0, 0)

    def begin(self, projects: Iterable[ProjectRecord]) -> None:
        """Reset to these records."""
        self.due_at = inf
        self.names = {project.number: project.name for project in projects}
        self._before = {project.number: _row(project) for project in projects}
        self._after = {}

    def note(self, projects: Iterable[ProjectRecord], boot: float) -> None:
        """Record projects that a turn changed."""
        for project in projects:
            self.names[project.number] = project.name
            self._after[project.number] = _row(project)
            if self.due_at == inf:
                self.due_at = boot + SUMMARY_SECONDS

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop deleted projects; their activity since the last line is not reported."""
        for number in numbers:
            for known in (self.names, self._before, self._after):
                known.pop(number, None)

    def line(self) -> str | None:
        """Format the activity since the last line; None if there was none. The next change begins a new span."""
        grown = {self.names[number]: self._grown(number) for number in self._after}
        self._before.update(self._after)
        self._after = {}
        self.due_at = inf
        turns, requests = self._since_last()
        if not any(map(any, grown.values())):
            return None
        sums = _pairs(tuple(map(sum, zip(*grown.values(), strict=True))))
        return f"summary turns={turns} requests={requests} {sums} busiest={_busiest(grown)}"

    def _grown(self, number: int) -> Row:
        before = self._before.get(number, _NONE)
        return tuple(new - old for new, old in zip(self._after[number], before, strict=True))

    def _since_last(self) -> tuple[int, int]:
        turns, requests = self._counted
        self._counted = (self._meters.turns, self._meters.frames_in)
        return self._counted[0] - turns, self._counted[1] - requests


def _row(project: ProjectRecord) -> Row:
    return msgspec.structs.astuple(project.totals)


_NONE: Final[Row] = msgspec.structs.astuple(EventTotals())


def _pairs(row: Row) -> str:
    return " ".join(f"{name}={count}" for name, count in zip(EventTotals.__struct_fields__, row, strict=True))


def _busiest(grown: dict[str, Row]) -> str:
    busy = heapq.nlargest(BUSIEST, ((sum(row), name) for name, row in grown.items()))
    return ",".join(f"{name}:{events}" for events, name in busy)
