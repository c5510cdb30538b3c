"""Exports in files: their parts, and steps of an import made of them.

    file ──read once, and checked whole──► ExportFile ──read again──► steps, each with the numbers of its lines

So a damaged file is refused before anything of it is imported, and one that changes meanwhile before its last step.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from hashlib import blake2b
from io import BufferedReader
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Raw
from msgspec.msgpack import encode

from taskqueue.core.model.cycle_search import cycle_in
from taskqueue.core.model.edges import UNSATISFIED
from taskqueue.core.model.exported_task import check_records, flaw_of
from taskqueue.display.counts import tasks
from taskqueue.protocol.choices import LIVE_STATES, Resolution
from taskqueue.protocol.exports import ExportedPoint, ExportedProject, ExportedTask
from taskqueue.protocol.fields import MAX_EDGES, NIL
from taskqueue.protocol.value_stream import LONGEST_BYTES, LONGEST_TIMES, BrokenStream, lines, values
from taskqueue.store.tools.export_format import (
    MESSAGEPACK,
    NO_ATTEMPTS_MOST,
    ExportFormat,
    FirstLine,
    TaskLine,
    detect_format,
    overrides_of,
    packed_task,
)
from taskqueue.store.tools.importer import UNREADABLE, BadLine, first_line, pages_of, refuse_line

STEP_TASKS: Final = 250
"""Tasks, or points, in one step of an import: 30 µs each, for which other clients wait."""
STEP_BYTES: Final = 1 << 20
"""Approximate bytes of tasks at which a step is full."""

HASH_BYTES: Final = 16

WAITS_MOST = 1_000_000
"""Edges of waiting tasks that are searched for a cycle, at most: 0.7 GB and 5 s. A file with more is not searched."""

NAMED_MOST: Final = 6
"""Tasks of a cycle that are named, at most; of a longer one the first and the last ones."""

_PLACE: Final = re.compile(r"\Atasks\[(\d+)\]")


def parts_of(file: BufferedReader, form: ExportFormat, message_bytes: int) -> Iterator[bytes]:
    """Split a file into lines or maps, none longer than one message to the daemon could be.

    Raises:
        BadLine: a part is too long or malformed.
    """
    read = values if form is MESSAGEPACK else lines
    try:
        yield from read(file, LONGEST_TIMES * message_bytes)
    except BrokenStream as error:
        raise BadLine(
            f"{error}; import the whole export again, with the config of its daemon if that says a daemon.max_message"
        ) from None


class Point(NamedTuple):
    """Point of the history, and what it counts."""

    every: Resolution
    point: ExportedPoint


class Step:
    """Parts that are sent together.

    Attributes:
        first: number of parts before these.
        numbers: numbers of their lines in the file.
        tasks, every, points: as in ``project-import``.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.numbers: list[int] = []
        self.tasks: list[ExportedTask] = []
        self.every: Resolution = "hour"
        self.points: list[ExportedPoint] = []

    def fits(self, part: ExportedTask | Point) -> bool:
        """Whether the part may follow these ones: all points count the same, and come after tasks."""
        if isinstance(part, ExportedTask):
            return not self.points
        return not self.points or part.every == self.every

    def add(self, number: int, part: ExportedTask | Point) -> None:
        """Add the part of a line."""
        self.numbers.append(number)
        if isinstance(part, ExportedTask):
            self.tasks.append(part)
        else:
            self.every = part.every
            self.points.append(part.point)

    def halves(self) -> tuple[Step, Step]:
        """Split a step of several tasks, which was too large for a message."""
        middle = len(self.tasks) // 2
        both = Step(self.first), Step(self.first + middle)
        for part, (start, end) in zip(both, ((0, middle), (middle, len(self.numbers))), strict=True):
            part.numbers, part.tasks = self.numbers[start:end], self.tasks[start:end]
        both[1].every, both[1].points = self.every, self.points
        return both

    def place(self, reason: str) -> tuple[int, str]:
        """Return the line that a refusal of this step is about, and the reason; 0 if it is about none."""
        found = _PLACE.match(reason)
        if found is None or int(found[1]) >= len(self.numbers):
            return 0, reason
        return self.numbers[int(found[1])], reason[found.end() :].lstrip(".: ")


