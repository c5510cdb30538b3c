"""Obstacles of a worker: how often they are logged."""

from __future__ import annotations

from itertools import islice

from taskqueue.client.worker.worker_log import growing_pauses


def test_what_goes_on_is_said_again_with_growing_pauses() -> None:
    assert list(islice(growing_pauses(), 9)) == [5, 10, 20, 40, 80, 160, 300, 300, 300]
