"""Address without a listener, for a test that has to name a port before anything listens there."""

from __future__ import annotations

import os
import socket


def free_address() -> str:
    """Return HOST:PORT of a free port, on a loopback address of this process, where no other test can listen."""
    pid = os.getpid()
    host = f"127.{64 + (pid >> 16)}.{pid >> 8 & 255}.{pid & 255}"
    with socket.create_server((host, 0)) as free:
        return f"{host}:{free.getsockname()[1]}"
