"""What the address of a page asks for."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

DIGITS_MOST: Final = 18
"""Of a number: what has more is no place in any list."""


def number_of(request: Request, name: str) -> int:
    """The number of that name in the query; 0: there is none, or it is none that could be meant."""
    written = request.query_params.get(name, "")
    return int(written) if written.isascii() and written.isdecimal() and len(written) <= DIGITS_MOST else 0
