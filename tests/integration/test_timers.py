"""Timers of a real daemon, beside many more that are far away: none is early, and all that are due come."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import Client
from tests.nightly import usually

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, Peer, PeerFactory

pytestmark = pytest.mark.timeout(300)

NEAR = usually(6_000, nightly=20_000)
"""Tasks that are due within seconds, more than the daemon has in memory."""
FAR = usually(10_000, nightly=50_000)
"""Tasks that are due in days, more than the daemon has in memory."""
WITHIN_SECONDS = 3.0
LEAD_SECONDS = 2.0
"""Time until the first of the near tasks is due; those pushed later are due when they arrive."""

DAY = 86_400.0

Times = dict[str, float]
"""Due times in unix seconds, by url."""


def urls(kind: str, count: int) -> list[str]:
    return [f"http://site/{kind}/{n}" for n in range(count)]


def push_at(client: Client, due: Times, **schedule: Any) -> None:
    """Push tasks, each with its own time."""
    items = ({"url": url, "taskid": url, "exetime": at, **schedule} for url, at in due.items())
    assert client.push_many("news", items, batch=1000).rejected == 0


def some(due: Times, first: int, count: int) -> Iterator[str]:
    return islice(due, first, first + count)


def take(fetcher: Peer, due: Times) -> dict[str, float]:
    """Take all tasks; return their times of arrival. pytest's timeout ends it if one never comes."""
    fetcher.send("hello", capacity=NEAR, projects=["news"], holds=[], seen=0)
    came: dict[str, float] = {}
    while len(came) < len(due):
        message = fetcher.receive()
        if message["type"] == "select":
            at = time.time()
            assert not [task for task in message["tasks"] if task["url"] in came], "each comes once"
            came |= {task["url"]: at for task in message["tasks"]}
    return came


@pytest.mark.parametrize("head_tasks", [64, 4096])
def test_no_timer_is_early_and_none_is_missing(daemon: DaemonFactory, peer: PeerFactory, head_tasks: int) -> None:
    it = daemon(projects={"news": {"processing_timeout": 600}}, head_tasks=head_tasks, fetcher_timeout=600)
    chance = random.Random(head_tasks)
    with Client(it.url) as client:
        far = {url: time.time() + chance.uniform(DAY, 30 * DAY) for url in urls("far", FAR)}
        push_at(client, far)
        begin = time.time() + LEAD_SECONDS
        near = {url: begin + chance.uniform(0, WITHIN_SECONDS) for url in urls("near", NEAR)}
        push_at(client, near)
        postponed = dict.fromkeys(some(near, 0, 500), begin + DAY)
        hurried = {url: begin + chance.uniform(0, WITHIN_SECONDS) for url in some(far, 0, 500)}
        push_at(client, postponed | hurried, force_update=True)
        cancelled = set(some(near, 500, 500))
        push_at(client, dict.fromkeys(cancelled, 0.0), force_update=True, cancel=True)
    it.kill()
    it.start()
    due = {url: at for url, at in (near | hurried).items() if url not in postponed and url not in cancelled}

    fetcher = peer(it)
    came = take(fetcher, due)

    assert came.keys() == due.keys()
    assert [url for url, at in came.items() if at < due[url]] == []
    counts = fetcher.ask("status")["counts"]
    assert (counts["processing"], counts["delayed"], counts["cancelled"]) == (len(due), FAR, len(cancelled))
