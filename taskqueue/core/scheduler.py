"""The scheduler: time and requests in; writes and messages out.

    loaded ──► Scheduler ─┬─ begin(now, incoming) ──► Turn, which says what to look up, and decides
                          ├─ next_event_at(now) ──► how long to sleep
                          ├─ last_words() ──► what to write at a clean shutdown
                          └─ verify()

Nothing in the core reads a clock or does I/O; nothing is undone: when a turn can't be looked up, decided or
written, this object is thrown away and loaded again from the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue.core import step_rules
from taskqueue.core.model.chance import derive
from taskqueue.core.model.daemon_minutes import DaemonMinute
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
    """Decides which task runs next. Created from what the store loads at start.

    Args:
        loaded: everything small that the store has; heads of queues are read when they are needed.
        config: the daemon's config.
        environment: pure functions from outside the core.
        now: the time of the start.
    """

    def __init__(self, loaded: Loaded, config: CoreConfig, environment: Environment, now: Now) -> None:
        # What loading changes is kept by the first turn, which begins here.
        self._started: TurnState | None = load(loaded, config, environment, now)
        self._state = self._started.state

    def begin(self, now: Now, incoming: Sequence[Incoming]) -> Turn:
        """Begin a turn, which already acts: it takes up what is due and releases bodies.

        Args:
            now: not earlier, on the boot clock, than that of the previous turn.
            incoming: the requests of this turn, in the order in which they arrived.

        Raises:
            Corrupt: the turn before has not been decided, so what it took up would be lost.
        """
        turn, self._started = self._started or TurnState(self._state, now), None
        turn.now = now
        return Turn(turn, incoming)

    def last_words(self, figures: DaemonMinute | None = None) -> WriteSet:
        """What to write at a clean shutdown: counters that have changed since they were saved, and points.

        Args:
            figures: of the shell, for the running minute; None: it had no turn.
        """
        turn = self._started or TurnState(self._state, self._state.last_now)
        for project in self._state.projects.by_name.values():
            statistics.save(turn, project)
        history.write_all(turn)
        if figures is not None:
            history.note_minute(turn, figures)
        return turn.changes.take()

    def next_event_at(self, now: Now) -> float:
        """When the next turn is due even without requests, in boot-clock seconds; inf: never."""
        state = self._state
        if state.left_undone or state.pending.low or state.hollow.to_read or put_back(state.last_now, now):
            return now.boot
        wall = min(state.wall_timers.next_at(), state.history.due_at)
        if "cron" in state.pending.steps:
            wall = min(wall, state.cron_timers.next_at())
        return max(now.boot, min(state.boot_timers.next_at(), now.boot + (wall - now.wall)))

    def verify(self) -> None:
        """Check every invariant, between two turns; costs a look at everything in memory.

        Raises:
            Corrupt: one is broken.
        """
        problems = check(self._started or TurnState(self._state, self._state.last_now))
        problems += step_rules.unregistered(self._state)
        if problems:
            raise Corrupt("; ".join(problems))

    def pseudonym(self, session: str) -> str:
        """The public name of a session, which does not reveal its id."""
        return derive(self._state.secret, session).pseudonym
