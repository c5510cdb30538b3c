"""Undo of a bulk operation on a real daemon: what comes back, also over kill -9, and what does not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from taskqueue import Client
from taskqueue.display.operations import undo_lines
from tests.postgres import EITHER_STORE

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

pytestmark = EITHER_STORE

TASKS = 3_000
CHANGED = 30
RUNNING = 20


def pushed(it: Daemon, peer: PeerFactory) -> list[str]:
    """Push tasks, two of three of them delayed, and let some of the others run; return their taskids."""
    names = [f"t{number:05}" for number in range(TASKS)]
    producer = peer(it.url, "producer")
    for first in range(0, TASKS, 500):
        tasks = [
            {"taskid": names[at], "url": f"http://site/{at}", "schedule": {"delay": 86_400.0} if at % 3 else {}}
            for at in range(first, first + 500)
        ]
        producer.ask("new-task", project="news", tasks=tasks)
    fetcher = peer(it.url, "fetcher")
    fetcher.send("hello", capacity=RUNNING)
    taken = 0
    while taken < RUNNING:
        message = fetcher.receive()
        taken += len(message["tasks"]) if message["type"] == "select" else 0
    return names


def states(client: Client) -> Counter[str]:
    counts = client.projects.get("news").counts
    return Counter({state: getattr(counts, state) for state in counts.__struct_fields__ if getattr(counts, state)})


def test_an_undo_over_kill_9_brings_back_each_task_that_has_not_changed_since(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(projects={"news": {"rate": "inf"}})
    names = pushed(it, peer)
    changed = names[:: TASKS // CHANGED]  # one of them runs
    with Client(it.url) as client:
        before = states(client)
        operation = client.operations.wait(client.operations.start("cancel", project="news", url="*").id)
        assert (operation.matched, operation.rows) == (TASKS, TASKS)
        it.kill()
        it.start()
        client.tasks.retry("news", changed)
        begun = client.operations.undo(operation.number)
        it.kill()
        it.start()

        view = client.operations.wait(begun.id)

        assert view.undo is not None
        assert (view.matched, view.undo.changed, view.undo.ran) == (TASKS - CHANGED, CHANGED, RUNNING - 1)
        assert undo_lines(view)[0].startswith(f"brought back {TASKS - CHANGED:,} of {TASKS:,} tasks from cancel")
        stayed_delayed = sum(number % 3 > 0 for number in range(0, TASKS, TASKS // CHANGED))
        after = states(client)
        assert after["delayed"] == before["delayed"] - stayed_delayed
        assert after.total() == TASKS
        assert client.operations.get(operation.number).undone_by == view.number
