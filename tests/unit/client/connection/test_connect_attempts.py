"""What libzmq tells of attempts to connect, and what that means: the sequences as they were seen."""

from __future__ import annotations

import pytest
import zmq

from taskqueue.client.connection.connect_attempts import REFUSED, STRANGER, UNKNOWN, ConnectAttempts

DELAYED, CONNECTED, RETRIED = zmq.EVENT_CONNECT_DELAYED, zmq.EVENT_CONNECTED, zmq.EVENT_CONNECT_RETRIED
FAILED, SUCCEEDED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_SUCCEEDED
CLOSED, LOST = zmq.EVENT_CLOSED, zmq.EVENT_DISCONNECTED


@pytest.mark.parametrize(
    ("events", "obstacle"),
    [
        ([], ""),
        ([DELAYED], ""),
        ([DELAYED, CLOSED, RETRIED], REFUSED),
        ([CLOSED, RETRIED], REFUSED),
        ([RETRIED], UNKNOWN),
        ([DELAYED, CONNECTED, FAILED, LOST, RETRIED], STRANGER),
        ([DELAYED, CONNECTED, SUCCEEDED], ""),
        ([RETRIED, DELAYED, CLOSED, RETRIED, DELAYED, CONNECTED, SUCCEEDED], ""),
        ([DELAYED, CONNECTED, SUCCEEDED, LOST, RETRIED, DELAYED, CLOSED, RETRIED], REFUSED),
        ([DELAYED, CLOSED, RETRIED, RETRIED], UNKNOWN),
    ],
)
def test_why_there_is_no_connection_is_known_from_how_attempts_end(events: list[int], obstacle: str) -> None:
    attempts = ConnectAttempts()
    for event in events:
        attempts.note(event)

    assert attempts.obstacle == obstacle


def test_who_says_nothing_may_be_anybody() -> None:
    attempts = ConnectAttempts()
    attempts.note(DELAYED)
    attempts.note(CONNECTED)

    assert (attempts.obstacle, attempts.is_mute) == ("", True)
