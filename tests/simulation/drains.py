"""Law N1: a draining fetcher gets no new task, across crashes and restarts, and its welcome says so.

A name is drained once that is answered and written. A fetcher has the name of its last hello, or its pseudonym.
"""

from __future__ import annotations

from typing import Any

from taskqueue.core.model.hashes import derive
from tests.simulation.truth import Truth
from tests.simulation.world import Violation

Message = dict[str, Any]


class Drains:
    """Judge of drained names, names of fetchers, and their tasks."""

    def __init__(self, truth: Truth, secret: bytes) -> None:
        self._truth = truth
        self._secret = secret
        self._names: dict[str, str] = {}

    def stated(self, session: str, hello: Message) -> None:
        """Record a hello that is newer than all earlier ones of its session."""
        name = hello.get("name") or derive(self._secret, session).pseudonym
        self._names[session] = name
        self._truth.draining[session] = name in self._truth.drained

    def welcomed(self, session: str, welcome: Message) -> None:
        """Judge the welcome to a hello."""
        expected = self._truth.draining[session]
        if welcome["draining"] != expected:
            raise Violation("N1", session, f"its welcome says draining: {welcome['draining']}, but it is {expected}")

    def acted(self, request: Message) -> None:
        """Record that a name was drained or resumed; a resumed fetcher gets nothing before its next hello."""
        name = request["fetcher"]
        if request["action"] == "resume":
            self._truth.journal.drop(self._truth.drained, name)
            return
        self._truth.journal.put(self._truth.drained, name, True)
        self._truth.draining.update((session, True) for session, own in self._names.items() if own == name)

    def handed(self, session: str, taskid: str) -> None:
        """Judge a task that was sent to a session."""
        name = self._names.get(session, "")
        if name in self._truth.drained:
            raise Violation("N1", taskid, f"{session} got it, whose name {name} is drained")
        if self._truth.draining.get(session):
            raise Violation("N1", taskid, f"{session} got it, which has not heard yet that {name} is resumed")

    def restarted(self) -> None:
        """Record a restart: until a hello, the scheduler does not know the session's name."""
        self._names.clear()
        self._truth.draining.clear()
