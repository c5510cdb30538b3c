"""Decoding of path, query and body into a request of the protocol; problems name the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec.inspect import FloatType, ListType, StrType, UnionType, VarTupleType, type_info
from starlette.requests import Request

from taskqueue.protocol.checks import check_taskids
from taskqueue.protocol.codec import MALFORMED, MAX_MESSAGE_BYTES, encode
from taskqueue.protocol.reasons import reason_of
from taskqueue.texts.suggestions import MAX_CHARS, there_are
from taskqueue.web.access.visitors import visitor_of
from taskqueue.web.addresses import name_of
from taskqueue.web.api.http_operation import WHOSE, Operation
from taskqueue.web.api.problems import Problem, of_reason

BODY_BYTES: Final = MAX_MESSAGE_BYTES
"""Longest body of a request that is not streamed."""

JSON: Final = "application/json"
INF: Final = "inf"
"""Infinity in JSON, which lacks the number."""


class Asked(NamedTuple):
    """Request of the protocol, and the arguments in path, query and body."""

    request: Any
    said: Mapping[str, Any]


class Decoding:
    """Decoder of one operation's requests.

    Attributes:
        said: type of the arguments in query or body.
    """

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._parameters = operation.parameter_types()
        self.said = operation.said()
        kinds = {field.encode_name: type_info(field.type) for field in msgspec.structs.fields(self.said)}
        self._lists = {name for name, kind in kinds.items() if _may_be(kind, ListType, VarTupleType)}
        self._floats = {name for name, kind in kinds.items() if _may_be(kind, FloatType)}
        self._texts = {name for name, kind in kinds.items() if _may_be(kind, StrType)}

    async def asked(self, request: Request) -> Asked:
        """Decode a request.

        Raises:
            Problem: the request is invalid.
        """
        said = await self.arguments(request)
        return Asked(self.made(request, said), {**self.path(request), **said})

    async def arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments in the query or the body."""
        return self.query(request) if self._operation.has_query else self._of_body(await body_of(request))

    def parameter(self, request: Request, name: str) -> Any:
        """Return a parameter of the path, which is still percent-encoded, so that a taskid may have a slash."""
        written = unquote_to_bytes(request.path_params[name])
        try:
            return msgspec.convert(name_of(written.decode()), self._parameters[name], strict=False)
        except MALFORMED as error:
            raise of_reason(reason_of(error, name, self._parameters[name])) from None

    def path(self, request: Request) -> dict[str, Any]:
        """Return the parameters of the path."""
        return {name: self.parameter(request, name) for name in self._operation.parameters}

    def made(self, request: Request, said: Mapping[str, Any]) -> Any:
        """Make the protocol's request with these arguments."""
        operation = self._operation
        fields = {**self.path(request), **operation.fixed, **said}
        if operation.remake is not None:
            fields = operation.remake(fields)
        if WHOSE in operation.asks.__struct_fields__:
            fields[WHOSE] = visitor_of(request).actor
        made: Any = operation.asks(**fields)
        try:
            check_taskids(made)
            encode(made)
        except (*MALFORMED, OverflowError) as error:
            raise _problem(error) from None
        return made

    def query(self, request: Request) -> dict[str, Any]:
        """Return the arguments in the query."""
        found: dict[str, Any] = {}
        for name, value in query_of(request):
            if name in self._lists:
                found.setdefault(name, []).append(value)
            elif name in found:
                raise Problem(400, f"{name}: is given twice", name)
            else:
                found[name] = value
        return self._converted(found, strict=False)

    def _of_body(self, body: bytes) -> dict[str, Any]:
        value = decoded(body) if body else {}
        if self._operation.whole:
            value = {self._operation.whole: value}
        if isinstance(value, dict):
            value |= {name: inf for name in self._floats - self._texts if value.get(name) == INF}
        return self._converted(value, strict=True)

    def _converted(self, value: Any, *, strict: bool) -> dict[str, Any]:
        if isinstance(value, dict):
            self._check_names(value)
        try:
            said = msgspec.convert(value, self.said, strict=strict)
        except MALFORMED as error:
            raise _problem(error, "body" if strict else "query", self.said) from None
        return {name: getattr(said, name) for name in self.said.__struct_fields__}

    def _check_names(self, value: Mapping[Any, Any]) -> None:
        known = self.said.__struct_fields__
        wrong = next((name for name in value if name not in known), None)
        if wrong is not None:
            what = there_are(wrong, known) if known else "none is taken here"
            shown = wrong[:MAX_CHARS]
            raise Problem(400, f"unknown field {shown}: {what}", shown, "malformed")


def query_of(request: Request) -> list[tuple[str, str]]:
    """Split the query into arguments, in order."""
    written = request.scope["query_string"].decode("ascii", "replace")
    try:
        return parse_qsl(written, keep_blank_values=True, errors="strict", max_num_fields=10_000)
    except ValueError as error:
        raise Problem(400, f"query: {_words(error)}", "query") from None


async def body_of(request: Request, *types: str) -> bytes:
    """Read the body, which is JSON or of these types.

    Raises:
        Problem: the body is of another type, or too long.
    """
    check_type(request, *(types or (JSON,)))
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise Problem(413, f"body: at most {BODY_BYTES} bytes are taken", "body", "too-large")
    return bytes(body)


def type_of(request: Request) -> str:
    """Return the media type of the body, without parameters; empty if not given."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_type(request: Request, *types: str) -> None:
    """Check that the body, if there is one, is of one of these types.

    Raises:
        Problem: it is of another type.
    """
    found = type_of(request)
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if found not in types and (found or has_body):
        raise Problem(415, f"Content-Type: expected {' or '.join(types)}, not {found!r}", "Content-Type")


def decoded(body: bytes | str) -> Any:
    """Decode JSON.

    Raises:
        Problem: it is invalid.
    """
    try:
        return msgspec.json.decode(body)
    except MALFORMED as error:
        half = ValueError("a text has half of a surrogate pair, such as \\ud800") if _has_half_pair(body) else None
        raise _problem(half or error) from None


def _has_half_pair(body: bytes | str) -> bool:
    """Return whether valid JSON has a text with half of a surrogate pair; msgspec calls that truncated."""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except MALFORMED as error:
        return isinstance(error, UnicodeEncodeError)
    return False


def _problem(error: Exception, whole: str = "body", kind: type[msgspec.Struct] | None = None) -> Problem:
    if isinstance(error, OverflowError):
        return Problem(400, "body: a number has more than 64 bits", "body", "malformed")
    reason = reason_of(error, kind=kind)
    return of_reason(f"{whole}{reason.removeprefix('message')}" if reason.startswith("message: ") else reason)


def _words(error: ValueError) -> str:
    return "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "has too many arguments"


def _may_be(kind: Any, *wanted: type) -> bool:
    if isinstance(kind, UnionType):
        return any(_may_be(each, *wanted) for each in kind.types)
    return isinstance(kind, wanted)
