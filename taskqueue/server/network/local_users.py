"""Users of this machine who connect by ipc: their names, and what they may do; used by connections and the router.

    SO_PEERCRED ──uid──► "user:anna" ──► Caller with the role of daemon.ipc_role, for all projects

No key has such a name, because names of keys have no colon.
"""

from __future__ import annotations

import pwd
import re
from functools import lru_cache
from typing import Final

from taskqueue.protocol.callers import USER, Caller, Role

SAFE_NAME: Final = re.compile(r"(?![0-9]+\Z)[A-Za-z0-9_.@-]{1,64}\Z")
"""Names of users that are shown; other users appear by their number, which no such name can be taken for."""
USERS_MOST: Final = 1000
"""Users remembered, at most."""


@lru_cache(USERS_MOST)
def user_name(uid: int) -> str:
    """Return a user's name, such as ``user:anna``; ``user:1000`` if the system knows no name. Cached."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        name = ""
    return f"{USER}{name if SAFE_NAME.match(name) else uid}"


class LocalUsers:
    """Callers by ipc, all with one role."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._callers: dict[str, Caller] = {}

    def caller_of(self, name: str) -> Caller:
        """Return the caller of a name that ``user_name`` has made."""
        caller = self._callers.get(name)
        if caller is None:
            if len(self._callers) >= USERS_MOST:
                self._callers.clear()
            caller = self._callers[name] = Caller(name, self._role)
        return caller
