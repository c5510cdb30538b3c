"""What a report says of its host, and for how long a slot waits then: decisions, and arithmetic on its record.

    the report says                  the slot                          the task, if it failed
    seconds                          keeps its distance from when
                                     the fetch began; auto: follows
    retry_after                      blocked for that long, from a     delayed for that long, no retry used up
                                     second to a day
    status 429 or 503                the same if retry_after is        ready behind its equals, no retry used up,
                                     given, else backs off             THROTTLED_MOST times in a row; then as any
    not ok, error_kind connection    backs off                         as any that failed

A back-off takes 60 s, 120 s, 240 s … a day, each up to a tenth more or less.

Rules:
1. What was handed out before the present back-off began says nothing new: however many such tasks come back, the
   back-off counts once. Leases are numbered in their order (``State.lease_number``), also across restarts and
   whatever the clocks do, so it is their numbers that are compared.
2. It is forgiven after QUIET_SECONDS. These count from the end of the back-off: before that nobody asks the host.
3. A success forgives nothing: hosts that throttle let some through.
4. The jitter follows from name and level, because the core has no chance: hosts that fell silent together don't come
   back together, and the same history gives the same times.
5. A throttled task is ready again, and its slot waits. It goes behind its equals, so that one page which is always
   answered by 503 does not hold its host up for days.
6. What backs off a slot says nothing of the project: it does not count towards its automatic pause, and a check is
   neutral.
7. Tasks of no slot, or of a slot of a former division, fail as ever.

The steps are those of StormCrawler (issue 1984 of its repository).
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.chance import jitter
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.protocol.values import Fetched

PROPER: Final = 200

FIRST_SECONDS: Final = 60.0
LEAST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 86_400.0
QUIET_SECONDS: Final = 1800.0

LEVELS_MOST: Final = 16
"""Further ones change nothing: the eleventh is a day."""


def is_proper(fetched: Fetched, *, ok: bool) -> bool:
    """The host gave an answer whose latency says how fast it is: of status 200, or a success of unknown status."""
    return fetched.status_code == PROPER or (ok and fetched.status_code is None)


def block(record: SlotRecord, now: float, seconds: float) -> None:
    """The host asks to be left alone for so long, from ``now`` (unix seconds) on; longer blocks stay."""
    until = now + min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
    record.blocked_until = max(record.blocked_until, until)


def back_off(record: SlotRecord, now: float, lease: int, number: int) -> bool:
    """The host is asked too often, or can't be reached; False: this is known already.

    Args:
        now: unix seconds.
        lease: number of the lease of the task that tells so.
        number: above those of all leases so far.
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
    """How many back-offs in a row there have been at ``now`` (unix seconds)."""
    return 0 if now >= record.backoff_until + QUIET_SECONDS else record.level


def back_off_seconds(name: str, level: int) -> float:
    """Length of the back-off of the slot of this name after so many others in a row."""
    return min(FIRST_SECONDS * 2.0**level * jitter(name, level), MOST_SECONDS)


def forgive(record: SlotRecord) -> None:
    """A person says that the host may be asked."""
    record.blocked_until = record.backoff_until = record.backoff_at = 0.0
    record.level = 0


def next_delay(delay: float, seconds: float, *, is_proper: bool) -> float:
    """The automatic delay after an answer that took so long, in seconds, before its bounds.

    The rule of Scrapy's AutoThrottle with a target concurrency of 1: half-way to the latency, at once if that is
    longer; and never shorter by what is no proper answer, because servers are quick to refuse.

    Args:
        delay: the present one.
        is_proper: see the function of that name.
    """
    wanted = max(seconds, (delay + seconds) / 2)
    return wanted if is_proper or wanted > delay else delay
