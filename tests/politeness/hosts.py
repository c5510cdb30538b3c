"""Hosts of the audit: loopback addresses of several kinds, each kind with its own pace.

The settings match a kind by a pattern of its addresses, ``127.13.KIND.*``; a slot is an address with the port that all
of them share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, Final, NamedTuple

BACK_OFF: Final = 54.0
"""Back-off in seconds: a minute, less a tenth at most."""


class Refusal(NamedTuple):
    """Refusal of a request.

    Attributes:
        status: HTTP status; 0 if there is no answer, because connections are refused.
        retry_after: seconds of Retry-After; 0 if there is none.
    """

    status: int
    retry_after: int = 0

    @property
    def rest(self) -> float:
        """Seconds of quiet that have to follow."""
        return self.retry_after or BACK_OFF


class Kind(NamedTuple):
    """Hosts that are alike.

    Attributes:
        hosts: number of hosts in the whole audit.
        delay: seconds from one request to the next; with a burst, on average.
        burst: requests that may come at once after a quiet time; above 1 the settings have a rate instead of a delay.
        most: requests at once.
        answer_seconds: time from a request to its answer.
        refuses: refusal of one in ``refused_every`` requests.
    """

    name: str
    hosts: int
    delay: float
    burst: int = 1
    most: int = 1
    answer_seconds: float = 0.01
    refuses: Refusal | None = None
    refused_every: int = 1

    @property
    def choice(self) -> dict[str, Any]:
        """Settings of its slots."""
        pace = {"rate": 1 / self.delay, "burst": self.burst} if self.burst > 1 else {"delay": self.delay}
        return {**pace, "max_processing": self.most}

    @property
    def is_dead(self) -> bool:
        """Whether it refuses connections."""
        return self.refuses is not None and not self.refuses.status

    @property
    def page_seconds(self) -> float:
        """Average time of a page."""
        rest = 0.0 if self.refuses is None else self.refuses.rest / self.refused_every
        return max(self.delay, self.answer_seconds) + rest


KINDS: Final = (
    Kind("every 0.2 s", 20, 0.2),
    Kind("every 0.5 s", 50, 0.5),
    Kind("every second", 50, 1.0),
    Kind("every 2 s", 18, 2.0),
    Kind("every 0.3 s, answers take 0.8 s", 20, 0.3, answer_seconds=0.8),
    Kind("every 0.25 s, three at once", 10, 0.25, most=3, answer_seconds=0.6),
    Kind("every second, three at once", 10, 1.0, most=3, answer_seconds=0.3),
    Kind("4 a second, bursts of 3, four at once", 18, 0.25, burst=3, most=4),
    Kind("429 at times, Retry-After 3 s", 1, 0.3, refuses=Refusal(429, 3), refused_every=3),
    Kind("the same, three at once", 1, 0.3, most=3, answer_seconds=0.2, refuses=Refusal(429, 3), refused_every=3),
    Kind("503 at times, no Retry-After", 1, 0.5, refuses=Refusal(503), refused_every=10),
    Kind("refuses connections", 1, 0.5, refuses=Refusal(0)),
)


class Host(NamedTuple):
    """Host of a kind; ``address`` is without the port."""

    address: str
    kind: Kind


def hosts_of(part: float) -> list[Host]:
    """Return this part of the hosts of each kind, and one at least."""
    return [
        Host(f"127.13.{number}.{n}", kind)
        for number, kind in enumerate(KINDS, 1)
        for n in range(1, 1 + max(1, round(kind.hosts * part)))
    ]


def patterns() -> dict[str, dict[str, Any]]:
    """Return the setting ``slot.patterns``."""
    return {f"127.13.{number}.*": kind.choice for number, kind in enumerate(KINDS, 1)}


def urls(hosts: Sequence[Host], port: int, seconds: float) -> Iterator[str]:
    """Yield pages that keep each host busy for about ``seconds``, in turns."""
    pages = {host: ceil(seconds / host.kind.page_seconds) for host in hosts}
    for page in range(max(pages.values())):
        yield from (f"http://{host.address}:{port}/{page}" for host in hosts if page < pages[host])
