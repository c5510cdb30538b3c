"""What a host may expect, judged by its own log: never closer than its delay, never more at once than it bears.

Of each two requests of a host with one at once: from when the one's task was begun to when the other's was there is at
least the delay. So arrivals are closer than the delay by no more than what the *transit* of the first, from its task's
beginning to its arrival, is longer than the other's: the daemon cannot see that, the log can, since each request says
when it was begun. Of a rate with a burst: never more than the burst and what the rate adds meanwhile. After a refusal
there is quiet for as long as it asked for, or as the back-off lasts.

Where several are at once, or where nobody has reported the first (its fetcher was killed), the daemon knows only when
it was handed out: then the first may have been begun ``start_within`` and the way of a message later than that. Where
several are at once, those that were handed out before the report of a refusal came may still arrive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from taskqueue.core.model.slot import AHEAD, SECOND
from taskqueue.core.moves.slots import START_WITHIN
from tests.politeness.hosts import Host

MESSAGE_SECONDS: Final = 0.25
"""For the way of a message to a worker, whose clock starts when it reads it; allowed beside ``start_within``."""

CLOCK_SECONDS: Final = 1e-5
"""Resolution of the logs, rounded up."""
WALL_SECONDS: Final = 0.001
"""What the wall clock, which tells how long a slot is blocked, may gain in some seconds while it is set right."""

UNDER_WAY: Final = AHEAD / SECOND + START_WITHIN + MESSAGE_SECONDS
"""After a refusal, of a host with several at once: what was handed out ahead of its time may arrive until then."""


class Visit(NamedTuple):
    """A request, as the host's log has it; seconds of the monotonic clock.

    Attributes:
        begun_at: when its task was begun, which the request says.
        fetcher: by whom.
    """

    address: str
    arrived_at: float
    answered_at: float
    status: int
    begun_at: float
    fetcher: str

    @property
    def transit(self) -> float:
        """Seconds from its task's beginning to its arrival."""
        return self.arrived_at - self.begun_at


def violations(host: Host, visits: Sequence[Visit], unreported: Collection[Visit] = ()) -> list[str]:
    """Each in a line; none: it was treated as it wishes.

    Args:
        visits: all of this host, in the order of arrival.
        unreported: those of which the daemon has heard nothing but that they were handed out.
    """
    reported = [visit for visit in visits if visit not in unreported]
    return [*_too_close(host, visits, unreported), *_too_many(host, visits), *_unheeded(host, visits, reported)]


def _too_close(host: Host, visits: Sequence[Visit], unreported: Collection[Visit]) -> Iterator[str]:
    kind = host.kind
    for i, first in enumerate(visits):
        is_exact = kind.most == 1 and first not in unreported
        tolerance = CLOCK_SECONDS + (0.0 if is_exact else START_WITHIN + MESSAGE_SECONDS)
        for j, last in enumerate(visits[i + kind.burst :], i + kind.burst):
            least = (j - i + 1 - kind.burst) * kind.delay
            passed = last.begun_at - first.begun_at
            if passed + tolerance < least:
                yield (
                    f"{host.address}: {j - i + 1} requests in {passed:.4f} s, which may take no less than {least:g} s"
                    f" (tolerance {tolerance:g}), up to {last.arrived_at:.4f}: {first.fetcher} and {last.fetcher}"
                )


def _too_many(host: Host, visits: Sequence[Visit]) -> Iterator[str]:
    for i, visit in enumerate(visits):
        at_once = 1 + sum(other.answered_at > visit.arrived_at for other in visits[:i])
        if at_once > host.kind.most:
            yield f"{host.address}: {at_once} at once at {visit.arrived_at:.4f}, of {host.kind.most}"


def _unheeded(host: Host, visits: Sequence[Visit], reported: Sequence[Visit]) -> Iterator[str]:
    """Visits within the rest after a refusal that was reported."""
    refuses = host.kind.refuses
    if refuses is None:
        return
    for refused in (visit for visit in reported if visit.status == refuses.status):
        since = refused.answered_at + (UNDER_WAY if host.kind.most > 1 else 0.0)
        until = refused.answered_at + refuses.rest - WALL_SECONDS
        for visit in visits:
            if since < visit.arrived_at and visit.begun_at < until:
                yield (
                    f"{host.address}: {visit.arrived_at - refused.answered_at:.4f} s after its {refused.status}, which"
                    f" asked for {refuses.rest:g}, at {visit.arrived_at:.4f}: {refused.fetcher} and {visit.fetcher}"
                )
