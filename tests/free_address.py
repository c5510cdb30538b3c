"""An address where nobody listens, for what can't be told to choose its port itself."""

from __future__ import annotations

import os
import socket


def free_address() -> str:
    """Host and port; the host is a loopback address of this process alone, so no other test takes the port."""
    pid = os.getpid()
    host = f"127.{64 + (pid >> 16)}.{pid >> 8 & 255}.{pid & 255}"
    with socket.create_server((host, 0)) as free:
        return f"{host}:{free.getsockname()[1]}"
