"""Producer process that pushes at a given rate and discards the answers.

    python -m benchmarks.paced PEER ADDRESS RATE TASKS BATCH BODY

``benchmarks.peers.role`` runs its fetcher, and checks that all tasks came.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

import zmq

from benchmarks.contest import Load
from benchmarks.daemon import Peer
from benchmarks.peers import beanstalkd, ours, redis
from benchmarks.peers.service import CHUNK_BYTES, connect

FRAMES: Final[dict[str, Callable[[Load], list[bytes]]]] = {
    "ours": lambda load: ours.new_task_frames(load.made()),
    "beanstalkd": lambda load: [b"".join(map(beanstalkd.put, batch)) for batch in load.made()],
    "redis": lambda load: [redis.push(batch, number * load.batch) for number, batch in enumerate(load.made())],
}


def main() -> None:
    """Push as the command line says."""
    peer, address, rate, *numbers = sys.argv[1:]
    load = Load(*map(int, numbers))
    frames = FRAMES[peer](load)
    with _connection(peer, address) as connection:
        send, drain = _zmq(connection) if peer == "ours" else _tcp(connection)
        _push(frames, load.batch / float(rate), send, drain)
        time.sleep(1.0)  # so that the last answers don't meet a closed socket
    print("{}")


def _push(frames: list[bytes], interval: float, send: Callable[[bytes], Any], drain: Callable[[], None]) -> None:
    """Send a frame every ``interval`` seconds; late ones follow at once."""
    began_at = time.perf_counter()
    for number, frame in enumerate(frames):
        early = began_at + number * interval - time.perf_counter()
        if early > 0:
            time.sleep(early)
        send(frame)
        drain()


def _connection(peer: str, address: str) -> AbstractContextManager[Any]:
    return Peer(address, ours.PRODUCER) if peer == "ours" else connect(address)


def _zmq(peer: Any) -> tuple[Callable[[bytes], Any], Callable[[], None]]:
    def drain() -> None:
        with suppress(zmq.Again):
            while True:
                peer.socket.recv(zmq.NOBLOCK)

    return peer.socket.send, drain


def _tcp(sock: Any) -> tuple[Callable[[bytes], Any], Callable[[], None]]:
    sock.setblocking(False)

    def send(frame: bytes) -> None:
        sock.setblocking(True)
        sock.sendall(frame)
        sock.setblocking(False)

    def drain() -> None:
        with suppress(BlockingIOError):
            while sock.recv(CHUNK_BYTES):
                pass

    return send, drain


if __name__ == "__main__":
    main()
