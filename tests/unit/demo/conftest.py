"""A site that is served while a test runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskqueue.demo.page import Site
from taskqueue.demo.webserver import listening

Serve = Callable[[Site], int]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where served sites write down their GETs."""
    return tmp_path / "access.log"


@pytest.fixture
def serve(log: Path) -> Iterator[Serve]:
    """Serve a site on a port of loopback, which is returned, until the test ends."""
    with ExitStack() as stack:

        def start(site: Site) -> int:
            server = stack.enter_context(listening(site, 0, log))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            thread.start()
            return server.server_port

        yield start
