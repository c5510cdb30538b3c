"""Attacks on the socket: other protocols, ZMTP that no library speaks, and routing ids of others."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Final

from tests import zmtp
from tests.attack.attack import PROJECT, Attack, frame
from tests.attack.of_sessions import WAIT_MS, Harm
from tests.integration.conftest import Peer

GOODBYE_SECONDS: Final = 2.0
"""Time until the daemon closes a stranger's connection."""
GREETINGS: Final = 6_000
AHEAD: Final = 4_000
"""Routing ids that are claimed, of those that libzmq would give next."""
SPOKEN: Final = 300
"""Connections that keep what they have claimed, at once."""
PLAIN_EACH: Final = 4
"""Claims between two connections to which libzmq gives an id."""
SILENT: Final = 3_000
"""Connections that are open at once."""
A_SECOND: Final = 1_000
TICK_SECONDS: Final = 0.01
STOLEN: Final = 200

STRANGERS: Final = {
    "ZMTP 1": zmtp.old_message(1, b"a"),
    "ZMTP 2": zmtp.old_message(2, b"a"),
    "a browser": b"GET / HTTP/1.1\r\nHost: 127.0.0.1:7400\r\nUser-Agent: Mozilla/5.0\r\nAccept: */*\r\n\r\n",
    "a scrape": b"GET /metrics HTTP/1.1\r\nHost: daemon:7400\r\nUser-Agent: Prometheus/2.53\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2,
    "Redis": b"*1\r\n$4\r\nPING\r\n" * 30,
    "SMTP": b"EHLO crawler.example\r\n" * 20,
    "beanstalkd": b"put 0 0 60 5\r\nhello\r\n" * 20,
    "empty lines": b"\n" * 500,
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(800),
    "PostgreSQL": struct.pack(">II", 41, 196608) + b"user\0crawler\0database\0crawl\0\0",
    "AMQP": b"AMQP\x00\x00\x09\x01" * 60,
    "MQTT": b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05crawl" * 30,
}


class Held:
    """Newest connections of an attack; older ones are closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: deque[socket.socket] = deque()

    def add(self, connection: socket.socket) -> socket.socket:
        """Keep a connection open as long as it is one of the newest."""
        self._open.append(connection)
        if len(self._open) > self._most:
            self._open.popleft().close()
        return connection


def strangers(attack: Attack) -> str:
    """13 other protocols, from a browser's GET to five bytes of ZMTP 1, over and over."""
    attack.begin()
    let_go = count = 0
    while attack.goes_on():
        for said in STRANGERS.values():
            let_go += _is_let_go(attack.url, said)
            count += 1
    return f"{count:,} greeted, {let_go:,} let go"


def _is_let_go(url: str, said: bytes) -> bool:
    with suppress(OSError), zmtp.raw(url, GOODBYE_SECONDS) as connection:
        with suppress(ConnectionError):  # as good a goodbye as any
            connection.sendall(said)
            while connection.recv(1000):
                pass
        return True
    return False


# ---------------------------------------------------------------------------------------- fuzzed ZMTP


def greetings(attack: Attack) -> str:
    """6,000 fuzzed connections of nine kinds: greetings, commands, identities, frames and halves of them."""
    chance, counted = Random(0), 0
    held = Held(SPOKEN)
    attack.begin()
    for number in attack.count(GREETINGS):
        said = KINDS[number % len(KINDS)](chance)
        with suppress(OSError):
            held.add(zmtp.raw(attack.url, GOODBYE_SECONDS)).sendall(said)
            counted += 1
    attack.rest()
    return f"{counted:,} connections"


