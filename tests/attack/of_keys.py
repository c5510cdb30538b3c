"""Attacks on the handshake with keys, by a stranger who knows the daemon's public key and has none that it knows."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

import zmq

from benchmarks.wrong_keys import flood, loopback_sources
from taskqueue.access.key_file import make_key
from taskqueue.client.connection.connection import present_key
from tests import zmtp
from tests.attack.attack import Attack
from tests.attack.of_strangers import GOODBYE_SECONDS, SPOKEN, Held

HELLO_BYTES: Final = 64 + 2 + 200
"""Greeting of a client with a key, and its command HELLO with the head (rfc.zeromq.org/spec/26)."""


def wrong_keys(attack: Attack) -> str:
    """Handshakes with a key that the daemon does not know, as many as one process makes, from ever other addresses."""
    attack.begin()
    return f"{flood(attack.url, attack.server, attack.goes_on):,} refused"


def half_handshakes(attack: Attack) -> str:
    """First half of a handshake, replayed without any cryptography, from ever other addresses."""
    said, held, made = recorded_hello(attack.server), Held(SPOKEN), 0
    attack.begin()
    for source in loopback_sources():
        if not attack.goes_on():
            break
        with suppress(OSError):
            held.add(zmtp.raw(attack.url, GOODBYE_SECONDS, source)).sendall(said)
            made += 1
    return f"{made:,} begun"


def recorded_hello(server: str) -> bytes:
    """Bytes that a client with a key sends first, to a daemon with this public key."""
    made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    with socket.create_server(("127.0.0.1", 0)) as listening, made as client:
        client.setsockopt(zmq.LINGER, 0)
        present_key(client, make_key("stranger", server))
        client.connect(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(zmtp.WAIT_SECONDS)
            connection.sendall(zmtp.greeting(b"CURVE", is_server=True))
            return zmtp.exactly(connection, HELLO_BYTES)
