"""Law N1: who drains gets no new task, across crashes and restarts, and its welcome says so.

What is drained is what was answered and kept. A fetcher has the name that its last hello stated, or its pseudonym.
"""

from __future__ import annotations

from typing import Any

from taskqueue.core.model.chance import derive
from tests.simulation.truth import Truth
from tests.simulation.world import Violation

Message = dict[str, Any]


class Drains:
    """Watches who is drained, who has which name, and what they get."""

    def __init__(self, truth: Truth, secret: bytes) -> None:
        self._truth = truth
        self._secret = secret
        self._names: dict[str, str] = {}

    def stated(self, session: str, hello: Message) -> None:
        """A hello was heard that is newer than all of its session before."""
        name = hello.get("name") or derive(self._secret, session).pseudonym
        self._names[session] = name
        self._truth.draining[session] = name in self._truth.drained

    def welcomed(self, session: str, welcome: Message) -> None:
        """It was answered."""
        expected = self._truth.draining[session]
        if welcome["draining"] != expected:
            raise Violation("N1", session, f"its welcome says draining: {welcome['draining']}, but it is {expected}")

    def acted(self, request: Message) -> None:
        """A name was drained or resumed; who is resumed gets nothing before its next hello."""
        name = request["fetcher"]
        if request["action"] == "resume":
            self._truth.journal.drop(self._truth.drained, name)
            return
        self._truth.journal.put(self._truth.drained, name, True)
        self._truth.draining.update((session, True) for session, own in self._names.items() if own == name)

    def handed(self, session: str, taskid: str) -> None:
        """A session was given a task."""
        name = self._names.get(session, "")
        if name in self._truth.drained:
            raise Violation("N1", taskid, f"{session} got it, whose name {name} is drained")
        if self._truth.draining.get(session):
            raise Violation("N1", taskid, f"{session} got it, which has not heard yet that {name} is resumed")

    def restarted(self) -> None:
        """A scheduler has loaded the store; until it hears a hello it knows no name."""
        self._names.clear()
        self._truth.draining.clear()
