"""Truth: the judge's record of writes and received messages, not of sent ones.

Facts that a power cut takes back lie in journaled tables, so that the truth can be taken back with the disk:

    put … put | commit | put … put | commit | put …      synced ──► can't be taken back any more
                                                          cut(k) ─► only k of the unsynced commits remain
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

from taskqueue.core.model.undo_rows import UndoPage

K = TypeVar("K")
V = TypeVar("V")

EPSILON: Final = 1e-3
"""Seconds, or tokens, by which clocks and sums may differ, at most."""

_ABSENT: Final = object()


class Journal:
    """Journal of changes of tables, commit by commit, while they can still be taken back."""

    def __init__(self) -> None:
        self._open: list[tuple[dict[Any, Any], Any, Any]] = []
        self._commits: list[list[tuple[dict[Any, Any], Any, Any]]] = []

    @property
    def unsynced(self) -> int:
        """Number of commits that a power cut may take back."""
        return len(self._commits)

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Set an entry."""
        self._open.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Remove an entry, if it exists."""
        if key in table:
            self._open.append((table, key, table.pop(key)))

    def commit(self) -> None:
        """End a batch: everything put since the last commit was written in it."""
        self._commits.append(self._open)
        self._open = []

    def synced(self) -> None:
        """Make all commits so far permanent."""
        self._commits.clear()

    def cut(self, lucky: int) -> None:
        """Take back all unsynced commits but the first ``lucky`` ones."""
        lost = [change for commit in (*self._commits[lucky:], self._open) for change in commit]
        for table, key, before in reversed(lost):
            if before is _ABSENT:
                del table[key]
            else:
                table[key] = before
        self._commits, self._open = [], []


class Name(NamedTuple):
    """Name of a task: project and taskid."""

    project: str
    taskid: str


class Held(NamedTuple):
    """Task in the store: number of its project, state, last token, key in the order; whether it is bare; how often its
    fetchers have fallen silent; its priority and seq, as one number; whether a rerun keeps it; how often it has failed;
    the turn in which it last became due, and its key among delayed tasks then, if its place depends on them; its
    job."""

    number: int
    state: int
    token: int
    key: int
    bare: bool = False
    crashes: int = 0
    ready_place: int = 0
    is_held: bool = False
    retried: int = 0
    became_due: tuple[int, int] | None = None
    job: str = ""


class Lease(NamedTuple):
    """Lease of a dispatched task.

    Attributes:
        number: of the select message that carried it.
        until: true time until which it is surely in force, unless something ends it.
        latest: true time at which it has surely expired.
        ended: whether something may have ended it.
        since: true time of its dispatch, of its last extension, or of a later start of the scheduler.
        is_slow: whether it was noted since then that four fifths of it had passed.
    """

    name: Name
    session: str
    number: int
    until: float
    latest: float
    ended: bool = False
    since: float = 0.0
    is_slow: bool = False


class Answer(NamedTuple):
    """First reply to a request, and the true time of its turn."""

    at: float
    request: dict[str, Any]
    reply: dict[str, Any]


class Facts(NamedTuple):
    """Project in the store."""

    number: int
    state: str
    overrides: dict[str, Any]
    is_sorting: bool = False


class Shown(NamedTuple):
    """Project as it was written last: how often it has finished, times of its next check and of the end of its pause
    (unix seconds; 0: none), how often its cron entries ran, and whether it still has to finish."""

    name: str
    state: str
    finished: int
    check_at: float
    until: float
    ran: dict[str, int]
    is_owed: bool


class Run(NamedTuple):
    """Last tick of a cron entry: number of its ticks, their interval, which one it was, and lowest wall time since."""

    heeded: int
    every: int
    tick: int
    lowest: float


class Progress(NamedTuple):
    """Progress of a bulk operation: its projects, how many are done, the last taskid in the next one, number of matched
    tasks, and seq of the newest task when it began."""

    members: tuple[int, ...]
    position: int
    after: str
    matched: int
    bound: int


class Touch(NamedTuple):
    """Task that an operation changed last: the operation's id; whether anything has been written of it since, and
    whether it has been handed out since."""

    operation: int
    is_written: bool
    has_run: bool


@dataclass
class Pace:
    """Bucket filled step by step, as a bound of a project's dispatches."""

    rate: float
    burst: float
    level: float
    at: float

    def settle(self, at: float) -> None:
        """Gain the tokens until ``at``."""
        if at <= self.at:
            return
        gained = inf if self.rate == inf else self.rate * (at - self.at)
        self.level = min(self.burst, self.level + gained)
        self.at = at

    def change(self, rate: float, burst: float, at: float) -> None:
        """Continue with another rate and burst."""
        self.settle(at)
        self.rate, self.burst = rate, burst
        self.level = min(self.level, burst)

    def next_at(self) -> float:
        """Return the time of the next token."""
        if self.level >= 1 or self.rate == inf:
            return self.at if self.rate else inf
        return self.at + (1 - self.level) / self.rate if self.rate else inf


