"""All errors that taskqueue raises, in one tree.

Three families occur inside the daemon, with a rule for each:

* ``Rejected``: the peer's fault. The daemon answers and counts it, and never logs it as an error.
* ``StoreError``: the environment's fault. The daemon drops the core and loads it again from the store.
* ``Corrupt``: our fault. The daemon stops, loudly.

The others are for users: ``ConfigError`` for the author of a setting, ``ClientError`` for callers of the daemon. A
message says what was wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_REASON_CHARS: Final = 400
"""Longest reason that is sent to a peer, in characters."""

WRONG_SETTING: Final = 2
UNAUTHORISED: Final = 77
"""EX_NOPERM of sysexits.h."""
STATUSES: Final = {"setting": WRONG_SETTING, "forbidden": UNAUTHORISED}
"""Exit statuses of commands by the code of a refusal; of any other code 1."""


class TaskQueueError(Exception):
    """Base of all errors of this package."""


class Rejected(TaskQueueError):
    """The daemon refuses a request, and sends its reason to the client.

    Attributes:
        code: one of the error codes of docs/reference/protocol.md, for programs.
        reason: one line for users that names the field.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        # What a reason quotes may be of any length.
        self.reason = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1]}…"


class StoreError(TaskQueueError):
    """The store failed to read, write or sync; it contains what it last acknowledged."""


class PassingError(StoreError):
    """The disk or database of the store fails in a way that may pass, so that trying again makes sense.

    Attributes:
        reason: reason in words without names and paths, such as "No space left on device".
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DiskError(PassingError):
    """The store's disk has no room or does not work."""


class DatabaseError(PassingError):
    """The store's database can't be reached, or is not ready."""


class Fenced(StoreError):
    """Another daemon has begun a newer epoch on this store, so this one must stop."""


class FormatError(StoreError):
    """The store was written in a format that this version can't open; the message says what to do."""


class Damaged(StoreError):
    """The store has lost changes that were durable; the message lists them, and says what to do."""


class Unreadable(Damaged):
    """Rows of the store can't be decoded, fail their checksums, or lack rows that belong to them.

    Attributes:
        rows: (family, key, reason) of each row.
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
    """An invariant is broken: a bug. The daemon stops, because continuing could lose tasks."""


class ConfigError(TaskQueueError):
    """The config asks for something that is not available here. The message names file, key and reason."""


class SettingError(ConfigError):
    """A setting, or the config file as a whole, is invalid; trying again fails again."""


class Hung(TaskQueueError):
    """Handlers of a worker run on after their leases and can't be ended; the message says where, and for how long."""


class ClientError(TaskQueueError):
    """A call to the daemon failed."""


class RequestTimeout(ClientError):
    """No answer came in time. The request may have been carried out; repeating it with its number is safe.

    Attributes:
        why: known reason, such as that nothing listens at the address; empty if unknown.
        heard: the daemon answered that it can't serve requests now.
    """

    def __init__(self, message: str = "", why: str = "", *, heard: bool = False) -> None:
        super().__init__(message)
        self.why = why
        self.heard = heard


class Unauthorised(RequestTimeout):
    """The daemon did not let the client in, or is not the one that the client's key is for; the message says which.

    The client goes on trying: a key that is authorised later is let in then.
    """


class RequestRejected(ClientError):
    """The daemon refused the request.

    Attributes:
        code: one of the error codes of docs/reference/protocol.md.
        reason: one line for users.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class MessageTooLarge(ClientError):
    """A message exceeds ``max_message`` bytes. It was not sent, because the daemon would close the connection."""


class BacklogFull(ClientError):
    """Too many items of ``push_soon`` and ``report_soon`` have no outcome yet; this call did nothing."""


class ClientClosed(ClientError):
    """The client was closed before or during the call."""
