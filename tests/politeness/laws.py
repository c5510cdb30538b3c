"""Laws of a host, judged by its own log: requests never closer than its delay, and never more at once than it allows.

If a host takes one request at once, at least the delay lies between the beginnings of two requests' tasks. So arrivals
are closer than the delay only by as much as the first one's *transit*, from its task's beginning to its arrival,
exceeds the second's. The daemon cannot see that, but the log can, since each request says when it was begun. With a
rate and a burst, no span has more requests than the burst and what the rate adds. After a refusal there is quiet for
the time that it asked for, or for the back-off.

If several requests are at once, or the first was never reported (its fetcher was killed), the daemon knows only the
time of its dispatch: it may have been begun ``start_within`` and a message's transit later than that. If several are at
once, those dispatched before the report of a refusal may still arrive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from taskqueue.core.model.slot import AHEAD, SECOND
from taskqueue.core.moves.slots import START_WITHIN
from tests.politeness.hosts import Host

MESSAGE_SECONDS: Final = 0.25
"""Transit of a message to a worker, whose clock starts when it reads it; allowed besides ``start_within``."""

CLOCK_SECONDS: Final = 1e-5
"""Resolution of the logs, rounded up."""
WALL_SECONDS: Final = 0.001
"""Gain of the wall clock, which limits a slot's block, in some seconds while it is adjusted."""

UNDER_WAY: Final = AHEAD / SECOND + START_WITHIN + MESSAGE_SECONDS
"""Time after a refusal in which a host with several requests at once may still get those dispatched ahead of time."""


class Visit(NamedTuple):
    """Request in the host's log; seconds of the monotonic clock.

    Attributes:
        begun_at: beginning of its task, which the request says.
        fetcher: name of its fetcher.
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
    """List violations of the host's wishes, one a line.

    Args:
        visits: all visits of this host, in the order of arrival.
        unreported: visits of which the daemon knows nothing but the dispatch.
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
    """Yield visits within the pause after a refusal that was reported."""
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
