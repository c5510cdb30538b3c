"""Pushing tasks: one, several, or as many as somebody sends.

application/json      an object or a url ──► its outcome, or a problem; a list of them ──► their outcomes
application/x-ndjson  a line for each ──► a line for each, while it goes on
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from taskqueue.protocol.fields import MAX_BATCH, NewTask
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.web.api.answering import in_json, repeats_of
from taskqueue.web.api.decoding import JSON, Decoding, body_of, check_type, decoded, type_of
from taskqueue.web.api.operation import Endpoint, Operation
from taskqueue.web.api.problems import Problem
from taskqueue.web.api.repeats import HEADER
from taskqueue.web.api.task_objects import Flaw, task_of
from taskqueue.web.api.task_stream import Line, LineSplitter, Outcome, TaskStream, answered, outcomes_of, push, told
from taskqueue.web.services import services_of

LINES: Final = "application/x-ndjson"


class Streamed(Response):
    """A response whose content is made while the request's body is still read."""

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(media_type=LINES, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as fast as it is taken."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for piece in self._content:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ClientDisconnect:
            return
        await send({"type": "http.response.body", "body": b""})


def pushing(operation: Operation) -> Endpoint:
    """The endpoint by which tasks are pushed."""
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
        return in_json({"outcomes": [told(outcome) for outcome in outcomes]})
    name, flaw = outcomes[0]
    if flaw is not None:
        if flaw.field == "project":
            raise Problem(404, flaw.detail, flaw.field, "unknown-project")
        raise Problem(400, flaw.detail, flaw.field, name)
    return in_json({"outcome": name})


async def _take_lines(request: Request, project: str) -> Response:
    """All lines at once: with a key, what is asked has to be known before it is done."""
    splitter = LineSplitter()
    body = await body_of(request, LINES)
    lines: list[Line] = [*splitter.feed(body), *splitter.end()]
    outcomes = await _push(request, project, [line.task for line in lines])
    sent = [outcome for line, outcome in zip(lines, outcomes, strict=True) if isinstance(line.task, NewTask)]
    return Response(b"".join(answered(lines, sent)), media_type=LINES)


async def _push(request: Request, project: str, items: list[NewTask | Flaw]) -> list[Outcome]:
    """Push what are tasks; what are none is rejected in its place."""
    tasks = [item for item in items if isinstance(item, NewTask)]
    client = services_of(request).client
    asked: Any = NewTasks(session="", n=0, project=project, tasks=list(tasks))
    with repeats_of(request).known_as(request, asked) as known:
        if known is None:
            found = iter(await push(client, project, tasks))
        elif len(tasks) > MAX_BATCH:
            raise Problem(413, f"body: with {HEADER} at most {MAX_BATCH} tasks are taken", "body", "too-large")
        else:
            found = iter(outcomes_of(await client.ask(asked, NewTasksReply, known_as=known)))
        return [next(found) if isinstance(item, NewTask) else ("rejected", item) for item in items]
