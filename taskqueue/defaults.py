"""Defaults that clients, workers and commands share; it imports nothing, so that a command starts at once."""

from __future__ import annotations

from typing import Final

URL: Final = "tcp://127.0.0.1:7400"
"""Address of the daemon."""

ANSWER_SECONDS: Final = 30.0
"""Wait for an answer, which lasts through a restart of the daemon."""

CONCURRENCY: Final = 20
"""Tasks that a worker runs at once."""
