"""Task: one that a fetcher was given to run, with the event by which its handler learns that the lease is lost.

The body that this client sends is a map of the given parts ``fetch``, ``process`` and ``save``, or the value of
``body``. The daemon never decodes it. A project's setting ``fetch`` comes beside its tasks, so that a change reaches
long queued ones, and bodies stay unread on the way; ``Task.fetch`` joins the two.

When the lease is lost, the result is not wanted any more:

    if task.lost: …                  anywhere
    if task.lost.wait(5): …          in a thread: sleep up to 5 s
    await task.lost                  in an event loop

That event belongs to neither a thread nor a loop: it is set in one of them and awaited in another. It has no lock, so a
thread that is ended by an exception leaves none behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from math import inf
from threading import TIMEOUT_MAX, Event
from typing import Any, Final, Unpack

import msgspec
from msgspec import Raw

from taskqueue.client.arguments import time_limit
from taskqueue.client.tasks import fetched
from taskqueue.client.tasks.fetched import Headers, PageFacts
from taskqueue.client.tasks.notes import Notes, checked_note
from taskqueue.client.tasks.parents import ParentPages, Parents
from taskqueue.client.tasks.put_offs import PutOffs, SlotOf, puts_off
from taskqueue.protocol.fetchers import NotedLease
from taskqueue.protocol.fields import NIL, Token
from taskqueue.protocol.values import Assignment, Fetched, TaskReport


class Cancelled:
    """Event that is set once, for good, from any thread."""

    __slots__ = ("_is_set", "_wakers")

    def __init__(self) -> None:
        self._is_set = False
        self._wakers: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return self._is_set

    def is_set(self) -> bool:
        """Return True if the lease is lost."""
        return self._is_set

    def set(self) -> None:
        """Set the event, and wake all that wait for it."""
        # Before the wakers are read: one that is added later finds it set.
        self._is_set = True
        for wake in tuple(self._wakers):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until the event is set, for at most ``timeout`` seconds; return True if it is set.

        Raises:
            TypeError, ValueError: ``timeout`` is invalid.
            RuntimeError: this would block an event loop, in which it may never be set then.
        """
        seconds = None if timeout is None else time_limit("timeout", timeout)
        if self._is_set or seconds == 0:
            return self._is_set
        if _is_in_loop():
            raise RuntimeError("wait: it would block the event loop; there say `await task.lost`")
        event = Event()
        wake = event.set
        self._wakers.append(wake)
        try:
            return self._is_set or event.wait(None if seconds is None else min(seconds, TIMEOUT_MAX))
        finally:
            self._wakers.remove(wake)

    def __await__(self) -> Generator[object, None, None]:
        return self._waited().__await__()

    async def _waited(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        wake = partial(_resolve_soon, loop, future)
        self._wakers.append(wake)
        try:
            if not self._is_set:
                await future
        finally:
            self._wakers.remove(wake)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _resolve_soon(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # The loop has been closed meanwhile.
        loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_encoder: Final = msgspec.msgpack.Encoder()

_UNREAD: Final = object()
"""Placeholder of a body that has not been decoded yet; None is a body."""

TRAVELLING_VERSION: Final = 1
"""Version of the format of ``Task.to_bytes``. A new field needs no new version: older readers skip it."""


class _Versioned(msgspec.Struct, array_like=True):
    version: int


class _Travelling(_Versioned, array_like=True):
    """A task, its project's setting ``fetch`` (nil: none), and the known facts of its fetch."""

    handed: Assignment
    defaults: Raw
    how_fetched: Fetched | None = None
    retry_after: float | None = None


class Task:
    """A task that this client was given to run.

    Args:
        handed: the task as dispatched.
        defaults: its project's setting ``fetch`` when the task was dispatched, encoded; None: none.
        parents: asks for the parents of this task; None: it has no client here.
        put_offs: notes whether its report will put its slot off; None: its client notes nothing.
        notes: sends its notes; None: it has no client here.

    Attributes:
        project, taskid: its identity.
        url: as its producer gave it.
        token: identity of this lease of it.
        timeout: seconds from its dispatch, or from ``not_before`` on, until the lease runs out.
        retried: number of its earlier failures.
        lastcrawltime: unix seconds of its last attempt's end; 0: never.
        schedule: its priority now, and its producer's exetime, retries, age, itag and job; others are unset.
        not_before: seconds from its arrival before which it was not to be started.
        start_within: seconds after that in which it was to be started, because its slot has a pace; None: no limit.
        start_by: time by ``time.monotonic`` here at which it is too late to start it; inf: never.
        lease_ends_at: end of its lease by the clock of its client's event loop, as far as that client knows; inf if the
            task was made by ``from_bytes``.
        etag, last_modified, content_hash: facts of its page from the last report; empty: unknown.
        how_fetched: facts given to ``fetched``; None: none.
        fetch_began_at: time by ``time.monotonic`` of its request, if the handler did something else before; the pause
            of its slot counts from then. None: when the handler was called.
        lost: event that is set when its lease is not in force any more: when the daemon says so, for example after a
            cancel, or when it has run out, if the task is kept (``client.keep``) or a Worker runs it. It is true then.
            A thread waits by ``lost.wait(seconds)``, a coroutine by ``await lost``.
        slot: name of the slot that paces it, such as its host; empty: none.
        retry_after: seconds for which the fetched answer asks to be left alone; None: it does not ask.
    """

    __slots__ = (
        "_body", "_defaults", "_fetch", "_notes", "_parents", "_put_offs", "_raw", "content_hash", "etag",
        "fetch_began_at", "how_fetched", "last_modified", "lastcrawltime", "lease_ends_at", "lost", "not_before",
        "project", "retried", "retry_after", "schedule",
        "slot", "start_by", "start_within", "taskid", "timeout", "token", "url",
    )  # fmt: skip

    def __init__(
        self,
        handed: Assignment,
        defaults: Raw | None = None,
        parents: ParentPages | None = None,
        put_offs: PutOffs | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.project = handed.project
        self.taskid = handed.taskid
        self.url = handed.url
        self.token: Token = handed.token
        self.timeout = handed.timeout
        self.retried = handed.retried
        self.lastcrawltime = handed.lastcrawltime
        self.schedule = handed.schedule
        self.not_before = handed.not_before
        self.start_within = handed.start_within
        self.start_by = inf
        self.lease_ends_at = inf
        self.lost = Cancelled()
        self.etag = handed.etag
        self.last_modified = handed.last_modified
        self.content_hash = handed.content_hash
        self.slot = handed.slot
        self.how_fetched: Fetched | None = None
        self.fetch_began_at: float | None = None
        self.retry_after: float | None = None
        # Copied out of the frame, which may contain a thousand other tasks.
        self._raw = handed.body.copy()
        self._body: Any = _UNREAD
        self._defaults = defaults
        self._parents = parents
        self._put_offs = put_offs
        self._notes = notes
        self._fetch: Any = _UNREAD

    def to_bytes(self) -> bytes:
        """Encode the task for another process, which decodes it by ``from_bytes`` and reports it with its own client.

        The bytes are MessagePack without any code, some 150 more than the URL, the body and the project's setting
        ``fetch``. docs/howto/fetch-here-process-there.md says what they contain.
        """
        handed = Assignment(
            self.project, self.taskid, self.url, self.token, self.timeout, self._raw, self.retried, self.lastcrawltime,
            self.schedule, self.not_before, self.start_within, self.etag, self.last_modified, self.content_hash,
            self.slot,
        )  # fmt: skip
        said = () if self.how_fetched is None else (self.how_fetched, self.retry_after)
        return _encoder.encode((TRAVELLING_VERSION, handed, self._defaults, *said))

    @classmethod
    def from_bytes(cls, travelled: bytes | bytearray | memoryview) -> Task:
        """Decode a task that ``to_bytes`` has encoded, in any process.

        Raises:
            ValueError: the bytes are not a task, or were made by a version that this one can't read.
        """
        try:
            version = msgspec.msgpack.decode(travelled, type=_Versioned).version
            if version != TRAVELLING_VERSION:
                raise ValueError(f"they have version {version}, and this program reads version {TRAVELLING_VERSION}")
            it = msgspec.msgpack.decode(travelled, type=_Travelling)
        except ValueError as error:
            raise ValueError(f"Task.from_bytes: these bytes are not a task: {error}") from None
        task = cls(it.handed, None if it.defaults == NIL else it.defaults.copy())
        task.how_fetched, task.retry_after = it.how_fetched, it.retry_after
        return task

    @property
    def cancelled(self) -> Cancelled:
        """The event ``lost``, by the name that tells a handler what to do."""
        return self.lost

    @property
    def body(self) -> Any:
        """Body that the producer sent, decoded at the first access; None if there is none.

        Raises:
            ValueError: it contains text that is not utf-8.
        """
        if self._body is _UNREAD:
            self._body = msgspec.msgpack.decode(self._raw)
        return self._body

    @property
    def fetch(self) -> Any:
        """Fetch options: the producer's over those of the project's settings; an empty map if there are neither.

        The producer's win, also if nil; maps on both sides, such as ``headers``, are joined key by key. If the
        producer's ``fetch`` is not a map, it stands alone.
        """
        if self._fetch is _UNREAD:
            own = self._part("fetch")
            self._fetch = own if self._defaults is None else laid_under(own, self._defaults)
        return self._fetch

    @property
    def process(self) -> Any:
        """Process options of the producer; an empty map if there are none."""
        return self._part("process")

    @property
    def save(self) -> Any:
        """Values that the producer wants back; an empty map if there are none."""
        return self._part("save")

    def fetched(
        self, status_code: int | None = None, headers: Headers | None = None, **facts: Unpack[PageFacts]
    ) -> None:
        """Record how the task's fetch went; its report carries that, whatever the outcome, also from another process.

        The pace of its slot and its recrawl follow these facts. A later value replaces an earlier one; None and empty
        texts are ignored.

        Args:
            status_code: status of the answer, 100 to 999. 304: the page has not changed, and keeps its known facts.
            headers: headers of the answer, as your library has them: ETag and Last-Modified are kept for the next
                request, and Retry-After is obeyed for a task of a slot, unless its report has another one.
            seconds: duration of the fetch; a Worker measures it for tasks of slots.
            error_kind: ``"connection"``: no answer, ``"timeout"``, ``"http"``: the status, or ``"other"``. For tasks of
                slots a Worker derives it, and the status, from the handler's exception.
            changed: whether the page has changed since the last report; None: derived from the facts below.
            content_hash, etag, last_modified: of the page now, at most 256 characters.

        Raises:
            ValueError, TypeError: a fact is invalid; nothing has changed.
        """
        said: dict[str, Any] = {"status_code": status_code}
        if status_code == fetched.NOT_MODIFIED:
            said |= {"changed": False, "etag": self.etag, "last_modified": self.last_modified}
            said |= {"content_hash": self.content_hash}
        heard = fetched.said_by(headers)
        given = {name: fact for name, fact in facts.items() if fact not in (None, "")}
        self.how_fetched = fetched.joined(self.how_fetched, said | fetched.validators(heard) | given)
        if status_code is None or status_code >= fetched.REFUSALS:
            self.retry_after = fetched.retry_after(heard, time.time()) or self.retry_after
        if self.slot:
            self.note_report(
                TaskReport(self.project, self.taskid, self.token, False, "", self.asked_pause, fetched=self.how_fetched)
            )

    @property
    def asked_pause(self) -> float | None:
        """``retry_after`` for the report of a task of a slot; None elsewhere, where no rule limits its repetition."""
        return None if self.start_within is None else self.retry_after

    def note_report(self, report: TaskReport) -> None:
        """Begin no task of the slot until a report like this is answered, if it puts the slot off."""
        if self.slot and self._put_offs is not None:
            self._put_offs.note(self.token, SlotOf(self.project, self.slot), is_put_off=puts_off(report))

    @property
    def is_put_off(self) -> bool:
        """True if another task of the slot has put it off, and the daemon does not know yet."""
        put_offs = self._put_offs
        return put_offs is not None and bool(put_offs) and SlotOf(self.project, self.slot) in put_offs

    @property
    def conditional(self) -> dict[str, str]:
        """Headers of a conditional request, which an unchanged page answers with 304 (RFC 9110, section 13).

        Empty if the last report had neither etag nor last_modified.
        """
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value}

    def parents(self) -> Parents:
        """Iterate over the tasks that this task has waited for, each with its state and its result.

        The client asks for them page by page during the iteration: by ``async for`` in a coroutine, by ``for`` in a
        thread. They show the state of that moment: one that has run again since has its new result.

        Raises:
            RuntimeError: the task was made by ``from_bytes``; ask ``client.tasks.parents`` instead.
        """
        if self._parents is None:
            raise RuntimeError("task.parents(): it has no client; ask client.tasks.parents(task.project, task.taskid)")
        return Parents(self._parents, self.project, self.taskid)

    def note(self, note: str | float) -> None:
        """Show users a note beside this task while it runs: in ``task show``, on its page, and in ``fetcher list``.

        Call it as often as you like, from any thread; it does not wait. The client sends the last note once a second.
        The daemon keeps it in memory only: it ends with the lease, or with the daemon.

        Args:
            note: text, of which 256 bytes are shown, or number; one from 0 to 1 is shown as a progress bar.

        Raises:
            TypeError, ValueError: it is neither, or no finite number.
            RuntimeError: the task was made by ``from_bytes``; call ``client.note`` instead.
        """
        if self._notes is None:
            raise RuntimeError("task.note(): it has no client; call client.note(task, …)")
        self._notes.put(self.noted(note))

    def noted(self, note: str | float) -> NotedLease:
        """Make a note of this task as it is sent.

        Raises:
            TypeError, ValueError: see ``note``.
        """
        return NotedLease(self.project, self.taskid, self.token, checked_note(note))

    def _part(self, name: str) -> Any:
        part = self.body.get(name) if isinstance(self.body, dict) else None
        return {} if part is None else part

    def __repr__(self) -> str:
        return f"<Task {self.project}/{self.taskid} {self.url}>"


def checked_task(task: Task) -> Task:
    """Return the task that a caller reports, extends or releases.

    Raises:
        TypeError: it is not a Task.
    """
    if not isinstance(task, Task):
        raise TypeError(f"task: expected a Task, as select gives it, got {type(task).__name__}")
    return task


def laid_under(own: Any, defaults: Raw) -> Any:
    """Join a task's ``fetch`` with its project's. Common maps are joined one level deep; else the task's own wins.

    The result shares nothing with other tasks.
    """
    under = _map_of(defaults)
    if not isinstance(own, dict):
        return own
    joined = {**under, **own}
    for key, value in own.items():
        below = under.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            joined[key] = {**below, **value}
    return joined


def _map_of(defaults: Raw) -> dict[Any, Any]:
    """Decode a map; empty if it is not one, because a broken setting must not keep tasks from being run."""
    try:
        value = msgspec.msgpack.decode(defaults)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
