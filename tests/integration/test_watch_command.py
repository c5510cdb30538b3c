"""``taskqueue status --follow``, and a hostile watcher."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, PeerFactory

WATCHING = 200


def test_each_change_is_a_line_when_it_happens(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(projects={"news": {"rate": 5}})
    client = peer(it)
    command = [sys.executable, "-m", "taskqueue", "status", "--follow", "--json", "--daemon", it.url]
    with Forked[str](command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        lines = map(json.loads, watching.stdout)
        first = next(lines)
        client.push("news", "a")
        second = next(line for line in lines if line["counts"]["ready"])
        client.ask("project-do", project="news", action="delete")
        third = next(line for line in lines if "gone" in line)
        watching.send_signal(signal.SIGINT)

        assert watching.wait(WAIT_SECONDS) == 130
    assert (first["name"], first["rate"], first["counts"]["ready"]) == ("news", 5.0, 0)
    assert (second["counts"]["ready"], second["totals"]["new"]) == (1, 1)
    assert third == {"name": "news", "gone": True}


def test_who_watches_by_many_requests_and_reads_nothing_does_no_harm(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(durability="none")
    hostile, polite = peer(it), peer(it)

    for n in range(WATCHING):
        hostile.send("watch", since=["", "x" * 64, "1.1", "-1.9"][n % 4], seconds=60.0 * (n % 2))
        polite.push("news", f"t{n}")

    told = polite.ask("watch", seconds=0)
    assert [row[0] for row in told["projects"]] == ["news"]
    assert told["totals"]["new"] == WATCHING
    assert polite.ask("verify")["problems"] == []
    assert it.stop() == 0
