"""Callers: who sent a request, what their role allows, and which projects they reach.

    Frame.key ──access list──► Caller ──Incoming.caller──► checks (rights, names) ──► the core (things, lists, sums)

The daemon makes a caller of each name in the access file; without keys every peer is ``EVERYBODY``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Final, Literal, get_args

Right = Literal["look", "push", "work", "run", "rule", "speaks-for-others"]
UserRole = Literal["viewer", "producer", "fetcher", "operator", "admin"]
"""Role that a user can have, of the dashboard or by ipc: all but that of a web process."""
Role = Literal[UserRole, "web"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
RIGHTS_OF: Final[Mapping[Role, frozenset[Right]]] = {
    "viewer": frozenset({"look"}),
    "producer": frozenset({"look", "push"}),
    "fetcher": frozenset({"look", "push", "work"}),
    "operator": frozenset({"look", "push", "run"}),
    "admin": frozenset({"look", "push", "work", "run", "rule"}),
    "web": frozenset({"speaks-for-others"}),
}
USER_ROLES: Final[tuple[UserRole, ...]] = get_args(UserRole)

NO_RIGHTS: Final[frozenset[Right]] = frozenset()

LOCAL: Final = "local"
"""Name of the key with which commands on the daemon's machine may do everything, speak for others, too: its holder may
write the access file.
"""

USER: Final = "user:"
"""Beginning of the names of users who come by ``ipc://``; no name of the access file has a colon."""

ALL_PROJECTS: Final = "*"
ANSWERS_MOST: Final = 20_000
"""Names whose answers one scope remembers; then it begins anew."""
SHOWN_PATTERNS: Final = 3
"""Patterns that a message shows, at most."""


class Scope:
    """Projects that a key reaches: those whose names match a pattern of it, such as ``news-*``.

    Attributes:
        patterns: globs; case matters.
    """

    __slots__ = ("_answers", "_compiled", "patterns")

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        # Compiled when first asked: 20,000 keys, most of which are never heard, would take a second at each reading.
        self._compiled: re.Pattern[str] | None = None
        self._answers: dict[str, bool] = {}

    def has(self, project: str) -> bool:
        """Whether the project is one of these, known or not."""
        answer = self._answers.get(project)
        if answer is None:
            if len(self._answers) >= ANSWERS_MOST:
                self._answers.clear()
            answer = self._answers[project] = self._matches(project)
        return answer

    def among(self, projects: Iterable[str]) -> list[str]:
        """Return those of the names that are of these, in the same order."""
        answers = self._answers
        return [name for name in projects if (answer := answers.get(name)) or (answer is None and self.has(name))]

    def _matches(self, project: str) -> bool:
        if self._compiled is None:
            self._compiled = re.compile("|".join(map(translate, self.patterns)))
        return self._compiled.match(project) is not None

    def __str__(self) -> str:
        """Return the first patterns, for messages."""
        more = len(self.patterns) - SHOWN_PATTERNS
        return ", ".join(self.patterns[:SHOWN_PATTERNS]) + (f" and {more} more" if more > 0 else "")


class Caller:
    """Owner of the key by which a request came, or user who sent it by ipc.

    Attributes:
        name: of the key, or user:NAME; empty: the daemon has no keys.
        role: its role; None: the key is not in the access file any more, so it may do nothing.
        owner: name, and when it was authorised, by which a name that was revoked and authorised anew is told from the
            former one; empty: the daemon has no keys.
        scope: projects that it reaches; None: all.
        makes_projects: it may create projects, also by a push with ``auto_create``.
    """

    __slots__ = ("_rights", "makes_projects", "name", "owner", "role", "scope")

    def __init__(
        self, name: str, role: Role | None, created_at: float = 0.0, patterns: Sequence[str] = (ALL_PROJECTS,)
    ) -> None:
        self.name = name
        self.role = role
        self.owner = f"{name} {created_at!r}" if name else ""
        self.scope = None if ALL_PROJECTS in patterns else Scope(patterns)
        self._rights = RIGHTS_OF[role] if role is not None else NO_RIGHTS
        if name == LOCAL and role == "admin":
            self._rights |= RIGHTS_OF["web"]
        self.makes_projects = self.may("rule")

    def may(self, right: Right) -> bool:
        """Whether its role has this right."""
        return right in self._rights

    def reaches(self, project: str) -> bool:
        """Whether the project is one of its own, known or not."""
        return self.scope is None or self.scope.has(project)


EVERYBODY: Final = Caller("", "admin")
"""Every peer of a daemon without keys."""
