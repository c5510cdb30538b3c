"""Slots that tasks of one client put off, for example because their host has answered 429, until the daemon knows.

    fetched(429), Retry ──► noted: nothing of the slot is begun ──report leaves──► its waiting tasks go back
                                 ▲                                                           │
                                 └── fetched(200): not noted       forgotten, so do others ◄─┴─ answered

1. A waiting task of a noted slot was dispatched before the daemon has learnt of the put-off, and is not begun.
2. It goes back when the report leaves, and not before: the daemon would dispatch the same one again.
3. Tasks that arrive before the answer go back with the answer. Later ones the daemon dispatches although it knows, so
   the client has no rule of its own for how long a host is to be left alone.
4. A lease that ends without a report puts nothing off.

Any thread may note and ask; all else happens in the client's event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from taskqueue.protocol.host_verdicts import verdict_of
from taskqueue.protocol.values import TaskReport


class SlotOf(NamedTuple):
    """A slot of a project."""

    project: str
    name: str


def puts_off(report: TaskReport) -> bool:
    """Return True if the daemon pauses the task's slot after this report."""
    return report.retry_after is not None or verdict_of(report) != "answered"


class PutOffs:
    """Slots of one client that are put off, by the tokens of the tasks that do so.

    Args:
        holds: returns True if the lease of a token is in force.
        freed: called, from any thread, when the last task that puts a slot off no longer does.
    """

    def __init__(self, holds: Callable[[int], bool], freed: Callable[[], None]) -> None:
        self._holds = holds
        self._freed = freed
        self._noted: dict[int, SlotOf] = {}
        self._under_way: dict[int, SlotOf] = {}

    def __bool__(self) -> bool:
        return bool(self._noted or self._under_way)

    def __contains__(self, slot: SlotOf) -> bool:
        # Each copied in one step, because another thread may note meanwhile. There is rarely more than one.
        for token, noted in tuple(self._noted.items()):
            if not self._holds(token):
                self._noted.pop(token, None)
            elif noted == slot:
                return True
        return slot in tuple(self._under_way.values())

    def note(self, token: int, slot: SlotOf, *, is_put_off: bool) -> None:
        """Note whether the report of a token's task will put its slot off, as far as is known."""
        if is_put_off:
            self._noted[token] = slot
        else:
            self.forget(token)

    def forget(self, token: int) -> None:
        """Note that a token's task puts nothing off: its report won't, or it goes back without one."""
        slot = self._noted.pop(token, None)
        if slot is not None and slot not in self:
            self._freed()

    def leave(self, tokens: Iterable[int]) -> set[SlotOf]:
        """Note that the reports of these tasks leave; returns the slots that they put off."""
        leaving = {token: self._noted.pop(token) for token in tokens if token in self._noted} if self._noted else {}
        self._under_way |= leaving
        return set(leaving.values())

    def answer(self, tokens: Iterable[int]) -> set[SlotOf]:
        """Forget tasks whose reports were accepted; returns the slots that they put off."""
        answered = {token: self._under_way.pop(token) for token in tokens if token in self._under_way}
        self._noted |= {token: slot for token, slot in answered.items() if self._holds(token)}
        return {slot for token, slot in answered.items() if token not in self._noted}
