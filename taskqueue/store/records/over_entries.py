"""Values in the orders of finished states: the taskid, and what is known of the last attempt of the task.

    success  0xff, length of the taskid, seconds, taskid, fetcher      failed  0xfe, length of the taskid, taskid, error

Both are there so that a success costs no write of its own, and a search for errors no look-up.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import Final

from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.core.tasks.task import KEY_BYTES, key_time

WITH_ATTEMPT: Final = 0xFF
"""First byte of a success with its attempt; no taskid begins with it, because it is never found in UTF-8."""
_SUCCESS: Final = Packing(">BBf")


def encode_success(taskid: str, attempt: AttemptRecord) -> bytes:
    """A value in the order of successes, with the task's last attempt, which its history then does not have."""
    text = taskid.encode()
    return _SUCCESS.pack(WITH_ATTEMPT, len(text), attempt.seconds) + text + attempt.fetcher.encode()


def taskid_at(value: bytes) -> bytes:
    """The taskid in a value of the order of a finished state."""
    if value[0] == WITH_ERROR:
        return value[2 : 2 + value[1]]
    return value[_SUCCESS.size :][: value[1]] if has_attempt(value) else value


WITH_ERROR: Final = 0xFE
"""First byte of a failed task's value that has the error of its attempt; like 0xff it never begins UTF-8."""

MAX_INLINE_ERROR_BYTES: Final = 512
"""A longer error, such as a long traceback, is stored in the history only."""


def encode_failed(taskid: str, error: str) -> bytes:
    """A value in the order of failed tasks, with the error if it is short, so that a search for errors needs no
    look-up.
    """
    text, said = taskid.encode(), error.encode()
    return text if len(said) > MAX_INLINE_ERROR_BYTES else bytes((WITH_ERROR, len(text))) + text + said


def error_at(value: bytes) -> str | None:
    """The error in a value of the order of a finished state; None: the history may have it."""
    return value[2 + value[1] :].decode() if value[0] == WITH_ERROR else None


def has_attempt(value: bytes) -> bool:
    """Whether this value of the order of a finished state contains the task's last attempt."""
    return value[0] == WITH_ATTEMPT


def decode_success(key: bytes, value: bytes) -> AttemptRecord | None:
    """The attempt of the task at a key of the successes; None if the value has none."""
    if not has_attempt(value):
        return None
    _, length, seconds = _SUCCESS.unpack_from(value)
    place = int.from_bytes(key[-KEY_BYTES:], "big")
    return AttemptRecord(key_time(place), "success", value[_SUCCESS.size + length :].decode(), seconds)
