"""Who asks, and whether that visitor may do what is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from taskqueue.web.access.arrival import Arrival
from taskqueue.web.roles import ROLES, Role


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks.

    Attributes:
        name: for people; empty: nobody has said.
        role: the most that it may do.
        actor: as the change log shall name it.
        csrf: what a page of its own has to send along with a change; empty: none is asked for, as of whoever shows a
            token with each request.
        is_signed_in: by the sign-in page, so it can sign out.
    """

    name: str
    role: Role
    actor: str
    csrf: str = ""
    is_signed_in: bool = False

    def may(self, role: Role) -> bool:
        """Whether it may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def visitor_of(request: HTTPConnection) -> Visitor:
    """Who asks, as the gate has found out."""
    found: Visitor = request.state.visitor
    return found


def root_of(request: HTTPConnection) -> str:
    """The path below which whoever asks sees the pages: it stands before each address that is sent back."""
    arrival: Arrival = request.state.arrival
    return arrival.root


def demand(request: HTTPConnection, role: Role) -> None:
    """See that whoever asks may do what this role may.

    Raises:
        HTTPException: 401: it is not known who asks; 403: it may not.
    """
    visitor = visitor_of(request)
    if visitor.may(role):
        return
    if visitor.role == "anyone":
        raise HTTPException(
            401, "sign in, or send Authorization: Bearer TOKEN", {"WWW-Authenticate": 'Bearer realm="taskqueue"'}
        )
    raise HTTPException(403, f"the role of {visitor.name} is {visitor.role}, and this takes {role}")
