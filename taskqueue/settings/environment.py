"""Interface of what the core must not do itself: calendar, encoding of bodies, spelling and domains of hosts.

Results depend on the arguments alone, so that repeating a turn gives the same result. ``taskqueue.calendar`` has the
daemon's implementation; what must never come in here is anything that reads a clock.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import Raw


class Hours(NamedTuple):
    """Whether a project may dispatch tasks now, by its active hours.

    Attributes:
        open: True if it may.
        until: unix seconds at which this changes; inf if never.
    """

    open: bool
    until: float


class Environment(Protocol):
    """Pure functions that the core gets from outside."""

    def next_tick(self, expression: str, zone: str, after: float) -> float:
        """Return the first tick of a cron expression after ``after`` in a time zone, in unix seconds; inf: never.

        Raises:
            Rejected: with the code ``setting``: the expression or the zone can't be read.
        """

    def hours(self, active: str, at: float) -> Hours:
        """Return whether active hours such as ``22:00-06:00 Europe/Berlin`` include a time (unix seconds).

        Raises:
            Rejected: with the code ``setting``: the hours can't be read.
        """

    def domain(self, host: str) -> str:
        """Return the registered domain of a host with or without a port, or the host itself if it has none.

        Addresses, names without a dot, and public suffixes such as ``co.uk`` have none.
        """

    def ascii_host(self, host: str) -> str:
        """Return the canonical spelling of a host without a port, in ASCII (UTS 46); an invalid host is not changed."""

    def pack(self, value: object) -> Raw:
        """Encode a body as MessagePack.

        Raises:
            Rejected: with the code ``setting``: it can't be encoded.
        """
