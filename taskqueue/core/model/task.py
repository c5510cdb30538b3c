"""Tasks in the scheduler, and their places in the orders that they wait in.

A task is in exactly one state, and each state is an order with integer keys: the first task of an order has the
smallest key, in memory and (as 16 big-endian bytes) in the store:

    ready       slot, priority, then seq  larger priorities first, then first in first out; by ``newest`` the seq's
                                          complement, whose top bit tells it: last in first out
    delayed     due time, then seq
    blocked     seq                       waits for other tasks: see ``edges``
    processing  seq
    finished    end, then seq             success, failed, cancelled: one order each

    new ──► ready ──select──► processing ──done──► success | failed | cancelled
      │      ▲  ▲                │   │
      ▼      │  └─── released ───┘   │ failed, timeout
    delayed ─┘ due                   │
      ▲──────────────────────────────┘
    new with parents ──► blocked ──the last edge is satisfied──► ready or delayed

Rules:
1. ``seq`` is given when a task becomes live and stays, through retries and merges. A restart gives a new one, and so,
   unless an operation is under way, do a fetcher that falls silent, each success of a task with ``recrawl`` and, in a
   project that goes by due time, the end of a wait. A ``task-retry`` by hand brings the task back with its former one,
   unless ``clear`` has since dropped all up to that.
2. ``token`` is that of the last lease; only dispatching, an answer that counts, replacing, releasing, cancelling,
   restarting and retrying by hand change it.
3. ``spec`` is the producer's description, with facts about the page; None means that it is only in the store (the task
   is *hollow*) and must be read before the task is dispatched.
4. A finished task that is *bare* has neither spec nor history nor a place in an order any more: see ``retention``.
"""

from __future__ import annotations

from typing import Final, get_args

from mypy_extensions import mypyc_attr

from taskqueue.core.model.edges import Links
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.recrawl_interval import facts_bytes
from taskqueue.core.model.spec import Spec
from taskqueue.protocol.choices import LiveState, OverState
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Attempt, NewTask

READY: Final = 1
DELAYED: Final = 2
PROCESSING: Final = 3
SUCCESS: Final = 4
FAILED: Final = 5
CANCELLED: Final = 6
BLOCKED: Final = 7

STATE_NAMES: Final = ("", "ready", "delayed", "processing", "success", "failed", "cancelled", "blocked")
"""Names by state, which is a number, as in the store; 0 stands for an unknown task.

A later state gets the next number. Don't compare states by size: the sets below say what a state is. A look into a set
takes 10 to 18 ns, as long as a comparison; a function around either takes 50, a method of an enumeration 140.
"""

STATES: Final = range(1, len(STATE_NAMES))
LIVE: Final = frozenset(map(STATE_NAMES.index, get_args(LiveState)))
"""States of tasks that are to be run, or are being run."""
WAITING: Final = LIVE - {PROCESSING}
"""Live states in which no fetcher runs the task: its record lies at its place in the order."""
OVER: Final = tuple(map(STATE_NAMES.index, get_args(OverState)))
"""Finished states, in the order in which a project's record has the bounds of their orders."""

PRIORITY_TOP: Final = 2**31 - 1
SEQ_BITS: Final = 64
SEQ_MASK: Final = (1 << SEQ_BITS) - 1
NEWEST: Final = 1 << SEQ_BITS - 1
"""Top bit of a seq, which is clear because epochs have 19 bits; set where a place has the seq's complement."""
SLOT_SHIFT: Final = 96
"""Bit of the place of a ready task from which on it has the number of its slot; 0 if its project has no slots."""
KEY_BYTES: Final = 16
NO_FLOOR: Final = 1 << (8 * KEY_BYTES)
"""Key above every other: an order without a floor is in memory completely."""

NO_TOKEN: Final = Token(0)
"""Token of a task that was never dispatched, or whose lease can no longer be answered."""

HELD_UNTIL: Final = 1e12
"""The exetime (unix seconds) of a task that a rerun delays, later than any that a producer can set.

If the task need not wait for others, it waits nevertheless.
"""

PUT_OFF_MOST: Final = 0xFFFF
"""Largest count of times in a row that a task is put off."""

RETRIED_MOST: Final = (1 << 26) - 1
"""Largest count of a task's failures: its record has 26 bits for them."""

LATEST_SECOND: Final = (1 << 32) - 1
"""Last unix second of arrival that is stored: a task's record has 32 bits for it."""

ATTEMPTS_KEPT: Final = 10
"""Attempts in the history of a task; the oldest is overwritten."""

TASK_BYTES: Final = 512
"""Bytes of a task in memory besides its URL and its body; measured with tracemalloc, rounded up."""


