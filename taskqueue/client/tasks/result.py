"""What a task's success leaves behind: any value that MessagePack has, of 64 KiB at most."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from taskqueue.client.tasks.new_task import packed
from taskqueue.protocol.fields import MAX_RESULT_BYTES, NIL


class Result:
    """Returned or yielded by a handler, alone or beside new tasks: kept with its task if that succeeds.

    It is kept as long as the task's body, until its next success; ``client.tasks.show`` has it.

    Args:
        value: of 65,536 bytes as MessagePack, at most; None is no result.

    Raises:
        TypeError, ValueError: MessagePack has no such value, or it is too large.
    """

    __slots__ = ("packed",)

    def __init__(self, value: Any) -> None:
        self.packed = packed_result(value)


def packed_result(value: Any) -> Raw:
    """A result as it is sent; nil for None.

    Raises:
        TypeError, ValueError: MessagePack has no such value, or it is too large.
    """
    if value is None:
        return NIL
    result = packed(value, {"result": value})
    if len(result) > MAX_RESULT_BYTES:
        raise ValueError(f"result: {len(result)} bytes as MessagePack, at most {MAX_RESULT_BYTES} are taken")
    return result
