"""Counters of the daemon around the core, since its start; ``StatusReply.shell`` shows them, ``DaemonReply`` all."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field
from msgspec.structs import asdict

from taskqueue.core.parts.histogram import SECONDS, TASKS, Histogram


class Meters(Struct):
    """Counts, and seconds.

    Attributes:
        turns: turns of the core.
        wakeups: returns from sleep; an idle daemon has none.
        frames_in, frames_out, bytes_in, bytes_out: messages received and sent.
        malformed: messages that contain no valid request, answered with an error.
        unavailable: messages refused because the store has failed, or too many of their sender are queued.
        undelivered: messages whose peer had disconnected or did not read.
        dropped: messages that were neither heard nor answered: they came from a peer of another version of ZMTP, or
            receiving them failed.
        cut: connections closed by the daemon because they used too much memory, or were too many.
        silent: connections closed because nothing was heard on them, for long or among too many of one address.
        writes, syncs: batches written; syncs of the log completed.
        reloads: times the core was loaded again after the store had failed.
        lost_turns: acknowledged turns that a database has lost, as in a failover.
        damaged_rows: of a database, that are set aside because they can't be used.
        hear_seconds, find_seconds, step_seconds, keep_seconds, reply_seconds: spent in the phases of turns:
            receiving and decoding, looking up, deciding, writing, encoding and sending.
        turn, commit, sync: seconds of looking up, deciding and writing; of the writing alone; of syncs.
        tasks: of which a turn that wrote has changed something.
    """

    turns: int = 0
    wakeups: int = 0
    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    malformed: int = 0
    unavailable: int = 0
    undelivered: int = 0
    dropped: int = 0
    cut: int = 0
    silent: int = 0
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
        """The histograms, by their names in the protocol."""
        return {
            "turn_seconds": self.turn,
            "commit_seconds": self.commit,
            "sync_seconds": self.sync,
            "turn_tasks": self.tasks,
        }


_HISTOGRAMS: Final = ("turn", "commit", "sync", "tasks")


def as_map(meters: Meters) -> dict[str, float]:
    """The counters by name."""
    counters = asdict(meters)
    for name in _HISTOGRAMS:
        del counters[name]
    return counters
