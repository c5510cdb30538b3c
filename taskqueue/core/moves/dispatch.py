"""Dispatch of tasks to fetchers with free places, unasked, in fair shares, at each project's pace.

    ring.visit ──► project, fetcher, how many ──► lease each ──► select messages, numbered per fetcher
                      │ no token: comes back when there will be one
                      │ dry with a floor, or hollow: comes back with the next look-up
                      │ due tasks are not ready, one of which may be next: comes back when all of them are
                      │ expired: ends as cancelled instead, and costs no token

Eligibility: which projects may dispatch tasks now, and how many; when to try again with those that may not:

    room         state, active hours, max_processing, checks        when one of them changes
    own tokens   rate and burst                                     when there will be one
    shared ones  tokens of a bucket of several projects             in turn, as they come

A project that has all three is offered to the rings of ``fair_queue``. A project that lacks one is in no ring and costs
nothing.

Suspects are tasks that may kill their fetchers. A handler that ends its process, by a segfault or by taking all memory,
can't be reported. The daemon only sees a fetcher fall silent, with all that it ran:

    fetcher falls silent ──► one crash more for each task that it ran ──► ready, behind its equals
                             reported, whatever the outcome               no crashes

Rules of suspects:
1. A fetcher runs the oldest of its leases, up to its concurrency, except those that it has passed on. Hellos can't
   tell, because a task that kills at once was in none.
2. A task without crashes is not a suspect. Suspects with one crash take at most a quarter of a fetcher's places, but
   at least one; suspects with more run one at a time.
3. The crash that reaches ``max_crashes`` counts only for the sole suspect among what the fetcher ran, or for all that
   it ran, if that was one task. It is a failed attempt then. So a task that kills among a hundred innocent ones fails
   alone.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from taskqueue.core.model.fair_queue import Ring
from taskqueue.core.model.lease import LAST_PART, Lease
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Interest, Session, most_at_one
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import CANCELLED, Task
from taskqueue.core.moves.flows import note_dropped
from taskqueue.core.moves.memory_limits import await_body, heavy_bytes
from taskqueue.core.moves.slots import with_pace
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import UNSAID, Peer
from taskqueue.protocol.message_room import VALIDATORS_BYTES, room_beside
from taskqueue.protocol.values import PLAIN, Assignment, Attempt, Schedule

# ------------------------------------------------------------------------------------------------ suspects


SUSPECT_PART: Final = 4
"""Divisor of a fetcher's places that gives how many tasks with one crash it may run."""


def blame(session: Session) -> dict[int, bool]:
    """Return the tokens of the tasks that a fetcher runs, each with whether it is to blame if that goes silent now."""
    own = (task for token, task in session.leases.items() if token not in session.passed)
    started = list(islice(own, session.concurrency))
    suspects = [task for task in started if task.crashes] if len(started) > 1 else started
    return {task.token: len(suspects) == 1 and task is suspects[0] for task in started}


