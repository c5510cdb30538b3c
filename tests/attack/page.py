"""Attack the dashboard's port with quiet connections, and report which clients are still served, and how fast.

    .venv/bin/python -m tests.attack.page                        all rows, about a minute and a half
    .venv/bin/python -m tests.attack.page --python FILE          the dashboard of another version
    .venv/bin/python -m tests.attack.page --fuzz 5000            random bytes for its HTTP parser instead

Attackers take as many connections as one process may have, each with half a request, and connect at once in
place of any they lose. Meanwhile a polite client at each address asks for /healthz and /metrics in turn, each
time over a new connection.
"""

from __future__ import annotations

import os
import random
import re
import resource
import select
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from taskqueue.access.access_file import authorise_token
from taskqueue.web.options import Patience
from tests.attack.target import target

SECONDS: Final = 8.0
"""Length of each row."""
PAUSE_SECONDS: Final = 0.02
"""Pause between requests of a polite client."""
TIMEOUT_SECONDS: Final = 5.0
KILL_BYTES: Final = 1 << 30

A, B, C, PROXY = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.9"
"""Addresses of this machine; the last one is the trusted proxy's."""

HALF_HEAD: Final = b"GET /daemon HTTP/1.1\r\nHost: localhost\r\n"
HALF_FORM: Final = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 9\r\n\r\nt"
)
ANSWERED: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

ONE: Final = Patience().of_one_address
ALL: Final = Patience().connections


class Row(NamedTuple):
    """Bytes that attackers send, over how many connections from each address, and after how long they repeat it."""

    what: str
    begun: bytes = b""
    hosts: tuple[tuple[str, int], ...] = ()
    again_seconds: float | None = None


ROWS: Final = (
    Row("no attack"),
    Row("half heads of one address", HALF_HEAD, ((A, ONE),)),
    Row("half heads of two addresses", HALF_HEAD, ((A, ONE), (B, ONE))),
    Row("half heads through a trusted proxy", HALF_HEAD, ((PROXY, ALL),)),
    Row("half sign-in forms of two addresses", HALF_FORM, ((A, ONE), (B, ONE))),
    Row("silence of two addresses", b"", ((A, ONE), (B, ONE))),
    Row("requests that were answered, of two addresses", ANSWERED, ((A, ONE), (B, ONE))),
    Row("half heads of two addresses, each for 0.8 s", HALF_HEAD, ((A, ONE), (B, ONE)), 0.8),
)


def main() -> int:
    """Attack, and print a table."""
    parser = ArgumentParser(prog="tests.attack.page")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--fuzz", type=int, default=0, help="number of fuzzed requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attack", nargs=2, metavar=("ROW", "PORT"), help="attack as the process of this row")
    chosen = parser.parse_args()
    _allow_files()
    if chosen.attack:
        return attack(ROWS[int(chosen.attack[0])], int(chosen.attack[1]))
    with page(chosen.python) as (port, secret, log):
        if chosen.fuzz:
            return fuzz(port, secret, log, chosen.fuzz, chosen.seed)
        print(f"{'':46}" + "".join(f"{host:>24}" for host in (A, C, PROXY)))
        for number, row in enumerate(ROWS):
            with attacker(number, port):
                print(f"{row.what:46}" + "".join(f"{told:>24}" for told in politely(port, secret)), flush=True)
    return 0


@contextmanager
def page(python: str) -> Iterator[tuple[int, str, Path]]:
    """Start a daemon with keys and its dashboard; return the port, a token and the log file."""
    with TemporaryDirectory() as folder:
        keys, log = Path(folder) / "access.json", Path(folder) / "log"
        # The daemon takes its setting from there, and the dashboard the key of commands on this machine.
        os.environ["TASKQUEUE_DAEMON_KEYS"] = str(keys)
        with target(python, KILL_BYTES) as daemon:
            secret = authorise_token(keys, "polite", "viewer")
            yield from _dashboard(python, daemon.url, secret, log)


def _dashboard(python: str, url: str, secret: str, log: Path) -> Iterator[tuple[int, str, Path]]:
    options = ["--daemon", url, "--bind", "127.0.0.1:0", "--trust-proxy", PROXY]
    command = [python, "-P", "-m", "taskqueue", "web", "start", *options]
    with log.open("w") as written, subprocess.Popen(command, stderr=written) as process:
        try:
            yield _port(log), secret, log
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()


