"""Answers to requests that the gate refuses: a line of text, or problem+json (RFC 9457) below ``/api``."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import JSONResponse, PlainTextResponse, Response

from taskqueue.texts.visible_text import visible

MOST_CHARS = 400


class Refused(Exception):
    """The gate refuses a request.

    Attributes:
        status: HTTP status.
        why: one line for users.
        retry_seconds: seconds after which trying again makes sense; 0 if it never does.
    """

    def __init__(self, status: int, why: str, retry_seconds: int = 0) -> None:
        super().__init__(why)
        self.status = status
        self.why = visible(why)[:MOST_CHARS]
        self.retry_seconds = retry_seconds


def answer_to(refused: Refused, path: str) -> Response:
    """Make the response; it closes the connection, because the rest of the request is not read."""
    headers = {"Connection": "close"}
    if refused.retry_seconds:
        headers["Retry-After"] = str(refused.retry_seconds)
    if refused.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="taskqueue"'
    if not path.startswith("/api/"):
        return PlainTextResponse(f"{refused.why}\n", refused.status, headers)
    problem = {
        "type": "about:blank",
        "title": HTTPStatus(refused.status).phrase,
        "status": refused.status,
        "detail": refused.why,
    }
    return JSONResponse(problem, refused.status, headers, "application/problem+json")
