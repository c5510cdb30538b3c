"""Sync the store's log in a helper thread, so that the loop never waits for the disk.

    loop     write 1  write 2  write 3 ...
               │        └────────┴──────────┐
    thread     sync ──► 1 is synced          sync ──► 3 is synced

At most one sync runs at a time; the next one covers all writes made meanwhile (group commit).

Rules:
1. Writes are numbered from 1. A sync that began after write k returned covers k (the store's promises P6 and P7).
2. The thread begins a sync once the messages that wait for none have left: it would take the GIL and the processor from
   them (measured: a lone task was with its fetcher after 0.44 ms instead of 0.62). Each turn is synced, even if no
   reply waits for it: one sync for 50 ms of timers delayed the writes that met it for longer (measured: p99 of their
   lateness 19 ms instead of 8.5, on a busy machine).
3. ``commit``: replies are sent when their write is synced. The thread publishes its progress first and wakes the loop
   after that, if it sleeps; the loop announces its sleep first and checks the progress after that. So no progress is
   missed, and a busy loop makes no system calls for it: each of them releases the GIL, which the thread then takes
   (measured: 11 µs a call in a busy loop instead of 2).
4. ``interval``: replies are sent after the write; a sync follows within INTERVAL_SECONDS, but only after a
   write.
5. ``none``: the operating system decides when to write back. There is no thread.
6. A failed sync ends the thread; ``check`` raises its error in the loop. It is not retried: after a failed fsync the
   kernel may have dropped the pages, so that a second one would report success falsely.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Literal

from taskqueue.server.clock import ticks
from taskqueue.server.meters import Meters

Durability = Literal["commit", "interval", "none"]
Handout = Literal["written", "synced"]

INTERVAL_SECONDS: Final = 0.05


class Syncer:
    """Syncer of one epoch.

    Attributes:
        written: number of the last write.
        sleeping: the loop sleeps or is about to, and must be woken.
        durability: when replies may leave.
    """

    def __init__(self, sync: Callable[[], None], durability: Durability, meters: Meters) -> None:
        self.written = 0
        self._meters = meters
        self.sleeping = False
        self._sync = sync
        self.durability = durability
        self._ordered = 0
        self._synced = 0
        self._checked = 0
        self._failure: Exception | None = None
        self._tickets: SimpleQueue[int | None] = SimpleQueue()
        self._ending = threading.Event()
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="syncer", daemon=True)
        if durability != "none":
            self._thread.start()

    @property
    def has_progress(self) -> bool:
        """Whether ``check`` has new progress."""
        return self._failure is not None or (self.durability == "commit" and self._synced > self._checked)

    def fileno(self) -> int:
        """Return the descriptor that is readable after news while ``sleeping``, until ``clear_wakeup``."""
        return self._fd

    def clear_wakeup(self) -> None:
        """Drain the wake-up descriptor."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wrote(self) -> None:
        """Count one more write, which has returned; ``sync_soon`` has it synced."""
        self.written += 1

    def sync_soon(self) -> None:
        """Let the thread sync all writes; does nothing if that is ordered already."""
        if self._ordered < self.written and self.durability != "none":
            self._ordered = self.written
            self._tickets.put(self.written)

    def check(self) -> int:
        """Return the number of the last write whose replies may be sent. Makes no system call.

        Raises:
            StoreError: a sync failed.
        """
        if self._failure is not None:
            raise self._failure
        self._checked = self._synced
        return self._checked if self.durability == "commit" else self.written

    def finish(self) -> None:
        """Sync everything written, and end the thread; no writes may follow.

        Raises:
            StoreError: a sync failed.
        """
        self.sync_soon()
        self._end()
        self.check()

    def close(self) -> None:
        """End the thread, waiting for a running sync, and close the descriptor."""
        self._end()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _end(self) -> None:
        self._ending.set()
        self._tickets.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended():
                if ticket := self._next():
                    began = ticks()
                    self._sync()
                    self._meters.sync.note(ticks() - began)  # only this thread writes it
                    self._progress(ticket)
        except Exception as error:  # carried over to the loop, which raises it again
            self._failure = error
            self._wake()

    def _ended(self) -> bool:
        return self._ending.is_set() and self._tickets.empty()

    def _next(self) -> int | None:
        """Wait for a write and return the newest one; None if the thread must end."""
        ticket = self._tickets.get()
        if ticket is not None and self.durability == "interval":
            self._ending.wait(INTERVAL_SECONDS)
        while not self._tickets.empty():
            ticket = self._tickets.get() or ticket
        return ticket

    def _progress(self, ticket: int) -> None:
        # Counted first: a client whose reply waited for this sync finds it in the counters.
        self._meters.syncs += 1  # only this thread writes that field
        self._synced = ticket
        if self.durability == "commit":
            self._wake()

    def _wake(self) -> None:
        if self.sleeping:
            os.eventfd_write(self._fd, 1)
