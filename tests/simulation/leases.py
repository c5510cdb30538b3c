"""Leases with their fetchers and times, for laws S3 and S7, and law T1: when four fifths of one have passed, and not
before, that is noted, once until it is extended.

A lease is *in force* as long as nothing may have ended it: a report, a release, a hello that shows it to be lost, its
deadline, the silence of its fetcher, the end of its task. A restart of the scheduler gives fetchers time to be heard,
so that an expired lease that the scheduler has not ended yet is in force again.
"""

from __future__ import annotations

from typing import Any, Final

from taskqueue.core.model.task import PROCESSING, Task
from tests.simulation.slots import AHEAD
from tests.simulation.tasks import FETCHER_TIMEOUT, timeout_of
from tests.simulation.truth import EPSILON, Lease, Name, Truth
from tests.simulation.visitors import PROJECTS as DIVIDED
from tests.simulation.world import Violation, World

LONGEST_LEASE: Final = 1000.0
"""Seconds of the longest lease: more than any extension that the cast asks for."""


class Leases:
    """Judge of leases, from dispatch to end."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._truth = truth

    def begin(self, name: Name, task: Task) -> None:
        """Record that the task is dispatched now."""
        at = self._world.clock.now
        session, number = (task.lease.session, task.lease.number) if task.lease else ("", 0)
        self._check_capacity(name, session)
        self._truth.mentioned.setdefault(session, {})[task.token] = number
        until = at + timeout_of(name.taskid)
        latest = until + AHEAD if name.project in DIVIDED else until  # it may be sent ahead of its start
        self._truth.journal.put(self._truth.leases, task.token, Lease(name, session, number, until, latest, since=at))
        self._truth.journal.put(self._truth.in_force, task.token, True)

    def states(self, session: str, hello: dict[str, Any]) -> None:
        """Record a hello: tasks that the fetcher has and tasks that it works on."""
        before, running = self._truth.mentioned.get(session, {}), hello.get("running", [])
        unseen = {token: number for token, number in before.items() if number > hello["seen"]}
        self._truth.mentioned[session] = dict.fromkeys((*hello["holds"], *running), 0) | unseen
        self._truth.running[session] = dict.fromkeys(running)
        self._truth.unnamed[session] = max(0, (hello.get("hung") or {"places": 0})["places"] - len(running))

    def lets_go(self, session: str, token: int) -> None:
        """Record that the fetcher no longer works on a task."""
        self._truth.running.get(session, {}).pop(token, None)
        self._truth.mentioned.get(session, {}).pop(token, None)

    def extend(self, token: int, lease: Lease, seconds: float | None) -> None:
        """Extend a lease to ``seconds`` from now, even an expired one that the scheduler has not ended yet."""
        now = self._world.clock.now
        until = now + (seconds or timeout_of(lease.name.taskid))
        latest = max(until, lease.latest)
        renewed = lease._replace(until=until, latest=latest, ended=False, since=now, is_slow=False)
        self._truth.journal.put(self._truth.leases, token, renewed)
        self._truth.journal.put(self._truth.in_force, token, True)

    def slow(self, name: Name, token: int) -> None:
        """Judge law T1 of a lease of which it is noted now that four fifths have passed."""
        lease, at = self._truth.leases.get(token), self._world.clock.now
        if lease is None or lease.is_slow:
            raise Violation("T1", name.taskid, "it is noted as slow, but it has no lease, or was noted already")
        if at < lease.since + 0.8 * (lease.until - lease.since) - EPSILON:
            raise Violation("T1", name.taskid, f"it is noted as slow {at - lease.since:.3f} s after {lease}")
        self._truth.journal.put(self._truth.leases, token, lease._replace(is_slow=True))

    def end(self, token: int) -> None:
        """Record that something may have ended the lease, if there is one."""
        lease = self._truth.leases.get(token)
        if lease is not None:
            self._truth.journal.put(self._truth.leases, token, lease._replace(ended=True))
            self._truth.journal.drop(self._truth.in_force, token)

    def end_by_time(self) -> None:
        """End leases that have expired, and those of fetchers that were silent for too long."""
        at, heard_at = self._world.clock.now, self._truth.heard_at
        for session, since in heard_at.items():
            if at >= since + FETCHER_TIMEOUT - EPSILON:
                self._truth.takers.pop(session, None)
        for token, lease in self.active():
            silent_at = heard_at.get(lease.session, 0.0) + FETCHER_TIMEOUT
            if at >= min(lease.until, silent_at) - EPSILON:
                self.end(token)

    def restarted(self, *, same_boot: bool) -> None:
        """Record a start: deadlines are capped, and every fetcher has time to be heard."""
        at = self._world.clock.now
        for session in self._truth.heard_at:
            self._truth.heard_at[session] = at
        for held in self._truth.tasks.values():
            if held.state == PROCESSING:
                self._restart(held.token, at, same_boot)

    def active(self) -> list[tuple[int, Lease]]:
        """List all leases that are in force, with their tokens."""
        return [(token, self._truth.leases[token]) for token in self._truth.in_force]

    def of(self, session: str) -> list[tuple[int, Lease]]:
        """List the leases of one fetcher, with their tokens."""
        return [(token, lease) for token, lease in self.active() if lease.session == session]

    def _restart(self, token: int, at: float, same_boot: bool) -> None:
        lease = self._truth.leases[token]
        length = timeout_of(lease.name.taskid)
        until = max(min(lease.until, at + length), at + FETCHER_TIMEOUT)
        latest = max(lease.latest if same_boot else at + LONGEST_LEASE, at + FETCHER_TIMEOUT)
        self._truth.leases[token] = lease._replace(until=until, latest=latest, ended=False, since=at, is_slow=False)
        self._truth.in_force[token] = True
        self._truth.mentioned.setdefault(lease.session, {})[token] = lease.number

    def _check_capacity(self, name: Name, session: str) -> None:
        _, capacity, projects = self._truth.facts.get(session, (0, 0, None))
        has = self._truth.running.get(session, {}) | dict(self.of(session))
        hung = self._truth.unnamed.get(session, 0)
        if len(has) + hung + 1 > capacity:
            more = f" and {hung} places that hang" if hung else ""
            raise Violation("S7", name.taskid, f"{session} has {len(has) + 1} tasks{more} but a capacity of {capacity}")
        if projects is not None and name.project not in projects:
            raise Violation("S7", name.taskid, f"{session} does not want tasks of {name.project}")
