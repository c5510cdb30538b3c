"""Who asks, and what he may do: viewers look, operators run and push, admins change settings and delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

Role = Literal["anyone", "viewer", "operator", "admin"]
"""From the least to the most; each may do what those before it may."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks.

    Attributes:
        name: for people; empty: nobody has said.
        role: the most that it may do.
        actor: as the change log shall name it.
        csrf: what a page of its own has to send along with a change.
    """

    name: str
    role: Role
    actor: str
    csrf: str = ""

    def may(self, role: Role) -> bool:
        """Whether it may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def visitor_of(request: HTTPConnection) -> Visitor:
    """Who asks, as the gate has found out."""
    found: Visitor = request.state.visitor
    return found


def demand(request: HTTPConnection, role: Role) -> None:
    """See that whoever asks may do what this role may.

    Raises:
        HTTPException: 401: it is not known who asks; 403: it may not.
    """
    visitor = visitor_of(request)
    if visitor.may(role):
        return
    if visitor.role == "anyone":
        raise HTTPException(401, "it is not known who asks")
    raise HTTPException(403, f"{visitor.name} is {visitor.role}, and this is for those who are {role}")
