"""What somebody registered, by the public suffix list: which hosts are whose.

The list comes with the package ``publicsuffixlist`` and is as old as that; nothing is downloaded. Its private part
counts, too: two ``github.io`` are two people.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

REMEMBERED: Final = 16_384
"""Hosts whose domains are remembered: 4 MB. Finding one takes 2.5 µs."""


@lru_cache(REMEMBERED)
def registered_domain(host: str) -> str:
    """The registered domain of a host without a port: ``example.co.uk`` of ``www.example.co.uk``.

    Empty for an address, for a name without a dot, and for a public suffix itself. Unicode and IDNA are both read, and
    stay what they are. The first call takes 30 to 70 ms.
    """
    name = host.rstrip(".")
    return "" if is_address(name) else _suffixes().privatesuffix(name) or ""


def is_address(host: str) -> bool:
    """Whether a host is an IP address, by its form: an IPv6 address has brackets, and no name ends in a number."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


def domain_of(host: str) -> str:
    """The registered domain of a host, whatever its port; of one that has none the host itself."""
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return registered_domain(name) or name


@lru_cache(1)
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # Not above: 70 ms, which most programs need not spend.

    return PublicSuffixList()
