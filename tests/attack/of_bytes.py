"""Attacks with bytes: what ZeroMQ keeps for the daemon before the daemon can see it, and unread messages."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import count
from typing import Final

import msgpack

from taskqueue.server.network.connection_guard import SILENT_MOST
from tests import zmtp
from tests.attack.attack import CONNECT_SECONDS, PROJECT, Attack, big_body, frame

PART_BYTES: Final = 1 << 20
EMPTY_PARTS: Final = 3_000_000
SHOWS: Final = 1_500
UNREAD_TIMES: Final = 3.0
"""Time in multiples of other attacks', so that everything can be answered."""
FRAME_BYTES: Final = 15_000_000
REQUEST_BYTES: Final = 1_000_000
IDLE: Final = 1_086
_SIX_FIELDS: Final = b"\x86"
"""Head of a map of six fields."""
AGAIN_SECONDS: Final = 0.05
"""Pause before a connection that was cut is made anew."""


def endless_parts(attack: Attack) -> str:
    """Message of endless parts of 1 MiB each."""
    return _endless(attack, zmtp.frame(bytes(PART_BYTES), more=True))


def endless_empty_parts(attack: Attack) -> str:
    """Message of endless empty parts: ZeroMQ keeps 64 bytes for every two."""
    return _endless(attack, zmtp.EMPTY_PART * 16_384)


def _endless(attack: Attack, piece: bytes) -> str:
    sent, cuts = [0], [0]

    def send(_: int) -> None:
        while attack.goes_on():
            with suppress(OSError), attack.connected() as connection:
                while attack.goes_on():
                    connection.sendall(piece)
                    sent[0] += len(piece)
                return
            cuts[0] += 1
            time.sleep(AGAIN_SECONDS)

    attack.begin()
    attack.each(send)
    return f"{sent[0] / 1e6:,.0f} MB sent, {cuts[0]} cuts"


def empty_parts(attack: Attack) -> str:
    """Message of 3,000,000 empty parts."""
    message = zmtp.EMPTY_PART * round(EMPTY_PARTS * attack.scale) + zmtp.LAST_PART

    def send(_: int) -> None:
        with suppress(OSError), attack.connected() as connection:
            connection.sendall(message)
            attack.rest()

    attack.begin()
    attack.each(send)
    return ""


def unread(attack: Attack) -> str:
    """1,500 task-show of a body of 7.9 MB, and none of the answers is read."""
    attack.project().ask(
        "new-task", project=PROJECT, tasks=[{"taskid": "big", "url": "http://big/", "body": big_body()}]
    )

    def ask(index: int) -> None:
        with suppress(OSError), attack.connected() as connection:
            for n in attack.count(SHOWS):
                show = frame("task-show", f"unread-{index}", n + 1, project=PROJECT, taskid="big")
                connection.sendall(zmtp.frame(show))
            attack.rest(UNREAD_TIMES)

    attack.begin()
    attack.each(ask)
    return ""


def large_frames(attack: Attack) -> str:
    """Frames of 15 MB, which are refused."""
    return _frames(attack, FRAME_BYTES)


def unread_requests(attack: Attack) -> str:
    """Requests of 1 MB, as fast as they are taken; the answers are not read."""
    return _frames(attack, REQUEST_BYTES)


def _frames(attack: Attack, size: int) -> str:
    sent = [0]
    tasks = [{"taskid": "one", "url": "http://one/", "body": bytes(size)}]
    tail = bytes(msgpack.packb({"tasks": tasks}))[1:]

    def send(index: int) -> None:
        while attack.goes_on():
            with suppress(OSError), attack.connected() as connection:
                for n in count(1):
                    head = _SIX_FIELDS + frame("new-task", f"frames-{index}", n, project=PROJECT)[1:]
                    connection.sendall(zmtp.head(len(head) + len(tail)) + head)
                    connection.sendall(tail)
                    sent[0] += 1
                    if not attack.goes_on():
                        return
            time.sleep(AGAIN_SECONDS)

    attack.project()
    attack.begin()
    attack.each(send)
    return f"{sent[0]} frames"


def idle(attack: Attack) -> str:
    """1,086 connections that say nothing."""
    connections = []
    connect = zmtp.raw if attack.server else zmtp.connected
    attack.begin()
    for number in attack.count(IDLE):
        # Of more silent connections from one address the oldest would be closed soon, so that files never got scarce.
        source = f"127.0.0.{2 + number // SILENT_MOST}"
        with suppress(OSError):
            connections.append(connect(attack.url, CONNECT_SECONDS, source=source))
        if not attack.goes_on():
            break
    attack.rest()
    for each in connections:
        each.close()
    return f"{len(connections)} connected"
