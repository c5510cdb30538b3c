"""Where what somebody waits for is put, once: its result, or why there is none."""

from __future__ import annotations

from typing import Protocol, TypeVar

A_contra = TypeVar("A_contra", contravariant=True)


class Answer(Protocol[A_contra]):
    """Somebody waits for it; a future of asyncio is one."""

    def done(self) -> bool:
        """There is an outcome, or the caller has given up."""

    def set_result(self, result: A_contra, /) -> None:
        """The outcome."""

    def set_exception(self, error: Exception, /) -> None:
        """There won't be one."""
