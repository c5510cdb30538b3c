"""What records and keys of a store are, for those who check them."""

from __future__ import annotations

from typing import Final

from taskqueue.core.tasks.task import STATE_NAMES, Task
from taskqueue.store.records import layout
from taskqueue.store.records.link_bytes import STATE_MASK

_PROJECT_BYTES: Final = 4


def described(record: bytes | None) -> str:
    """What a record in ids says of the task's state."""
    if record is None:
        return "the task is unknown"
    return f"its record says {state_text(record[0] & STATE_MASK if record else 0)}"


def state_text(number: int) -> str:
    """The name of a state."""
    return STATE_NAMES[number] if 0 < number < len(STATE_NAMES) else "nothing"


def task_at(key: bytes, record: bytes) -> Task:
    """The task of an entry in ids, which is not an awaited one."""
    return layout.task_of(layout.project_of(key), key[_PROJECT_BYTES:].decode(), record)


def taskid_of_attempt(key: bytes) -> str:
    """The taskid in a key made by ``layout.attempt_key``."""
    length = key[_PROJECT_BYTES]
    if len(key) != _PROJECT_BYTES + 1 + length + 1:
        raise ValueError(f"{len(key)} bytes, with a taskid of {length}")
    return key[_PROJECT_BYTES + 1 : -1].decode()
