"""Ask a program that has hung up during the handshake what it is: a daemon with keys, one without, or no daemon.

libzmq often closes a connection with the wrong mechanism before it has named its own. A plain connection that sends
only the first bytes of ZMTP 3 (RFC 23) gets the whole greeting:

    FF 00 00 00 00 00 00 00 01 7F 03        to the daemon
    FF … 7F 03 01 "CURVE" 00 00 …           from it, 64 bytes; the mechanism has 20
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

PROBE_SECONDS: Final = 2.0
FIRST_BYTES: Final = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03"
GREETING_BYTES: Final = 64
VERSION_AT: Final = 10
MECHANISM: Final = slice(12, 32)


async def mechanism_at(host: str, port: int) -> str:
    """Mechanism of the program that listens there, such as CURVE or NULL; empty: it does not speak ZMTP 3."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            found = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
            with socket.socket(found[0], found[1]) as probe:
                probe.setblocking(False)
                await loop.sock_connect(probe, found[4])
                await loop.sock_sendall(probe, FIRST_BYTES)
                return _mechanism(await _read_greeting(loop, probe))
    except (OSError, TimeoutError):
        return ""


async def _read_greeting(loop: asyncio.AbstractEventLoop, probe: socket.socket) -> bytes:
    greeting = b""
    while len(greeting) < GREETING_BYTES and greeting[:1] in (b"", b"\xff"):
        if not (more := await loop.sock_recv(probe, GREETING_BYTES - len(greeting))):
            break
        greeting += more
    return greeting


def _mechanism(greeting: bytes) -> str:
    if len(greeting) < GREETING_BYTES or greeting[0] != 0xFF or greeting[VERSION_AT] < 3:
        return ""
    return greeting[MECHANISM].rstrip(b"\0").decode("ascii", "replace")
