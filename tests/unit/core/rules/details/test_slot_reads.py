"""Slots that are in the store only, beside those in memory."""

from __future__ import annotations

from tests.unit.core.rules.test_slots import finish, handed, page, world


def test_a_better_task_of_a_slot_in_the_store_goes_before_others_in_memory() -> None:
    it = world(memory_slots=1, slot_delay=0)
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
