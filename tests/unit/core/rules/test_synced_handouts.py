"""Hand-outs that wait for their commit: no fetcher has a task whose lease may be lost."""

from __future__ import annotations

import pytest

from taskqueue.protocol.fetchers import Hello, Select, Welcome
from taskqueue.protocol.messages import Outgoing
from tests.unit.core.conftest import MakeWorld, World, task


def said(world: World, kind: type[Select] | type[Welcome]) -> list[Outgoing]:
    """Messages of this kind in the last turn."""
    return [each for each in world.said if isinstance(each.message, kind)]


def greet(world: World, *, seen: int = 0, after_hand_out: bool = False) -> None:
    """Take a turn with a fetcher's hello, and no other."""
    hello = Hello(session="fetcher", n=world.n(), capacity=5, seen=seen, after_hand_out=after_hand_out)
    world.turn(hello)


@pytest.mark.parametrize("is_synced", [True, False])
def test_with_synced_handouts_and_only_then_a_select_waits_for_the_sync_of_its_turn(
    make_world: MakeWorld, is_synced: bool
) -> None:
    world = make_world(synced_handout=is_synced)
    world.push("news", task("a"))

    greet(world)

    assert [each.after_sync for each in said(world, Select)] == [is_synced]
    assert [each.after_sync for each in said(world, Welcome)] == [False]


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_select_that_is_sent_again_does_not_overtake_the_sync_of_the_first(
    make_world: MakeWorld, is_synced: bool
) -> None:
    world = make_world(synced_handout=is_synced)
    world.push("news", task("a"))
    greet(world)

    greet(world)

    assert [each.after_sync for each in said(world, Select)] == [is_synced]


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_welcome_after_the_hand_out_does_not_overtake_the_tasks(make_world: MakeWorld, is_synced: bool) -> None:
    world = make_world(synced_handout=is_synced)
    world.push("news", task("a"))

    greet(world, after_hand_out=True)
    while not said(world, Welcome):
        assert [each.after_sync for each in said(world, Select)] in ([], [is_synced])
        world.turn()

    assert [each.after_sync for each in said(world, Welcome)] == [is_synced]
