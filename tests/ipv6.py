"""Mark for tests that need IPv6: some machines and containers have none, and no test can install it."""

from __future__ import annotations

import socket
from typing import Final

import pytest


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


NEEDS_IPV6: Final = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
