"""A row for each operation of the HTTP interface, and the types by which its path, query and body are decoded.

    GET /projects/{project}/tasks?state=failed ──► TaskList ──daemon──► TaskListReply ──► JSON

Each field of the protocol's request comes from one place only: from the path if its name stands there, else from what
the row fixes, else from the query (of a method that has no body) or the body. ``v``, ``session``, ``n`` and ``actor``
are the web process's business.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import NODEFAULT, Struct
from starlette.requests import Request
from starlette.responses import Response

from taskqueue.protocol.base import ChangeRequest, WaitingRequest
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.messages import REPLY_TO, AnyRequest
from taskqueue.web.roles import Role

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

WITH_QUERY: Final = ("GET", "DELETE")
"""Methods whose arguments stand in the query."""

WHOSE: Final = "actor"
"""The field of a change that says who asks."""

OWN: Final = frozenset(ChangeRequest.__struct_fields__)
"""Fields of a request that are not its sender's."""

Further = Callable[[Any, Mapping[str, Any]], Mapping[str, Any] | None]
"""Of a reply, and of what was asked: the query's arguments that ask for the page after it; None: there is none."""

Shown = Callable[[Any, Mapping[str, Any]], Struct]
"""Makes of a reply, and of what was asked, what is answered.

Raises:
    Problem: the reply has nothing of what was asked.
"""

Remake = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes of the decoded arguments the fields of the protocol's request."""

Endpoint = Callable[[Request], Awaitable[Response]]

_PARAMETER: Final = re.compile(r"\{(\w+)\}")

NOTHING: Final[Mapping[str, Any]] = {}


_SAID: Final[dict[str, type[Struct]]] = {}
"""By name of an operation. Made once and kept: when such a type is collected, msgspec 0.21 crashes the process."""


class Operation(NamedTuple):
    """An operation.

    Attributes:
        path: below ``/api/v1``, with parameters.
        role: the least that a visitor must have.
        asks: type of the protocol's request.
        summary: one line.
        fixed: fields of the request that the operation says by itself.
        whole: the field that the body is, whole; empty: the body has a key for each field.
        arguments: type of what is said in the query or the body, and
        remake: what makes fields of the request of it; None: they are the fields of the request themselves.
        further: see ``Further``; None: there are no pages.
        endpoint: makes what answers, if it is not the daemon's request and reply alone.
        own_reply: type of what is answered, if it is not the daemon's reply: the endpoint makes it, or
        shown: does.
        takes, gives: media types of the body and of the reply, beside JSON.
    """

    method: Method
    path: str
    role: Role
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
        """Names it, in words of its method and path: ``get-projects-tasks``."""
        return "-".join([self.method.lower(), *re.findall(r"[\w.]+", self.path)]).replace(".", "-")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in the path."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def has_query(self) -> bool:
        """Its arguments stand in the query."""
        return self.method in WITH_QUERY

    @property
    def answers(self) -> type[Any]:
        """Type of its reply."""
        return self.own_reply or REPLY_TO[self.asks]

    @property
    def waits(self) -> bool:
        """It is answered when something has happened, or after ``seconds``."""
        return issubclass(self.asks, WaitingRequest | Hello)

    @property
    def is_long(self) -> bool:
        """It lasts until something happens, or for as long as its sender likes."""
        return self.waits or bool(self.takes)

    def parameter_types(self) -> dict[str, Any]:
        """Types of the names in the path."""
        types = {field.name: field.type for field in msgspec.structs.fields(self.asks)}
        if self.arguments is not None:
            types |= {field.name: field.type for field in msgspec.structs.fields(self.arguments)}
        return {name: types[name] for name in self.parameters}

    def said(self) -> type[Struct]:
        """Type of what the query or the body says."""
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
    """A field as ``defstruct`` takes it."""
    if field.default is not NODEFAULT:
        return field.name, field.type, field.default
    if field.default_factory is not NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type
