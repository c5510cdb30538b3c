"""Pushes that wait, whole and undecided, for the search whether their tasks would close a cycle.

    push ──a search is needed──► in the line ──searched──► in front of the next turn's requests
    later change of its session ──► in the line behind it

Rules:
1. The line is first in, first out; one push is searched at a time, and it is done before the next search begins.
2. Waiting pushes count: their tasks as having parents, their parents as having children. So no other push
   can complete a cycle with them without a search of its own, which comes later.
3. A restart forgets the line; clients repeat unanswered requests. Those of a session that is cut off are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from taskqueue.core.model.cycle_search import BatchSearch, PlannedEdges
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.task import deferred_bytes
from taskqueue.errors import Rejected
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.tasks import NewTasks

WAITING_MOST: Final = 64
"""Requests in the line, at most."""

WAITING_BYTES: Final = 64 << 20
"""Bytes of URLs and bodies in the line, about, at most; a single request may have more."""


class WaitingPush(Struct):
    """Request in the line.

    Attributes:
        plan: edges that it would make; empty if it only waits behind a push that is searched.
        searched: indices of the items that need a search.
        tries: number of its searches, this one included; it is searched again if the tasks have changed meanwhile.
        cycles: findings of the search, see ``BatchSearch``.
        size: bytes of its URLs and bodies, about.
    """

    incoming: Incoming
    plan: tuple[PlannedEdges, ...] = ()
    searched: dict[int, None] = {}
    tries: int = 1
    cycles: dict[int, list[TaskRef] | None] = {}
    size: int = 0


class WaitingPushes:
    """Line of waiting pushes.

    Attributes:
        searching: search under way, for the first push in the line; None if there is none.
        decided: push in front of this turn's requests, with its findings; None if there is none.
    """

    __slots__ = ("_bytes", "_children", "_is_searched", "_line", "_parents", "_sessions", "decided", "searching")

    def __init__(self) -> None:
        self._line: dict[tuple[str, int], WaitingPush] = {}
        self._sessions: Counter[str] = Counter()
        self._children: Counter[TaskRef] = Counter()
        self._parents: Counter[TaskRef] = Counter()
        self._bytes = 0
        self._is_searched = False
        self.searching: BatchSearch | None = None
        self.decided: WaitingPush | None = None

    @property
    def pending(self) -> bool:
        """True if any request waits."""
        return bool(self._line)

    def has(self, session: str, n: int) -> bool:
        """Return whether request ``n`` of the session waits."""
        return (session, n) in self._line

    def has_any_of(self, session: str) -> bool:
        """Return whether a request of the session waits."""
        return session in self._sessions

    def gives_parents_to(self, ref: TaskRef) -> bool:
        """Return whether a waiting push would give the task parents."""
        return ref in self._children

    def gives_children_to(self, ref: TaskRef) -> bool:
        """Return whether a waiting push would make a task wait for this one."""
        return ref in self._parents

    def add(self, push: WaitingPush) -> None:
        """Put a request at the end of the line.

        Raises:
            Rejected: too many requests wait already.
        """
        push.size = _size(push.incoming)
        if self._line and (len(self._line) >= WAITING_MOST or self._bytes + push.size > WAITING_BYTES):
            reason = f"{len(self._line)} requests wait already for the search whether they close a cycle; repeat it"
            raise Rejected("unavailable", reason)
        request = push.incoming.request
        self._line[request.session, request.n] = push
        self._sessions[request.session] += 1
        self._bytes += push.size
        for planned in push.plan:
            self._children[planned.child] += 1
            self._parents.update(planned.parents)

    def begin_search(self) -> None:
        """Begin to search the first push in the line."""
        push = self._first()
        self.searching = BatchSearch(push.plan, push.searched)

    def search_again(self, search: BatchSearch) -> None:
        """Search the first push once more, from the beginning."""
        push = self._first()
        self.searching = BatchSearch(push.plan, push.searched, search.rounds + 1)

    def end_search(self, search: BatchSearch) -> None:
        """Record that the first push has been searched: the next turn does it."""
        self._first().cycles = search.cycles
        self.searching = None
        self._is_searched = True

    def take_searched(self) -> list[Incoming]:
        """Take the searched push, and what waits behind it, from the line at the beginning of a turn."""
        self.decided = None
        if not self._is_searched:
            return []
        self._is_searched = False
        self.decided = self._first()
        return self._take(self.decided.incoming.request.session)

    def forget(self, session: str) -> list[Incoming]:
        """Drop the requests of a session that is forgotten or cut off, and return them."""
        if session not in self._sessions:
            return []
        if self._first().incoming.request.session == session:
            self.searching = None
            self._is_searched = False
        return self._take(session)

    def _first(self) -> WaitingPush:
        return next(push for push in self._line.values() if push.plan)

    def _take(self, session: str) -> list[Incoming]:
        """Take all requests of a session from the line."""
        taken = [(at, push) for at, push in self._line.items() if at[0] == session]
        for at, push in taken:
            del self._line[at]
            self._bytes -= push.size
            for planned in push.plan:
                _uncount(self._children, (planned.child,))
                _uncount(self._parents, planned.parents)
        del self._sessions[session]
        return [push.incoming for _, push in taken]


def _uncount(counts: Counter[TaskRef], tasks: Sequence[TaskRef]) -> None:
    counts.subtract(tasks)
    for ref in tasks:
        if not counts[ref]:
            del counts[ref]


def _size(incoming: Incoming) -> int:
    request = incoming.request
    if not isinstance(request, NewTasks):
        return 0
    return sum(deferred_bytes(item) for item in request.tasks if item is not None)