@mypyc_attr(acyclic=True)
class Task:
    """Task with its state and its place in the store.

    Attributes:
        project: number of its project (a new one after ``delete``), the first part of its keys in the store.
        key: its place in the order of its state.
        exetime: unix seconds before which it must not run; 0 for any time. Of a bare task: since when it has been bare.
        lastcrawltime: unix seconds at which an attempt last succeeded, failed or timed out; 0 if never.
        held_back: delayed by a retry, a retry_after or a recrawl, so that mere links to it don't bring it forward.
        timed_out: True if its last attempt timed out.
        apart: True if its project can be finished while it is live: a recurring task that has run, or ``on_finished``.
        attempts: number of its ended attempts, modulo ATTEMPTS_KEPT: the index of the next one in its history.
        size: approximate bytes in memory; see ``size_of``.
        kept_state, kept_key: its place in the store; state 0 if it has none.
        kept_seq: seq under which the store has its spec, if that is not ``seq``; else 0.
        kept_deferred: True if the store has a deferred update of it.
        unlisted: True if it was dispatched in the turn that made it; while it runs, the store has it only by its lease,
            and not by its taskid.
        touched: True if it is among this turn's changes.
        spec_changed: True if its spec must be written with this turn's changes.
        ended: its final success, if it came in this turn; stored in the task's place among the successes, so that it
            costs no write of its own.
        bare: True if only the record that it was and how it ended is left.
        crashes: times that its fetcher has fallen silent while it ran, since a fetcher last reported its end; see
            ``dispatch``.
        has_result: True if its last success gave a result, which is stored apart, by taskid; a restart leaves it there.
        links: its ties to other tasks; None if it has none.
        slot: number of its slot, in some division of its project; 0 if it is in none.
        throttled: times in a row that its host has throttled it.
        put_off: times in a row that its fetcher has put it off by ``retry_after``; at most PUT_OFF_MOST.
        pushed_at: whole unix seconds of its first arrival; 0 if from before that was stored. A restart keeps it.
        job: name of the run that it came by; empty if none.
    """

    __slots__ = (
        "apart",
        "attempts",
        "bare",
        "crashes",
        "ended",
        "exetime",
        "has_result",
        "held_back",
        "itag",
        "job",
        "kept_deferred",
        "kept_key",
        "kept_seq",
        "kept_state",
        "key",
        "lastcrawltime",
        "lease",
        "links",
        "priority",
        "project",
        "pushed_at",
        "put_off",
        "retried",
        "seq",
        "size",
        "slot",
        "spec",
        "spec_changed",
        "state",
        "taskid",
        "throttled",
        "timed_out",
        "token",
        "touched",
        "unlisted",
    )

    def __init__(
        self,
        project: int,
        taskid: str,
        state: int,
        key: int,
        seq: int,
        priority: int = 0,
        exetime: float = 0.0,
        token: Token = NO_TOKEN,
        retried: int = 0,
        lastcrawltime: float = 0.0,
        held_back: bool = False,
        timed_out: bool = False,
        apart: bool = False,
        attempts: int = 0,
        itag: str = "",
        spec: Spec | None = None,
        lease: Lease | None = None,
        size: int = TASK_BYTES,
        kept_state: int = 0,
        kept_key: int = 0,
        bare: bool = False,
        crashes: int = 0,
        has_result: bool = False,
        links: Links | None = None,
        slot: int = 0,
        throttled: int = 0,
        put_off: int = 0,
        pushed_at: int = 0,
        job: str = "",
    ) -> None:
        self.project = project
        self.taskid = taskid
        self.state = state
        self.key = key
        self.seq = seq
        self.priority = priority
        self.exetime = exetime
        self.token = token
        self.retried = retried
        self.lastcrawltime = lastcrawltime
        self.held_back = held_back
        self.timed_out = timed_out
        self.apart = apart
        self.attempts = attempts
        self.itag = itag
        self.spec = spec
        self.lease = lease
        self.size = size
        self.kept_state = kept_state
        self.kept_key = kept_key
        self.kept_seq = 0
        self.kept_deferred = False
        self.unlisted = False
        self.touched = False
        self.spec_changed = False
        self.ended: Attempt | None = None
        self.bare = bare
        self.crashes = crashes
        self.has_result = has_result
        self.links = links
        self.slot = slot
        self.throttled = throttled
        self.put_off = put_off
        self.pushed_at = pushed_at
        self.job = job

    def describe(self, spec: Spec, *, apart: bool) -> None:
        """Apply a spec to the task, which is in no order at the moment."""
        schedule = spec.schedule
        self.spec = spec
        self.bare = False
        self.apart = apart
        self.size = size_of(spec)
        self.priority = schedule.priority
        self.itag = schedule.itag or ""
        self.job = schedule.job or ""
        self.spec_changed = True

    def write_anew(self, spec: Spec) -> None:
        """Write the task's spec to the store once more."""
        self.spec = spec
        self.spec_changed = True

    def respecify(self, spec: Spec) -> None:
        """Store a spec of another size under the same seq; the task is in no order at the moment."""
        self.size = size_of(spec)
        self.write_anew(spec)

    def tie(self, links: Links) -> None:
        """Give the task these links."""
        self.links = links

    def enter_slot(self, slot: int) -> None:
        """Set the slot of the task, which is in no order at the moment."""
        self.slot = slot

    def note_throttled(self, times: int) -> None:
        """Set the times in a row that its host has throttled the task."""
        self.throttled = times

    def note_put_off(self, times: int) -> None:
        """Set the times in a row that its fetcher has put the task off, up to PUT_OFF_MOST."""
        self.put_off = min(times, PUT_OFF_MOST)

    def renumber(self, seq: int) -> None:
        """Give the task, which is in no order at the moment, another seq."""
        if self.kept_state and not self.kept_seq:
            self.kept_seq = self.seq
        self.seq = seq

    def restore(self, lease: Lease) -> None:
        """Restore a processing task from the store, which may lack a record by its taskid."""
        self.kept_deferred = lease.deferred is not None
        self.unlisted = True

    def drop_body(self, now: float) -> None:
        """Make the task bare at ``now`` (unix seconds)."""
        self.bare = True
        self.exetime = now

    def note_result(self, *, is_there: bool) -> None:
        """Record whether the task's success gave a result."""
        self.has_result = is_there

    def stay_as_kept(self) -> None:
        """Drop this turn's changes of the task; its fields stay as they are."""
        self.touched = self.spec_changed = False

    def as_move(self) -> Move:
        """Return the change since the store last had the task; from now on it counts as stored."""
        move = (
            self,
            self.kept_state,
            self.kept_key,
            self.kept_seq or self.seq,
            self.spec_changed,
            self.kept_deferred,
        )
        lease = self.lease
        self.kept_state = self.state
        self.kept_key = self.key
        self.kept_seq = 0
        self.kept_deferred = lease is not None and lease.deferred is not None
        self.spec_changed = False
        self.touched = False
        return move


