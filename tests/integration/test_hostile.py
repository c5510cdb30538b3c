"""A hostile peer beside a polite one, which is still served."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest
import zmq

from taskqueue.server.network.connection_guard import CUT_AT, SILENT_MOST
from taskqueue.server.network.frame_queue import FRAMES_MOST
from taskqueue.server.network.receiver import CROWDED
from tests.zmtp import connected, frame, raw, send_without_end

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

PARTS = 300_000
"""Parts of a message; dropping them takes many turns."""
MEGABYTE = bytes(1 << 20)
LITTLE = {"memory": "320 MiB", "queue_bytes": "16 MiB", "cache": "16 MiB", "max_leases": 1000}
LITTLE_KIB = 320 << 10
ENDLESS = 1500
"""Megabytes sent to the daemon: many times its limit."""

FEW_FILES = """
import resource, sys
from taskqueue.server.main import run

resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}))
sys.exit(run(sys.argv[1]))
"""
IDLE = 400
FLOOD = 1000
UNANSWERED = 64
"""Unanswered requests allowed per session."""


def memory_kib(it: Daemon, field: str) -> int:
    """Memory of the daemon: VmRSS now, VmHWM at its peak."""
    assert it.process is not None
    lines = Path(f"/proc/{it.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def test_a_message_of_very_many_parts_is_dropped_in_steps_between_which_the_daemon_lives(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(durability="none")
    hostile, polite = peer(it), peer(it)
    before = polite.shell()

    for _ in range(PARTS):
        hostile.socket.send(b"", zmq.SNDMORE)
    hostile.socket.send(b"")
    polite.push("news", "a")
    refused = hostile.receive()
    hostile.push("news", "b")

    assert refused["reason"] == f"a message is one frame after the routing id, not {PARTS + 1}"
    assert polite.shell()["malformed"] - before["malformed"] == 1
    assert it.stop() == 0


def test_who_sends_a_message_without_end_is_cut_before_the_memory_is_used_up(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(**LITTLE)
    polite = peer(it)

    with connected(it.url) as hostile:
        # Barely enough to be cut: if the machine stops for a second, the guard would see more too late.
        enough = (1 + CUT_AT) / 2 * LITTLE_KIB
        send_without_end(hostile, lambda: "connection-cut" in it.log() or memory_kib(it, "VmRSS") > enough)
        it.wait_for_log("connection-cut address=127.0.0.1 why=memory bytes=")

    assert polite.push("news", "a") == ["new"]
    assert memory_kib(it, "VmHWM") < LITTLE_KIB
    assert polite.shell()["closed_memory"] == 1


def test_replies_that_nobody_reads_are_dropped_and_a_stop_does_not_wait_for_them(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(**LITTLE, projects={"big": {"rate": 0}})
    polite = peer(it)
    tasks = [{"taskid": "a", "url": "http://a/", "body": {"save": MEGABYTE * 7}}]
    assert polite.ask("new-task", project="big", tasks=tasks)["outcomes"] == ["new"]

    with connected(it.url) as hostile:
        for n in range(ENDLESS // 7):
            show = {"type": "task-show", "v": 1, "session": "hostile", "n": n + 1, "project": "big", "taskid": "a"}
            hostile.sendall(frame(msgpack.packb(show)))
        while polite.shell()["undelivered"] < 5:
            assert polite.push("news", "a") in (["new"], ["ignored"], ["merged"])

        assert memory_kib(it, "VmHWM") < LITTLE_KIB
        assert it.stop() == 0


def test_who_floods_is_refused_beyond_a_bound_and_a_polite_client_that_sends_many_at_once_never_is(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(durability="none")
    hostile, polite = peer(it), peer(it)
    polite.push("news", *(f"task{n}" for n in range(1000)))

    for _ in range(FLOOD):
        hostile.send("verify")
    asked = [polite.send("new-task", project="news", tasks=[]) for _ in range(UNANSWERED)]
    answers = [polite.receive() for _ in asked]
    told = [hostile.receive() for _ in range(FLOOD)]

    assert [(answer["type"], answer["n"]) for answer in answers] == [("new-task-reply", n) for n in asked]
    assert {each["type"] for each in told} == {"verify-reply", "error"}
    assert {each["reason"] for each in told if each["type"] == "error"} == {CROWDED}
    verified = [each["n"] for each in told if each["type"] == "verify-reply"]
    assert verified == sorted(verified)
    assert len(verified) >= FRAMES_MOST


@pytest.mark.parametrize("hard", [4096, 1024])
def test_idle_connections_use_up_no_files_that_others_need(daemon: DaemonFactory, peer: PeerFactory, hard: int) -> None:
    it = daemon(entry=FEW_FILES.format(hard=hard))

    with ExitStack() as idle:
        for number in range(IDLE):
            idle.enter_context(raw(it.url, source=f"127.0.0.{2 + number // SILENT_MOST}"))
        polite = peer(it)

        assert polite.push("news", "a") == ["new"]
        expected = 0 if hard == 4096 else IDLE + 1 - hard // 4
        shell = polite.shell()
        while shell["closed_crowded"] + shell["closed_silent"] < expected:  # some may be accepted only now
            shell = polite.shell()
        # The polite peer may have been cut, too, before its first message, and have come back.
        assert shell["closed_crowded"] == 0 or hard == 1024
