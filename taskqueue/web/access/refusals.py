"""What is said to those who may not pass the gate: a line of text, or problem+json (RFC 9457) below ``/api``."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import JSONResponse, PlainTextResponse, Response

from taskqueue.visible_text import visible

MOST_CHARS = 400


class Refused(Exception):
    """A request that goes no further.

    Attributes:
        status: of HTTP.
        why: one line for people.
        retry_seconds: when it makes sense to try again; 0: not by itself.
    """

    def __init__(self, status: int, why: str, retry_seconds: int = 0) -> None:
        super().__init__(why)
        self.status = status
        self.why = visible(why)[:MOST_CHARS]
        self.retry_seconds = retry_seconds


def answer_to(refused: Refused, path: str) -> Response:
    """The response; its connection ends, because nobody reads the rest of the request."""
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
