"""Flood of handshakes with a key that the daemon does not know, from ever other loopback addresses.

    python -m benchmarks.wrong_keys URL SERVER_KEY        until it is killed

A process of its own, and used by the tests of attacks. Each connection ends when the daemon has refused the key, or has
cut it before. The daemon cuts an address that begins more than 50 connections a second, so an attacker needs many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import zmq

from taskqueue.access.key_file import KeyFile, make_key
from taskqueue.client.connection.connection import present_key

WINDOW: Final = 32
"""Handshakes in flight."""
EACH: Final = 200
"""Connections of one socket, which keeps some memory for each."""
ENDED: Final = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
"""Events of which each connection has one: if the daemon cuts it at once, its end may come before it is connected."""
SILENT_MS: Final = 2000
"""Silence after which connections in flight count as lost."""


def flood(url: str, server: str, goes_on: Callable[[], bool]) -> int:
    """Connect with a wrong key again and again; return how often the daemon has refused it.

    Args:
        server: public key of the daemon.
    """
    key, sources, refused = make_key("stranger", server), loopback_sources(), 0
    while goes_on():
        refused += _refusals(url, key, sources, goes_on)
    return refused


def loopback_sources() -> Iterator[str]:
    """Yield loopback addresses, from 127.1.0.1 on; millions of them differ."""
    for number in count(62_500):
        yield f"127.{number // 62_500 % 255}.{number // 250 % 250}.{number % 250 + 1}"


def from_source(url: str, source: str) -> str:
    """Address for libzmq that connects from this address."""
    return f"tcp://{source}:0;{url.removeprefix('tcp://')}"


def _refusals(url: str, key: KeyFile, sources: Iterator[str], goes_on: Callable[[], bool]) -> int:
    made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    refused = in_flight = 0
    with made as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        present_key(socket, key)
        with socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | ENDED) as monitor:
            left = EACH
            while in_flight or (left and goes_on()):
                while left and in_flight < WINDOW and goes_on():
                    socket.connect(from_source(url, next(sources)))
                    left, in_flight = left - 1, in_flight + 1
                if not monitor.poll(SILENT_MS):
                    break
                event = int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder)
                refused += event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
                in_flight -= bool(event & ENDED)
            socket.disable_monitor()
    return refused


if __name__ == "__main__":
    flood(sys.argv[1], sys.argv[2], lambda: True)