class ExportFile:
    """Export of one project in a file, which has been read once and is whole.

    Attributes:
        hash: hash of its content, in hex.
        parts, tasks: number of its parts, and of the tasks among them.
        unit: name of a part in messages.
    """

    def __init__(self, path: str) -> None:
        """Read the file.

        Raises:
            OSError: it can't be read.
            BadLine: it is a pipe, damaged, of a newer version, has not exactly one project, or has tasks that wait for
                each other.
        """
        self._path = path
        self.parts = self.tasks = waiting = 0
        waits: dict[str, list[str]] = {}
        digest = blake2b(digest_size=HASH_BYTES)
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadLine("it is read twice, so it can't be a pipe; save it to a file first")
            self._form = form = detect_format(file.peek(1))
            self.unit = form.unit
            numbered = enumerate(self._hashed(file, digest), 1)
            self._first = first_line(numbered, form)
            _check(self._first, form)
            for _, part in self._read(numbered):
                self.parts += 1
                if isinstance(part, ExportedTask):
                    self.tasks += 1
                    if waiting <= WAITS_MOST and (parents := _awaited_by(part)):
                        waits[part.taskid] = parents
                        waiting += len(parents)
        if waiting <= WAITS_MOST:
            _check_cycles(waits)
        self.hash = digest.hexdigest()

    def project(self) -> ExportedProject:
        """Return its project."""
        (line,) = self._first.projects
        overrides = overrides_of(line, self._form, self._first.taskqueue)
        settings = Raw(encode(overrides)) if overrides else NIL
        return ExportedProject(
            self.parts, line.state, settings, line.totals, line.pause, line.cron, line.finished, line.newest
        )

    @property
    def left_behind(self) -> str:
        """Parts of the project that the export lacks, so that an import can't bring them back; empty if it has all."""
        (line,) = self._first.projects
        if self._first.taskqueue <= NO_ATTEMPTS_MOST:
            return "the attempts of its tasks, and its flows"
        if not line.flows:
            return ""
        unmade = f", with {tasks(line.unmade)} still to be made" if line.unmade else ""
        return ("1 flow" if line.flows == 1 else f"{line.flows:,} flows") + unmade

    def steps(self, first: int) -> Iterator[Step]:
        """Yield the steps that bring the parts after the first ones.

        Raises:
            OSError: the file can't be read.
            BadLine: the file has changed; the last step has not been yielded.
        """
        digest = blake2b(digest_size=HASH_BYTES)
        with open(self._path, "rb") as file:
            numbered = enumerate(self._hashed(file, digest), 1)
            first_line(numbered, self._form)
            rest = islice(enumerate(self._read(numbered)), first, None)
            step, size, edges = Step(first), 0, 0
            for index, (number, part) in rest:
                more = len(encode(part)) if isinstance(part, ExportedTask) else 0
                new_edges = len(part.parents) if isinstance(part, ExportedTask) else 0
                is_full = len(step.numbers) >= STEP_TASKS or size + more > STEP_BYTES or edges + new_edges > MAX_EDGES
                if step.numbers and (is_full or not step.fits(part)):
                    yield step
                    step, size, edges = Step(index), 0, 0
                step.add(number, part)
                size, edges = size + more, edges + new_edges
            if digest.hexdigest() != self.hash:
                raise BadLine("it has changed meanwhile; delete the project, and import it again")
            if step.numbers:
                yield step

    def _hashed(self, file: BufferedReader, digest: blake2b) -> Iterator[bytes]:
        for part in parts_of(file, self._form, LONGEST_BYTES // LONGEST_TIMES):
            digest.update(part)
            yield part

    def _read(self, numbered: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, ExportedTask | Point]]:
        """Yield the parts after the first line, with the numbers of their lines.

        Raises:
            BadLine: a line is malformed, of another project, or the last one is missing.
        """
        form, name = self._form, self._first.projects[0].name
        for page in pages_of(numbered, form):
            if not isinstance(page, list):
                number, line = page
                if line.projects.keys() - {name}:
                    refuse_line(form, number, f'a project that is not "{name}", which the first {form.unit} names')
                if name in line.projects:
                    yield number, Point(line.history, ExportedPoint(line.at, line.projects[name]))
                continue
            for number, task in page:
                if task.project != name:
                    refuse_line(form, number, f'project "{task.project}" is not in the first {form.unit}')
                yield number, _packed(form, number, task)


def _check(first: FirstLine, form: ExportFormat) -> None:
    """Check the first line.

    Raises:
        BadLine: it has not exactly one project, or one that can't be.
    """
    if len(first.projects) != 1:
        refuse_line(
            form, 1, f"{len(first.projects):,} projects; bring one at a time, from: taskqueue store export PROJECT"
        )
    (line,) = first.projects
    try:
        check_records(line.totals, line.pause, line.cron)
        overrides_of(line, form, first.taskqueue)
    except UNREADABLE as error:
        refuse_line(form, 1, f'project "{line.name}": {error}')


def _awaited_by(task: ExportedTask) -> list[str]:
    """Return the tasks of its project that a live task waits for."""
    if task.state not in LIVE_STATES:
        return []
    return [parent.taskid for parent in task.parents if parent.state == UNSATISFIED and parent.project is None]


def _check_cycles(waits: dict[str, list[str]]) -> None:
    """Check that no tasks wait for each other.

    Raises:
        BadLine: some do.
    """
    if cycle := cycle_in(waits, waits):
        half = NAMED_MOST // 2
        named = cycle if len(cycle) <= NAMED_MOST else [*cycle[:half], "…", *cycle[-half:]]
        raise BadLine(f"{' → '.join(named)}: they would wait for each other for ever; take a parent from one of them")


def _packed(form: ExportFormat, number: int, line: TaskLine) -> ExportedTask:
    try:
        task = packed_task(line, form)
        flaw = flaw_of(task)
    except UNREADABLE as error:
        flaw = str(error)
    if flaw:
        refuse_line(form, number, flaw)
    return task
