"""Which names a browser may call this process by.

A page of a stranger may let its own name lead to an address of ours (DNS rebinding), and then counts as of the same
origin. Its requests still have the stranger's name in Host. An address instead of a name can't be rebound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from taskqueue.web.access.arrival import is_loopback
from taskqueue.web.access.refusals import Refused

HOST: Final = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::(?P<port>\d{1,5}))?", re.ASCII)


class HostNames:
    """The names that are ours.

    Args:
        bound: what the process listens at: a loopback address is called by loopback names alone.
        allowed: further names.
    """

    def __init__(self, bound: str, allowed: Sequence[str]) -> None:
        self._is_local = is_loopback(bound)
        self._names = {name.lower().rstrip(".") for name in (bound, *allowed)}

    def check(self, host: str) -> None:
        """See that a host, with or without a port, is one of ours.

        Raises:
            Refused: it is not.
        """
        read = HOST.fullmatch(host)
        if read is None:
            raise Refused(400, "Host is no name of a host")
        name = (read["ipv6"] or read["name"]).rstrip(".")
        if name in self._names or is_loopback(name) or (not self._is_local and _is_address(name)):
            return
        raise Refused(421, f'"{name}" is no name of this page; whoever runs it can allow it: --host {name}')


def port_of(host: str, scheme: str) -> int:
    """The port that a browser used."""
    read = HOST.fullmatch(host)
    return int(read["port"]) if read and read["port"] else 443 if scheme == "https" else 80


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
