"""Bugs in the client, which the simulation does not know."""

from __future__ import annotations

from typing import Final

from taskqueue.client.connection.session import ClientSession
from taskqueue.client.fetcher.buffered_task import Consumer
from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.tasks.task import Task
from tests.mutants.mutant import Mutant, Replace

DRAINING: Final = "unit/client/fetcher/test_draining.py"


def _drained_and_keeps_what_waits(replace: Replace) -> None:
    replace(FetchBuffer, "drain", FetchBuffer._wake)


def _drained_and_takes_what_comes(replace: Replace) -> None:
    def wanted(self: FetchBuffer, task: Task) -> Consumer | None:
        return next((consumer for consumer in self._consumers if consumer.wants(task)), None)

    replace(FetchBuffer, "_wanted", wanted)


def _drained_while_a_handler_runs(replace: Replace) -> None:
    replace(ClientSession, "is_idle", property(lambda self: not self.held))


MUTANTS: Final = (
    Mutant(
        "a drained client keeps what waits",
        _drained_and_keeps_what_waits,
        (f"{DRAINING}::test_a_loop_that_waits_ends_when_it_is_drained_and_what_it_has_not_yielded_goes_back",),
    ),
    Mutant(
        "a drained client takes what comes",
        _drained_and_takes_what_comes,
        (f"{DRAINING}::test_a_task_that_comes_after_it_was_told_goes_back",),
    ),
    Mutant(
        "a drained worker ends while a handler runs",
        _drained_while_a_handler_runs,
        (f"{DRAINING}::test_a_drained_worker_waits_for_a_handler_whose_lease_has_ended",),
    ),
)
