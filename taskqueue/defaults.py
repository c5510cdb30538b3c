"""Defaults that clients, workers and commands share. Imports nothing, so that a command starts fast."""

from __future__ import annotations

from typing import Final

URL: Final = "tcp://127.0.0.1:7400"
"""Address of the daemon."""

ANSWER_SECONDS: Final = 30.0
"""Longest wait for an answer; outlasts a restart of the daemon."""

CONCURRENCY: Final = 20
"""Tasks that a worker runs at once."""

START_DAEMON: Final = (
    "Start the daemon with `taskqueue daemon start`, or name another address with --daemon or TASKQUEUE_DAEMON"
)
"""Advice where no daemon answers."""
