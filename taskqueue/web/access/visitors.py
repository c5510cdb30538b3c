"""Visitors, and whether one may do what it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from taskqueue.protocol.callers import RIGHTS_OF, Right, Role
from taskqueue.web.access.arrival import Arrival


@dataclass(frozen=True, slots=True)
class Visitor:
    """Visitor of the web process: a user or a program.

    name: name for users; empty if unknown.
    role: role of the access file, or without keys that of the proxy's user or of this machine's; None for a stranger.
    actor: what the web process says of itself, or without keys of the user, in ``taskqueue log``.
    csrf: CSRF token that its pages must send with a change; empty if none is required, because each request has
        a token.
    is_signed_in: True if the sign-in page was used, so the visitor can sign out.
    owner: user for whom the daemon is asked: see ``User``; empty without keys, and for a stranger.
    reach: what it may see and do: see ``User``; empty likewise.
    sees_all: True if all projects are its own.
    """

    name: str
    role: Role | None
    actor: str
    csrf: str = ""
    is_signed_in: bool = False
    owner: str = ""
    reach: tuple[str, ...] = ()
    sees_all: bool = True

    def may(self, right: Right) -> bool:
        """Return whether the visitor has this right."""
        return self.role is not None and right in RIGHTS_OF[self.role]


def visitor_of(request: HTTPConnection) -> Visitor:
    """Return the visitor of a request, as identified by the gate."""
    found: Visitor = request.state.visitor
    return found


def root_of(request: HTTPConnection) -> str:
    """Return the root path that the visitor of a request sees, which begins each address sent back."""
    arrival: Arrival = request.state.arrival
    return arrival.root


def demand(request: HTTPConnection, right: Right | None) -> None:
    """Check that the visitor has this right; None: it needs none.

    Raises:
        HTTPException: 401 if the visitor is unknown, 403 if it lacks the right.
    """
    visitor = visitor_of(request)
    if right is None or visitor.may(right):
        return
    if visitor.role is None:
        raise HTTPException(
            401, "sign in, or send Authorization: Bearer TOKEN", {"WWW-Authenticate": 'Bearer realm="taskqueue"'}
        )
    roles = " or ".join(role for role, rights in RIGHTS_OF.items() if right in rights)
    raise HTTPException(403, f"the role of {visitor.name} is {visitor.role}, and this takes {roles}")
