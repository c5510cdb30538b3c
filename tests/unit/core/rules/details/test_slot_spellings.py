"""Slots from before a host had one name for all its spellings: their records lead to that name."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.protocol.slots import SlotReply, SlotSet, SlotShow
from taskqueue.protocol.values import Fetched, NewTask
from taskqueue.store.contract import Batch, Store
from taskqueue.store.records import layout
from taskqueue.store.records.format import FORMAT_KEY, META
from taskqueue.store.records.migrations import MIGRATIONS
from taskqueue.store.records.slots import decode_slot
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.findings import Findings
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import Fetcher, MakeWorld, World, laid_over, task

BOOKS = "xn--bcher-kva.example"


class FormerCalendar(Calendar):
    """Calendar of the version that kept a host's own spelling."""

    def ascii_host(self, host: str) -> str:
        return host.lower()


def former(make_world: MakeWorld, **settings: Any) -> World:
    """Make a world in which a host has a slot for each of its spellings."""
    world = make_world(laid_over({"slot": {"by": "host", "delay": 5.0}}, settings))
    world.environment = FormerCalendar()
    world.restart()
    return world


def come_up(world: World) -> None:
    """Start the present version on the store."""
    as_format_5(world)
    world.environment = Calendar()
    world.restart()
    assert list(check(MemoryStore(world.disk), Findings()).problems) == []


def as_format_5(world: World) -> None:
    store = MemoryStore(world.disk)
    store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"5")]}))
    store.sync()


def push(world: World, *urls: str) -> None:
    world.push("news", *[page(url) for url in urls])


def page(url: str) -> NewTask:
    return task(url, url=f"http://{url}")


def say(world: World, slot: str, **said: Any) -> None:
    world.ask(SlotReply, SlotSet(session="person", n=world.n(), project="news", slot=slot, **said))


def show(world: World, slot: str = BOOKS) -> SlotReply:
    return world.ask(SlotReply, SlotShow(session="person", n=world.n(), project="news", slot=slot))


def records(store: Store | World) -> dict[str, SlotRecord]:
    """Read the record of each slot that a name leads to."""
    store = MemoryStore(store.disk) if isinstance(store, World) else store
    names = store.scan(layout.SLOT_NAMES, b"", layout.LAST_KEY, 1000)
    slots = store.get(layout.SLOTS, [key[:4] + number for key, number in names])
    return {key[4:].decode(): decode_slot(value) for (key, _), value in zip(names, slots, strict=True) if value}


def taken(world: World, fetcher: Fetcher, seconds: int) -> list[tuple[int, str]]:
    """List dispatches within ``seconds``, each with its second, if each task is done at once."""
    begun, seen = world.elapsed, len(fetcher.taken)
    found = []
    for _ in range(seconds):
        fetcher.hello()
        for taskid in fetcher.taken[seen:]:
            found.append((int(world.elapsed - begun), taskid))
            fetcher.done(taskid)
        seen = len(fetcher.taken)
        world.advance(1)
    return found


def test_a_slot_of_another_spelling_gets_the_name_with_all_that_is_known_of_it(make_world: MakeWorld) -> None:
    world = former(make_world)
    push(world, "bücher.example/1", "bücher.example/2", "[0:0::1]/3", "a.org/4")
    say(world, "bücher.example", delay=20.0, block_until=world.now.wall + 50)
    say(world, "[0:0::1]", max_processing=3)

    come_up(world)

    assert records(world).keys() == {BOOKS, "[::1]", "a.org"}
    assert show(world).chosen == show(world, "bücher.example").chosen == {"delay": 20.0}
    assert show(world).slot.ready == 2
    assert show(world, "[::1]").chosen == {"max_processing": 3.0}
    push(world, "b%C3%BCcher.example/5")
    fetcher = world.fetcher()
    assert taken(world, fetcher, 100) == [
        (5, "[0:0::1]/3"), (5, "a.org/4"),
        (50, "bücher.example/1"), (70, "bücher.example/2"), (90, "b%C3%BCcher.example/5"),
    ]  # fmt: skip


