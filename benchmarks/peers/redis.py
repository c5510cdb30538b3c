"""Redis in the contest: a queue as a sorted set with leases, in Lua scripts, over a pipelined socket.

    push   HSET bodies, ZADD ready                                 N tasks a command
    take   the first N of ready go to leases with a deadline       one script
    done   N go from leases and from bodies                        one script

The setting is ``appendfsync``: ``everysec`` is the default of its append-only file. Nothing is looked up before a push,
and nothing is remembered of what is done: it does less than a scheduler.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Any, Final

from benchmarks.contest import WINDOW, Load, Made
from benchmarks.peers.service import CHUNK_BYTES, Service, connect, not_on_path

COMMAND: Final = [
    "redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--dir", "{folder}", "--appendonly", "yes",
]  # fmt: skip
EMPTY_SECONDS: Final = 0.001
"""Pause before a fetcher asks an empty queue again."""

TAKE: Final = b"""
local got = redis.call('ZPOPMIN', 'ready', ARGV[1])
if #got == 0 then return {} end
local ids, leases = {}, {}
for i = 1, #got, 2 do
  ids[#ids + 1] = got[i]
  leases[#leases + 1] = ARGV[2]
  leases[#leases + 1] = got[i]
end
redis.call('ZADD', 'leases', unpack(leases))
return {ids, redis.call('HMGET', 'bodies', unpack(ids))}
"""
DONE: Final = b"""
redis.call('HDEL', 'bodies', unpack(ARGV))
return redis.call('ZREM', 'leases', unpack(ARGV))
"""
LEASE_SECONDS: Final = 600


class Redis(Service):
    """Server process of Redis."""

    def check(self, load: Load) -> None:
        with connect(self.address) as sock:
            left = Connection(sock).ask(b"DBSIZE")
        if left != 0:
            raise SystemExit(f"redis has {left} keys left")


class Connection:
    """Commands out and replies in, on one socket."""

    def __init__(self, sock: socket.socket) -> None:
        from hiredis import Reader

        self._sock = sock
        self._reader = Reader()

    def send(self, *parts: bytes) -> None:
        """Send one command."""
        self._sock.sendall(packed(*parts))

    def send_packed(self, commands: bytes) -> None:
        """Send packed commands."""
        self._sock.sendall(commands)

    def receive(self) -> Any:
        """Return the next reply.

        Raises:
            SystemExit: it is an error.
        """
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._sock.recv(CHUNK_BYTES))
        if isinstance(reply, Exception):
            raise SystemExit(f"redis said {reply}")
        return reply

    def ask(self, *parts: bytes) -> Any:
        """Send one command, and return its reply."""
        self.send(*parts)
        return self.receive()

    def load(self, script: bytes) -> bytes:
        """Load a script; return its hash."""
        sha: bytes = self.ask(b"SCRIPT", b"LOAD", script)
        return sha


def unavailable() -> str:
    try:
        import hiredis  # noqa: F401
    except ImportError:
        return "the package hiredis is not installed"
    return not_on_path("redis-server")


def serve(setting: str, core: str) -> Redis:
    return Redis([*COMMAND, "--appendfsync", setting], core)


def produce(address: str, load: Load) -> dict[str, Any]:
    numbers = range(0, load.tasks, load.batch)
    batches = deque(push(batch, first) for batch, first in zip(load.made(), numbers, strict=True))
    accepted = ahead = 0
    with connect(address) as sock:
        connection = Connection(sock)
        began_at = time.time()
        while batches or ahead:
            while batches and ahead < WINDOW:
                connection.send_packed(batches.popleft())
                ahead += 1
            connection.receive()
            accepted += connection.receive()
            ahead -= 1
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "accepted": accepted}


def push(batch: list[Made], first: int) -> bytes:
    """Make the two commands that push these tasks, which come in the order of their numbers."""
    bodies = [part for made in batch for part in (made.taskid.encode(), made.url.encode() + made.body)]
    scores = [part for number, made in enumerate(batch, first) for part in (b"%d" % number, made.taskid.encode())]
    return packed(b"HSET", b"bodies", *bodies) + packed(b"ZADD", b"ready", *scores)


def fetch(address: str, load: Load) -> dict[str, Any]:
    """Take and finish all, with WINDOW requests for tasks in flight; report each answer as done."""
    taken: list[bytes] = []
    finished = 0
    with connect(address) as sock:
        connection = Connection(sock)
        take, done = connection.load(TAKE), connection.load(DONE)
        ask = packed(b"EVALSHA", take, b"0", b"%d" % load.batch, b"%d" % (time.time() + LEASE_SECONDS))
        asked = deque([True] * WINDOW)
        began_at = time.time()
        connection.send_packed(ask * WINDOW)
        while finished < load.tasks:
            reply = connection.receive()
            if not asked.popleft():
                finished += reply
                continue
            if reply:
                ids, bodies = reply
                assert len(ids) == len(bodies)
                taken += ids
                connection.send_packed(packed(b"EVALSHA", done, b"0", *ids) + ask)
                asked += (False, True)
            else:
                time.sleep(EMPTY_SECONDS)
                connection.send_packed(ask)
                asked.append(True)
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "finished": finished, "distinct": len(set(taken))}


def packed(*parts: bytes) -> bytes:
    """Encode one command in the Redis protocol."""
    from hiredis import pack_command

    command: bytes = pack_command(parts)
    return command
