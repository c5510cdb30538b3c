"""Bases of all messages: request, change by an operator, reply, and the reply to a refused request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Generic, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from taskqueue.protocol.fields import PROTOCOL, SessionId

MAX_ACTOR_CHARS: Final = 128


class AnyReply:
    """Fields of every reply: ``n`` is the number of the request, ``v`` the version of the protocol."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def v(self) -> int: ...

        @property
        def n(self) -> int: ...


class Reply(Struct, AnyReply, kw_only=True, tag_field="type"):
    """Base of replies. A reply that users get without its envelope inherits from the type that they get instead.

    A Struct can't have two bases with fields, so that reply declares ``v`` and ``n`` itself:
    ``class TaskReply(TaskDetails, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="task-reply")``.
    """

    v: int = PROTOCOL
    n: int


R_co = TypeVar("R_co", bound=AnyReply, covariant=True)
T = TypeVar("T", bound=Struct)


def without_envelope(kind: type[T], reply: T) -> T:
    """Return a reply as its base ``kind``, which users get: without type, version and number."""
    return kind(*(getattr(reply, name) for name in kind.__struct_fields__))


class Request(Struct, Generic[R_co], kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Fields of every request. The base names the reply: ``class Status(Request["StatusReply"], tag="status")``.

    The client sets ``session`` and ``n`` when it sends the request, so callers leave them out. On the wire they have no
    defaults: the daemon refuses a request without them.

    Attributes:
        v: the protocol's version.
        session: chosen at random by a client process when it starts.
        n: this request's number in its session, from 1.
        for: name for which the web process asks, in Python ``for_name``: the daemon admits, limits and logs the request
            as that name's. Only a key with the right speaks-for-others may set it. Left out: the owner of the key.
    """

    v: Annotated[int, Meta(ge=PROTOCOL, le=PROTOCOL)] = PROTOCOL
    session: SessionId = ""
    n: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 0
    # Unset is left out of the message: a name costs those who act for themselves no byte.
    for_name: Annotated[str, Meta(max_length=64)] | UnsetType = field(default=UNSET, name="for")


class WaitingRequest(Request[R_co]):
    """A request that is answered when something has happened, or after its ``seconds``, whichever comes first."""

    if TYPE_CHECKING:

        @property
        def seconds(self) -> float: ...


class ChangeRequest(Request[R_co], kw_only=True):
    """Fields of a request by which a user changes something.

    Attributes:
        actor: user for whom the client asks, such as anna@web1, for ``taskqueue log``, where it stands behind the name
            of the client's key; empty: the name of the session.
    """

    actor: Annotated[str, Meta(max_length=MAX_ACTOR_CHARS)] = ""


class ErrorReply(Reply, tag="error"):
    """The request was refused; nothing of it was done.

    Attributes:
        code: one of the error codes, for programs.
        reason: one line for users, naming the field.
        n: number of the refused request; 0 if it could not be read.
    """

    code: str
    reason: str
