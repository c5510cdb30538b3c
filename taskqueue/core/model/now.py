"""Time on both clocks, passed as an argument."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from taskqueue.protocol.fields import Boot, Wall


@mypyc_attr(acyclic=True)
class Now:
    """Point in time on both clocks; immutable.

    Not a struct, because it is read seven times in each task's life, and compiled code reads fields of structs slowly.
    """

    __slots__ = ("boot", "wall")

    def __init__(self, wall: Wall, boot: Boot) -> None:
        self.wall: Final = wall
        self.boot: Final = boot
