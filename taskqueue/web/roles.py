"""Roles of visitors: viewers look, operators run and push, admins change settings and delete."""

from __future__ import annotations

from typing import Final, Literal, get_args

Role = Literal["anyone", "viewer", "operator", "admin"]
"""From lowest to highest; each may do what lower ones may."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)

GRANTED: Final[tuple[Role, ...]] = ROLES[1:]
"""Roles that a token or a proxy can grant."""
