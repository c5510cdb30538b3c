"""Client processes: what they have asked, what they hold, when they were last heard, and which connections they use.

A session is one run of one client process, whatever connections it uses. As a *producer* it sends numbered requests;
the answers to the last ``OUTCOME_WINDOW`` of them are kept, so that a repeat is answered and not done again. As a
*fetcher* it has a capacity, and ``select`` messages to it are numbered, so that a lost one is sent again.

A fetcher has room for

    capacity - |leases that it has not passed on, and tasks that it runs or may run without one|   more tasks

1. A lease that ended by its fetcher's own word (``done``, ``release``, a hello without it) takes no room any more.
2. One that ended otherwise (its time, a cancel, another process) keeps its room, because somebody may still work on the
   task, until ``done``, ``release`` or silence, or a hello without it that was said after the fetcher had seen it.
3. In all sessions together no more leases that have ended take room than ``max_leases``; beyond that they take none.
4. A place that is held so *hangs*. Each is counted by its token, also if the fetcher's hellos tell nothing of it.
   Those that they state beyond the tokens that they name are counted, too. Unless it is over its capacity,

       free + running + hung = capacity

5. A fetcher that hands back what it had stated room for gets nothing for a while, longer each time: ``hand_back``.

One connection may have half of all leases (``Connections``):

    max_leases ──half of it──► the leases of all sessions of one connection together
                                 │ reached: its fetchers are set aside, and get nothing
                                 │ a lease has ended, or a session has moved to another connection: they may try again

So no peer can hold all tasks, however many sessions it makes up. A session that moves to another connection takes its
leases along. While no more than half of ``max_leases`` are out in all, nothing is counted.

The names of projects that fetchers want tasks of (``Wishes``) are in memory once for each distinct set:

    hello ──names──► exchange ──► the set that the session, and its ring, use
                        │ the last session with a set is gone, or states another: the set is dropped
                        │ over NAMES_MOST names in all sets together: refused

What peers state must not fill the memory: a thousand names in each of ten thousand hellos would be some gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from taskqueue.core.model.chance import derive
from taskqueue.core.model.task import Task
from taskqueue.errors import Rejected
from taskqueue.protocol.fetchers import SHOWN_WISHES, Fetcher, Hello, Hung, HungPlaces, Welcome
from taskqueue.protocol.fields import OUTCOME_WINDOW, Boot, Peer

Interest = frozenset[str] | None
"""Names of the projects that a fetcher wants tasks of; None: any."""

REST_SECONDS: Final = 0.125
"""Seconds for which a fetcher that has handed back tasks gets nothing; doubled each time."""
REST_MOST_SECONDS: Final = 10.0

HUNG_URL_CHARS: Final = 200
"""Characters kept of the url that a hello states of a task that hangs: 2 MB for 10,000 fetchers, with 8,192 80 MB."""

JUMP_MOST: Final = 2**20
"""By how much a number may exceed all known ones of its session. A client that counts never comes near; one that sends
2^63 in somebody else's session must not make all of that one's later numbers too old.
"""


class EndedLease(NamedTuple):
    """A lease that has ended although its fetcher has not said so, and that still holds a place of it.

    Attributes:
        number: of the ``select`` message that told of it; 0: its fetcher has seen it.
        at: boot-clock seconds of its end, or at which its fetcher was first heard to run the task without a lease.
        project, taskid: of its task; empty if only the fetcher knows them.
    """

    number: int
    at: Boot
    project: str = ""
    taskid: str = ""


class Session:
    """One client process.

    Attributes:
        id: as it chose; a secret between it and the daemon.
        pseudonym: what people are shown in place of the id.
        mask: what makes a token of a number: see ``chance``.
        peer: where it was last heard.
        address: of its machine then, for people.
        heard_at: boot-clock seconds at which it was last heard.
        saved_at: unix seconds at which it was last heard, as the store has it; 0: it is not stored.
        kept_requests: numbers of the requests that have a kept outcome, by number modulo the window, as in the store;
            None: it has not been asked for them yet. The outcomes themselves are read again for the rare repeat.
        highest: greatest of them.
        latest: greatest number that is known of it, that of a hello or of what only reads included; 0: none.
        last_hello: number of the last hello heeded; older ones that arrive late are not.
        asked_for_hello: the address at which it was asked to say one, because it had said none since the start.
        select_number: of the last ``select`` sent.
        leases: what it holds, by token, oldest first.
        done, failed: attempts of its leases that ended so, those that ran out of time among the failed ones.
        ended: by token, leases that have ended but still take room, the first one first.
        usable: its capacity less the hung places that its last hello stated beyond the tokens that it named.
        hung: what its last hello said of places that hang; None: nothing.
        hung_since: boot-clock seconds since when the first of these hangs.
        recalled: it was asked for a hello because a lease of it was revoked, and none has come since.
        passed: tokens among ``leases`` that it has passed on to another process.
        suspects: crashes of the tasks among ``leases`` that have some, by token.
        concurrency: how many tasks it runs at once.
        priority: who waits with a higher one is served first; written by the fair queue.
        crashed: since it has fallen silent, tokens of what it ran then, and whether the task is to blame; None: it is
            heard.
        interest: the projects that it wants tasks of; empty, too, while it takes none; see ``Wishes``.
        given_up: by how much it has lowered its capacity without having handed back as many tasks since.
        rest_until: boot-clock seconds until which it gets nothing; 0: it may have tasks now.
        rest_seconds: how long its last rest was; 0: it had none, or a report of it has counted since.
        waits: requests of it that are to be answered later; see ``waiters``.
        draining: its name is drained, or was when it said its last hello: it gets nothing, whatever its room.
    """

    __slots__ = (
        "address",
        "asked_for_hello",
        "capacity",
        "concurrency",
        "crashed",
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
        "suspects",
        "usable",
        "waits",
    )  # fmt: skip

    def __init__(self, session: str, heard_at: Boot, secret: bytes) -> None:
        self.id = session
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
        self.draining = False

    @property
    def label(self) -> str:
        """The public name."""
        return self.name or self.pseudonym

    @property
    def free(self) -> int:
        """How many more tasks it will take; none if negative. 0 while it rests, or drains."""
        if self.rest_until or self.draining:
            return 0
        # Not self.room: a property in a property costs 50 to 100 ns in each hand-out. The invariants compare them.
        return self.usable - len(self.leases) - len(self.ended) + len(self.passed)

    @property
    def room(self) -> int:
        """Places that nothing holds; negative if it is over its capacity."""
        return self.usable - len(self.leases) - len(self.ended) + len(self.passed)

    @property
    def beyond(self) -> int:
        """Leases that are in none of its places: it wants fewer tasks than before, or has passed them on."""
        return min(len(self.leases), len(self.passed) + max(0, -self.room))

    @property
    def hung_places(self) -> int:
        """Places that handlers hold whose leases are over."""
        return len(self.ended) + self.capacity - self.usable

    @property
    def fetches(self) -> bool:
        """It wants tasks, or something holds a place of it."""
        return bool(self.capacity or self.leases or self.ended)

    def learn(self, outcomes: Iterable[int]) -> None:
        """Set which requests have a stored outcome."""
        self.kept_requests = {n % OUTCOME_WINDOW: n for n in outcomes}
        self.highest = max(self.kept_requests.values(), default=0)
        self.latest = max(self.latest, self.highest)

    def follows(self, n: int) -> bool:
        """Whether number ``n`` is plausible after the known ones of this session; if so, it becomes known."""
        if self.latest and n > self.latest + JUMP_MOST:
            return False
        self.latest = max(self.latest, n)
        return True

    def has_done(self, n: int) -> bool:
        """Whether request ``n`` has been done, and its outcome is stored."""
        return self.kept_requests is not None and self.kept_requests.get(n % OUTCOME_WINDOW) == n

    def may_do(self, n: int) -> bool:
        """Whether request ``n`` is new; False: it is so old that nobody knows."""
        return n > self.highest - OUTCOME_WINDOW

    def note_done(self, n: int) -> None:
        """The outcome of request ``n`` is stored, in place of the one that falls out of the window."""
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
        """It is silent: it gets nothing, and nothing is known of what it runs."""
        self.capacity = self.usable = 0
        self.ended.clear()
        self.hung = None

    def recall(self) -> bool:
        """Note that it is to be asked for a hello; False: it has been, or it has not said one yet."""
        is_asked, self.recalled = self.recalled, True
        return not is_asked and bool(self.last_hello)

    def hand_back(self, count: int, now: Boot) -> float:
        """It has handed back tasks unstarted; returns when it may have tasks again (boot-clock seconds; 0: at once).

        A fetcher that lowers its capacity first has stated its room truthfully all the time. One that doesn't would be
        handed the same tasks again at once, unless it drains.
        """
        excess = count - self.given_up
        self.given_up = max(0, -excess)
        if excess > 0 and self.capacity and not self.draining:
            self.rest_seconds = min(max(REST_SECONDS, 2 * self.rest_seconds), REST_MOST_SECONDS)
            self.rest_until = now + self.rest_seconds
        return self.rest_until

    def rested(self) -> None:
        """Its rest is over; the next one will be longer."""
        self.rest_until = 0.0

    def work_counts(self) -> None:
        """A report of it has counted: it may have tasks at once, and its next rest will be short."""
        self.rest_until = self.rest_seconds = 0.0

    def _state_ended(self, hello: Hello, now: Boot) -> None:
        """Update which ended leases still occupy room: those that it may not have seen yet, has, or runs."""
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
        """Keep what it says of places that hang; those beyond the tokens that it names as running take no task."""
        self.hung = replace(hung, url=hung.url[:HUNG_URL_CHARS])
        self.hung_since = now - hung.seconds
        self.usable -= max(0, hung.places - running)

    def keep_ended(self, most: int) -> None:
        """Let at most ``most`` ended leases occupy room: those known longest, then those that its hello names first.

        What a fetcher claims to run is not verified: one that names a hundred thousand tokens must not fill the memory.
        """
        if len(self.ended) > max(0, most):
            self.ended = dict(islice(self.ended.items(), max(0, most)))  # one that shrinks keeps its room

    def view(self, now: Boot) -> Fetcher:
        """The fetcher as people see it."""
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
        )

    def hung_view(self, now: Boot) -> HungPlaces | None:
        """Its hung places as people see them; None if there is none.

        How many there are its tokens say, also between two hellos; which one hangs for longest, and since when, its
        last hello if that tells, as the daemon may have been restarted since that lease ended.
        """
        places, hung = self.hung_places, self.hung
        if not places:
            return None
        if hung is not None:
            return HungPlaces(places, max(0.0, now - self.hung_since), hung.project, hung.taskid, hung.url)
        first = next(iter(self.ended.values()))
        return HungPlaces(places, max(0.0, now - first.at), first.project, first.taskid)

    def hung_seconds(self, now: Boot) -> float:
        """How long the first of its hung places has hung; 0 if there is none."""
        view = self.hung_view(now)
        return view.seconds if view is not None else 0.0

    def oldest_seconds(self, now: Boot) -> float:
        """How long it has held the oldest of its leases; 0 if it holds none."""
        oldest = next(iter(self.leases.values()), None)
        return max(0.0, now - oldest.lease.selected_at) if oldest is not None and oldest.lease is not None else 0.0


CONNECTION_PART: Final = 2
"""A connection may have one in so many of ``max_leases``."""


def most_at_one(max_leases: int) -> int:
    """The most leases of one connection: its part of ``max_leases``, rounded up."""
    return -(-max_leases // CONNECTION_PART)


class HeldWelcome(NamedTuple):
    """The answer to a hello that asked for it after the hand-out.

    Attributes:
        number: of the last ``select`` to the session when ``turns`` was counted; -1: it was not.
        turns: how many it may wait until all that was to be read then has been.
    """

    session: Session
    welcome: Welcome
    number: int = -1
    turns: int = 0


class Connections:
    """Sessions by connection, with their leases.

    Attributes:
        crowded: by connection, sessions that would take tasks and were set aside.
    """

    __slots__ = ("_sessions", "crowded")

    def __init__(self) -> None:
        self._sessions: dict[Peer, dict[str, Session]] = {}
        self.crowded: dict[Peer, dict[str, Session]] = {}

    def move(self, session: Session, peer: Peer) -> bool:
        """The session uses this connection from now on; True: it was set aside, and may try again."""
        was_crowded = self.is_crowded(session)
        self.forget(session)
        session.peer = peer
        self._sessions.setdefault(peer, {})[session.id] = session
        return was_crowded

    def forget(self, session: Session) -> None:
        """The session has no connection any more."""
        for by_peer in (self._sessions, self.crowded):
            there = by_peer.get(session.peer)
            if there is not None and there.pop(session.id, None) is not None and not there:
                del by_peer[session.peer]

    def has(self, session: Session) -> bool:
        """Whether the session is registered at its present connection."""
        return self._sessions.get(session.peer, {}).get(session.id) is session

    def held(self, peer: Peer) -> int:
        """Leases of all sessions of a connection; costs a look at each of them."""
        return sum(len(session.leases) for session in self._sessions.get(peer, {}).values())

    def set_aside(self, session: Session) -> None:
        """The session would take tasks, but its connection may have no more."""
        self.crowded.setdefault(session.peer, {})[session.id] = session

    def is_crowded(self, session: Session) -> bool:
        """Whether the session was set aside, and not called since."""
        return session.id in self.crowded.get(session.peer, ())

    def call(self, most: int) -> tuple[list[Session], bool]:
        """Sessions that may try again, at most one for each lease that their connection has room for.

        The second value: others of a connection with room are left for the next turn.

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
"""Names in all sets together; each takes about 0.4 KiB, with its entries in the rings."""

NO_WISHES: Final[frozenset[str]] = frozenset()
"""The set of a session that takes no tasks."""


class Wishes:
    """The sets in use.

    Attributes:
        names: number of names in all sets together.
    """

    __slots__ = ("_held", "_holders", "names")

    def __init__(self) -> None:
        self._held: dict[frozenset[str], frozenset[str]] = {}
        self._holders: dict[frozenset[str], int] = {}
        self.names = 0

    def exchange(self, former: Interest, names: Sequence[str] | None) -> Interest:
        """Replace a session's former set by one of these names; None: any project, which is no set.

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
        """A session no longer uses this set."""
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
