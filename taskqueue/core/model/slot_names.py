"""Names of slots: the slot of a task in a project divided by host, by domain or by names."""

from __future__ import annotations

from collections.abc import Callable

from taskqueue.hosts.url_hosts import AsciiHost, host_of, respelled
from taskqueue.settings.slots import Division


def slot_name(
    division: Division, url: str, named: str | None, domain_of: Callable[[str], str], ascii_host: AsciiHost
) -> str:
    """Return the name of a task's slot under this division; empty if it is in none.

    Args:
        named: the name that the task gives, if it does.
        domain_of: function that returns the registered domain of a host, see ``Environment.domain``.
    """
    if division == "none":
        return ""
    if named or division == "named":
        return given_name(division, named or "", ascii_host)
    host = host_of(url, ascii_host)
    return domain_of(host) if host and division == "domain" else host


def given_name(division: Division, name: str, ascii_host: AsciiHost) -> str:
    """Return the name of a slot as spelled in the store, from the spelling of a task or an operator."""
    return name if name.isascii() or division == "named" else respelled(name, ascii_host)
