"""Back-off of slots: decisions from reports about a host, and arithmetic on the slot's record.

    a report has                     the slot                          the task, if it failed
    seconds                          counts its delay from when
                                     the fetch began; auto: adapts
    retry_after                      blocked for that long, from a     delayed for that long, no retry used
                                     second to a day
    status 429 or 503                the same if retry_after is        ready behind its equals, no retry used,
                                     given, else backs off             THROTTLED_MOST times in a row; then as any
    not ok, error_kind connection    backs off                         as any that failed

A back-off takes 60 s, 120 s, 240 s … up to a day, each up to a tenth more or less.

Rules:
1. Reports on tasks dispatched before the present back-off began bring no news: however many of them come back, the
   back-off counts once. Leases are numbered in order (``State.lease_number``), across restarts and
   changes of the clocks, so their numbers are compared.
2. A back-off is forgiven QUIET_SECONDS after its end; until its end the host gets no requests.
3. A success forgives nothing: hosts that throttle let some requests through.
4. The jitter follows from name and level, because the core is deterministic: hosts that fell silent together don't come
   back together, and the same history gives the same times.
5. A throttled task is ready again, and its slot waits. It goes behind its equals, so that one page which is always
   answered by 503 does not hold its host up for days.
6. Reports that back off a slot don't count towards the automatic pause of the project, and are neutral as its checks.

7. Tasks without a slot, or of a slot of a former division, fail as usual.

The steps are those of StormCrawler (issue 1984 of its repository).
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.hashes import jitter
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.protocol.values import Fetched

PROPER: Final = 200

FIRST_SECONDS: Final = 60.0
LEAST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 86_400.0
QUIET_SECONDS: Final = 1800.0

LEVELS_MOST: Final = 16
"""Highest level; further ones change nothing, as the eleventh back-off is a day already."""


def is_proper(fetched: Fetched, *, ok: bool) -> bool:
    """Return whether the answer's latency shows how fast the host is: status 200, or a success of unknown status."""
    return fetched.status_code == PROPER or (ok and fetched.status_code is None)


def block(record: SlotRecord, now: float, seconds: float) -> None:
    """Block the slot, as its host asks, for some seconds from ``now`` (unix seconds); a longer block stays."""
    until = now + min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
    record.blocked_until = max(record.blocked_until, until)


def back_off(record: SlotRecord, now: float, lease: int, number: int) -> bool:
    """Begin a back-off: the host is asked too often, or can't be reached. Return False if that is known already.

    Args:
        now: unix seconds.
        lease: number of the lease of the task that was reported.
        number: a number above those of all leases so far.
    """
    if lease < record.backoff_number:
        return False
    level = level_at(record, now)
    record.level = min(level + 1, LEVELS_MOST)
    record.backoff_at = now
    record.backoff_until = now + back_off_seconds(record.name, level)
    record.backoff_number = number
    return True


def level_at(record: SlotRecord, now: float) -> int:
    """Return the number of back-offs in a row at ``now`` (unix seconds)."""
    return 0 if now >= record.backoff_until + QUIET_SECONDS else record.level


def back_off_seconds(name: str, level: int) -> float:
    """Return the length of the slot's back-off after ``level`` others in a row."""
    return min(FIRST_SECONDS * 2.0**level * jitter(name, level), MOST_SECONDS)


def forgive(record: SlotRecord) -> None:
    """Clear blocks and back-offs, when an operator says that the host may be asked."""
    record.blocked_until = record.backoff_until = record.backoff_at = 0.0
    record.level = 0


def next_delay(delay: float, seconds: float, *, is_proper: bool) -> float:
    """Return the automatic delay after an answer that took some seconds, before its bounds.

    The rule is that of Scrapy's AutoThrottle with a target concurrency of 1: half-way to the latency, or at once if
    that is longer. An answer that is not proper never shortens the delay, because servers are quick to refuse.

    Args:
        delay: the present delay, in seconds.
        is_proper: see the function ``is_proper``.
    """
    wanted = max(seconds, (delay + seconds) / 2)
    return wanted if is_proper or wanted > delay else delay
