"""Client session as a value machine: requests in, frames out; frames in, events out.

No socket, no clock, no chance: the session's id and the time are arguments, so a simulator can own them. Compiled,
therefore without Structs.

    submit ──► unanswered ──frames──► (network) ──receive──► Answered
                   ▲  └── resend: no answer in time, connected anew, another epoch, or "unavailable"; same bytes, same n
    hello_at ──► hello ──frames──► (network) ──receive──► Welcomed
    (network) ──receive──► select ──► HandedOut | duplicate, ignored | Gap: a new hello is due

Rules:
1. A request keeps its number and its bytes until it is answered or forgotten; the daemon answers a repeat, so sending
   again is always safe.
2. A request is sent only while its number is less than OUTCOME_WINDOW above the oldest unanswered one, because the
   daemon keeps the outcomes of no more. Callers leave some of these numbers to hellos: see ``has_room``. A request that
   waits for something keeps nothing, so it is exempt, and delays no other.
3. A hello states the facts of the moment when it leaves. It is never repeated: a newer one, with a new number, replaces
   it. A hello is due at the start, after a change, a gap or a reconnect, when the daemon asks for one, when it was not
   answered, and each third of ``fetcher_timeout`` while the session wants tasks or holds leases.
4. ``select`` number seen + 1 is taken and no other. A smaller one is a duplicate; a larger one shows a gap.
5. A token is held from its select until the ``done`` or ``release`` about it is answered, or a welcome says that its
   lease has ended. A part of a report that was stored leaves it held.
6. A token is running from ``start`` to ``stop``, even if its lease ends: hellos say so, because it occupies a place for
   that long. A token that was passed on is held, but occupies none.
7. A request that waits for something is answered when that happens, or after the seconds that it names; only silence
   beyond those is a sign of loss. A new connection repeats it at once, like the others.
8. A ``hello-wanted`` or a welcome of another epoch says that the daemon has read its store anew, and dropped all
   requests that it had not answered: all are sent again at once. Before the epoch is known any ``hello-wanted`` means
   that, because a repeat is always safe. A call that is dropped again and again waits longer each time, so that one
   that the store can't take does not keep the daemon from all others.
9. A session that is refused because a number is too old, or too far, has another user. The client goes on in a new
   session, in which the numbers go on, too, so that no answer is taken for another's. Tasks dispatched to the old
   session are still reported.
   A session that is ``not-yours`` belongs to a key that this client had before. It goes on in a new one, too, and takes
   its requests along as their refusals come: each goes to the new session under its number. A change by a user that had
   been sent more than once may have been done for the former key, so it fails instead; anything else may be done twice
   without harm, because a known task is merged and a token counts once. Hellos state tasks of the old session as
   running, so that they occupy places. The daemon takes them back after ``fetcher_timeout`` from the silent session, so
   from then on they count as ended.
10. A request that is sent again waits longer each time, so that a slow daemon recovers: see ``silence``,
   ``unavailable`` and ``dropped``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress
from math import inf
from typing import Final, NamedTuple

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from taskqueue.errors import MessageTooLarge, Rejected
from taskqueue.protocol.base import AnyReply, ChangeRequest, ErrorReply, WaitingRequest
from taskqueue.protocol.codec import MAX_MESSAGE_BYTES, decode_outgoing, encode
from taskqueue.protocol.fetchers import Hello, HelloWanted, Hung, Release, Select, TokensReply, Welcome
from taskqueue.protocol.fields import OUTCOME_WINDOW
from taskqueue.protocol.flows import FlowStaged
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, NewTasksReply
from taskqueue.protocol.values import Assignment
from taskqueue.texts.visible_text import visible

# ------------------------------------------------------------------------------------------------ events


class Answered(NamedTuple):
    """Event: request ``n`` has its answer."""

    n: int
    reply: AnyReply


class HandedOut(NamedTuple):
    """Event: tasks for this fetcher; none if the message only filled a gap. ``fetch``: setting of their projects."""

    tasks: list[Assignment]
    fetch: dict[str, Raw]


class Welcomed(NamedTuple):
    """Event: a hello was answered.

    Attributes:
        restarted: the daemon has restarted since the last welcome.
        ended: tokens that were held, and whose leases the daemon has ended: they expired, or an operator cancelled the
            task.
        handed_out: the ready tasks have been dispatched, as ``ask_hand_out`` asked.
    """

    welcome: Welcome
    restarted: bool
    ended: list[int]
    handed_out: bool = False


class Gap(NamedTuple):
    """Event: a ``select`` came that is not the next one; a hello asks for the missing ones."""

    expected: int
    number: int


class Refused(NamedTuple):
    """Event: the daemon refused a message that it can't name (``n`` 0), or a hello, or is unavailable."""

    error: ErrorReply


