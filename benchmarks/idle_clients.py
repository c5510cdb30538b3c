"""Cost of clients that are connected and silent: the pings by which each notices that its connection is dead.

    python -m benchmarks.idle_clients                                 1,000 clients, a minute a round
    python -m benchmarks.idle_clients --clients 100 --seconds 20

The clients are sockets with the options of the client's own, in one process. CPU time of the daemon is that of all
its threads, as the operating system's scheduler counts it.

Measured by ``python -m benchmarks.idle_clients --seconds 20``, 3 rounds, 2026-11-27, 2 cores of AMD EPYC,
interpreted: CPU a minute, 1,000 clients, median (least to greatest):

    no pings               daemon   0 ms (0 to 1)       0.001 % of a core   all clients   8 ms (8 to 10)
    a ping each 10 s       daemon  68 ms (67 to 79)     0.114 % of a core   all clients  96 ms (92 to 110)
    a ping each 5 s, now   daemon 142 ms (139 to 153)   0.237 % of a core   all clients 186 ms (185 to 204)

ZeroMQ answers pings in its own thread, so they cause no turn. With a ping each 5 s a dead connection is noticed
within 20 s, with one each 10 s within 40 s.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import zmq

from benchmarks.daemon import Daemon
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.idle import watch
from benchmarks.processes import stay_on
from taskqueue.client.connection.connection import PING_MS
from taskqueue.protocol.codec import encode
from taskqueue.protocol.fetchers import Hello
from taskqueue.server.limits import raise_limit

COMMAND: Final = "python -m benchmarks.idle_clients"
COLUMNS: Final = [
    Column("cpu", "CPU of the daemon a minute", "ms"),
    Column("share", "of a core", "%", 3),
    Column("turns", "turns a minute"),
    Column("clients", "CPU of all clients a minute", "ms"),
]
PINGS_MS: Final = {"no pings": 0, "a ping each 10 s": 10_000, f"a ping each {PING_MS / 1000:g} s, as now": PING_MS}
CONNECTED_SECONDS: Final = 5
"""Time after which the daemon has finished its work on new clients."""


def main() -> None:
    """Connect, wait and measure, with a new daemon for each row and round."""
    options = parse()
    stay_on("1")
    raise_limit()
    _, before, now = PINGS_MS
    report = Report("idle-clients", "Idle clients", COMMAND, COLUMNS, [Ratio("CPU, now : before", "cpu", now, before)])
    for _, row in alternate(options.rounds, list(PINGS_MS)):
        with Daemon("") as daemon:
            daemon.wait()
            with silent_clients(daemon.url, options.clients, PINGS_MS[row]):
                time.sleep(CONNECTED_SECONDS)
                began = time.process_time()
                figures = watch(daemon, options.seconds)
                clients = (time.process_time() - began) * 1000 * 60 / options.seconds
                report.add(row, {key: figures[key] for key in ("cpu", "share", "turns")} | {"clients": clients})
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--clients", type=int, default=1000)
    made.add_argument("--seconds", type=int, default=60)
    return made.parse_args()


@contextmanager
def silent_clients(url: str, number: int, ping_ms: int) -> Iterator[None]:
    """Connect ``number`` clients, each of which has said hello and been welcomed."""
    with zmq.Context() as context:
        context.max_sockets = number + 100
        sockets = [context.socket(zmq.DEALER) for _ in range(number)]
        for place, socket in enumerate(sockets):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.HEARTBEAT_IVL, ping_ms)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * ping_ms)
            socket.connect(url)
            socket.send(encode(Hello(session=f"client-{place}", n=1)))
        for socket in sockets:
            socket.recv()
        yield
        for socket in sockets:
            socket.close()


if __name__ == "__main__":
    main()
