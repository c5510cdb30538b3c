"""beanstalkd in the contest, with its binlog: ``put``, ``reserve`` and ``delete``, many in each write.

The setting is ``-f``, milliseconds between syncs of the binlog: ``50`` is its default, ``0`` syncs each write. A job is
a taskid, the url and the body, one after the other.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Any, Final

from benchmarks.contest import WINDOW, Load, Made
from benchmarks.peers.service import CHUNK_BYTES, Service, connect, not_on_path

COMMAND: Final = ["beanstalkd", "-l", "127.0.0.1", "-p", "{port}", "-b", "{folder}"]
TTR_SECONDS: Final = 600
ID_BYTES: Final = 32
PAUSE_SECONDS: Final = 0.0005
"""Pause between reads while many answers are in flight. Each answer is sent by itself, and waking up for each would
cost
client and server more than the answer.
"""
LINE: Final = b"\r\n"


class Beanstalkd(Service):
    """Server process of beanstalkd."""

    def check(self, load: Load) -> None:
        left = {name: self.stats()[name] for name in ("current-jobs-ready", "current-jobs-reserved", "total-jobs")}
        if list(left.values()) != ["0", "0", str(load.tasks)]:
            raise SystemExit(f"beanstalkd counts {left}")

    def stats(self) -> dict[str, str]:
        """Fetch its own statistics."""
        with connect(self.address) as sock:
            sock.sendall(b"stats" + LINE)
            lines = sock.recv(CHUNK_BYTES).decode().splitlines()
        return dict(line.split(": ", 1) for line in lines if ": " in line)


def unavailable() -> str:
    return not_on_path("beanstalkd")


def serve(setting: str, core: str) -> Beanstalkd:
    return Beanstalkd([*COMMAND, "-f", setting], core)


def produce(address: str, load: Load) -> dict[str, Any]:
    writes = deque((len(batch), b"".join(map(put, batch))) for batch in load.made())
    sent = answered = accepted = 0
    with connect(address) as sock:
        began_at = time.time()
        while writes or answered < sent:
            while writes and sent - answered <= (WINDOW - 1) * load.batch:
                jobs, commands = writes.popleft()
                sock.sendall(commands)
                sent += jobs
            # Each answer is one line; of all answers, only INSERTED has an S.
            chunk = _received(sock, load)
            answered += chunk.count(b"\n")
            accepted += chunk.count(b"S")
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "accepted": accepted}


def fetch(address: str, load: Load) -> dict[str, Any]:
    """Take and finish all: delete each received batch, and reserve as many more."""
    taken: list[bytes] = []
    jobs: list[bytes] = []
    reserved = finished = 0
    reader = Reader()
    with connect(address) as sock:
        began_at = time.time()
        for _ in range(WINDOW):
            reserved += _reserve(sock, b"", min(load.batch, load.tasks - reserved))
        while finished < load.tasks:
            reader.feed(_received(sock, load))
            for job, taskid in reader.read():
                if job:
                    jobs.append(job)
                    taken.append(taskid)
                else:
                    finished += 1
            while len(jobs) >= load.batch or (jobs and len(taken) == load.tasks):
                batch, jobs = jobs[: load.batch], jobs[load.batch :]
                deletes = b"".join(b"delete %b\r\n" % job for job in batch)
                reserved += _reserve(sock, deletes, min(load.batch, load.tasks - reserved))
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "finished": finished, "distinct": len(set(taken))}


class Reader:
    """Reader of ``RESERVED job bytes`` and ``DELETED`` in chunks that end anywhere."""

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, chunk: bytes) -> None:
        """Add a chunk."""
        self._waiting += chunk

    def read(self) -> list[tuple[bytes, bytes]]:
        """Return complete answers: rows of (job, taskid) of a reserved job, ("", "") of a deleted one."""
        waiting, at = self._waiting, 0
        found = []
        while (end := waiting.find(LINE, at)) >= 0:
            if waiting.startswith(b"DELETED", at):
                found.append((b"", b""))
                at = end + 2
                continue
            word, job, size = waiting[at:end].split()
            if word != b"RESERVED":
                raise SystemExit(f"beanstalkd said {waiting[at:end]!r}")
            after = end + 4 + int(size)
            if after > len(waiting):
                break
            found.append((job, waiting[end + 2 : end + 2 + ID_BYTES]))
            at = after
        self._waiting = waiting[at:]
        return found


def put(made: Made) -> bytes:
    """Make the command that pushes this task."""
    job = made.taskid.encode() + made.url.encode() + made.body
    return b"put 0 0 %d %d\r\n%b\r\n" % (TTR_SECONDS, len(job), job)


def _reserve(sock: socket.socket, before: bytes, jobs: int) -> int:
    """Send ``before`` and reserve ``jobs`` more; return their number."""
    sock.sendall(before + b"reserve\r\n" * jobs)
    return jobs


def _received(sock: socket.socket, load: Load) -> bytes:
    if load.batch > 1:
        time.sleep(PAUSE_SECONDS)
    chunk = sock.recv(CHUNK_BYTES)
    if not chunk:
        raise SystemExit("beanstalkd has closed the connection")
    return chunk
