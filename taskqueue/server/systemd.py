"""Reports to a service manager such as systemd: ready, reloading, stopping, and that the loop still turns.

    started ──READY=1──► runs ──SIGHUP──► RELOADING=1, READY=1
                          │ └── WATCHDOG=1, twice in each WATCHDOG_USEC
                          └──SIGTERM──► STOPPING=1

Each report is a datagram to the socket that the environment names (sd_notify(3)). The loop sends the watchdog's, from
its own thread: a thread of its own would report a daemon alive whose loop hangs.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from math import inf
from typing import Final

log = logging.getLogger("taskqueue")

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"


class ServiceReports:
    """Reports to the service manager that ``environ`` names; without one it does nothing.

    Attributes:
        due_at: boot-clock seconds at which the next ``beat`` is due; inf if there is no watchdog.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get(SOCKET_VARIABLE, "")
        self._path = "\0" + path[1:] if path.startswith("@") else path
        # The variables are inherited: a watchdog may be meant for the parent.
        is_watched = path and environ.get(WATCHDOG_PID_VARIABLE, str(os.getpid())) == str(os.getpid())
        microseconds = environ.get(WATCHDOG_VARIABLE, "") if is_watched else ""
        self._beat_seconds = int(microseconds) / 2e6 if microseconds.isdecimal() and int(microseconds) else inf
        self._is_ready = False
        self.due_at = 0.0 if self._beat_seconds < inf else inf

    def ready(self, status: str) -> None:
        """Report that the daemon serves, with a line for ``systemctl status``."""
        self._is_ready = True
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Report that the config is read again, until ``reloaded``; not before the daemon was ready."""
        if self._is_ready:
            self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """Report that the daemon serves with the config that was read."""
        if self._is_ready:
            self._send("READY=1")

    def stopping(self) -> None:
        """Report that the daemon stops."""
        self._send("STOPPING=1")

    def beat(self, now_boot: float) -> None:
        """Report that the loop turns, if that is due."""
        if now_boot >= self.due_at:
            self.due_at = now_boot + self._beat_seconds
            self._send("WATCHDOG=1")

    def _send(self, report: str) -> None:
        if not self._path:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(report.encode(), self._path)
        except OSError as error:
            log.warning("service-manager-unreachable socket=%r error=%s", self._path, error.strerror)
