"""Notes of the tasks that one client runs, which users see beside them: the last one of each, once a second.

    task.note ──► waiting: the last one of each task ──in a second──► one message ──► daemon

1. The first note leaves at once, and the next message a second later, so that no task has more than one a second.
2. A note that is replaced, or whose task is reported, before it leaves is forgotten. So is one that the daemon refuses
   or does not answer in time: the next one says more.
3. At most one message is under way, however long the daemon is away.

Any thread may put a note; all else happens in the client's event loop. There is no lock, so a thread that is ended by
an exception leaves none behind. A thread puts its note before it looks whether the loop knows; the loop does the
opposite. So no note stays behind unseen, and a handler that puts a million of them wakes the loop once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from math import inf
from typing import Final

from taskqueue.client.connection.exchange import Exchange
from taskqueue.errors import ClientError
from taskqueue.protocol.fetchers import Note, NotedLease, NoteOutcome
from taskqueue.protocol.fields import MAX_NOTE_BYTES, MAX_NOTE_NUMBER

PAUSE_SECONDS: Final = 1.0
"""Time between two messages."""

NOTES_MOST: Final = 1000
"""Notes per message. Each takes 500 bytes at most, and a daemon accepts messages of at least 512 KiB."""


class Notes:
    """Notes of one client that the daemon does not have yet."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, NotedLease] = {}
        self._is_told = False
        self._sending: asyncio.Task[None] | None = None
        self._sent_at = -inf

    def note_loop(self) -> None:
        """Record the running loop as the client's."""
        self._loop = asyncio.get_running_loop()

    def put(self, noted: NotedLease) -> None:
        """Send a note soon, from any thread, instead of the one of the same lease that waits."""
        self._waiting[noted.token] = noted
        loop = self._loop
        if not self._is_told and loop is not None:
            self._is_told = True
            with suppress(RuntimeError):  # The loop has been closed meanwhile.
                loop.call_soon_threadsafe(self._begin)

    async def send(self, noted: NotedLease) -> NoteOutcome:
        """Send a note now; returns its outcome."""
        return (await self._exchange.ask(Note(notes=[noted]))).outcomes[0]

    def forget(self, tokens: Iterable[int]) -> None:
        """Forget notes of tasks that are reported, given back, or passed on."""
        if self._waiting:
            for token in tokens:
                self._waiting.pop(token, None)

    def close(self) -> None:
        """Send no more."""
        self._loop = None
        if self._sending is not None:
            self._sending.cancel()

    def _begin(self) -> None:
        if self._sending is None and self._loop is not None:
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._is_told = False  # Before it looks for notes.
                if not self._waiting:
                    return
                await asyncio.sleep(self._sent_at + PAUSE_SECONDS - loop.time())
                self._sent_at = loop.time()
                if notes := self._take():
                    with suppress(ClientError):
                        await self._exchange.ask(Note(notes=notes))
        finally:
            self._sending = None

    def _take(self) -> list[NotedLease]:
        # Copied in one step, because another thread may put one meanwhile.
        first = tuple(self._waiting)[:NOTES_MOST]
        return [self._waiting.pop(token) for token in first]


def checked_note(note: str | float) -> str | float:
    """Return a note as the daemon takes it: a number, or a text, cut to MAX_NOTE_BYTES.

    Raises:
        TypeError: it is neither.
        ValueError: the number is too large, or none.
    """
    if isinstance(note, str):
        return note.encode(errors="replace")[:MAX_NOTE_BYTES].decode(errors="ignore")
    if not isinstance(note, int | float):
        raise TypeError(f"note: expected a text or a number, got {type(note).__name__}")
    if not -MAX_NOTE_NUMBER <= note <= MAX_NOTE_NUMBER:
        raise ValueError(f"note: expected a number from {-MAX_NOTE_NUMBER:g} to {MAX_NOTE_NUMBER:g}")
    return float(note)