Move = tuple[Task, int, int, int, bool, bool]
"""Change of a task in one turn: the store deletes the old place and writes the new one.

A plain tuple, because three are made in each task's life: (task, old_state, old_key, old_seq, spec_changed,
had_deferred).

* old_state, old_key: place of the task in the store; state 0 if it has none.
* old_seq: seq under which the store has its spec; differs from the task's after a restart.
* spec_changed: the spec must be written.
* had_deferred: the store has a deferred update of it, to be deleted unless the lease still carries one.
"""


def ready_key(priority: int, seq: int) -> int:
    """Return the key of a ready task: larger priorities first, then smaller seq."""
    return (PRIORITY_TOP - priority) << SEQ_BITS | seq


def seq_in(place: int) -> int:
    """Return the seq in a place of any order."""
    seq = place & SEQ_MASK
    return seq ^ SEQ_MASK if seq & NEWEST else seq


def time_key(at: float, seq: int) -> int:
    """Return the key in an order by time (unix seconds), rounded up to a microsecond so that no task is early."""
    micros = int(at * 1e6)
    if micros / 1e6 < at:
        micros += 1
    return micros << SEQ_BITS | seq


def key_time(key: int) -> float:
    """Return the time in a key made by ``time_key``, in unix seconds."""
    return (key >> SEQ_BITS) / 1e6


def deferred_bytes(update: NewTask) -> int:
    """Return the approximate bytes of a deferred update."""
    return TASK_BYTES + len(update.url) + len(update.body)


def size_of(spec: Spec) -> int:
    """Return the approximate bytes of a task with this spec in memory."""
    if spec.page is not None:
        return TASK_BYTES + len(spec.url) + len(spec.body) + facts_bytes(spec.page)
    return TASK_BYTES + len(spec.url) + len(spec.body)


def is_retry(task: Task) -> bool:
    """Return whether a failure or ``retry_after`` delays the task, and its project waits for its end."""
    return task.state == DELAYED and task.held_back and not task.apart


def came_within(task: Task, since: float, before: float) -> bool:
    """Return whether the task first came at ``since`` or later, and before ``before`` (unix seconds; 0 for no bound).

    A task whose arrival is unknown is left out if there is a bound.
    """
    return (not since or task.pushed_at >= int(since)) and (not before or 0 < task.pushed_at < before)


def is_held(task: Task) -> bool:
    """Return whether the task waits until a rerun has reset all of its tasks."""
    return task.state in (BLOCKED, DELAYED) and task.exetime == HELD_UNTIL
