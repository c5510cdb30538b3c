"""The scheduler: time and requests in; writes and messages out.

    loaded ──► Scheduler ─┬─ begin(now, incoming) ──► Turn, with its needs and its decision
                          ├─ next_event_at(now) ──► how long to sleep
                          ├─ last_words() ──► what to write at a clean shutdown
                          └─ verify()

The core reads no clock, does no I/O and rolls nothing back: if a turn can't be looked up, decided or
written, this object is thrown away and loaded again from the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue.core import step_rules
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.hashes import derive
from taskqueue.core.model.now import Now
from taskqueue.core.model.records import Loaded, WriteSet
from taskqueue.core.moves import statistics
from taskqueue.core.moves.clock_step import put_back
from taskqueue.core.requests.invariants import check
from taskqueue.core.startup import load
from taskqueue.core.steps import history
from taskqueue.core.turn import Turn
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.messages import Incoming
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import CoreConfig


class Scheduler:
    """State machine that decides which task runs next.

    Args:
        loaded: all small records of the store; heads of queues are read when they are needed.
        config: the daemon's config.
        environment: pure functions from outside the core.
        now: time of the start.
    """

    def __init__(self, loaded: Loaded, config: CoreConfig, environment: Environment, now: Now) -> None:
        # The first turn begins here, because it writes what loading changes.
        self._started: TurnState | None = load(loaded, config, environment, now)
        self._state = self._started.state

    def begin(self, now: Now, incoming: Sequence[Incoming]) -> Turn:
        """Begin a turn: take up what is due, release bodies, and collect its needs.

        Args:
            now: time of the turn; its boot clock is not before that of the previous turn.
            incoming: requests of the turn, in order of arrival.

        Raises:
            Corrupt: the previous turn has not been decided, so the work that it took up would be lost.
        """
        turn, self._started = self._started or TurnState(self._state, now), None
        turn.now = now
        return Turn(turn, incoming)

    def last_words(self, figures: DaemonMinute | None = None) -> WriteSet:
        """Return the writes of a clean shutdown: counters changed since they were saved, and points of history.

        Args:
            figures: the shell's figures of the running minute; None if it had no turn.
        """
        turn = self._started or TurnState(self._state, self._state.last_now)
        for project in self._state.projects.by_name.values():
            statistics.save(turn, project)
        history.write_all(turn)
        if figures is not None:
            history.note_minute(turn, figures)
        return turn.changes.take()

    def next_event_at(self, now: Now) -> float:
        """Return when the next turn is due without requests, in boot-clock seconds; inf if never."""
        state = self._state
        if state.left_undone or state.pending.low or state.hollow.to_read or put_back(state.last_now, now):
            return now.boot
        wall = min(state.wall_timers.next_at(), state.history.due_at)
        if "cron" in state.pending.steps:
            wall = min(wall, state.cron_timers.next_at())
        return max(now.boot, min(state.boot_timers.next_at(), now.boot + (wall - now.wall)))

    def verify(self) -> None:
        """Check every invariant, between two turns; costs a pass over everything in memory.

        Raises:
            Corrupt: an invariant is broken.
        """
        problems = check(self._started or TurnState(self._state, self._state.last_now))
        problems += step_rules.unregistered(self._state)
        if problems:
            raise Corrupt("; ".join(problems))

    def pseudonym(self, session: str) -> str:
        """Return the public name of a session, which does not reveal its id."""
        return derive(self._state.secret, session).pseudonym