@contextmanager
def attacker(row: int, port: int) -> Iterator[None]:
    """Run the attackers of a row in a process of their own; starts when they have their connections."""
    if not ROWS[row].hosts:
        yield
        return
    command = [sys.executable, "-m", "tests.attack.page", "--attack", str(row), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        try:
            yield
        finally:
            process.kill()


def attack(row: Row, port: int) -> int:
    """Keep connections open, until the process is killed."""
    looking, held = select.epoll(), dict[int, tuple[socket.socket, str, float]]()

    def hold(host: str) -> None:
        peer = socket.create_connection((A, port), TIMEOUT_SECONDS, (host, 0))
        held[peer.fileno()] = peer, host, time.monotonic()
        looking.register(peer, select.EPOLLRDHUP)
        with suppress(OSError):  # the next round finds it
            peer.sendall(row.begun)

    for host, count in row.hosts:
        for _ in range(count):
            hold(host)
    print("begin", flush=True)
    while True:
        lost = [number for number, _ in looking.poll(None if row.again_seconds is None else 0.005)]
        if row.again_seconds is not None:
            old = time.monotonic() - row.again_seconds
            lost += [number for number in list(held)[:256] if held[number][2] < old and number not in lost]
        for number in lost:
            peer, host, _ = held.pop(number)
            peer.close()
            hold(host)


def politely(port: int, secret: str) -> list[str]:
    """Measure polite clients at three addresses: the share of answered requests, and their time."""
    waits: dict[str, list[float]] = {A: [], C: [], PROXY: []}
    asked, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        asked += 1
        for host, found in waits.items():
            began = time.monotonic()
            if _is_served(port, host, secret, ("/healthz", "/metrics")[asked % 2]):
                found.append(time.monotonic() - began)
        time.sleep(PAUSE_SECONDS)
    return [f"{len(found) / asked:4.0%} {_milliseconds(found)}" for found in waits.values()]


def _milliseconds(waits: list[float]) -> str:
    return f"p50 {1000 * median(waits):5.1f} ms" if waits else "-"


def _is_served(port: int, host: str, secret: str, path: str) -> bool:
    try:
        with socket.create_connection((A, port), TIMEOUT_SECONDS, (host, 0)) as peer:
            bearer = f"Authorization: Bearer {secret}\r\nConnection: close\r\n"
            peer.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode())
            return peer.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


# ------------------------------------------------------------------------------------------------ random bytes


def fuzz(port: int, secret: str, log: Path, attempts: int, seed: int) -> int:
    """Send requests with random changes; return 1 if the process ends, hangs, or writes a traceback."""
    dice, answers = random.Random(seed), dict[bytes, int]()
    for _ in range(attempts):
        answer = _told(port, mutated(dice, secret), dice)
        answers[answer] = answers.get(answer, 0) + 1
    served, said = _is_served(port, A, secret, "/healthz"), log.read_text()
    for answer, count in sorted(answers.items(), key=lambda row: -row[1]):
        print(f"{count:8,} {answer.decode('latin-1') or 'no answer'}")
    print(f"{attempts:,} attempts from seed {seed}: served afterwards: {served}, log of {len(said):,} characters")
    if "Traceback" in said:
        print(said)
        return 1
    return 0 if served else 1


def mutated(dice: random.Random, secret: str) -> bytes:
    """Make some requests one after the other, with random changes."""
    requests = bytearray(b"".join(dice.choice(_seeds(secret)) for _ in range(dice.randint(1, 3))))
    for _ in range(dice.choice((0, 1, 1, 2, 4, 16))):
        at = dice.randrange(len(requests) + 1)
        end = min(len(requests), at + dice.choice((0, 0, 1, 2, 8, 64)))
        requests[at:end] = dice.choice((dice.randbytes(dice.choice((1, 2, 30))), *_TOKENS, bytes(requests[at:end]) * 3))
    return bytes(requests)


def _seeds(secret: str) -> tuple[bytes, ...]:
    head = f"Host: localhost\r\nAuthorization: Bearer {secret}\r\n".encode()
    form = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    return (
        b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n",
        b"GET /projects/%C3%A4%00?x=%ff HTTP/1.1\r\n" + head + b"Accept: text/html\r\nCookie: a=b; c=d\r\n\r\n",
        b"GET /live/daemon HTTP/1.1\r\n" + head + b"\r\n",
        b"HEAD /static/base.css HTTP/1.0\r\n" + head + b"Range: bytes=0-9,5-\r\nIf-None-Match: *\r\n\r\n",
        b"OPTIONS /api/v1/projects/a/tasks HTTP/1.1\r\n" + head + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        form + b"Content-Length: 14\r\nExpect: 100-continue\r\n\r\ncsrf=a&token=b",
        form + b"Transfer-Encoding: chunked\r\n\r\n4;x=y\r\ncsrf\r\n6\r\n=a&b=c\r\n0\r\n\r\n",
        b"GET /api/v1/projects?limit=9 HTTP/1.1\r\n"
        + head
        + b"X-Forwarded-For: 1.1.1.1, ::1\r\nConnection: close\r\n\r\n",
    )


_TOKENS: Final = (
    b"", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b"\r\n ", b"0\r\n\r\n",
    b"ffffffffffffffffffff\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"HTTP/1.0", b"HTTP/2.0",
    b"Host: [::1\r\n", b"Host: evil\r\n", b"CONNECT ", b"//", b"http://", b"%", b"?", b"#", b"a" * 5_000,
    b"X: y\r\n" * 300,
    b"Upgrade: h2c\r\nConnection: upgrade\r\n", b"Expect: 100-continue\r\n", b"\xff\xfe", b"Cookie: ;=;,\r\n",
)  # fmt: skip


def _told(port: int, sent: bytes, dice: random.Random) -> bytes:
    """Return the first line of the answer, up to a tenth of a second later; the connection ends in different ways."""
    with socket.create_connection((A, port), TIMEOUT_SECONDS) as peer:
        peer.settimeout(0.1)
        try:
            at = dice.randrange(len(sent) + 1)
            peer.sendall(sent[:at])
            peer.sendall(sent[at:])
            if dice.random() < 0.2:
                return b"not waited for"
            if dice.random() < 0.5:
                peer.shutdown(socket.SHUT_WR)
            return peer.recv(64).partition(b"\r\n")[0]
        except TimeoutError:
            return b"nothing in time"
        except OSError:
            return b"cut"


def _port(log: Path) -> int:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise TimeoutError(log.read_text())


def _allow_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * ALL), hard))


if __name__ == "__main__":
    sys.exit(main())
