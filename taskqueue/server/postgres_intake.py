"""Take tasks that producers have inserted into the inbox of a store in a database.

    rows ──► new-task requests of a session of its own ──► the core, with all other requests
                                                      ◄── its replies
         ◄── the turn's transaction deletes the rows, and keeps refused ones with the reason

Rules:
1. A row is taken exactly once: by the transaction that stores its task's outcome. A reply may come turns later, once it
   is known whether a task closes a cycle; until then its rows are not read again.
2. It looks once a second, sooner if a producer notifies or if the last look left out a part of the table, and again at
   once after a look that found rows.
3. An invalid row is refused with the reason that a client would get. No row can raise in here.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from hashlib import md5
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import decode_request
from taskqueue.protocol.fields import MAX_EDGES, PROTOCOL, Peer
from taskqueue.protocol.messages import NO_MAP, Incoming, Outgoing
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from taskqueue.store.contract import Taken

if TYPE_CHECKING:
    from taskqueue.store.postgres.inbox import InboxRow

PEER: Final = Peer(b"\0inbox")
"""Receiver of replies to the intake; no connection has this identity."""

LOOK_SECONDS: Final = 1.0

AGAIN_SECONDS: Final = 0.1
"""Pause after a look that found no rows, but left out a part of the table."""

_ANY: Final = "inbox"
"""Project of a message, which none of its tasks uses."""


class Table(Protocol):
    """Store that has an inbox.

    Attributes:
        where: server, database and schema, for messages.
    """

    where: str

    @property
    def inbox_has_more(self) -> bool:
        """Whether the last look left out a part of the inbox, which the next ones read."""

    @property
    def has_retired(self) -> bool:
        """Whether rows of dropped ranges remain; each write deletes some of them."""

    def inbox_rows(self, without: Collection[bytes], largest: int) -> Sequence[InboxRow]:
        """Read some rows.

        Args:
            without: ids of rows to leave out.
            largest: bytes of texts beyond which the texts of a row are not read.
        """

    def fileno(self) -> int:
        """Return the descriptor that is readable when a producer may have notified."""

    def hear(self) -> None:
        """Read notifications."""

    def has_heard(self) -> bool:
        """Whether a notification has been read since the last call, by ``hear`` or with a turn's answers."""


class TableIntake:
    """Intake of one epoch."""

    def __init__(self, table: Table, largest: int) -> None:
        """Make an intake.

        Args:
            largest: bytes of the longest message in which a client could push a task.
        """
        self._table = table
        self._largest = largest
        self._session = secrets.token_hex(16)  # secret, so that no peer can use this session
        self._n = 0
        self._asked: dict[int, list[bytes]] = {}
        self._refused: list[tuple[bytes, str]] = []
        self._due_at = -inf

    def fileno(self) -> int:
        """Return the descriptor that is readable when a producer may have notified, until ``clear_wakeup``."""
        return self._table.fileno()

    def clear_wakeup(self) -> None:
        """Read notifications."""
        self._table.hear()

    def due_at(self) -> float:
        """Return the boot-clock seconds of the next look.

        Raises:
            StoreError: the connection has failed.
        """
        if self._table.has_heard():
            self._due_at = -inf
        return self._due_at

    def requests(self, now_boot: float) -> list[Incoming]:
        """Read rows if it is time to, and make requests of them.

        Raises:
            StoreError: the rows can't be read.
        """
        if now_boot < self.due_at():
            return []
        waiting = [row_id for ids in self._asked.values() for row_id in ids]
        rows = self._table.inbox_rows(waiting, self._largest)
        if not rows:
            self._due_at = now_boot + (AGAIN_SECONDS if self._table.inbox_has_more else LOOK_SECONDS)
        else:
            self._due_at = now_boot
        return [self._request(batch) for batch in _batches(self._tasks_of(rows))]

    def settle(self, outgoing: list[Outgoing]) -> tuple[list[Outgoing], Taken | None]:
        """Take the replies to its requests out of a turn's; return the others, and the rows to take from the table."""
        ids: list[bytes] = [row_id for row_id, _ in self._refused]
        refused, self._refused = self._refused, []
        others: list[Outgoing] = []
        for message in outgoing:
            if message.peer != PEER:
                others.append(message)
            elif isinstance(reply := message.message, NewTasksReply | ErrorReply):
                rows = self._asked.pop(reply.n)
                ids += rows
                refused += _refusals(reply, rows)
        return others, Taken(ids, refused) if ids else None

    def _tasks_of(self, rows: Sequence[InboxRow]) -> Iterator[tuple[bytes, NewTask]]:
        """Yield ids and tasks of the rows; invalid rows are refused."""
        for row in rows:
            try:
                yield row.id, _task_of(row, self._largest)
            except Rejected as rejected:
                self._refused.append((row.id, rejected.reason))

    def _request(self, batch: list[tuple[bytes, NewTask]]) -> Incoming:
        self._n += 1
        self._asked[self._n] = [row_id for row_id, _ in batch]
        tasks: list[NewTask | None] = [task for _, task in batch]
        # Each task names its project.
        return Incoming(PEER, NewTasks(session=self._session, n=self._n, project=_ANY, tasks=tasks))


