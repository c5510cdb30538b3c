"""Client processes: what they have asked, what they hold, and when they were last heard.

A session is one run of one client process, whatever connections it uses. As a *producer* it sends numbered requests;
the answers to the last ``OUTCOME_WINDOW`` of them are kept, so that a repeat is answered and not done again. As a
*fetcher* it has a capacity, and ``select`` messages to it are numbered, so that a lost one is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable

from taskqueue.core.kept import OUTCOME_WINDOW
from taskqueue.core.messages import Peer
from taskqueue.core.requests import Hello
from taskqueue.core.task import Task
from taskqueue.core.views import SHOWN_WISHES, FetcherView

Interest = frozenset[str] | None
"""Names of the projects that a fetcher wants tasks of; None: any."""


class Session:
    """One client process.

    Attributes:
        peer: where it was last heard.
        address: of its machine then, for people.
        heard_at: when, on the boot clock.
        saved_at: the wall time of it that the store has.
        numbers: of the requests that have a kept outcome, by number modulo the window, as in the store; None: it has
            not been asked for them yet. The outcomes themselves are read again for the rare repeat.
        highest: greatest of them.
        hello_n: number of the last hello heeded; older ones that arrive late are not.
        number: of the last ``select`` sent.
        leases: what it holds, by token, oldest first.
        done, failed: attempts of its leases that ended so, those that ran out of time among the failed ones.
    """

    __slots__ = (
        "address", "capacity", "done", "failed", "heard_at", "hello_n", "highest", "id", "interest", "leases", "name",
        "number", "numbers", "peer", "saved_at",
    )  # fmt: skip

    def __init__(self, session: str, heard_at: float) -> None:
        self.id = session
        self.peer = Peer(b"")
        self.address = ""
        self.name = ""
        self.heard_at = heard_at
        self.saved_at = 0.0
        self.numbers: dict[int, int] | None = None
        self.highest = 0
        self.hello_n = 0
        self.capacity = 0
        self.interest: Interest = None
        self.number = 0
        self.leases: dict[int, Task] = {}
        self.done = 0
        self.failed = 0

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name or self.id

    @property
    def free(self) -> int:
        """How many more tasks it will take."""
        return self.capacity - len(self.leases)

    def learn(self, outcomes: Iterable[int]) -> None:
        """Take in of which requests the store has kept the outcome."""
        self.numbers = {n % OUTCOME_WINDOW: n for n in outcomes}
        self.highest = max(self.numbers.values(), default=0)

    def has_done(self, n: int) -> bool:
        """Request ``n`` has been done, and its outcome is kept."""
        return self.numbers is not None and self.numbers.get(n % OUTCOME_WINDOW) == n

    def may_do(self, n: int) -> bool:
        """Request ``n`` is new; False: it is so old that nobody knows."""
        return n > self.highest - OUTCOME_WINDOW

    def note_done(self, n: int) -> None:
        """The outcome of request ``n`` is kept, in place of the one that falls out of the window."""
        if self.numbers is None:
            self.numbers = {}
        self.numbers[n % OUTCOME_WINDOW] = n
        self.highest = max(self.highest, n)

    def state(self, hello: Hello) -> None:
        """Take in the facts of a hello that is not older than the last one."""
        self.hello_n = hello.n
        self.name = hello.name
        self.capacity = hello.capacity
        self.interest = None if hello.projects is None else frozenset(hello.projects)
        self.number = max(self.number, hello.seen)

    def view(self, now: float) -> FetcherView:
        """The fetcher as people see it."""
        return FetcherView(
            session=self.id,
            name=self.name,
            capacity=self.capacity,
            holds=len(self.leases),
            silent_seconds=max(0.0, now - self.heard_at),
            projects=None if self.interest is None else sorted(self.interest)[:SHOWN_WISHES],
            address=self.address,
            oldest_seconds=self.oldest_seconds(now),
            done=self.done,
            failed=self.failed,
        )

    def oldest_seconds(self, now: float) -> float:
        """How long it has held the oldest of its leases; 0 if it holds none."""
        oldest = next(iter(self.leases.values()), None)
        return max(0.0, now - oldest.lease.selected_at) if oldest is not None and oldest.lease is not None else 0.0