def may_try(session: Session, task: Task) -> bool:
    """Return whether the fetcher may have the suspect besides its present ones."""
    crashes = session.suspects.values()
    if task.crashes > 1:
        return all(others <= 1 for others in crashes)
    return sum(others == 1 for others in crashes) < max(1, session.concurrency // SUSPECT_PART)


# ------------------------------------------------------------------------------------------------ eligibility


def offer(turn: TurnState, project: Project) -> None:
    """Offer the project to fetchers, if it can dispatch a task."""
    if may_give(turn, project):
        turn.state.fair_queue.offer(project)


def may_give(turn: TurnState, project: Project) -> bool:
    """Return whether the project can dispatch a task now, or after a look-up; if not, see ``allowance``."""
    return project.queue.ready.first() is not None and allowance(turn, project) > 0


def could_give(turn: TurnState, project: Project) -> bool:
    """Return whether only a fetcher is missing to dispatch a task now; unlike ``may_give``, set no timer."""
    state, now, queue, shared = turn.state, turn.now, project.queue, project.shared
    # Not ``ready.first``, which moves slots: they are written and read only in turns that change the project.
    has_next = queue.ready.first() is not None if queue.slots is None else queue.slots.first_ready() is not None
    return (
        has_next
        and not queue.is_behind(now.wall)
        and project.room(now.wall, state.environment) > 0
        and project.bucket.available(now.boot) > 0
        and (shared is None or shared.bucket.available(now.boot) > 0)
        and state.config.has_room
        and state.memory.leases < state.config.max_leases
    )


def allowance(turn: TurnState, project: Project) -> float:
    """Return how many tasks, with a fraction, the project may dispatch now; less than 1 is none.

    If hours or tokens are missing, a timer is set, or the project waits for its shared bucket. Rules that change other
    conditions, such as the end of a lease, mark the project as changed themselves.
    """
    state, now = turn.state, turn.now
    room = project.room(now.wall, state.environment)
    if room <= 0:
        if not project.hours.open:
            state.wall_timers.note(("hours", project.number), project.hours.until)
        return 0
    tokens = project.bucket.available(now.boot)
    if not tokens:
        state.boot_timers.note(("bucket", project.number), project.bucket.token_at())
        return 0
    shared = project.shared
    if shared is None:
        return min(room, tokens)
    if project.number in shared.waiting:
        return 0
    common = shared.available(project.virtual, project.settings.weight, now.boot)
    if not common:
        shared.wait(project.number, project.virtual)
        state.boot_timers.note(("shared", shared.name), shared.token_at())
    return min(room, tokens, common)


def take_tokens(turn: TurnState, project: Project, count: int) -> None:
    """Take ``count`` tokens, at most the number that ``allowance`` has just returned."""
    now = turn.now
    project.bucket.take(count, now.boot)
    shared = project.shared
    if shared is not None:
        project.virtual = shared.take(count, project.virtual, project.settings.weight, now.boot)
        turn.drawn[shared.name] = shared


def recall(turn: TurnState) -> None:
    """Offer the next project that waits for a shared bucket, for each bucket with tokens.

    A project whose tasks no fetcher wants now waits in its rings instead, and the next one is offered, too.
    """
    state = turn.state
    for shared in state.shared.values():
        while shared.waiting and shared.bucket.available(turn.now.boot):
            number = shared.next_waiting()
            project = None if number is None else state.projects.by_number.get(number)
            if project is not None and may_give(turn, project) and state.fair_queue.offer(project):
                break
        # The project that took the last token may want no more, so only this timer leads to the next one.
        state.boot_timers.note(("shared", shared.name), shared.token_at())


# ------------------------------------------------------------------------------------------------ dispatch


def as_assignment(project: Project, task: Task, spec: Spec, timeout: float) -> Assignment:
    """Make the assignment sent to a fetcher, with ``timeout`` seconds left."""
    assignment = Assignment(
        project.name,
        task.taskid,
        spec.url,
        task.token,
        timeout,
        spec.body,
        task.retried,
        task.lastcrawltime or UNSAID,
        schedule_for_fetcher(task, spec.schedule),
    )
    page = spec.page
    if page is None:
        return assignment
    return replace(assignment, etag=page.etag, last_modified=page.last_modified, content_hash=page.content_hash)


def schedule_for_fetcher(task: Task, schedule: Schedule) -> Schedule:
    """Return the part of the schedule that a fetcher gets; PLAIN itself, which takes no bytes, if it is all default."""
    if schedule is PLAIN and not task.priority:
        return schedule
    told = Schedule(
        task.priority,
        schedule.exetime or UNSAID,
        retries=schedule.retries,
        age=schedule.age,
        itag=schedule.itag or None,
        job=task.job or None,
    )
    return PLAIN if told == PLAIN else told


SENT_TIMES_MOST: Final = 4
"""Bound on the bytes of a task in a message, in multiples of its size in memory.

That size counts characters, not their bytes, and names, such as that of its slot, within the 512 bytes per task.
"""

ASIDE_MOST: Final = 256
"""Suspects that one visit to a queue skips, at most."""


def call_crowded(turn: TurnState) -> None:
    """Give tasks again to fetchers that were set aside and whose connections have room now."""
    state = turn.state
    called, more = state.connections.call(most_at_one(state.config.max_leases))
    turn.freed.update((session.id, session) for session in called)
    turn.more |= more


class Dispatch:
    """Dispatches of one turn."""

    __slots__ = (
        "_at_one", "_heavy_bytes", "_held", "_left", "_messages", "_now", "_passed_over", "_refused", "_room",
        "_skipping", "_slow_at", "_state", "_timeout", "_turn",
    )  # fmt: skip

    def __init__(self, turn: TurnState) -> None:
        state = turn.state
        self._turn = turn
        self._state = state
        self._now = turn.now
        self._left = min(state.config.turn_tasks, state.config.max_leases - state.memory.leases)
        self._at_one = most_at_one(state.config.max_leases)
        self._held: dict[Peer, int] = {}
        self._heavy_bytes = 0
        self._messages: dict[str, Select] = {}
        self._room: dict[str, int] = {}
        self._passed_over = 0
        self._refused: dict[tuple[Interest, int, int], int] = {}
        self._skipping: dict[Interest, Ring] = {}
        self._timeout = 0.0
        self._slow_at = 0.0

    def run(self) -> None:
        """Dispatch up to ``turn_tasks`` tasks, and send them."""
        if not self._state.config.has_room:
            return  # projects with work stay in their rings, and have their turns as soon as there is room again
        # At least once a turn: otherwise a project that never runs out of work would starve those that wait for tokens.
        recall(self._turn)
        while self._left > 0:
            ring = self._busy_ring()
            if ring is None:
                break
            if self._visit(ring):
                self._state.fair_queue.pass_on(ring)
        else:
            # At ``max_leases`` there is nothing more to do before a lease ends.
            has_room = self._state.memory.leases < self._state.config.max_leases
            self._turn.more |= has_room and self._busy_ring() is not None
        for ring in self._skipping.values():
            self._state.fair_queue.restore(ring)
        for session in self._messages:
            self._send(self._state.sessions[session])

    def _busy_ring(self) -> Ring | None:
        """Return the next busy ring, or one that becomes busy by projects that wait for shared tokens."""
        ring = self._state.fair_queue.busy_ring()
        if ring is None and self._state.shared:
            recall(self._turn)
            ring = self._state.fair_queue.busy_ring()
        return ring

    def _visit(self, ring: Ring) -> int:
        project, session, count = ring.visit()
        if project.queue.is_behind(self._now.wall):
            self._leave(ring, project, session)
            return 0
        parted = self._state.fair_queue.has_parted(project)
        if parted and may_give(self._turn, project) and not await_body(self._state, project):
            self._state.fair_queue.offer(project)
            return 0
        if self._state.memory.leases + count > self._at_one:
            count = self._most_for(session, count)
            if not count:
                ring.pass_over(session)
                self._state.connections.set_aside(session)
                self._state.fair_queue.look(ring)
                return 0
        allowed = allowance(self._turn, project)
        taken = self._give(project, session, int(min(count, allowed, self._left)))
        self._left -= taken
        if session.peer in self._held:
            self._held[session.peer] += taken
        more = not await_body(self._state, project) and may_give(self._turn, project)
        if not more:
            self._state.fair_queue.part(project)
        if more and (self._passed_over or self._refused) and self._all_refuse(ring, project, taken):
            self._set_aside(ring, project)
            more = False
        ring.settle(session, taken, more=more)
        self._state.fair_queue.look(ring)
        return taken

    def _leave(self, ring: Ring, project: Project, session: Session) -> None:
        """Remove the project from the ring; it is offered anew when all of its due tasks are ready."""
        self._state.fair_queue.part(project)
        ring.settle(session, 0, more=False)
        self._state.fair_queue.look(ring)

    def _most_for(self, session: Session, count: int) -> int:
        """Return how many of ``count`` tasks the session may have, given the leases of its connection."""
        held = self._held.get(session.peer)
        if held is None:
            held = self._held[session.peer] = self._state.connections.held(session.peer)
        return min(count, max(0, self._at_one - held))

    def _all_refuse(self, ring: Ring, project: Project, taken: int) -> bool:
        """Return whether no fetcher in front of the ring may have the project's first tasks, which are suspects."""
        key = ring.interest, project.number, ring.waiting.priority
        if taken:
            self._refused.pop(key, None)
        if taken or not self._passed_over:
            return False
        self._refused[key] = self._refused.get(key, 0) + 1
        return self._refused[key] >= len(ring.waiting.front)

    def _set_aside(self, ring: Ring, project: Project) -> None:
        """Keep the project for fetchers behind in the ring; if there are none, until one gets a free place."""
        if ring.refuse(project):
            self._skipping[ring.interest] = ring
        else:
            self._state.pending.bar(project)

    def _give(self, project: Project, session: Session, count: int) -> int:
        """Lease up to ``count`` tasks; fewer if the next is not in memory, or the fetcher may not have the others."""
        ready = project.queue.ready
        aside: list[Task] = []
        self._heavy_bytes = heavy_bytes(self._state)
        room = self._room.get(session.id, 0)
        fetch_bytes = beside = len(project.fetch) if project.fetch is not None else 0
        if beside and session.id in self._messages and project.name in self._messages[session.id].fetch:
            beside = 0
        given = given_bytes = 0
        while given < count:
            task = ready.first()
            if task is None or task.spec is None:
                break
            expires_at = task.spec.schedule.expires_at
            if expires_at is not None and expires_at <= self._now.wall:
                if not self._expire(project, task):
                    break
                continue
            if task.crashes and not may_try(session, task):
                project.queue.stand_aside(task)
                aside.append(task)
                if len(aside) == ASIDE_MOST:
                    break
                continue
            if task.size + beside > room:
                room = self._begin_message(session)
                beside = fetch_bytes
            room -= task.size + beside
            beside = 0
            self._lease(project, session, task, task.spec)
            given += 1
            given_bytes += task.size
        self._passed_over = len(aside)
        project.queue.come_back(self._turn.changes, aside)
        if given:
            self._room[session.id] = room
            take_tokens(self._turn, project, given)
            project.totals.selected += given
            project.note_dispatch(self._now.boot)
            self._state.memory.leases_began(given, given_bytes)
            self._turn.touch(project)
        return given

    def _lease(self, project: Project, session: Session, task: Task, spec: Spec) -> None:
        timeout = spec.schedule.timeout or project.settings.processing_timeout
        now = self._now.boot
        if timeout != self._timeout:  # most of a turn have the same, and a multiplication each costs 0.2 %
            self._timeout = timeout
            self._slow_at = now + (1 - LAST_PART) * timeout
        # By position: keywords would cost a dict each.
        lease = Lease(session.id, session.select_number, now + timeout, now, None, 0, None, self._slow_at)
        if project.state == "checking":
            project.pause.lend(lease)
        leased = project.queue.processing.leased
        token = self._state.next_number() ^ session.mask
        while not token or token in leased:  # 0 means none; a token in force is never given twice
            token = self._state.next_number() ^ session.mask
        wait = project.queue.lease(self._turn.changes, task, token, lease)  # type: ignore[arg-type]  # as of a number: see State.next_number
        session.leases[task.token] = task
        if task.crashes:
            session.suspects[task.token] = task.crashes
        message = self._messages[session.id]
        assignment = as_assignment(project, task, spec, timeout)
        if task.slot:
            assignment = with_pace(project, task.slot, assignment, wait)
        message.tasks.append(assignment)
        if project.fetch is not None and self._fits_beside(project.fetch, spec):
            message.fetch[project.name] = project.fetch
        if task.size > self._heavy_bytes:
            self._state.hollow.release_body(task)

    def _fits_beside(self, fetch: Raw, spec: Spec) -> bool:
        """Return whether task and ``fetch`` fit into a message; the task may be older than a longer ``fetch``."""
        room = room_beside(spec.url, spec.schedule, self._state.config.max_message)
        if spec.page is not None:
            room -= VALIDATORS_BYTES
        return len(spec.body) + len(fetch) <= room

    def _expire(self, project: Project, task: Task) -> bool:
        """Cancel an expired task; return False if this turn has ended enough of them."""
        if self._left <= 0:
            return False
        self._left -= 1
        self._turn.note_attempt(task, Attempt(self._now.wall, "expired", error="expired before it was dispatched"))
        note_dropped(self._turn, task, dropped=False)
        project.queue.finish(self._turn.changes, task, CANCELLED, self._now.wall)
        self._turn.touch(project)
        return True

    def _begin_message(self, session: Session) -> int:
        """Begin the next select message to the session; return the bytes of room in it."""
        if session.id in self._messages:
            self._send(session)
        session.select_number += 1
        self._messages[session.id] = Select(number=session.select_number, tasks=[], fetch={})
        config = self._state.config
        return min(config.select_bytes, config.max_message // SENT_TIMES_MOST)

    def _send(self, session: Session) -> None:
        self._turn.send(session, self._messages[session.id], after_sync=self._state.config.synced_handout)
