"""Pushes: one task, several, or a stream of lines that are pushed while more arrive.

    application/json      an object or a URL ──► its outcome, or a problem; a list of them ──► their outcomes
    application/x-ndjson  a line per task ──► a line per outcome, as a stream

Lines take bounded memory, and have one outcome each, in order:

    body ──► lines ──► batch ──new-task──► daemon        at most WINDOW batches in flight; then reading stops
                         └──────► outcomes, in order ──► response, as soon as they are known

A line is a JSON object, a JSON text, or a URL. Its answer is ``{"line": 3, "outcome": "new"}``, or has the outcome
``"rejected"``, ``detail`` and ``field``. Empty lines are skipped. If the push can't continue, for example without the
daemon, the last line has no outcome: ``{"line": 5, "problem": {…}}`` names the first line that was not answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from taskqueue import AsyncClient
from taskqueue.client.tasks.pushes import BATCH_BYTES, size_of
from taskqueue.errors import MessageTooLarge, TaskQueueError
from taskqueue.protocol.codec import MALFORMED, MAX_MESSAGE_BYTES
from taskqueue.protocol.fields import MAX_BATCH, MAX_EDGES
from taskqueue.protocol.reasons import file_reason
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from taskqueue.web.api.answering import in_json, repeats_of
from taskqueue.web.api.decoding import JSON, Decoding, body_of, check_type, decoded, type_of
from taskqueue.web.api.http_operation import Endpoint, Operation
from taskqueue.web.api.problems import Problem, field_of, problem_of
from taskqueue.web.api.repeats import HEADER
from taskqueue.web.api.task_objects import Flaw, task_of
from taskqueue.web.services import services_of

LINES: Final = "application/x-ndjson"


class Streamed(Response):
    """Response that is made while the request's body is still being read."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(media_type=LINES, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the content as fast as the client reads it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._content:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ClientDisconnect:
            return
        await send({"type": "http.response.body", "body": b""})


def pushing(operation: Operation) -> Endpoint:
    """Make the endpoint by which tasks are pushed."""
    decoding = Decoding(operation)

    async def take(request: Request) -> Response:
        check_type(request, JSON, LINES)
        project = decoding.parameter(request, "project")
        if type_of(request) == LINES and HEADER not in request.headers:
            return Streamed(TaskStream(services_of(request).client, project).outcomes(request.stream()))
        if type_of(request) == LINES:
            return await _take_lines(request, project)
        return await _take_json(request, project)

    return take


async def _take_json(request: Request, project: str) -> Response:
    value = decoded(await body_of(request))
    items = value if isinstance(value, list) else [value]
    outcomes = await _push(request, project, [task_of(item) for item in items])
    if isinstance(value, list):
        return in_json({"outcomes": [outcome_object(outcome) for outcome in outcomes]})
    name, flaw = outcomes[0]
    if flaw is not None:
        if flaw.field == "project":
            raise Problem(404, flaw.detail, flaw.field, "unknown-project")
        raise Problem(400, flaw.detail, flaw.field, name)
    return in_json({"outcome": name})


async def _take_lines(request: Request, project: str) -> Response:
    """Push all lines at once: with a key, the request must be known before it is carried out."""
    splitter = LineSplitter()
    body = await body_of(request, LINES)
    lines: list[Line] = [*splitter.feed(body), *splitter.end()]
    outcomes = await _push(request, project, [line.task for line in lines])
    sent = [outcome for line, outcome in zip(lines, outcomes, strict=True) if isinstance(line.task, NewTask)]
    return Response(b"".join(answered(lines, sent)), media_type=LINES)


async def _push(request: Request, project: str, items: list[NewTask | Flaw]) -> list[Outcome]:
    """Push the valid tasks; invalid ones are rejected in their place."""
    tasks = [item for item in items if isinstance(item, NewTask)]
    client = services_of(request).client
    asked: Any = NewTasks(project=project, tasks=list(tasks))
    with repeats_of(request).known_as(request, asked) as known:
        if known is None:
            found = iter(await push(client, project, tasks))
        elif len(tasks) > MAX_BATCH:
            raise Problem(413, f"body: with {HEADER} at most {MAX_BATCH} tasks are taken", "body", "too-large")
        else:
            found = iter(outcomes_of(await client._ask(asked, known_as=known)))
        return [next(found) if isinstance(item, NewTask) else ("rejected", item) for item in items]


# ---------------------------------------------------------------------------------------------------------------- lines

BATCH_TASKS: Final = 256
WINDOW: Final = 8
"""Batches in flight."""

LINE_BYTES: Final = MAX_MESSAGE_BYTES
"""Longest line, in bytes."""

PATIENCE_SECONDS: Final = 60.0
"""Longest wait for the answer to a batch; outlasts a restart of the daemon."""

Outcome = tuple[str, Flaw | None]
"""Outcome of a task, and if it was rejected the reason."""


class Line(NamedTuple):
    """Line with its number from 1, and its task or what is wrong with it."""

    number: int
    task: NewTask | Flaw


