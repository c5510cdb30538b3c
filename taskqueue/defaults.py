"""Defaults that daemon, clients, dashboard and commands share. Imports nothing, so that a command starts fast."""

from __future__ import annotations

from typing import Final

DAEMON_PORT: Final = 7400
URL: Final = f"tcp://127.0.0.1:{DAEMON_PORT}"
"""Address of the daemon."""

ANSWER_SECONDS: Final = 30.0
"""Longest wait for an answer; outlasts a restart of the daemon."""

CONCURRENCY: Final = 20
"""Tasks that a worker runs at once."""

START_DAEMON: Final = (
    "Start the daemon with `taskqueue daemon start`, or name another address with --daemon or TASKQUEUE_DAEMON"
)
"""Advice where no daemon answers."""

ACCESS_FILE: Final = "data/access.json"
"""Access file of a daemon with keys, from the current folder, unless TASKQUEUE_DAEMON_KEYS names another."""

WEB_HOST: Final = "127.0.0.1"
WEB_PORT: Final = 7401
WEB_ADDRESS: Final = f"{WEB_HOST}:{WEB_PORT}"
"""Address of the dashboard."""

METRICS_PROJECTS: Final = 50
"""Projects that have time series of their own in the metrics."""
