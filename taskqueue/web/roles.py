"""What a visitor may do: viewers look, operators run and push, admins change settings and delete."""

from __future__ import annotations

from typing import Final, Literal, get_args

Role = Literal["anyone", "viewer", "operator", "admin"]
"""From the least to the most; each may do what those before it may."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)

GRANTED: Final[tuple[Role, ...]] = ROLES[1:]
"""Those that a token or a proxy can give."""