class LineSplitter:
    """Splitter of bytes into lines; a line longer than LINE_BYTES is dropped and reported."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._number = 0
        self._too_long = False

    def feed(self, piece: bytes) -> Iterator[Line]:
        """Yield the lines that end in this piece."""
        *ended, rest = piece.split(b"\n")
        for part in ended:
            yield from self._end(part)
        self._keep(rest)

    def end(self) -> Iterator[Line]:
        """Yield the last line, if it has no line end."""
        if self._rest or self._too_long:
            yield from self._end(b"")

    def _keep(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > LINE_BYTES:
            self._too_long = True
            self._rest.clear()

    def _end(self, part: bytes) -> Iterator[Line]:
        self._number += 1
        self._keep(part)
        line, too_long = bytes(self._rest).strip(), self._too_long
        self._rest.clear()
        self._too_long = False
        if too_long:
            yield Line(self._number, Flaw("line", f"longer than {LINE_BYTES} bytes"))
        elif line:
            yield Line(self._number, task_of_line(line.removeprefix(b"\xef\xbb\xbf") if self._number == 1 else line))


def task_of_line(line: bytes) -> NewTask | Flaw:
    """Read the task of a line, or what is wrong with it."""
    try:
        return task_of(msgspec.json.decode(line) if line[:1] in b'{["' else line.decode())
    except MALFORMED as error:
        return Flaw("line", f"line: not JSON: {file_reason(error)}")


class Batch(NamedTuple):
    """Lines whose tasks go in one message, and its answer."""

    lines: list[Line]
    answer: asyncio.Task[list[Outcome]]


class TaskStream:
    """Push of a stream of lines to a project."""

    def __init__(self, client: AsyncClient, project: str) -> None:
        self._client = client
        self._project = project
        self._sent: asyncio.Queue[Batch | None] = asyncio.Queue(WINDOW)

    async def outcomes(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the lines of the response."""
        reading = asyncio.create_task(self._read(pieces))
        try:
            while (batch := await self._sent.get()) is not None:
                try:
                    yield b"".join(answered(batch.lines, await batch.answer))
                except TaskQueueError as error:
                    yield _ended(batch.lines[0].number, error)
                    return
            await reading
        finally:
            reading.cancel()
            while not self._sent.empty():
                if (left := self._sent.get_nowait()) is not None:
                    left.answer.cancel()

    async def _read(self, pieces: AsyncIterator[bytes]) -> None:
        splitter, lines, size = LineSplitter(), list[Line](), 0
        try:
            async for piece in pieces:
                for line in splitter.feed(piece):
                    lines.append(line)
                    size += size_of(line.task) if isinstance(line.task, NewTask) else 0
                    if len(lines) >= BATCH_TASKS or size >= BATCH_BYTES:
                        await self._send(lines)
                        lines, size = [], 0
                if lines and not self._sent.full():
                    await self._send(lines)
                    lines, size = [], 0
            lines += splitter.end()
            if lines:
                await self._send(lines)
        finally:
            await self._sent.put(None)

    async def _send(self, lines: list[Line]) -> None:
        tasks = [line.task for line in lines if isinstance(line.task, NewTask)]
        await self._sent.put(Batch(lines, asyncio.create_task(push(self._client, self._project, tasks))))


async def push(client: AsyncClient, project: str, tasks: list[NewTask]) -> list[Outcome]:
    """Push tasks and return their outcomes in order; tasks too large for one message are split."""
    if not tasks:
        return []
    if len(tasks) > 1 and sum(len(task.depends_on) for task in tasks) > MAX_EDGES:
        return await _in_halves(client, project, tasks)
    request = NewTasks(project=project, tasks=list(tasks))
    try:
        return outcomes_of(await client._ask(request, PATIENCE_SECONDS))
    except MessageTooLarge as error:
        if len(tasks) == 1:
            return [("rejected", Flaw("body", str(error)))]
    return await _in_halves(client, project, tasks)


async def _in_halves(client: AsyncClient, project: str, tasks: list[NewTask]) -> list[Outcome]:
    half = len(tasks) // 2
    return await push(client, project, tasks[:half]) + await push(client, project, tasks[half:])


def outcomes_of(reply: NewTasksReply) -> list[Outcome]:
    """Return the outcomes of the tasks of a message, in order."""
    reasons = {error.index: error.reason for error in reply.errors}
    return [
        (outcome, _flaw(reasons.get(index, outcome)) if outcome == "rejected" else None)
        for index, outcome in enumerate(reply.outcomes)
    ]


def _flaw(reason: str) -> Flaw:
    field = field_of(reason)
    return Flaw(field.partition(".")[2] if field.startswith("tasks[") else field, reason)


def answered(lines: list[Line], outcomes: list[Outcome]) -> Iterator[bytes]:
    """Yield a line per outcome."""
    found = iter(outcomes)
    for line in lines:
        outcome = next(found) if isinstance(line.task, NewTask) else ("rejected", line.task)
        yield encoded({"line": line.number, **outcome_object(outcome)})


def outcome_object(outcome: Outcome) -> dict[str, Any]:
    """Convert an outcome into an object for JSON."""
    name, flaw = outcome
    return {"outcome": name} | ({} if flaw is None else {"field": flaw.field, "detail": flaw.detail})


def _ended(number: int, error: TaskQueueError) -> bytes:
    problem = problem_of(error)
    return encoded({"line": number, "problem": problem.members() if problem else str(error)})


def encoded(value: Any) -> bytes:
    """Encode a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace") + b"\n"