@pytest.mark.parametrize("blocked", ["bücher.example", BOOKS, "b%c3%bccher.example"])
def test_slots_of_several_spellings_become_one_and_their_tasks_are_moved(make_world: MakeWorld, blocked: str) -> None:
    world = former(make_world)
    hosts = ("bücher.example", BOOKS, "b%c3%bccher.example", "a.org")
    push(world, *[f"{host}/{n}" for n in range(3) for host in hosts])
    say(world, "bücher.example", delay=7.0)
    say(world, blocked, block_until=world.now.wall + 30)

    come_up(world)

    assert records(world).keys() == {BOOKS, "a.org"}
    assert show(world).chosen == {"delay": 7.0}
    found = taken(world, world.fetcher(), 100)
    assert [at for at, url in found if not url.startswith("a")] == [30, 37, 44, 51, 58, 65, 72, 79, 86]
    assert [at for at, url in found if url.startswith("a")] == [5, 10, 15]


def test_what_is_processing_or_delayed_then_comes_back_to_the_one_slot(make_world: MakeWorld) -> None:
    world = former(make_world, retry_delay=[10.0])
    fetcher = world.fetcher()
    push(world, "bücher.example/1", f"{BOOKS}/2")
    world.advance(6)
    assert len(fetcher.held) == 2
    fetcher.fail("bücher.example/1")

    come_up(world)
    fetcher.hello()
    fetcher.fail(f"{BOOKS}/2")

    assert [at for at, _ in taken(world, fetcher, 30)] == [10, 15]


def test_of_several_spellings_the_longest_back_off_counts_and_the_block(make_world: MakeWorld) -> None:
    world = former(make_world)
    fetcher = world.fetcher()
    push(world, "bücher.example/1", "bücher.example/2", f"{BOOKS}/3")
    world.advance(6)
    fetcher.fail("bücher.example/1", fetched=Fetched(status_code=429))
    before = show(world, "bücher.example").slot

    come_up(world)

    after = show(world).slot
    assert (after.backoff, after.errors) == (before.backoff, before.errors) == (1, 1)
    assert after.backoff_until == before.backoff_until


def test_what_tasks_have_named_stays_as_it_is(make_world: MakeWorld) -> None:
    world = former(make_world, slot={"by": "named"})
    world.push("news", task("a", slot="bücher.example"), task("b", slot="[0:0::1]"))
    before = records(world)

    come_up(world)

    assert records(world) == before


def test_nothing_is_moved_of_a_project_whose_hosts_are_spelled_in_one_way(make_world: MakeWorld) -> None:
    world = former(make_world)
    push(world, "bücher.example/1", "a.org/2", "www.b.org:8080/3")
    before = {record.name for record in records(world).values()}

    come_up(world)

    assert before - records(world).keys() == {"bücher.example"}
    assert world.fetcher().taken == []
    world.advance(5)
    assert show(world).slot.number == 1


@pytest.mark.parametrize("writes", range(2))
def test_a_migration_that_was_cut_off_is_done_again(make_world: MakeWorld, writes: int) -> None:
    world = former(make_world)
    push(world, "bücher.example/1", f"{BOOKS}/2", "b%c3%bccher.example/3", "é.example/4")
    say(world, "bücher.example", delay=7.0)
    as_format_5(world)

    with pytest.raises(Cut):
        MemoryStore(world.disk, {**MIGRATIONS, 5: lambda store, epoch: MIGRATIONS[5](CutOff(store, writes), epoch)})
    come_up(world)

    assert records(world).keys() == {BOOKS, "xn--9ca.example"}
    assert show(world).chosen == {"delay": 7.0}
    assert [at for at, _ in taken(world, world.fetcher(), 30)] == [5, 7, 14, 21]


class Cut(Exception):
    """Stop of the machine."""


class CutOff:
    """Store that takes a number of writes, and then stops the machine."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._writes = writes
        self.begin, self.get, self.sync = store.begin, store.get, store.sync
        self.scan, self.scan_back = store.scan, store.scan_back
        self.levels, self.log_bytes, self.close = store.levels, store.log_bytes, store.close

    def write(self, epoch: int, batch: Batch) -> None:
        if not self._writes:
            raise Cut
        self._writes -= 1
        self._store.write(epoch, batch)
