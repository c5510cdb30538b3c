"""Sessions of clients: their requests, leases, connections, and when they were last heard.

A session is one run of one client process, whatever connections it uses. With keys it belongs to the owner of the key
that spoke in it first, and no other key may speak in it. As a *producer* it sends numbered requests;
the answers to the last ``OUTCOME_WINDOW`` of them are kept, so that a repeat is answered and not done again. As a
*fetcher* it has a capacity, and ``select`` messages to it are numbered, so that a lost one is sent again.

A fetcher has room for

    capacity - |leases that it has not passed on, and tasks that it runs or may run without one|   more tasks

1. A lease ended by its own fetcher (``done``, ``release``, a hello without it) frees its place.
2. A lease ended otherwise (its time, a cancel, another process) keeps its place, because the fetcher may still run the
   task, until ``done``, ``release`` or silence, or a hello without it that the fetcher sent after it had seen it.
3. In all sessions together at most ``max_leases`` ended leases keep places; beyond that they keep none.
4. A place kept so *hangs*. Each is counted by its token, even if the fetcher's hellos don't mention it.
   Places that hellos state beyond the tokens that they name are counted, too. Unless the fetcher exceeds its capacity,

       free + running + hung = capacity

5. A fetcher that hands back tasks although it had stated room gets none for a while, longer each time: ``hand_back``.

One connection may have half of all leases (``Connections``):

    max_leases ──half of it──► the leases of all sessions of one connection together
                                 │ reached: its fetchers are set aside, and get no tasks
                                 │ a lease ends, or a session moves to another connection: they may try again

So no peer can hold all tasks, however many sessions it makes up. A session that moves to another connection takes its
leases along. While at most half of ``max_leases`` are out in all, nothing is counted.

Names of the projects that fetchers want tasks of (``Wishes``) are in memory once for each distinct set:

    hello ──names──► exchange ──► the set that the session, and its ring, use
                        │ the last session with a set is gone, or states another: the set is dropped
                        │ over NAMES_MOST names in all sets together: refused

Hellos must not fill the memory: a thousand names in each of ten thousand hellos would be some gigabytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from taskqueue.core.model.hashes import derive
from taskqueue.core.model.task import Task
from taskqueue.errors import Rejected
from taskqueue.protocol.fetchers import SHOWN_WISHES, Fetcher, Hello, Hung, HungPlaces, Welcome
from taskqueue.protocol.fields import OUTCOME_WINDOW, Boot, Peer

Interest = frozenset[str] | None
"""Names of the projects that a fetcher wants tasks of; None for any."""

REST_SECONDS: Final = 0.125
"""Seconds for which a fetcher that has handed back tasks gets none; doubled each time."""
REST_MOST_SECONDS: Final = 10.0

HUNG_URL_CHARS: Final = 200
"""Characters kept of the URL of a hanging task in a hello: 2 MB for 10,000 fetchers, 80 MB with 8,192."""

JUMP_MOST: Final = 2**20
"""Largest gap between a request's number and all known ones of its session.

