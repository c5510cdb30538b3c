"""Verdicts of reports on the host that was fetched from: it answered, it throttles, or it was not reached."""

from __future__ import annotations

from typing import Final, Literal

from taskqueue.protocol.values import TaskReport

Verdict = Literal["answered", "throttled", "unreached"]
"""Behaviour of a host, as far as its slot needs it."""

THROTTLES: Final = frozenset((429, 503))
"""Too Many Requests, Service Unavailable (RFC 6585, section 4; RFC 9110, section 15.6.4)."""


def verdict_of(item: TaskReport) -> Verdict:
    """Read the verdict on the host from a report."""
    fetched = item.fetched
    if fetched is None:
        return "answered"
    if fetched.status_code in THROTTLES:
        return "throttled"
    return "unreached" if fetched.error_kind == "connection" and not item.ok else "answered"
