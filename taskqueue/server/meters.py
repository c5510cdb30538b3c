"""Counters of the daemon around the core, since its start and by the minute.

``StatusReply.shell`` shows the counters, ``DaemonReply`` all; the minutes are for the history of the daemon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.histogram import SECONDS, TASKS, Histogram
from taskqueue.quantiles import quantile
from taskqueue.this_process import resident_bytes


class Meters(Struct):
    """Counters and histograms of the daemon.

    Attributes:
        turns: turns of the core.
        wakeups: returns from sleep; an idle daemon has none.
        frames_in, frames_out, bytes_in, bytes_out: messages received and sent.
        malformed: messages that contain no valid request, answered with an error.
        unavailable: messages refused because the store has failed, or because the queue has too many of the peer's.
        forbidden: requests that the role of their sender's key does not allow.
        undelivered: messages whose peer had disconnected or did not read.
        dropped: messages that were neither heard nor answered: they came from a peer of another version of ZMTP, or
            receiving them failed.
        closed_memory: connections closed because they held the most memory when there was too little.
        closed_unread: connections closed because their peers left too much unread.
        closed_receive_failed: connections closed because receiving a message on them failed.
        closed_crowded: connections closed because there were too many.
        closed_silent: connections closed because their peers sent nothing for too long, or too many of one address.
        closed_revoked: connections closed because their key was revoked, has expired, or may do less than before.
        closed_hasty: connections closed because their address, or strangers together, had begun too many in a second.
        keys_refused: handshakes with a key that may not connect.
        writes, syncs: batches written; syncs of the log completed.
        reloads: times the core was loaded again after the store had failed.
        lost_turns: acknowledged turns that a database has lost, as in a failover.
        damaged_rows: unusable rows of a database that are set aside.
        hear_seconds, find_seconds, step_seconds, keep_seconds, reply_seconds: seconds in the phases of turns:
            receiving and decoding, looking up, deciding, writing, encoding and sending.
        turn, commit, sync: seconds of a turn (looking up, deciding and writing), of its writing alone, of a sync.
        tasks: tasks changed by a turn that wrote.
    """

    turns: int = 0
    wakeups: int = 0
    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    malformed: int = 0
    unavailable: int = 0
    forbidden: int = 0
    undelivered: int = 0
    dropped: int = 0
    closed_memory: int = 0
    closed_unread: int = 0
    closed_receive_failed: int = 0
    closed_crowded: int = 0
    closed_silent: int = 0
    closed_revoked: int = 0
    closed_hasty: int = 0
    keys_refused: int = 0
    writes: int = 0
    syncs: int = 0
    reloads: int = 0
    lost_turns: int = 0
    damaged_rows: int = 0
    hear_seconds: float = 0.0
    find_seconds: float = 0.0
    step_seconds: float = 0.0
    keep_seconds: float = 0.0
    reply_seconds: float = 0.0
    turn: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    commit: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    sync: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    tasks: Histogram = field(default_factory=lambda: Histogram(TASKS))

    def histograms(self) -> dict[str, Histogram]:
        """Return the histograms by their names in the protocol."""
        return {
            "turn_seconds": self.turn,
            "commit_seconds": self.commit,
            "sync_seconds": self.sync,
            "turn_tasks": self.tasks,
        }


_HISTOGRAMS: Final = ("turn", "commit", "sync", "tasks")


def as_map(meters: Meters) -> dict[str, float]:
    """Return the counters by name."""
    counters = asdict(meters)
    for name in _HISTOGRAMS:
        del counters[name]
    return counters


MICROSECONDS: Final = 1e6

OVER_SECONDS: Final = 11.0
"""Seconds that stand for a duration above the histograms' last bound, which is 10 s."""


class _Counts(NamedTuple):
    """Values of the meters at a moment."""

    turns: int
    commits: int
    syncs: int
    turn: Sequence[int]
    commit: Sequence[int]
    sync: Sequence[int]


class MinuteMeter:
    """Growth of the meters since the beginning of the minute; minutes without a turn are skipped.

    Checking whether a minute has ended takes 0.1 µs; the figures of an ended one take 0.1 ms.
    """

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._minute = 0
        self._before = _counts(meters)

    def ended(self, wall: float) -> DaemonMinute | None:
        """Return the figures of the last minute, if it has ended since the last call and had a turn; else None."""
        minute = int(wall // 60)
        if minute == self._minute:
            return None
        figures = self.figures()
        self._minute, self._before = minute, _counts(self._meters)
        return figures

    def figures(self) -> DaemonMinute | None:
        """Return the figures of the running minute; None if it had no turn."""
        now, before = _counts(self._meters), self._before
        if now.turns == before.turns:
            return None
        return DaemonMinute(
            self._minute,
            turns=now.turns - before.turns,
            commits=now.commits - before.commits,
            syncs=now.syncs - before.syncs,
            resident_bytes=resident_bytes(),
            **_spread("turn", now.turn, before.turn),
            **_spread("commit", now.commit, before.commit),
            **_spread("sync", now.sync, before.sync),
        )


def _counts(meters: Meters) -> _Counts:
    classes = (each.counts.copy() for each in (meters.turn, meters.commit, meters.sync))
    return _Counts(meters.turns, meters.writes, meters.syncs, *classes)


def _spread(name: str, now: Sequence[int], before: Sequence[int]) -> dict[str, int]:
    """Compute the microseconds within which half, 99 of 100 and all ended."""
    came = Histogram(SECONDS)
    came.counts = [later - earlier for later, earlier in zip(now, before, strict=True)]
    parts = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    found = {key: min(quantile(came, part) or 0.0, OVER_SECONDS) for key, part in parts.items()}
    return {f"{name}_{key}": round(seconds * MICROSECONDS) for key, seconds in found.items()}
