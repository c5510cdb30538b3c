"""Every error that taskqueue raises, in one tree.

Three families meet inside the daemon, with a rule for each:

* ``Rejected``: the peer's fault. It is answered and counted, never logged as an error.
* ``StoreError``: the world's fault. The core is thrown away and loaded again from the store.
* ``Corrupt``: our fault. The daemon stops, loudly.

The others are for people at the edges: ``ConfigError`` for whoever wrote a setting, ``ClientError`` for
whoever calls the daemon. A message says what was wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_REASON_CHARS: Final = 400
"""Longest reason that is sent to a peer."""


class TaskQueueError(Exception):
    """Base of all errors of this package."""


class Rejected(TaskQueueError):
    """A request that can't be taken: its sender is told why.

    Attributes:
        code: one of the error codes of docs/reference/protocol.md, for programs.
        reason: one line for people, naming the field.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        # What a reason quotes is as long as its sender likes.
        self.reason = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1]}…"


class StoreError(TaskQueueError):
    """The store failed to read, write or sync; what it holds is what it last acknowledged."""


class PassingError(StoreError):
    """What the store lies on fails in a way that may pass by itself, so it makes sense to try again.

    Attributes:
        reason: why, in words without names and paths, such as "No space left on device".
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DiskError(PassingError):
    """The disk of the store has no room or does not work."""


class DatabaseError(PassingError):
    """The database of the store can't be reached, or is not ready to work."""


class Fenced(StoreError):
    """Another scheduler has begun a newer epoch on this store: this one must stop."""


class FormatError(StoreError):
    """The store was written in a format that this version can't open; the message says what to do."""


class Damaged(StoreError):
    """The store has lost changes that were safe; the message says which, in lines, and what to do."""


class Unreadable(Damaged):
    """Rows of the store can't be decoded, fail their checksums, or lack what belongs to them.

    Attributes:
        rows: (family, key, reason) of each.
    """

    def __init__(self, rows: Sequence[tuple[str, bytes, str]]) -> None:
        (family, key, reason), more = rows[0], len(rows) - 1
        others = f", and {more:,} more rows" if more else ""
        super().__init__(
            f"store: family {family}, key {key.hex()}{others}: can't be read ({reason}); "
            "taskqueue store check lists all damage, taskqueue store repair saves what can be saved"
        )
        self.rows = rows


class Corrupt(TaskQueueError):
    """An invariant is broken: a bug. Continuing could lose tasks, so nothing continues."""


class ConfigError(TaskQueueError):
    """What the config asks for can't be had here. The message names file, key and reason."""


class SettingError(ConfigError):
    """A setting that can't be, wherever it is said, or a config file that has none; what is tried again fails again."""


class Hung(TaskQueueError):
    """Handlers of a worker go on after their leases and can't be ended; the message says where, and for how long."""


class ClientError(TaskQueueError):
    """A call to the daemon failed."""


class RequestTimeout(ClientError):
    """No answer came in time. The request may have been done; repeating it by its number is safe.

    Attributes:
        why: what is known of the reason, such as that nothing listens there; empty: unknown.
        heard: the daemon is there, and says that it can't.
    """

    def __init__(self, message: str = "", why: str = "", *, heard: bool = False) -> None:
        super().__init__(message)
        self.why = why
        self.heard = heard


class RequestRejected(ClientError):
    """The daemon refused the request.

    Attributes:
        code: one of the error codes of docs/reference/protocol.md.
        reason: one line for people.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class MessageTooLarge(ClientError):
    """A message over ``max_message`` bytes: it was not sent, because the daemon would cut the connection."""


class BacklogFull(ClientError):
    """Too much that was said by ``push_soon`` and ``report_soon`` has no outcome yet; nothing was done."""


class ClientClosed(ClientError):
    """The client was closed while, or before, the call was made."""
