"""Visitors, and whether one may do what it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from taskqueue.web.access.arrival import Arrival
from taskqueue.web.roles import ROLES, Role


@dataclass(frozen=True, slots=True)
class Visitor:
    """Visitor of the web process: a user or a program.

    name: name for users; empty if unknown.
    role: highest role that the visitor has.
    actor: name in ``taskqueue log``.
    csrf: CSRF token that its pages must send with a change; empty if none is required, because each request has
        a token.
    is_signed_in: True if the sign-in page was used, so the visitor can sign out.
    """

    name: str
    role: Role
    actor: str
    csrf: str = ""
    is_signed_in: bool = False

    def may(self, role: Role) -> bool:
        """Return whether the visitor has at least this role."""
        return ROLES.index(self.role) >= ROLES.index(role)


def visitor_of(request: HTTPConnection) -> Visitor:
    """Return the visitor of a request, as identified by the gate."""
    found: Visitor = request.state.visitor
    return found


def root_of(request: HTTPConnection) -> str:
    """Return the root path that the visitor of a request sees, which begins each address sent back."""
    arrival: Arrival = request.state.arrival
    return arrival.root


def demand(request: HTTPConnection, role: Role) -> None:
    """Check that the visitor has at least this role.

    Raises:
        HTTPException: 401 if the visitor is unknown, 403 if it lacks the role.
    """
    visitor = visitor_of(request)
    if visitor.may(role):
        return
    if visitor.role == "anyone":
        raise HTTPException(
            401, "sign in, or send Authorization: Bearer TOKEN", {"WWW-Authenticate": 'Bearer realm="taskqueue"'}
        )
    raise HTTPException(403, f"the role of {visitor.name} is {visitor.role}, and this takes {role}")