A client that counts never comes near. A client that sends 2^63 in the session of another must not make all later
numbers of that session too old.
"""


class EndedLease(NamedTuple):
    """Lease that has ended without its fetcher's answer and still occupies a place of it.

    Attributes:
        number: number of the ``select`` message with the lease; 0 if its fetcher has seen it.
        at: boot-clock seconds of its end, or at which its fetcher was first heard to run the task without a lease.
        project, taskid: the task; empty if only the fetcher knows it.
    """

    number: int
    at: Boot
    project: str = ""
    taskid: str = ""


class Session:
    """Session of a client process.

    Attributes:
        id: chosen by the client; a secret between it and the daemon.
        pseudonym: shown in place of the id.
        mask: turns a number into a token: see ``hashes``.
        siblings: sessions of the same owner, with this one.
        peer: connection at which it was last heard.
        address: address of its machine then, to be shown.
        heard_at: boot-clock seconds at which it was last heard.
        saved_at: unix seconds at which it was last heard, as stored; 0 if it is not stored.
        kept_requests: numbers of the requests with a kept outcome, by number modulo the window, as in the store; None
            if not looked up yet. The outcomes themselves are read again for the rare repeat.
        highest: greatest of these numbers.
        latest: greatest known number of a request, hellos and reads included; 0 if none.
        last_hello: number of the last hello applied; older ones that arrive late are ignored.
        asked_for_hello: address at which it was asked for a hello, because it had sent none since the start.
        select_number: number of the last ``select`` sent.
        leases: leased tasks by token, oldest first.
        done, failed: numbers of successful and failed attempts of its leases; timeouts are failures.
        ended: ended leases that still occupy places, by token, the oldest first.
        slow: number of its leases of which four fifths have passed.
        usable: its capacity less the hung places that its last hello stated beyond the tokens that it named.
        hung: hung places in its last hello; None if there were none.
        hung_since: boot-clock seconds since when the first of these hangs.
        recalled: True if it was asked for a hello because a lease of it was revoked, and none has come since.
        passed: tokens among ``leases`` that it has passed on to another process.
        suspects: crashes of the tasks among ``leases`` that have some, by token.
        concurrency: number of tasks that it runs at once.
        priority: fetchers of a higher one are served first; written by the fair queue.
        crashed: once it is silent, tokens of the tasks that it ran, with whether the task is to blame; None while it is
            heard.
        interest: projects that it wants tasks of; also empty while it takes none; see ``Wishes``.
        given_up: places by which it has lowered its capacity without having handed back as many tasks since.
        rest_until: boot-clock seconds until which it gets no tasks; 0 if it may have some now.
        rest_seconds: length of its last rest; 0 if it had none, or a report of it has counted since.
        waits: number of its requests that are to be answered later; see ``waiters``.
        cuts: number of times that it was cut off; requests that waited then are refused.
        draining: True if its name is drained, or was at its last hello: it gets no tasks, whatever its room.
    """

    __slots__ = (
        "address",
        "asked_for_hello",
        "capacity",
        "concurrency",
        "crashed",
        "cuts",
        "done",
        "draining",
        "ended",
        "failed",
        "given_up",
        "heard_at",
        "highest",
        "hung",
        "hung_since",
        "id",
        "interest",
        "kept_requests",
        "last_hello",
        "latest",
        "leases",
        "mask",
        "name",
        "passed",
        "peer",
        "priority",
        "pseudonym",
        "recalled",
        "rest_seconds",
        "rest_until",
        "saved_at",
        "select_number",
        "siblings",
        "slow",
        "suspects",
        "usable",
        "waits",
    )  # fmt: skip

    def __init__(self, session: str, heard_at: Boot, secret: bytes, siblings: OwnedSessions) -> None:
        self.id = session
        self.siblings = siblings
        self.pseudonym, self.mask = derive(secret, session)
        self.peer = Peer(b"")
        self.address = ""
        self.name = ""
        self.heard_at = heard_at
        self.saved_at = 0.0
        self.kept_requests: dict[int, int] | None = None
        self.highest = 0
        self.latest = 0
        self.last_hello = 0
        self.asked_for_hello: Peer | None = None
        self.capacity = self.usable = 0
        self.interest: Interest = frozenset()
        self.select_number = 0
        self.leases: dict[int, Task] = {}
        self.done = 0
        self.failed = 0
        self.ended: dict[int, EndedLease] = {}
        self.slow = 0
        self.hung: Hung | None = None
        self.hung_since = 0.0
        self.recalled = False
        self.passed: dict[int, None] = {}
        self.suspects: dict[int, int] = {}
        self.concurrency = 1
        self.priority = 0
        self.crashed: dict[int, bool] | None = None
        self.given_up = 0
        self.rest_until = 0.0
        self.rest_seconds = 0.0
        self.waits = 0
        self.cuts = 0
        self.draining = False

    @property
    def owner(self) -> str:
        """``Caller.owner`` of the key that spoke in it first; empty if none has."""
        return self.siblings.owner

    @property
    def label(self) -> str:
        """Public name: the client's own, else the pseudonym."""
        return self.name or self.pseudonym

    @property
    def free(self) -> int:
        """Number of tasks that the fetcher will take, none if negative; 0 while it rests or drains."""
        if self.rest_until or self.draining:
            return 0
        # Not self.room: a property in a property costs 50 to 100 ns in each dispatch. The invariants compare them.
        return self.usable - len(self.leases) - len(self.ended) + len(self.passed)

    @property
    def room(self) -> int:
        """Number of free places; negative if the fetcher is over its capacity."""
        return self.usable - len(self.leases) - len(self.ended) + len(self.passed)

    @property
    def beyond(self) -> int:
        """Number of leases outside the fetcher's places: its capacity has shrunk, or it has passed them on."""
        return min(len(self.leases), len(self.passed) + max(0, -self.room))

    @property
    def hung_places(self) -> int:
        """Number of places occupied by handlers whose leases have ended."""
        return len(self.ended) + self.capacity - self.usable

    @property
    def fetches(self) -> bool:
        """True if the session wants tasks, or if some occupy places of it."""
        return bool(self.capacity or self.leases or self.ended)

    def learn(self, outcomes: Iterable[int]) -> None:
        """Set the numbers of the requests with a stored outcome."""
        self.kept_requests = {n % OUTCOME_WINDOW: n for n in outcomes}
        self.highest = max(self.kept_requests.values(), default=0)
        self.latest = max(self.latest, self.highest)

    def follows(self, n: int) -> bool:
        """Return whether ``n`` is plausible after the known numbers of this session; if so, it becomes known."""
        if self.latest and n > self.latest + JUMP_MOST:
            return False
        self.latest = max(self.latest, n)
        return True

    def has_done(self, n: int) -> bool:
        """Return whether request ``n`` has been done, and its outcome is stored."""
        return self.kept_requests is not None and self.kept_requests.get(n % OUTCOME_WINDOW) == n

    def may_do(self, n: int) -> bool:
        """Return whether request ``n`` is new; False if it is too old to know."""
        return n > self.highest - OUTCOME_WINDOW

    def note_done(self, n: int) -> None:
        """Record the stored outcome of request ``n``, in place of the one that falls out of the window."""
        if self.kept_requests is None:
            self.kept_requests = {}
        self.kept_requests[n % OUTCOME_WINDOW] = n
        self.highest = max(self.highest, n)

    def take_hello(self, hello: Hello, now: Boot) -> None:
        """Apply a hello that is not older than the last one."""
        self.last_hello = hello.n
        self.name = hello.name
        self.given_up = max(0, self.given_up + self.capacity - hello.capacity)
        self.capacity = self.usable = hello.capacity
        self.concurrency = hello.slots or max(1, hello.capacity)
        self.crashed = None
        self.recalled = False
        self._state_ended(hello, now)
        self.hung = None
        if hello.hung is not None:
            self._state_hung(hello.hung, len(hello.running), now)
        self.select_number = max(self.select_number, hello.seen)

    def take_nothing(self) -> None:
        """Give a silent fetcher no more tasks, and forget what it runs."""
        self.capacity = self.usable = 0
        self.ended.clear()
        self.hung = None

    def count_slow(self, by: int) -> None:
        """Count that many more leases of the fetcher of which four fifths have passed, or fewer."""
        self.slow += by

    def recall(self) -> bool:
        """Record that the fetcher is to be asked for a hello; return False if it already was, or has sent none."""
        is_asked, self.recalled = self.recalled, True
        return not is_asked and bool(self.last_hello)

    def hand_back(self, count: int, now: Boot) -> float:
        """Record tasks handed back unstarted; return when the fetcher may have others (boot-clock seconds; 0: at once).

        A fetcher that lowers its capacity first has always stated its room truthfully. One that does not would get the
        same tasks again at once, unless it drains.
        """
        excess = count - self.given_up
        self.given_up = max(0, -excess)
        if excess > 0 and self.capacity and not self.draining:
            self.rest_seconds = min(max(REST_SECONDS, 2 * self.rest_seconds), REST_MOST_SECONDS)
            self.rest_until = now + self.rest_seconds
        return self.rest_until

    def rested(self) -> None:
        """End the fetcher's rest; the next one will be longer."""
        self.rest_until = 0.0

    def work_counts(self) -> None:
        """Record that a report has counted: the fetcher may have tasks at once, and its next rest will be short."""
        self.rest_until = self.rest_seconds = 0.0

    def _state_ended(self, hello: Hello, now: Boot) -> None:
        """Update the ended leases that still occupy places: the fetcher may not have seen them, names or runs them."""
        if self.ended:
            mentioned = {*hello.holds, *hello.running}.difference(hello.passed)
            self.ended = {
                token: lease for token, lease in self.ended.items() if lease.number > hello.seen or token in mentioned
            }
        for token in hello.running:
            if token not in self.leases:
                known = self.ended.get(token)
                self.ended[token] = EndedLease(0, now) if known is None else known._replace(number=0)
        self.passed = {token: None for token in hello.passed if token in self.leases}
        for token in self.passed:
            self.suspects.pop(token, None)

    def _state_hung(self, hung: Hung, running: int, now: Boot) -> None:
        """Record the hung places of a hello; those beyond the tokens that it names as running take no task."""
        self.hung = replace(hung, url=hung.url[:HUNG_URL_CHARS])
        self.hung_since = now - hung.seconds
        self.usable -= max(0, hung.places - running)

    def keep_ended(self, most: int) -> None:
        """Let at most ``most`` ended leases occupy places: those known longest, then those that the hello names first.

        The tasks that a fetcher claims to run are not verified: one that names a hundred thousand tokens must not fill
        the memory.
        """
        if len(self.ended) > max(0, most):
            self.ended = dict(islice(self.ended.items(), max(0, most)))  # a smaller dict would keep its memory

    def view(self, now: Boot) -> Fetcher:
        """Return the fetcher as replies show it."""
        return Fetcher(
            session=self.pseudonym,
            name=self.name,
            capacity=self.capacity,
            holds=len(self.leases),
            silent_seconds=max(0.0, now - self.heard_at),
            projects=None if self.interest is None else sorted(self.interest)[:SHOWN_WISHES],
            address=self.address,
            oldest_seconds=self.oldest_seconds(now),
            done=self.done,
            failed=self.failed,
            draining=self.draining,
            priority=self.priority,
            slots=self.concurrency if self.capacity else 0,
            free=max(0, self.room),
            hung=self.hung_view(now),
            slow=self.slow,
            note=self.oldest_note(),
        )

    def hung_view(self, now: Boot) -> HungPlaces | None:
        """Return the fetcher's hung places as replies show them; None if there is none.

        Tokens give their number, also between two hellos. The last hello, if it says so, gives the task that hangs
        longest, and since when, as the daemon may have been restarted since that lease ended.
        """
        places, hung = self.hung_places, self.hung
        if not places:
            return None
        if hung is not None:
            return HungPlaces(places, max(0.0, now - self.hung_since), hung.project, hung.taskid, hung.url)
        first = next(iter(self.ended.values()))
        return HungPlaces(places, max(0.0, now - first.at), first.project, first.taskid)

    def hung_seconds(self, now: Boot) -> float:
        """Return how long the first hung place of the fetcher has hung; 0 if there is none."""
        view = self.hung_view(now)
        return view.seconds if view is not None else 0.0

    def oldest_seconds(self, now: Boot) -> float:
        """Return the age of the session's oldest lease in seconds; 0 if there is none."""
        oldest = next(iter(self.leases.values()), None)
        return max(0.0, now - oldest.lease.selected_at) if oldest is not None and oldest.lease is not None else 0.0

    def oldest_note(self) -> str | float | None:
        """Return the note of the session's oldest lease; None if there is none."""
        oldest = next(iter(self.leases.values()), None)
        noted = oldest.lease.note if oldest is not None and oldest.lease is not None else None
        return None if noted is None else noted.note


