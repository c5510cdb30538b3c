"""Pushes that wait, whole and undecided, until it is known whether tasks of theirs would close a cycle.

    push ──a search is needed──► in the line ──searched──► in front of the next turn's requests
    later change of its session ──► in the line behind it

Rules:
1. The line is first in, first out; one push is searched at a time, and it is done before the next search begins.
2. What waits counts: its tasks as having parents, its parents as having children. So nothing that is pushed beside it
   can complete a cycle with it without a search of its own, which comes later.
3. A restart forgets the line; clients repeat what was not answered.
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
"""Requests in the line."""

WAITING_BYTES: Final = 64 << 20
"""Bytes of urls and bodies in the line, about; a single request may have more."""


class WaitingPush(Struct):
    """A request in the line.

    Attributes:
        plan: the edges that it would make; empty: it only waits behind one that is searched.
        searched: indices of the items that need a search.
        tries: how often it has been searched because the tasks were others when it came to be done; this one included.
        cycles: what the search has found, see ``BatchSearch``.
        size: bytes of its urls and bodies, about.
    """

    incoming: Incoming
    plan: tuple[PlannedEdges, ...] = ()
    searched: dict[int, None] = {}
    tries: int = 1
    cycles: dict[int, list[TaskRef] | None] = {}
    size: int = 0


class WaitingPushes:
    """The line.

    Attributes:
        searching: the search that is under way, for the first push in the line; None: there is none.
        decided: the push that was put in front of this turn's requests, with what was found; None: there is none.
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
        """Whether anything waits."""
        return bool(self._line)

    def has(self, session: str, n: int) -> bool:
        """Whether request ``n`` of the session waits."""
        return (session, n) in self._line

    def has_any_of(self, session: str) -> bool:
        """Whether a request of the session waits."""
        return session in self._sessions

    def gives_parents_to(self, ref: TaskRef) -> bool:
        """Whether something that waits would give the task parents."""
        return ref in self._children

    def gives_children_to(self, ref: TaskRef) -> bool:
        """Whether something that waits would have a task wait for this one."""
        return ref in self._parents

    def add(self, push: WaitingPush) -> None:
        """Put a request at the end of the line.

        Raises:
            Rejected: too many wait already.
        """
        push.size = _size(push.incoming)
        if self._line and (len(self._line) >= WAITING_MOST or self._bytes + push.size > WAITING_BYTES):
            reason = f"{len(self._line)} requests wait already until it is known whether they close a cycle; repeat it"
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
        """The first push has been searched: it is to be done with the next turn."""
        self._first().cycles = search.cycles
        self.searching = None
        self._is_searched = True

    def take_searched(self) -> list[Incoming]:
        """At the beginning of a turn: take the push that was searched from the line, and what waits behind it."""
        self.decided = None
        if not self._is_searched:
            return []
        self._is_searched = False
        self.decided = self._first()
        return self._take(self.decided.incoming.request.session)

    def forget(self, session: str) -> None:
        """Drop the requests of a session that is forgotten."""
        if session not in self._sessions:
            return
        if self._first().incoming.request.session == session:
            self.searching = None
            self._is_searched = False
        self._take(session)

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
