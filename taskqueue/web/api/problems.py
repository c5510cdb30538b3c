"""Problems with a request as problem+json (RFC 9457), with the field that is wrong."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from taskqueue.errors import ClientClosed, MessageTooLarge, Rejected, RequestRejected, RequestTimeout, TaskQueueError

MEDIA_TYPE: Final = "application/problem+json"

RETRY_SECONDS: Final = 2
"""Retry-After sent while the daemon is unreachable or refuses."""

STATUS_OF_CODE: Final = {
    "forbidden": 403,
    "full": 429,
    "not-yours": 409,
    "too-large": 413,
    "too-old": 503,
    "too-far": 503,
    "unavailable": 503,
    "version": 502,
}
"""HTTP status by the daemon's error code; ``unknown-…`` is 404, any other 400."""

_FIELD: Final = re.compile(r"([A-Za-z_][\w.\[\]\-]*): ")
"""Match the field at the beginning of a reason."""

_KEY: Final = re.compile(r"(?:missing required|unknown) field (\S+)")
"""Match a wrong key in that field, or in the whole."""

_SETTING: Final = re.compile(r"([\w.\-]+) ")

WHOLES: Final = ("body", "query")


class Problem(Exception):
    """The request can't be answered.

    Attributes:
        status: HTTP status.
        detail: one line for users.
        field: wrong field; empty for the request as a whole.
        code: error code of the daemon or of this API, for programs.
        headers: headers of the response.
    """

    def __init__(self, status: int, detail: str, field: str = "", code: str = "", **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field
        self.code = code or HTTPStatus(status).phrase.lower().replace(" ", "-")
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON object."""
        said = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        return said | ({"field": self.field} if self.field else {})

    def response(self) -> Response:
        """Make the response."""
        return JSONResponse(self.members(), self.status, self.headers, MEDIA_TYPE)


def of_reason(reason: str, status: int = 400, code: str = "malformed") -> Problem:
    """Make a problem from a reason of the protocol: ``field: what is wrong``."""
    return Problem(status, reason, field_of(reason, code), code)


def field_of(reason: str, code: str = "") -> str:
    """Return the field that a reason is about; empty if it names none."""
    named = _FIELD.match(reason) or (_SETTING.match(reason) if code == "setting" else None)
    field = named[1] if named else ""
    key = _KEY.search(reason)
    if key is None:
        return field
    return key[1] if field in ("", *WHOLES) else f"{field}.{key[1]}"


def problem_of(error: Exception) -> Problem | None:
    """Convert an error into the problem for the client; None if the error is a bug."""
    match error:
        case Problem():
            return error
        case RequestRejected(code=code):
            status = 404 if code.startswith("unknown-") else STATUS_OF_CODE.get(code, 400)
            problem = of_reason(error.reason, status, code)
            if status in (429, 503):
                problem.headers["Retry-After"] = str(RETRY_SECONDS)
            return problem
        case Rejected():
            return of_reason(error.reason, 413 if error.code == "too-large" else 400, error.code)
        case MessageTooLarge():
            return Problem(413, str(error), code="too-large")
        case RequestTimeout() | ClientClosed():
            return Problem(503, str(error), code="unavailable", Retry_After=str(RETRY_SECONDS))
        case TaskQueueError():
            return Problem(502, str(error), code="unavailable")
        case HTTPException():
            return Problem(error.status_code, error.detail, **dict(error.headers or {}))
    return None