def _batches(tasks: Iterator[tuple[bytes, NewTask]]) -> Iterator[list[tuple[bytes, NewTask]]]:
    """Split tasks into batches for one request each, of at most MAX_EDGES edges."""
    batch: list[tuple[bytes, NewTask]] = []
    edges = 0
    for row_id, task in tasks:
        edges += len(task.depends_on)
        if batch and edges > MAX_EDGES:
            yield batch
            batch, edges = [], len(task.depends_on)
        batch.append((row_id, task))
    if batch:
        yield batch


def _refusals(reply: NewTasksReply | ErrorReply, rows: list[bytes]) -> list[tuple[bytes, str]]:
    if isinstance(reply, ErrorReply):
        return [(row_id, reply.reason) for row_id in rows]
    return [(rows[error.index], error.reason) for error in reply.errors]


def _task_of(row: InboxRow, largest: int) -> NewTask:
    """Make the task that a row describes.

    Raises:
        Rejected: the row is invalid.
    """
    if row.size > largest:
        raise Rejected("too-large", f"{row.size} bytes of texts; at most {largest} are accepted (daemon.max_message)")
    url = _text("url", row.url) or ""
    item: dict[str, Any] = {
        "project": _text("project", row.project),
        "taskid": _text("taskid", row.taskid) or md5(url.partition("#")[0].encode(), usedforsecurity=False).hexdigest(),
        "url": url,
    }
    for name in ("schedule", "body", "depends_on"):
        value = getattr(row, name)
        if value is not None:
            item[name] = _json(name, value)
    if row.on_parent_failure is not None:
        item["on_parent_failure"] = _text("on_parent_failure", row.on_parent_failure)
    message = {"type": "new-task", "v": PROTOCOL, "session": _ANY, "n": 1, "project": _ANY, "tasks": [item]}
    try:
        frame = msgspec.msgpack.encode(message)
    except (OverflowError, ValueError) as error:
        raise Rejected("malformed", f"a number in it is too large: {error}") from None
    request, flaws = decode_request(frame, largest + len(frame))
    task = request.tasks[0] if isinstance(request, NewTasks) else None
    if task is None:
        flaw = next(iter(flaws.values()), NO_MAP)
        raise Rejected("malformed", flaw.reason.removeprefix("tasks[0]."))
    return task


def _text(name: str, octets: bytes | None) -> str | None:
    """Decode a text; a database whose encoding is SQL_ASCII takes any bytes for one.

    Raises:
        Rejected: it is not UTF-8.
    """
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError as error:
        raise Rejected("malformed", f"{name}: {error}") from None


def _json(name: str, text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected("malformed", f"{name}: {error}") from None
