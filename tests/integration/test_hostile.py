"""One bad peer, beside a polite one that is served all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, PeerFactory

PARTS = 300_000
"""Of a message; to drop them takes many turns."""


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