class OwnedSessions:
    """Sessions of one owner, by id.

    Attributes:
        owner: see ``Session``.
        all: all of them, the longest silent first.
        unsaved: those of them that are not stored, so without kept outcomes, in the same order.
    """

    __slots__ = ("all", "owner", "unsaved")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.all: OrderedDict[str, Session] = OrderedDict()
        self.unsaved: OrderedDict[str, Session] = OrderedDict()

    def hear(self, session: Session, now: Boot) -> None:
        """Mark a session of these active now."""
        self.all.move_to_end(session.id)
        session.heard_at = now
        if not session.saved_at:
            self.unsaved[session.id] = session
            self.unsaved.move_to_end(session.id)

    def remove(self, session: Session) -> None:
        """Remove a session of these."""
        del self.all[session.id]
        self.unsaved.pop(session.id, None)


CONNECTION_PART: Final = 2
"""Divisor of ``max_leases`` that gives the limit of one connection."""


def most_at_one(max_leases: int) -> int:
    """Return the most leases of one connection: its part of ``max_leases``, rounded up."""
    return -(-max_leases // CONNECTION_PART)


class HeldWelcome(NamedTuple):
    """Answer to a hello that is sent after the dispatch.

    Attributes:
        number: number of the last ``select`` to the session when ``turns`` was computed; -1 before that.
        turns: number of turns that it may wait until all reads of that time are done.
    """

    session: Session
    welcome: Welcome
    number: int = -1
    turns: int = 0


class Connections:
    """Sessions by connection, with their leases.

    Attributes:
        crowded: sessions that would take tasks and were set aside, by connection.
    """

    __slots__ = ("_sessions", "crowded")

    def __init__(self) -> None:
        self._sessions: dict[Peer, dict[str, Session]] = {}
        self.crowded: dict[Peer, dict[str, Session]] = {}

    def move(self, session: Session, peer: Peer) -> bool:
        """Move the session to a connection; return whether it was set aside, and may try again."""
        was_crowded = self.is_crowded(session)
        self.forget(session)
        session.peer = peer
        self._sessions.setdefault(peer, {})[session.id] = session
        return was_crowded

    def forget(self, session: Session) -> None:
        """Remove the session from its connection."""
        for by_peer in (self._sessions, self.crowded):
            there = by_peer.get(session.peer)
            if there is not None and there.pop(session.id, None) is not None and not there:
                del by_peer[session.peer]

    def has(self, session: Session) -> bool:
        """Return whether the session is registered at its present connection."""
        return self._sessions.get(session.peer, {}).get(session.id) is session

    def held(self, peer: Peer) -> int:
        """Return the number of leases of a connection; costs a pass over its sessions."""
        return sum(len(session.leases) for session in self._sessions.get(peer, {}).values())

    def set_aside(self, session: Session) -> None:
        """Set aside a session that would take tasks, but whose connection may have no more."""
        self.crowded.setdefault(session.peer, {})[session.id] = session

    def is_crowded(self, session: Session) -> bool:
        """Return whether the session was set aside, and not called since."""
        return session.id in self.crowded.get(session.peer, ())

    def call(self, most: int) -> tuple[list[Session], bool]:
        """Return sessions that may try again, at most one for each lease that their connection has room for.

        The second value is True if others of a connection with room are left for the next turn.

        Args:
            most: leases that a connection may have.
        """
        called: list[Session] = []
        more = False
        for peer, aside in list(self.crowded.items()):
            room = max(0, most - self.held(peer))
            some = list(islice(aside.values(), room))
            for session in some:
                del aside[session.id]
            called += some
            more = more or (room > 0 and bool(aside))
            if not aside:
                del self.crowded[peer]
        return called, more


NAMES_MOST: Final = 100_000
"""Names in all sets together, at most; each takes about 0.4 KiB, with its entries in the rings."""

NO_WISHES: Final[frozenset[str]] = frozenset()
"""Set of a session that takes no tasks."""


class Wishes:
    """Sets of project names in use.

    Attributes:
        names: number of names in all sets together.
    """

    __slots__ = ("_held", "_holders", "names")

    def __init__(self) -> None:
        self._held: dict[frozenset[str], frozenset[str]] = {}
        self._holders: dict[frozenset[str], int] = {}
        self.names = 0

    def exchange(self, former: Interest, names: Sequence[str] | None) -> Interest:
        """Replace a session's former set by one of these names; None for any project, which is not a set.

        Raises:
            Rejected: there are too many names; nothing has changed.
        """
        stated = None if names is None else frozenset(names)
        if stated and stated not in self._held:
            freed = len(former) if former and self._holders[former] == 1 else 0
            if self.names - freed + len(stated) > NAMES_MOST:
                raise Rejected(
                    "full",
                    f"projects: fetchers name {self.names} projects in all, and at most {NAMES_MOST}; "
                    "name fewer, or none to take tasks of any",
                )
        new = self._hold(stated) if stated else stated
        self.release(former)
        return new

    def release(self, wished: Interest) -> None:
        """Record that a session no longer uses this set."""
        if not wished:
            return
        self._holders[wished] -= 1
        if not self._holders[wished]:
            del self._holders[wished], self._held[wished]
            self.names -= len(wished)

    def _hold(self, stated: frozenset[str]) -> frozenset[str]:
        same = self._held.setdefault(stated, stated)
        if same is stated:
            self.names += len(same)
        self._holders[same] = self._holders.get(same, 0) + 1
        return same
