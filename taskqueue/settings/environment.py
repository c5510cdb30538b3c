"""What the core is given because it must not do it itself: calendar, encoding of bodies, spelling and domains of hosts.

The answers depend on the arguments alone, so that the same turn gives the same again. ``taskqueue.calendar`` has the
one that the daemon uses; what must never come in here is anything that reads a clock.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import Raw


class Hours(NamedTuple):
    """Whether a project may hand out tasks now, by its active hours.

    Attributes:
        open: it may.
        until: unix seconds at which that changes; inf: never.
    """

    open: bool
    until: float


class Environment(Protocol):
    """Pure functions from outside the core."""

    def next_run(self, expression: str, zone: str, after: float) -> float:
        """The first time (unix seconds) after ``after`` that a cron expression means in a time zone; inf: never.

        Raises:
            Rejected: with the code ``setting``: the expression or the zone can't be read.
        """

    def hours(self, active: str, at: float) -> Hours:
        """What active hours such as ``22:00-06:00 Europe/Berlin`` mean at a time (unix seconds).

        Raises:
            Rejected: with the code ``setting``: they can't be read.
        """

    def domain(self, host: str) -> str:
        """The registered domain of a host, of which a port is dropped; of one that has none the host itself.

        None has an address, a name without a dot, and what everybody registers under, such as ``co.uk``.
        """

    def ascii_host(self, host: str) -> str:
        """The one spelling of a host without its port, in ASCII (UTS 46); a host that has none stays as it is."""

    def pack(self, value: object) -> Raw:
        """A body as MessagePack.

        Raises:
            Rejected: with the code ``setting``: it can't be encoded.
        """
