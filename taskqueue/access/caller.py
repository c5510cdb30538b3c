"""Callers: who sent a request, and the door that refuses what their role does not allow.

Frame.key ──caller_of──► Caller ──may──► the core
                               └──────► Rejected("forbidden")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from taskqueue.access.rights import RIGHTS_OF, Right, Role, request_name, right_of, role_for
from taskqueue.errors import Rejected
from taskqueue.protocol.messages import AnyRequest

NO_RIGHTS: Final[frozenset[Right]] = frozenset()


class Caller:
    """The owner of the key by which a request came.

    Attributes:
        name: of the key; empty: the daemon has no keys.
        role: its role; None: the key is not in the access file any more, so it may do nothing.
        makes_projects: it may create projects, also by a push with ``auto_create``.
    """

    __slots__ = ("_rights", "makes_projects", "name", "role")

    def __init__(self, name: str, role: Role | None) -> None:
        self.name = name
        self.role = role
        self._rights = RIGHTS_OF[role] if role is not None else NO_RIGHTS
        self.makes_projects = self.may("rule")

    def may(self, right: Right) -> bool:
        """Whether its role has this right."""
        return right in self._rights


EVERYBODY: Final = Caller("", "admin")
"""Every peer of a daemon without keys."""

CallerOf = Callable[[str], Caller]
"""The caller by the name of a connection's key."""


def everybody(name: str) -> Caller:
    """Return the caller of a daemon without keys."""
    return EVERYBODY


def check_right(caller: Caller, request: AnyRequest) -> None:
    """Refuse a request that the caller's role does not allow; a batch as a whole.

    Raises:
        Rejected: with the code ``forbidden``: what was asked for, who asked, and what to do.
    """
    right = right_of(request)
    if caller.may(right):
        return
    what = request_name(request)
    if caller.role is None:
        raise Rejected("forbidden", f'{what}: the access file has no "{caller.name}"; have an admin authorise a key')
    needed = _with_article(role_for(right))
    raise Rejected(
        "forbidden",
        f"{caller.name} is {_with_article(caller.role)}, and {what} takes {needed}; use a key of that role, "
        f"taskqueue key list shows all",
    )


def _with_article(role: Role) -> str:
    return f"{'an' if role[0] in 'ao' else 'a'} {role}"
