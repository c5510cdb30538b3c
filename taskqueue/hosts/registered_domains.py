"""Registered domains of hosts, by the public suffix list.

The list comes with the package ``publicsuffixlist`` and is as old as that; nothing is downloaded. Its private part
counts, too: two subdomains of ``github.io`` have two owners.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

REMEMBERED: Final = 16_384
"""Hosts whose domains are cached: 4 MB. Finding one takes 2.5 µs."""


@lru_cache(REMEMBERED)
def registered_domain(host: str) -> str:
    """Return the registered domain of a host without a port: ``example.co.uk`` for ``www.example.co.uk``.

    Empty for an address, a name without a dot, and a public suffix itself. Unicode and IDNA are both accepted, and not
    converted. The first call takes 30 to 70 ms.
    """
    name = host.rstrip(".")
    return "" if is_address(name) else _suffixes().privatesuffix(name) or ""


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, by its form: IPv6 has brackets, and names don't end in a number."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


def domain_of(host: str) -> str:
    """Return the registered domain of a host with or without a port, or the host itself if it has none."""
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return registered_domain(name) or name


@lru_cache(1)
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # Not above: it takes 70 ms, which most programs need not spend.

    return PublicSuffixList()
