"""Small reverse proxy that shows a web process below a path, as nginx and Caddy do, with or without stripping the path.

A request outside of the path gets 404 and is recorded.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from tests.integration.conftest import WAIT_SECONDS

OUTSIDE: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy(socketserver.ThreadingTCPServer):
    """Proxy that forwards requests below a path.

    Attributes:
        address: URL for browsers, path included.
        outside: requested targets that are not below the path.
    """

    daemon_threads = True

    def __init__(self, upstream: str, path: str, says: Mapping[str, str], *, strips: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        there = urlsplit(upstream)
        assert there.hostname is not None
        assert there.port is not None
        self.upstream = there.hostname, there.port
        self.path, self.says, self.strips = path, says, strips
        self.address = f"http://127.0.0.1:{self.server_address[1]}{path}"
        self.outside: list[str] = []

    def head_for(self, head: bytes) -> bytes | None:
        """Return the head of the forwarded request; None if its target is outside."""
        line, *headers = head.decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
        if not f"{target.partition('?')[0]}/".startswith(f"{self.path}/"):
            self.outside.append(target)
            return None
        target = (target[len(self.path) :] or "/") if self.strips else target
        said = ("connection:", *(f"{name.lower()}:" for name in self.says))
        kept = [header for header in headers if not header.lower().startswith(said)]
        added = [f"{name}: {value}" for name, value in self.says.items()]
        return "\r\n".join([f"{method} {target} {version}", *kept, "Connection: close", *added, "", ""]).encode(
            "latin-1"
        )


class _Passing(socketserver.StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        """Forward one request, and its answer until that ends."""
        lines: list[bytes] = []
        while (line := self.rfile.readline().rstrip(b"\r\n")) or not lines:
            if not line:
                return  # a spare connection, which the browser has not used
            lines.append(line)
        head = self.server.head_for(b"\r\n".join(lines))
        if head is None:
            self.wfile.write(OUTSIDE)
            return
        with socket.create_connection(self.server.upstream, WAIT_SECONDS) as there, suppress(OSError):
            there.settimeout(None)
            there.sendall(head)
            threading.Thread(target=self._send_body, args=(there,), daemon=True).start()
            while part := there.recv(65_536):
                self.wfile.write(part)
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send_body(self, there: socket.socket) -> None:
        with suppress(OSError, ValueError):  # the connection may have ended meanwhile
            while part := self.rfile.read1(65_536):
                there.sendall(part)
            there.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(upstream: str, path: str, says: Mapping[str, str], *, strips: bool) -> Iterator[Proxy]:
    """Run a proxy."""
    with Proxy(upstream, path, says, strips=strips) as it:
        threading.Thread(target=it.serve_forever, daemon=True).start()
        try:
            yield it
        finally:
            it.shutdown()
