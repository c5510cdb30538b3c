"""Takes up tasks that producers have inserted into the inbox of a store in a database.

    rows ──► new-task requests of a session of its own ──► the core, with all other requests
                                                      ◄── its replies
         ◄── the turn's transaction deletes the rows, and keeps what was refused with the reason

Rules:
1. A row is taken up by the transaction that stores what became of its task, or not at all: so exactly once. A reply may
   come turns later, when it is known whether a task closes a cycle; until then its rows are not read again.
2. It looks once a second, sooner if a producer notifies or if the last look was at a part of the table only, and again
   at once after a look that found something.
3. What can't be a task is refused with the reason that a client would be told. Nothing of a row can raise in here.
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
from taskqueue.protocol.messages import Incoming, Outgoing
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from taskqueue.store.contract import Taken

if TYPE_CHECKING:
    from taskqueue.store.postgres.inbox import InboxRow

PEER: Final = Peer(b"\0inbox")
"""Where its replies go: no connection has such an identity."""

LOOK_SECONDS: Final = 1.0

AGAIN_SECONDS: Final = 0.1
"""After a look that has found nothing, but has left out a part of the table."""

_ANY: Final = "inbox"
"""Where a message wants a name that none of its tasks needs."""


class Table(Protocol):
    """A store that has an inbox.

    Attributes:
        where: server, database and schema, for messages.
    """

    where: str

    @property
    def inbox_has_more(self) -> bool:
        """Whether the last look has left out a part of the inbox, which the next ones look at."""

    @property
    def has_retired(self) -> bool:
        """Whether rows of dropped ranges are there still, of which each write deletes some."""

    def inbox_rows(self, without: Collection[bytes], largest: int) -> Sequence[InboxRow]:
        """Some rows, but for those with these ids; the texts of rows above so many bytes are not read."""

    def fileno(self) -> int:
        """Readable when a producer may have notified."""

    def hear(self) -> None:
        """Read what was notified."""

    def has_heard(self) -> bool:
        """Whether a notification has been read since this was asked last, by ``hear`` or with a turn's answers."""


class TableIntake:
    """The intake of one epoch."""

    def __init__(self, table: Table, largest: int) -> None:
        """``largest``: bytes of the longest message that a client could have pushed a task by."""
        self._table = table
        self._largest = largest
        self._session = secrets.token_hex(16)  # nobody else may speak in its name
        self._n = 0
        self._asked: dict[int, list[bytes]] = {}
        self._refused: list[tuple[bytes, str]] = []
        self._due_at = -inf

    def fileno(self) -> int:
        """Readable when a producer may have notified, until ``clear_wakeup``."""
        return self._table.fileno()

    def clear_wakeup(self) -> None:
        """Hear what was notified."""
        self._table.hear()

    def due_at(self) -> float:
        """Boot-clock seconds at which it looks.

        Raises:
            StoreError: the connection has failed.
        """
        if self._table.has_heard():
            self._due_at = -inf
        return self._due_at

    def requests(self, now_boot: float) -> list[Incoming]:
        """What the rows ask for, if it is time to look.

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
        """Take the replies to its requests out of a turn's; returns the others, and what the turn's write takes out of
        the table.
        """
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
        """Ids and tasks of the rows; those that can't be tasks are refused."""
        for row in rows:
            try:
                yield row.id, _task_of(row, self._largest)
            except Rejected as rejected:
                self._refused.append((row.id, rejected.reason))

    def _request(self, batch: list[tuple[bytes, NewTask]]) -> Incoming:
        self._n += 1
        self._asked[self._n] = [row_id for row_id, _ in batch]
        tasks: list[NewTask | None] = [task for _, task in batch]
        # Each of them names its project.
        return Incoming(PEER, NewTasks(session=self._session, n=self._n, project=_ANY, tasks=tasks))


def _batches(tasks: Iterator[tuple[bytes, NewTask]]) -> Iterator[list[tuple[bytes, NewTask]]]:
    """What one request each may ask for: so many edges at most."""
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
    """The task that a row describes.

    Raises:
        Rejected: it describes none.
    """
    if row.size > largest:
        raise Rejected("too-large", f"{row.size} bytes of texts, at most {largest} are taken (daemon.max_message)")
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
        raise Rejected("malformed", next(iter(flaws.values()), "no task").removeprefix("tasks[0]."))
    return task


def _text(name: str, octets: bytes | None) -> str | None:
    """A text; a database whose encoding is SQL_ASCII takes any bytes for one.

    Raises:
        Rejected: it is none.
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
