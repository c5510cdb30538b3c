"""Counters of the daemon around the core, since its start; ``StatusReply.shell`` shows them."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Meters(Struct):
    """Counts, and seconds.

    Attributes:
        turns: turns of the core.
        wakeups: returns from sleep; an idle daemon has none.
        frames_in, frames_out, bytes_in, bytes_out: messages received and sent.
        malformed: messages that contain no valid request, answered with an error.
        unavailable: messages refused because the store has failed, or too many of their sender are queued.
        undelivered: messages whose peer had disconnected or did not read.
        cut: connections closed by the daemon because they used too much memory, or were too many.
        writes, syncs: batches written; syncs of the log completed.
        reloads: times the core was loaded again after the store had failed.
        hear_seconds, find_seconds, step_seconds, keep_seconds, reply_seconds: spent in the phases of turns:
            receiving and decoding, looking up, deciding, writing, encoding and sending.
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
    cut: int = 0
    writes: int = 0
    syncs: int = 0
    reloads: int = 0
    hear_seconds: float = 0.0
    find_seconds: float = 0.0
    step_seconds: float = 0.0
    keep_seconds: float = 0.0
    reply_seconds: float = 0.0


def as_map(meters: Meters) -> dict[str, float]:
    """The counters by name."""
    return msgspec.structs.asdict(meters)