class Renewed(NamedTuple):
    """Event: another client, or another key, has the session, so a new session has taken its place."""

    error: ErrorReply


class Unreadable(NamedTuple):
    """Event: a frame is not a message of this protocol."""

    reason: str


SessionEvent = Answered | HandedOut | Welcomed | Gap | Refused | Renewed | Unreadable

# ------------------------------------------------------------------------------------------------ pauses

RESEND_SECONDS: Final = 5.0
RESEND_MOST_SECONDS: Final = 60.0

UNAVAILABLE_SECONDS: Final = 1.0
UNAVAILABLE_MOST_SECONDS: Final = 5.0

DROPS_AT_ONCE: Final = 3
DROPPED_SECONDS: Final = 1.0
DROPPED_MOST_SECONDS: Final = 60.0


def silence(tries: int) -> float:
    """Return the seconds without an answer after which a message that was sent ``tries`` times before is sent again."""
    return _doubled(RESEND_SECONDS, tries, RESEND_MOST_SECONDS)


def unavailable(tries: int) -> float:
    """Return the seconds until the next request to a daemon whose store was unusable ``tries`` times."""
    return _doubled(UNAVAILABLE_SECONDS, tries, UNAVAILABLE_MOST_SECONDS)


def dropped(times: int) -> float:
    """Return the seconds after which a call that the daemon has dropped ``times`` times is sent again.

    0 for the first DROPS_AT_ONCE times; after that the call itself may be the reason why its store fails.
    """
    if times <= DROPS_AT_ONCE:
        return 0.0
    return _doubled(DROPPED_SECONDS, times - DROPS_AT_ONCE - 1, DROPPED_MOST_SECONDS)


def _doubled(seconds: float, times: int, most: float) -> float:
    return float(min(seconds * 2 ** min(times, 10), most))


# ------------------------------------------------------------------------------------------------ requests


class Call:
    """A request without an answer.

    Attributes:
        request: what is asked.
        session: session in which it is asked.
        frame: its bytes.
        ends: tokens that its answer ends, those of a ``done`` or ``release``.
        waits: seconds that the daemon may take on purpose.
        due_at: time of its next sending.
        drops: times that the daemon has dropped it, as a new epoch showed.
        tries: times that it was sent since it was last dropped.
        sent: times that it was sent in this session.
    """

    __slots__ = ("drops", "due_at", "ends", "frame", "request", "sent", "session", "tries", "waits")

    def __init__(self, request: AnyRequest, frame: bytes, ends: list[int], waits: float = 0.0) -> None:
        self.request = request
        self.session = request.session
        self.frame = frame
        self.ends = ends
        self.waits = waits
        self.due_at = -inf
        self.drops = self.tries = self.sent = 0

    @property
    def may_move(self) -> bool:
        """True if nothing was done by its only sending, which was refused, or if doing it twice does no harm."""
        return self.sent <= 1 or not isinstance(self.request, ChangeRequest)

    def move(self, session: str, n: int) -> None:
        """Make it due in another session."""
        self.session = self.request.session = session
        self.request.n = n
        self.frame = encode(self.request)
        self.drops = self.tries = self.sent = 0
        self.due_at = -inf


def call_of(request: AnyRequest, frame: bytes) -> Call:
    """Make the call of a request that is to be sent as these bytes."""
    if isinstance(request, Done):
        return Call(request, frame, [item.token if item else 0 for item in request.tasks])
    if isinstance(request, Release):
        return Call(request, frame, [ref.token for ref in request.leases])
    if isinstance(request, WaitingRequest):
        return Call(request, frame, [], request.seconds)
    return Call(request, frame, [])


