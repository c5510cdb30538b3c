"""Refuses what the role of a request's caller does not allow.

Frame.key ──caller_of──► Caller ──may──► the core
                               └──────► Rejected("forbidden")
"""

from __future__ import annotations

from collections.abc import Callable

from taskqueue.access.rights import request_name, right_of, role_for
from taskqueue.errors import Rejected
from taskqueue.protocol.callers import EVERYBODY, Caller, Role
from taskqueue.protocol.messages import AnyRequest

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
