"""The daemon's socket, bound to a free port of this machine, with the counters of its traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from taskqueue.server.meters import Meters
from taskqueue.server.network.router import Router

MAX_MESSAGE: Final = 8 << 20
WAIT_MS: Final = 30_000


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def router(meters: Meters) -> Iterator[Router]:
    with closing(Router("tcp://127.0.0.1:*", MAX_MESSAGE, meters)) as router:
        yield router