def _flipped(said: bytes, chance: Random) -> bytes:
    """Change, remove or insert some bytes."""
    made = bytearray(said)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made))
        made[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
    return bytes(made)


def _half_greeting(chance: Random) -> bytes:
    return zmtp.GREETING[: chance.randint(1, len(zmtp.GREETING))]


def _odd_greeting(chance: Random) -> bytes:
    return _flipped(zmtp.GREETING, chance) + zmtp.ready()


def _other_version(chance: Random) -> bytes:
    version = bytes([chance.randrange(256), chance.randrange(256)])
    return (
        zmtp.SIGNATURE + version + chance.choice([b"NULL", b"PLAIN", b"CURVE", b"GSSAPI"]).ljust(20, b"\0") + bytes(32)
    )


def _old_version(chance: Random) -> bytes:
    version = chance.choice([1, 2])
    return _flipped(zmtp.old_message(version, chance.randbytes(chance.randrange(200))), chance)


def _odd_ready(chance: Random) -> bytes:
    return zmtp.GREETING + _flipped(zmtp.ready(chance.randbytes(chance.randrange(40))), chance)


def _odd_identity(chance: Random) -> bytes:
    length = chance.choice([1, 4, 5, 255, 256, 70_000])
    claimed = chance.choice([b"\0", b"", b"\xff"]) + chance.randbytes(length)
    return zmtp.GREETING + zmtp.ready(claimed) + zmtp.frame(b"hello")


def _odd_commands(chance: Random) -> bytes:
    names = [b"PING", b"PONG", b"ERROR", b"SUBSCRIBE", b"CANCEL", b"READY", b"HELLO", b"", chance.randbytes(9)]
    bodies = (
        bytes([len(name)]) + name + chance.randbytes(chance.randrange(300)) for name in chance.choices(names, k=8)
    )
    greeted = zmtp.GREETING + (zmtp.ready() if chance.random() < 0.8 else b"")
    return greeted + b"".join(zmtp.command(body) for body in bodies)


def _odd_frames(chance: Random) -> bytes:
    frames = (bytes([chance.randrange(256)]) + chance.randbytes(chance.randrange(20)) for _ in range(20))
    return zmtp.GREETING + zmtp.ready() + b"".join(frames)


def _half_frame(chance: Random) -> bytes:
    length = chance.choice([1, 255, 1 << 16, (1 << 24) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1])
    return zmtp.GREETING + zmtp.ready() + zmtp.head(length, chance.random() < 0.5) + chance.randbytes(100)


KINDS: Final[tuple[Callable[[Random], bytes], ...]] = (
    _half_greeting, _odd_greeting, _other_version, _old_version, _odd_ready, _odd_identity, _odd_commands, _odd_frames,
    _half_frame,
)  # fmt: skip


# ---------------------------------------------------------------------------------------- routing ids


def claimed_ids(attack: Attack) -> str:
    """Routing ids that libzmq would give next, and random ones, claimed before it does."""
    held = Held(SPOKEN)
    attack.begin()
    claims = 0
    for identity in _ids_to_come():
        if not attack.goes_on():
            break
        with suppress(OSError):
            held.add(attack.connected(GOODBYE_SECONDS, identity))
            claims += 1
        if claims % PLAIN_EACH == 0:
            with suppress(OSError), attack.connected(GOODBYE_SECONDS) as plain:
                plain.sendall(zmtp.frame(b"hello"))
    return f"{claims:,} claimed"


def _ids_to_come() -> Iterator[bytes]:
    """Yield ids of a process that has not seeded libc's rand(), as this one has not; then random ones."""
    libc = ctypes.CDLL(None)
    first = (libc.rand() | libc.rand() << 31) & 0xFFFFFFFF
    for number in range(first, first + AHEAD):
        yield b"\0" + struct.pack(">I", number & 0xFFFFFFFF)
    while True:
        yield b"\0" + os.urandom(4)


def stolen_ids(attack: Attack) -> str:
    """Routing id of a fetcher, claimed by 200 others while the fetcher receives tasks.

    Raises:
        Harm: the fetcher did not get all of its tasks, or another got anything.
    """
    producer, fetcher = attack.project(), Peer(attack.url, routing_id=b"fetcher")
    fetcher.ask("hello", capacity=STOLEN, projects=[PROJECT])
    attack.begin()
    thieves, tasks = [], 0
    for number in attack.count(STOLEN):
        with suppress(OSError):
            thieves.append(attack.connected(GOODBYE_SECONDS, b"fetcher"))
            thieves[-1].sendall(zmtp.frame(frame("hello", f"thief-{number}", 1, capacity=1, projects=[PROJECT])))
        producer.push(PROJECT, f"t{number}")
        tasks += 1
    got = 0
    while got < tasks and fetcher.has_message(WAIT_MS):
        got += len(fetcher.receive().get("tasks", ()))
    attack.rest()
    heard = sum(_has_heard(each) for each in thieves)
    note = f"{got} of {tasks} tasks handed to the fetcher, {heard} of {len(thieves)} thieves heard anything"
    if heard or got < tasks:
        raise Harm(note)
    return note


def _has_heard(connection: socket.socket) -> bool:
    connection.setblocking(False)
    with suppress(OSError):
        return bool(connection.recv(1))
    return False


def silent(attack: Attack) -> str:
    """1,000 connections a second, of one address, that say nothing."""
    held, made = Held(SILENT), 0
    attack.begin()
    began = time.monotonic()
    while attack.goes_on():
        while made < (time.monotonic() - began) * A_SECOND * attack.scale and attack.goes_on():
            with suppress(OSError):
                held.add(zmtp.raw(attack.url, GOODBYE_SECONDS))
            made += 1
        time.sleep(TICK_SECONDS)
    return f"{made:,} connected"
