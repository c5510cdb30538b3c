"""Rows for the operations of the HTTP API, and the types that decode path, query and body.

    GET /projects/{project}/tasks?state=failed ──► TaskList ──daemon──► TaskListReply ──► JSON

Each field of the protocol's request has one source: the path if its name is there, otherwise a fixed value of the row,
otherwise the query (for a method without a body) or the body. The web process sets ``v``, ``session``, ``n`` and
``actor``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import NODEFAULT, Struct
from starlette.requests import Request
from starlette.responses import Response

from taskqueue.access.rights import right_with
from taskqueue.protocol.base import ChangeRequest, WaitingRequest
from taskqueue.protocol.callers import Right
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.messages import REPLY_TO, AnyRequest

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

WITH_QUERY: Final = ("GET", "DELETE")
"""Methods with arguments in the query."""

WHOSE: Final = "actor"
"""Field of a change that names the user who asks."""

OWN: Final = frozenset(ChangeRequest.__struct_fields__)
"""Fields of a request that its sender does not set."""

Further = Callable[[Any, Mapping[str, Any]], Mapping[str, Any] | None]
"""Function of a reply and the arguments: arguments of the query for the next page; None if there is none."""

Shown = Callable[[Any, Mapping[str, Any]], Struct]
"""Function of a reply and the arguments: the answer.

Raises:
    Problem: the reply does not contain what was asked for.
"""

Remake = Callable[[dict[str, Any]], dict[str, Any]]
"""Function from decoded arguments to fields of the protocol's request."""

Endpoint = Callable[[Request], Awaitable[Response]]

_PARAMETER: Final = re.compile(r"\{(\w+)\}")

NOTHING: Final[Mapping[str, Any]] = {}


_SAID: Final[dict[str, type[Struct]]] = {}
"""Types by name of an operation. Kept for ever: when such a type is collected, msgspec 0.21 crashes the process."""


class Operation(NamedTuple):
    """Operation of the HTTP API.

    Attributes:
        path: path below ``/api/v1``, with parameters.
        asks: type of the protocol's request.
        summary: one line.
        fixed: fields of the request with fixed values.
        whole: field that is the whole body; empty if the body has a key for each field.
        arguments: type of the arguments in query or body; None: the fields of the request.
        remake: converts the arguments into fields of the request; None: they are these fields.
        further: see ``Further``; None: there are no pages.
        endpoint: makes the endpoint, unless it is just the daemon's request and reply.
        own_reply: type of the answer, unless it is the daemon's reply; made by the endpoint or by
        shown: see ``Shown``.
        takes, gives: media types of the body and of the reply, beside JSON.
    """

    method: Method
    path: str
    asks: type[AnyRequest]
    summary: str
    fixed: Mapping[str, Any] = NOTHING
    whole: str = ""
    arguments: type[Struct] | None = None
    remake: Remake | None = None
    further: Further | None = None
    endpoint: Callable[[Operation], Endpoint] | None = None
    own_reply: type[Struct] | None = None
    shown: Shown | None = None
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name made of method and path: ``get-projects-tasks``."""
        return "-".join([self.method.lower(), *re.findall(r"[\w.]+", self.path)]).replace(".", "-")

    @property
    def right(self) -> Right:
        """Right that a visitor needs: that of the request."""
        return right_with(self.asks, self.fixed.get("action", ""))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in the path."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def has_query(self) -> bool:
        """True if the arguments are in the query."""
        return self.method in WITH_QUERY

    @property
    def answers(self) -> type[Any]:
        """Type of the reply."""
        return self.own_reply or REPLY_TO[self.asks]

    @property
    def waits(self) -> bool:
        """True if the answer waits for an event, or ``seconds``."""
        return issubclass(self.asks, WaitingRequest | Hello)

    @property
    def is_long(self) -> bool:
        """True for long polls and streams."""
        return self.waits or bool(self.takes)

    def parameter_types(self) -> dict[str, Any]:
        """Return the types of the names in the path."""
        types = {field.name: field.type for field in msgspec.structs.fields(self.asks)}
        if self.arguments is not None:
            types |= {field.name: field.type for field in msgspec.structs.fields(self.arguments)}
        return {name: types[name] for name in self.parameters}

    def said(self) -> type[Struct]:
        """Return the type of the arguments in query or body."""
        if self.name not in _SAID:
            _SAID[self.name] = self._said()
        return _SAID[self.name]

    def _said(self) -> type[Struct]:
        own = {*OWN, *self.parameters, *self.fixed}
        fields = [
            _defined(field) for field in msgspec.structs.fields(self.arguments or self.asks) if field.name not in own
        ]
        return msgspec.defstruct(
            f"{''.join(part.title() for part in self.name.split('-'))}Arguments",
            sorted(fields, key=len),
            forbid_unknown_fields=True,
            kw_only=True,
        )


def _defined(field: msgspec.structs.FieldInfo) -> Any:
    """Convert a field into an argument of ``defstruct``."""
    if field.default is not NODEFAULT:
        return field.name, field.type, field.default
    if field.default_factory is not NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type