class Truth:
    """Tables of the truth.

    Attributes:
        tasks: all tasks in the store.
        projects: by name.
        leases: by token.
        in_force: tokens of leases that nothing may have ended.
        deferred: tasks with a force_update that waits for the end of their lease.
        bodies, jobs: known bodies and jobs of tasks; those of deferred updates are ``later_bodies``, ``later_jobs``.
        answers: by (session, n).
        counted: tokens whose report has counted.
        dropped_at: true time at which a project of that name was deleted last.
        facts: by session, (number of its last hello, capacity, projects that it wants); since the last restart.
        running: by session, tokens that it says it runs, unless it has ended their leases itself since.
        mentioned: by session, tokens that it has mentioned, or may not have seen yet, likewise; with their selects.
        unnamed: by session, hung places that it states beyond the tokens that it runs.
        released_at: by session, true time at which it last handed tasks back, unless its rest has surely ended since.
        takers: sessions that have said hello and have not been silent for too long since.
        heard_at: by session, true time at which it was heard last.
        forgotten_at: true time at which an old finished task was forgotten.
        ceilings: by project number, the pace that must never be exceeded; a crash takes nothing back.
        floors: by project number, the pace that is surely granted.
        shared_ceilings, shared_floors: ceilings and floors of shared buckets, by name.
        records: by project number, its last written record.
        fed: by project, whether it has had work since it last finished.
        holds: by (project, session), unix seconds until which it is kept open.
        checks: by (project number, phase), tokens of the checks that are processing.
        runs: by (project number, cron entry).
        progress: by operation.
        operating: numbers of all operations that have not ended.
        touches: tasks that operations have changed.
        undo_pages: rows of operations, by operation and position.
        undos: by operation, the position and the row up to which it has been undone.
        drained: names of fetchers that get no tasks.
        given, given_later: parents of a task; its parents after the end of its lease.
        marks: state and number of each edge in the store.
        edge_numbers: number of the valid edges of a task; 0 if it has none.
        upstream: tasks that have failed because of parents, or were dropped with one.
        dropped: tasks that were dropped because no parent had failed, or with a parent.
        by_hand: tasks that a user has had run since they were given their parents.
        propagations: numbers of unfinished propagations.
        reruns: by running operation, how many tasks it says that it has reset, and which.
        stages: by project and flow, the tasks that were staged last.
        flows: by number, accepted flows.
        flow_of: number of the flow that made a task last.
        ticks: by (project number, cron entry with a graph), tick of its last flow, and the lowest wall time since.
        waiting: by (project number, cron entry), ticks that wait for the end of a flow, in the order of their arrival.
        imports: by project, parts that are there and all parts of its last import.
        draining: by session, whether it gets no tasks, by the drain of its name or its last welcome.
    """

    def __init__(self) -> None:
        self.journal = Journal()
        self.tasks: dict[Name, Held] = {}
        self.projects: dict[str, Facts] = {}
        self.leases: dict[int, Lease] = {}
        self.in_force: dict[int, bool] = {}
        self.deferred: dict[Name, bool] = {}
        self.bodies: dict[Name, Any] = {}
        self.later_bodies: dict[Name, Any] = {}
        self.jobs: dict[Name, Any] = {}
        self.later_jobs: dict[Name, Any] = {}
        self.answers: dict[tuple[str, int], Answer] = {}
        self.counted: dict[int, bool] = {}
        self.dropped_at: dict[str, float] = {}
        self.forgotten_at: dict[Name, float] = {}
        self.facts: dict[str, tuple[int, int, list[str] | None]] = {}
        self.running: dict[str, dict[int, None]] = {}
        self.mentioned: dict[str, dict[int, int]] = {}
        self.unnamed: dict[str, int] = {}
        self.released_at: dict[str, float] = {}
        self.takers: dict[str, bool] = {}
        self.heard_at: dict[str, float] = {}
        self.ceilings: dict[int, Pace] = {}
        self.floors: dict[int, Pace] = {}
        self.shared_ceilings: dict[str, Pace] = {}
        self.shared_floors: dict[str, Pace] = {}
        self.records: dict[int, Shown] = {}
        self.fed: dict[str, bool] = {}
        self.holds: dict[tuple[str, str], float] = {}
        self.checks: dict[tuple[int, int], tuple[int, ...]] = {}
        self.runs: dict[tuple[int, str], Run] = {}
        self.ticks: dict[tuple[int, str], tuple[float, float]] = {}
        self.waiting: dict[tuple[int, str], tuple[float, ...]] = {}
        self.progress: dict[int, Progress] = {}
        self.touches: dict[Name, Touch] = {}
        self.undo_pages: dict[tuple[int, int], UndoPage] = {}
        self.undos: dict[int, tuple[int, int]] = {}
        self.operating: dict[int, bool] = {}
        self.drained: dict[str, bool] = {}
        self.draining: dict[str, bool] = {}
        self.given: dict[Name, Any] = {}
        self.given_later: dict[Name, Any] = {}
        self.marks: dict[Any, Any] = {}
        self.edge_numbers: dict[Name, int] = {}
        self.upstream: dict[Name, bool] = {}
        self.dropped: dict[Name, bool] = {}
        self.by_hand: dict[Name, bool] = {}
        self.propagations: dict[int, bool] = {}
        self.reruns: dict[int, tuple[int, frozenset[Name]]] = {}
        self.stages: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {}
        self.flows: dict[int, Any] = {}
        self.flow_of: dict[Name, int] = {}
        self.imports: dict[str, tuple[int, int]] = {}
