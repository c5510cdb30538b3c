"""What may be chosen about the web process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 7401


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Choices of whoever starts the web process.

    Attributes:
        daemon_url: address of the daemon, such as tcp://127.0.0.1:7400.
        host, port: where browsers are listened to; port 0: one that is free.
        name: of this process, for the change log, such as web@host1.
        timeout: seconds that the daemon may take to answer.
    """

    daemon_url: str
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    name: str = "web"
    timeout: float = 5.0
