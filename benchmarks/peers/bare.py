"""Bare ROUTER and bare RocksDB write batch, without any scheduling: the limit of what a daemon can reach.

It plays a recording back: when as many frames have come as a turn had heard, it writes the records of that turn and
sends its frames. Nothing is decoded, looked up, decided, packed or encoded. Store, tuning and the syncing thread are
the daemon's own; producer and fetcher are those of ``ours``. The setting names the durability and the load, because it
records before the clock starts, and the interpreter of another build if that is recorded.

    python -m benchmarks.peers.bare PORT FOLDER DURABILITY TASKS BATCH BODY [PYTHON]
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from typing import Any, Final, Self

import zmq

from benchmarks.builds import HERE, Build
from benchmarks.contest import Load
from benchmarks.peers import ours
from benchmarks.peers.recording import Record, Turn, recorded, recorded_by
from benchmarks.peers.service import Service
from taskqueue.server.main import SWITCH_SECONDS
from taskqueue.server.meters import Meters
from taskqueue.server.syncer import Durability, Syncer
from taskqueue.store.rocksdb.rocks_store import RocksStore

HELLO: Final = b"\xa5hello"


class Bare(Service):
    """Server process of the playback."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.address = f"tcp://{self.address}"
        return self

    def check(self, load: Load) -> None:
        """Check nothing: it has no counts of its own."""


def unavailable() -> str:
    return ""


def setting(durability: str, load: Load, build: Build = HERE) -> str:
    """Make the setting of ``serve``."""
    return " ".join([durability, *(str(number) for number in load), build.python]).strip()


def serve(setting: str, core: str) -> Bare:
    return Bare([sys.executable, "-m", "benchmarks.peers.bare", "{port}", "{folder}", *setting.split(" ", 4)], core)


def produce(address: str, load: Load) -> dict[str, Any]:
    return ours.produce(address, load)


def fetch(address: str, load: Load) -> dict[str, Any]:
    return ours.fetch(address, load)


class Playback:
    """Playback of a recording's turns to one producer and one fetcher."""

    def __init__(self, socket: zmq.Socket[bytes], store: RocksStore, durability: Durability, record: Record) -> None:
        self._socket = socket
        self._store = store
        self._epoch = store.begin()
        self._syncer = Syncer(store.sync, durability, Meters())
        self._turns = deque(record.turns)
        self._welcome = record.welcome
        self._new_in = self._done_in = 0
        self._producer = self._fetcher = b""
        self._unsynced: deque[tuple[int, Turn]] = deque()
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self._syncer, zmq.POLLIN)

    def run(self) -> None:
        """Run until all is played back."""
        while self._turns or self._unsynced:
            self._drain()
            if not self._play():
                self._sleep()
            self._answer()

    def _drain(self) -> None:
        while True:
            try:
                peer, frame = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(peer, frame)

    def _take(self, peer: bytes, frame: bytes) -> None:
        if peer == self._fetcher:
            self._done_in += 1
        elif HELLO in frame[:16]:
            self._fetcher = peer
            self._socket.send_multipart([peer, self._welcome])
        else:
            self._producer = peer
            self._new_in += 1

    def _play(self) -> bool:
        """Play the next turn if all its frames have come."""
        if not (self._fetcher and self._turns and self._has_come(self._turns[0])):
            return False
        turn = self._turns.popleft()
        self._new_in -= turn.new_in
        self._done_in -= turn.done_in
        if turn.written is not None:
            self._store.write(self._epoch, turn.written)
            self._syncer.wrote()
        for frame in turn.selects:
            self._socket.send_multipart([self._fetcher, frame])
        self._syncer.sync_soon()
        self._unsynced.append((self._syncer.written, turn))
        return True

    def _has_come(self, turn: Turn) -> bool:
        return turn.new_in <= self._new_in and turn.done_in <= self._done_in

    def _answer(self) -> None:
        """Send answers whose sync has ended."""
        covered = self._syncer.check()
        while self._unsynced and self._unsynced[0][0] <= covered:
            _, turn = self._unsynced.popleft()
            for frame in turn.new_out:
                self._socket.send_multipart([self._producer, frame])
            for frame in turn.done_out:
                self._socket.send_multipart([self._fetcher, frame])

    def _sleep(self) -> None:
        self._syncer.sleeping = True
        if not self._syncer.has_progress:
            self._poller.poll()
        self._syncer.sleeping = False
        self._syncer.clear_wakeup()


def main() -> None:
    """Record, listen, play back, and wait to be ended."""
    port, folder, durability, tasks, batch, body, *python = sys.argv[1:]
    sys.setswitchinterval(SWITCH_SECONDS)
    load = Load(int(tasks), int(batch), int(body))
    record = recorded_by(python[0], load) if python else recorded(load)
    gc.freeze()
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    playback = Playback(socket, RocksStore(f"{folder}/store"), _durability(durability), record)
    socket.bind(f"tcp://127.0.0.1:{port}")
    playback.run()
    socket.poll()


def _durability(name: str) -> Durability:
    names: tuple[Durability, ...] = ("commit", "interval", "none")
    return next(each for each in names if each == name)


if __name__ == "__main__":
    main()
