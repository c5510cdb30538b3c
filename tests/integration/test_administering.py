"""The example that uses each namespace of a client, with public types alone, against a real daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from examples.administer import administer
from taskqueue import Client


def test_the_program_that_names_all_types_runs(daemon: Callable[..., Any]) -> None:
    with Client(daemon().url) as client:
        told = list(administer(client, "site"))

    assert (told[4], told[5]) == ("new", 3)
    assert "done" in told
    assert {"title": "A"} in told