# ------------------------------------------------------------------------------------------------ the session

REQUESTS_IN_FLIGHT: Final = OUTCOME_WINDOW - 8
"""Unanswered requests in flight; the rest of OUTCOME_WINDOW is for hellos."""

IN_COMPANY: Final = ("too-old", "too-far")
"""Codes of refusals that a session with a single user never gets."""

NOT_YOURS: Final = "not-yours"
"""Code of refusals in a session that belongs to another key."""

MAYBE_DONE: Final = (
    "the client has another key than before, for which this may have been done already; look before you ask again"
)
"""Reason of a change that is not repeated in another session."""

FOREIGN_NUMBERS: Final = 1 << 61
"""First number of requests that are not this session's; its own never get this far."""

HEARTBEATS: Final = 3
"""Hellos per ``fetcher_timeout``."""


class ClientSession:
    """Session of a client; the module's docstring has its rules. Times are seconds of any monotonic clock.

    Args:
        session: random id, never used by another process.
        name: shown to operators, such as host:pid.
        another: makes the id of another session; None: there is only this one.

    Attributes:
        id: id of the current session.
        seen: number of the last ``select`` taken.
        epoch: epoch of the daemon, 0 before the first welcome.
        max_message, fetcher_timeout: from the last welcome, or the defaults before the first.
        draining: the daemon dispatches nothing new to it, as the welcome of its last hello said.
        for_name: name for which a web process speaks in this session; unset: the owner of its key.
    """

    def __init__(self, session: str, name: str = "", another: Callable[[], str] | None = None) -> None:
        self.id = session
        self._another = another
        self._first_n = 0
        self.name = name[:128]
        self.for_name: str | UnsetType = UNSET
        self.capacity = 0
        self.projects: list[str] | None = None
        self.places: int | None = None
        self.priority = 0
        self.seen = 0
        self.epoch = 0
        self.max_message = MAX_MESSAGE_BYTES
        self.fetcher_timeout = 60.0
        self.draining = False
        self._asked_at: int | None = None
        self._hung: Hung | None = None
        self._hung_since = 0.0
        self._last_n = 0
        self._unanswered: dict[int, Call] = {}
        self._waiting: dict[int, Call] = {}
        self._leases: dict[int, None] = {}
        self._running: set[int] = set()
        self._passed: set[int] = set()
        self._last_hello = 0
        self._hello_at = -inf
        self._hello_tries = 0
        self._gap_after = -1
        self._sent_to = 0  # epoch of the daemon that has what is unanswered; 0: unknown
        self._moved: set[int] = set()  # calls moved to another session since the connection was made
        self._former: dict[int, None] = {}  # tokens among the leases that were dispatched to another session
        self._former_until = 0.0

    # ------------------------------------------------------------------------------------ what is asked

    @property
    def has_room(self) -> bool:
        """True if one more request would be sent at once, not kept waiting behind others."""
        return self._last_n + 1 < self._oldest() + REQUESTS_IN_FLIGHT

    def submit(self, request: AnyRequest) -> int:
        """Give the request this session's id and its next number, which is returned; ``frames`` sends it.

        Raises:
            MessageTooLarge: nothing was done.
        """
        call = self._call(request, self.id, self._last_n + 1)
        self._last_n = request.n
        calls = self._waiting if call.waits else self._unanswered
        calls[request.n] = call
        return request.n

    def submit_known(self, request: AnyRequest, session: str, n: int) -> int:
        """Send a request as number ``n`` of another session, in which any process may repeat it.

        Args:
            n: from FOREIGN_NUMBERS on, and not the number of an unanswered request here.

        Raises:
            MessageTooLarge: nothing was done.
        """
        assert n >= FOREIGN_NUMBERS
        assert n not in self._waiting
        self._waiting[n] = self._call(request, session, n)
        return n

    def _call(self, request: AnyRequest, session: str, n: int) -> Call:
        request.session, request.n, request.for_name = session, n, self.for_name
        if isinstance(request, ChangeRequest) and not request.actor:
            request.actor = self.name
        try:
            frame = encode(request)
        except OverflowError:
            raise ValueError(f"{request.__struct_config__.tag}: a number has more than 64 bits") from None
        if len(frame) > self.max_message:
            raise MessageTooLarge(
                f"the message has {len(frame)} bytes, and daemon.max_message is {self.max_message}; "
                "keep large values elsewhere"
            )
        return call_of(request, frame)

    def forget(self, n: int) -> None:
        """Stop waiting for the answer to request ``n``, which may have been done. Its tokens stay held."""
        self._take_call(n)

    def want(self, capacity: int, projects: list[str] | None, places: int | None = None, *, priority: int = 0) -> None:
        """State from now on how many tasks the fetcher wants at once, of these projects (None: of all).

        Args:
            places: how many of them run at once; None: all.
            priority: fetchers with a higher one are served first.
        """
        if (capacity, projects, places, priority) != (self.capacity, self.projects, self.places, self.priority):
            self.capacity, self.projects, self.places, self.priority = capacity, projects, places, priority
            self.say_hello()

    def ask_hand_out(self) -> None:
        """Have the daemon answer the next hello after it has dispatched its ready tasks.

        Further hellos say so, too, until one is answered.
        """
        self._asked_at = 0
        self.say_hello()

    def start(self, token: int) -> None:
        """Mark the token's task as running; the next hello says so, if it still runs then."""
        self._running.add(token)

    def stop(self, token: int) -> None:
        """Mark the token's task as no longer running; if its lease has ended, a hello reports the free place."""
        if token in self._running:
            self._running.discard(token)
            if token not in self._leases:
                self.say_hello()

    def pass_on(self, token: int) -> None:
        """Record that another process works on the task and reports it; a hello says that its place here is free."""
        if token in self._leases:
            self._running.discard(token)
            self._passed.add(token)
            self.say_hello()

    def report_hung(self, hung: Hung | None, since: float = 0.0) -> None:
        """State in each hello which places hang; if their number has changed, a hello is due now.

        Args:
            since: time at which the first of their leases ended, by the caller's clock; hellos derive ``seconds`` from
                it.
        """
        before = 0 if self._hung is None else self._hung.places
        self._hung, self._hung_since = hung, since
        if before != (0 if hung is None else hung.places):
            self.say_hello()

    def leave(self) -> None:
        """Want nothing and hold nothing: leases go back unstarted, except those of tasks that were passed on.

        Other processes have as long to report those as a silent fetcher has.
        """
        self.capacity = 0
        self._leases = {token: None for token in self._leases if token in self._passed}
        self._running.clear()
        self._former.clear()
        self.say_hello()

    def connected(self) -> None:
        """Send everything again on a new connection: what was sent on an older one may be lost."""
        for call in chain(self._unanswered.values(), self._waiting.values()):
            call.due_at = -inf
        self._sent_to = 0
        self._moved.clear()
        self.say_hello()

    def holds(self, token: int) -> bool:
        """Return True if the token's task was dispatched to this session, and no answer has ended it yet."""
        return token in self._leases

    @property
    def passed(self) -> int:
        """Number of held tokens that have been passed on."""
        return len(self._passed)

    @property
    def held(self) -> int:
        """Number of held tokens."""
        return len(self._leases)

    @property
    def is_idle(self) -> bool:
        """True if no token is held, and no task runs."""
        return not self._leases and not self._running

    # ------------------------------------------------------------------------------------ what is to be sent

    def frames(self, now: float) -> list[bytes]:
        """Return all frames that are due now, in order, and count them as sent."""
        frames = [self._hello(now)] if self._hello_at <= now and self._hello_fits() else []
        for call in self._sendable():
            if call.due_at <= now:
                frames.append(call.frame)
                call.due_at = now + call.waits + silence(call.tries)
                call.tries += 1
                call.sent += 1
        return frames

    def next_at(self) -> float:
        """Return the time at which ``frames`` will have something, if nothing happens before; inf: never."""
        resend_at = min((call.due_at for call in self._sendable()), default=inf)
        return min(resend_at, self._hello_at) if self._hello_fits() else resend_at

    def _sendable(self) -> Iterator[Call]:
        return chain(self._in_flight(), self._waiting.values())

    def _in_flight(self) -> Iterator[Call]:
        end = self._oldest() + OUTCOME_WINDOW
        for n, call in self._unanswered.items():
            if n >= end:
                return
            yield call

    def _oldest(self) -> int:
        """Return the smallest number that may still be sent again."""
        return next(iter(self._unanswered), self._last_n + 1)

    def say_hello(self) -> None:
        """Make a hello due now, which states the facts anew and learns which leases have ended."""
        self._hello_at = -inf
        self._hello_tries = 0

    def _hello_fits(self) -> bool:
        return self._last_n + 1 < self._oldest() + OUTCOME_WINDOW

    def _hello(self, now: float) -> bytes:
        self._last_n += 1
        self._last_hello = self._last_n
        self._hello_at = now + silence(self._hello_tries)
        self._hello_tries += 1
        if self._asked_at == 0:
            self._asked_at = self._last_n
        return encode(
            Hello(
                session=self.id,
                n=self._last_hello,
                for_name=self.for_name,
                capacity=self.capacity,
                projects=self.projects,
                holds=[token for token in self._leases if token not in self._former],
                seen=self.seen,
                name=self.name,
                running=list(self._running.union(token for token in self._former if token not in self._passed)),
                passed=list(self._passed),
                slots=self.places,
                priority=self.priority,
                hung=self._hung and replace(self._hung, seconds=max(0.0, now - self._hung_since)),
                after_hand_out=self._asked_at is not None,
            )
        )

    # ------------------------------------------------------------------------------------ what is heard

    def receive(self, frame: bytes, now: float) -> SessionEvent | None:
        """Process a frame; returns None if it contains nothing new."""
        try:
            said = decode_outgoing(frame)
        except Rejected as rejected:
            return Unreadable(rejected.reason)
        if isinstance(said, Select):
            return self._take(said, now)
        _make_visible(said)
        if isinstance(said, Welcome):
            return self._welcomed(said, now)
        if isinstance(said, ErrorReply):
            return self._refused(said, now)
        if isinstance(said, HelloWanted):
            self._wanted_hello(said.epoch, now)
            return None
        return self._answered(said, now)

    def _wanted_hello(self, epoch: int, now: float) -> None:
        """Repeat requests that a daemon of another epoch has dropped; say hello if there is something to state.

        Hellos of thousands of idle producers would keep the daemon from their requests.
        """
        is_dropped = epoch != self._sent_to
        if is_dropped:
            self._repeat_dropped(now)
        self._sent_to = epoch
        if not is_dropped or self._hello_at < inf or self.draining or not self.is_idle:
            self.say_hello()

    def _repeat_dropped(self, now: float) -> None:
        """Make every unanswered request due again, because the daemon has dropped it."""
        for call in chain(self._unanswered.values(), self._waiting.values()):
            if call.tries:
                call.drops += 1
                call.tries = 0
                call.due_at = now + dropped(call.drops)

    def _take(self, select: Select, now: float) -> SessionEvent | None:
        if select.number <= self.seen:
            return None
        if select.number > self.seen + 1:
            return self._miss(select.number)
        self.seen = select.number
        for task in select.tasks:
            self._leases[task.token] = None
        if self._hello_at == inf:
            self._hello_at = now + self.fetcher_timeout / HEARTBEATS
        return HandedOut(select.tasks, select.fetch)

    def _miss(self, number: int) -> Gap | None:
        """Ask once per gap: the messages that follow the first missing one would only ask for the same again."""
        if self._gap_after == self.seen:
            return None
        self._gap_after = self.seen
        self.say_hello()
        return Gap(self.seen + 1, number)

    def _welcomed(self, welcome: Welcome, now: float) -> Welcomed:
        restarted = self.epoch not in (0, welcome.epoch)
        self.epoch = welcome.epoch
        if self._sent_to not in (0, welcome.epoch):
            self._repeat_dropped(now)
        self._sent_to = welcome.epoch
        self.max_message = welcome.max_message
        self.fetcher_timeout = welcome.fetcher_timeout
        handed_out = self._asked_at is not None and 0 < self._asked_at <= welcome.n
        if handed_out:
            self._asked_at = None
        if welcome.n == self._last_hello:
            self.draining = welcome.draining
        if welcome.n == self._last_hello and self._hello_at > now:
            self._hello_tries = 0
            self._hello_at = now + self.fetcher_timeout / HEARTBEATS if self.capacity or self._leases else inf
            ended = chain(welcome.ended, self._former) if now >= self._former_until else welcome.ended
            return Welcomed(welcome, restarted, self._leases_ended(ended), handed_out)
        return Welcomed(welcome, restarted, [], handed_out)

    def _leases_ended(self, tokens: Iterable[int]) -> list[int]:
        """Drop tokens whose leases have ended; only the last hello's answer says so. A hello reports freed places."""
        ended = [token for token in tokens if token in self._leases]
        made_room = any(token not in self._running and token not in self._passed for token in ended)
        self._drop(ended)
        if made_room:
            self.say_hello()
        return ended

    def _refused(self, error: ErrorReply, now: float) -> SessionEvent | None:
        call = self._unanswered.get(error.n) or self._waiting.get(error.n)
        if call is None:
            return self._refused_hello(error, now) if error.n in (0, self._last_hello) else None
        if error.code == NOT_YOURS and error.n < FOREIGN_NUMBERS:
            return self._disowned(call, error, now)
        if error.code != "unavailable":
            if error.code in IN_COMPANY and self._first_n < error.n <= self._last_n and self._renew():
                self.say_hello()
            return self._answered(error, now)
        call.due_at = now + unavailable(call.tries - 1)
        return Refused(error)

    def _disowned(self, call: Call, error: ErrorReply, now: float) -> SessionEvent | None:
        """Take a call of a session that belongs to another key to this client's next session."""
        if error.n in self._moved and call.session == self.id:
            return None  # Refused once more, as it was sent twice to the session before.
        is_renewed = call.session == self.id and self._disown(now)
        if call.session == self.id:
            return self._answered(error, now)
        if is_renewed:
            self.say_hello()
        if not call.may_move:
            return self._answered(ErrorReply(n=error.n, code=error.code, reason=MAYBE_DONE), now)
        call.move(self.id, error.n)
        self._moved.add(error.n)
        return Renewed(error) if is_renewed else None

    def _refused_hello(self, error: ErrorReply, now: float) -> Refused | Renewed | None:
        is_foreign = error.code == NOT_YOURS
        if (is_foreign or error.code in IN_COMPANY) and error.n <= self._first_n:
            return None
        if (is_foreign and self._disown(now)) or (error.code in IN_COMPANY and self._renew()):
            self._hello_at = now + unavailable(self._hello_tries - 1)
            return Renewed(error)
        if error.code == "unavailable" and self._hello_at > now:
            self._hello_at = now + unavailable(self._hello_tries - 1)
        return Refused(error)

    def _renew(self) -> bool:
        """Go on in another session; False: there is none."""
        if self._another is None:
            return False
        self.id, self._first_n = self._another(), self._last_n
        self.seen, self._gap_after = 0, -1
        return True

    def _disown(self, now: float) -> bool:
        """Go on in another session, because this one belongs to another key; leases of this one are in force so far."""
        if not self._renew():
            return False
        self._former = dict(self._leases)
        self._former_until = now + self.fetcher_timeout
        return True

    def _answered(self, reply: AnyReply, now: float) -> Answered | None:
        call = self._take_call(reply.n)
        if call is None:
            return None
        if isinstance(reply, DoneReply):
            ended = [outcome in ("done", "stale") for outcome in reply.outcomes]
            self._drop(compress(call.ends, ended))
        elif isinstance(reply, TokensReply):
            self._drop(call.ends)
        return Answered(reply.n, reply)

    def _take_call(self, n: int) -> Call | None:
        return self._unanswered.pop(n, None) or self._waiting.pop(n, None)

    def _drop(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._leases.pop(token, None)
            self._former.pop(token, None)
            self._passed.discard(token)


def _make_visible(said: AnyReply | HelloWanted) -> None:
    """Escape control characters in reasons and codes, which programs print to terminals."""
    if isinstance(said, ErrorReply):
        said.code, said.reason = visible(said.code), visible(said.reason)
    elif isinstance(said, NewTasksReply | DoneReply | FlowStaged) and said.errors:
        said.errors = [replace(each, code=visible(each.code), reason=visible(each.reason)) for each in said.errors]
