"""What is true: kept by the judge from what was written to the store and what was heard, not from what was said.

Everything that a power cut takes back lies in journaled tables, so that the truth can be taken back with the disk:

    put … put | commit | put … put | commit | put …      synced ──► can't be taken back any more
                                                          cut(k) ─► only k of the unsynced commits remain
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

EPSILON: Final = 1e-3
"""Seconds, or tokens, by which clocks and sums may differ."""

_ABSENT: Final = object()


class Journal:
    """Changes of tables, commit by commit, while they can still be taken back."""

    def __init__(self) -> None:
        self._open: list[tuple[dict[Any, Any], Any, Any]] = []
        self._commits: list[list[tuple[dict[Any, Any], Any, Any]]] = []

    @property
    def unsynced(self) -> int:
        """Commits that a power cut may take back."""
        return len(self._commits)

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Set an entry."""
        self._open.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Remove an entry, if it is there."""
        if key in table:
            self._open.append((table, key, table.pop(key)))

    def commit(self) -> None:
        """Everything put since the last commit was written in one batch."""
        self._commits.append(self._open)
        self._open = []

    def synced(self) -> None:
        """Nothing committed so far can be lost."""
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
    """A task by its names."""

    project: str
    taskid: str


class Held(NamedTuple):
    """A task in the store: the number of its project, its state, its last token, its place in the order; whether it is
    bare; how often its fetchers have fallen silent; its place among ready tasks, if it were in no slot; whether a rerun
    holds it; how often it has failed."""

    number: int
    state: int
    token: int
    key: int
    bare: bool = False
    crashes: int = 0
    ready_place: int = 0
    is_held: bool = False
    retried: int = 0


class Lease(NamedTuple):
    """A hand-out.

    Attributes:
        number: of the select message that carried it.
        until: true time until which it is surely in force, unless something ends it.
        latest: true time at which it has surely run out.
        ended: something may have ended it.
    """

    name: Name
    session: str
    number: int
    until: float
    latest: float
    ended: bool = False


class Answer(NamedTuple):
    """The first answer to a request, and the true time of its turn."""

    at: float
    request: dict[str, Any]
    reply: dict[str, Any]


class Facts(NamedTuple):
    """A project in the store."""

    number: int
    state: str
    overrides: dict[str, Any]


class Shown(NamedTuple):
    """A project as it was written last: how often it has finished, when it is to be checked, and when it is to go on
    (unix seconds; 0: not), how often its jobs have run, and whether its end is still owed."""

    name: str
    state: str
    finished: int
    check_at: float
    until: float
    runs: dict[str, int]
    is_owed: bool


class Run(NamedTuple):
    """The last run of a cron job: how many ticks it has heeded, which the last one was, what the wall clock showed then
    and, at the lowest, since."""

    heeded: int
    every: int
    tick: int
    lowest: float


class Progress(NamedTuple):
    """How far a bulk operation is: its projects, how many of them it is through with, the last taskid in the next one,
    tasks that it was about, the seq of the newest task when it began."""

    members: tuple[int, ...]
    position: int
    after: str
    matched: int
    bound: int


@dataclass
class Pace:
    """A bucket filled step by step: what a project may have been given."""

    rate: float
    burst: float
    level: float
    at: float

    def settle(self, at: float) -> None:
        """Gain what there is to gain until ``at``."""
        if at <= self.at:
            return
        gained = inf if self.rate == inf else self.rate * (at - self.at)
        self.level = min(self.burst, self.level + gained)
        self.at = at

    def change(self, rate: float, burst: float, at: float) -> None:
        """Go on with another rate and burst."""
        self.settle(at)
        self.rate, self.burst = rate, burst
        self.level = min(self.level, burst)

    def next_at(self) -> float:
        """When there will be a token."""
        if self.level >= 1 or self.rate == inf:
            return self.at if self.rate else inf
        return self.at + (1 - self.level) / self.rate if self.rate else inf


class Truth:
    """The tables.

    Attributes:
        tasks: everything that the store knows.
        projects: by name.
        leases: by token.
        in_force: tokens of leases that nothing may have ended.
        deferred: tasks with a force_update that waits for the end of their lease.
        bodies: of tasks, as far as they are known; those that updates will bring are ``later_bodies``.
        answers: by (session, n).
        counted: tokens of which an answer has counted.
        dropped_at: true time at which a project of that name was deleted last.
        facts: by session, (number of its last hello, capacity, projects that it wants); since the last restart.
        running: by session, tokens on which it says that it works, unless it has ended their leases itself since.
        mentioned: by session, tokens that it has spoken of, or may not have seen yet, likewise; with their selects.
        unnamed: by session, hung places that it states beyond the tokens that it works on.
        released_at: by session, true time at which it last handed tasks back.
        takers: sessions that have stated facts and have not been silent for too long since.
        heard_at: by session, true time at which it was heard last.
        forgotten_at: true time at which what was over for long enough was forgotten.
        ceilings: by project number, the pace that must never be exceeded; a crash takes nothing back.
        floors: by project number, the pace that is surely granted.
        shared_ceilings, shared_floors: the same of shared buckets, by name.
        records: by project number, what was written of it last.
        fed: by project, it has had something to do since it last finished.
        holds: by (project, session), until when (unix seconds) it is held open.
        checks: by (project number, phase), tokens of the checks that are out.
        runs: by (project number, job).
        progress: by operation.
        drained: names of fetchers that get nothing.
        given, given_later: what a task waits for; what it will wait for when its lease has ended.
        marks: state and number of each edge that is in the store.
        upstream: tasks that have failed because of others.
        propagations: numbers of those that are still to be told.
        reruns: by operation under way, how many tasks it says that it has reset, and which.
        stages: by project and flow, the tasks that were staged last.
        flows: by number, those that were accepted.
        flow_of: number of the flow that has made a task last.
        draining: by session, whether it gets nothing, as its name was drained or its last hello was answered.
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
        self.progress: dict[int, Progress] = {}
        self.drained: dict[str, bool] = {}
        self.draining: dict[str, bool] = {}
        self.given: dict[Name, Any] = {}
        self.given_later: dict[Name, Any] = {}
        self.marks: dict[Any, Any] = {}
        self.upstream: dict[Name, bool] = {}
        self.propagations: dict[int, bool] = {}
        self.reruns: dict[int, tuple[int, frozenset[Name]]] = {}
        self.stages: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {}
        self.flows: dict[int, Any] = {}
        self.flow_of: dict[Name, int] = {}
