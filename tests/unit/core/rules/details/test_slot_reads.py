"""Slots that are in the store only, beside those in memory."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.values import Fetched
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.findings import Findings
from tests.memory_store import MemoryStore
from tests.unit.core.rules.test_slots import finish, handed, live, page, world


def test_a_better_task_of_a_slot_in_the_store_goes_before_others_in_memory() -> None:
    it = world(slots_in_memory=1, slot={"delay": 0})
    fetcher = it.fetcher(1)
    hosts = [f"{number}.example" for number in range(600)]
    for priority in (1, 0):
        it.turn(it.new_tasks("news", *[page(host, f"{priority}", priority=priority) for host in hosts]))
    order: list[str] = []

    fetcher.hello()
    while len(order) < len(hosts):
        it.settle()
        order += handed(fetcher)
        finish(it, fetcher, *handed(fetcher))

    assert [taskid for taskid in order if taskid.endswith("/0")] == []


@pytest.mark.parametrize("delay", [20, 90])
@pytest.mark.parametrize("step", [0.5, 400.0])
def test_a_clock_that_is_put_forward_lets_no_slot_go_early_that_is_in_the_store_only(step: float, delay: int) -> None:
    it = world(2, slots_in_memory=1, slot={"delay": delay})
    fetcher = it.fetcher(1000)
    live(it, fetcher, 300)  # after a start earlier dispatches are unknown, so that a slot waits
    it.push("news", *[page(f"{n}.example", str(k)) for n in range(300) for k in range(2)])
    assert len(handed(fetcher)) == 300
    finish(it, fetcher, *handed(fetcher))

    it.wall_step += step
    for _ in range(4):
        live(it, fetcher, delay / 4 - 0.1)
        it.push("news", page("0.example", "2", priority=-1))
    early = handed(fetcher)
    live(it, fetcher, delay)

    assert early == []
    assert len(handed(fetcher)) == 300


@pytest.mark.parametrize(
    ("report", "seconds"), [({"retry_after": 600.0}, 600), ({"ok": False, "fetched": Fetched(status_code=429)}, 54)]
)
def test_a_clock_that_is_put_forward_ends_no_block_of_a_slot_that_leaves_memory_afterwards(
    report: dict[str, Any], seconds: float
) -> None:
    it = world(slots_in_memory=1, slot={"delay": 0, "max_processing": 2})
    fetcher = it.fetcher(1000)
    hosts = [f"{n}.example" for n in range(20)]
    it.push("news", *[page(host, str(k)) for k in range(3) for host in hosts])
    finish(it, fetcher, *[f"{host}/0" for host in hosts], **report)

    it.wall_step += 3600.0
    finish(it, fetcher, *[f"{host}/1" for host in hosts])
    assert check(MemoryStore(it.disk), Findings()).problems == []
    it.push("news", *[page(host, "3", priority=1) for host in hosts])
    live(it, fetcher, seconds - 1)
    early = handed(fetcher)
    live(it, fetcher, seconds / 4 + 2)

    assert early == []
    assert {f"{host}/3" for host in hosts} <= set(handed(fetcher))
