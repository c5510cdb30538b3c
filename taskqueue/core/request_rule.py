"""Rows that describe types of requests, each beside the function that answers it.

    REQUESTS: Final = (RequestRule(ProjectSet, asked_for_change(set_project), grows=True, slow_ms=5.0), …)

Each module of ``requests`` has such a tuple, and each of ``steps`` that a request begins; ``request_rules`` collects
them, and code in the core or the server that treats types of requests differently reads it there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from taskqueue.core.model.needs import Needs
from taskqueue.core.model.session import Session
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.base import MAX_ACTOR_CHARS, AnyReply, ChangeRequest
from taskqueue.protocol.messages import Incoming

Answer = Callable[[TurnState, Session, Incoming], AnyReply | None]
"""Function that answers a request; None if the request waits for a later answer.

Raises:
    Rejected: the request can't be done; nothing has changed.
"""

Need = Callable[[TurnState, Any, Needs], None]
"""Function that adds a request's look-ups to the needs of the turn."""


SLOW_MS: Final = 10.0
"""Milliseconds that the slow requests of a turn may take together; the rest wait for the next turn."""


class Who(NamedTuple):
    """Author of a change.

    Attributes:
        actor: name of its key and what its client says of itself, such as ``ops (said: cron@web1)``; without keys only
            the latter; MAX_ACTOR_CHARS at most.
        address: address of its machine.
    """

    actor: str
    address: str


Halves = Generator[None, Who, AnyReply | None]
"""An answer with a ``yield`` between what it needs and what it says; see ``in_halves``."""


class RequestRule(NamedTuple):
    """Rule for a type of request.

    Attributes:
        kind: type of the request.
        answer: function that answers it; see ``Answer``.
        need: function that adds its look-ups; see ``Need``. None if it needs none.
        keeps: True if its outcome is kept with the change, so that a repeat gets the same answer. Otherwise the request
            only reads, waits or (hello) states facts, and a repeat may get another answer.
        grows: True if it lets the store grow and ends no task, so it is refused while the disk is nearly full.
        by_fetchers: True if only fetchers send it, and processors that fetchers pass tasks to.
        slow_ms: milliseconds beyond the cost of a small request, in the worst case with ten thousand projects.
        slow_ms_of: function that replaces ``slow_ms``, if the milliseconds depend on the request's fields.
    """

    kind: type
    answer: Answer
    need: Need | None = None
    keeps: bool = True
    grows: bool = False
    by_fetchers: bool = False
    slow_ms: float = 0.0
    slow_ms_of: Callable[[Any], float] | None = None


def asked(answer: Callable[[TurnState, Any], AnyReply | None]) -> Answer:
    """Make an answer from a function that needs only the request."""
    return lambda turn, session, incoming: answer(turn, incoming.request)


def asked_by(answer: Callable[[TurnState, Session, Any], AnyReply | None]) -> Answer:
    """Make an answer from a function that needs the session, too."""
    return lambda turn, session, incoming: answer(turn, session, incoming.request)


def asked_for_change(answer: Callable[[TurnState, Who, Any], AnyReply | None]) -> Answer:
    """Make an answer from a function that logs the author of a change."""
    return lambda turn, session, incoming: answer(turn, _who(session, incoming), incoming.request)


def in_halves(answer: Callable[[TurnState, Any, Needs], Halves]) -> tuple[Answer, Need]:
    """Answer and need of a cold request, from one function: what to look up, a ``yield``, the answer.

        def show_task(turn, request, wanted):
            wanted.tasks.append(…)
            by = yield
            return TaskReply(…)

    What stands before the ``yield`` runs twice: when the turn begins, and again at the request's place in the turn,
    because requests before it may have deleted or made the project. So it changes nothing, and is cheap: what names
    thousands of tasks, or comes with each task, has a need of its own.
    """

    def answer_anew(turn: TurnState, session: Session, incoming: Incoming) -> AnyReply | None:
        halves = answer(turn, incoming.request, Needs())
        next(halves)
        try:
            halves.send(_who(session, incoming))
        except StopIteration as stop:
            reply: AnyReply | None = stop.value
        return reply

    def need(turn: TurnState, request: Any, wanted: Needs) -> None:
        with suppress(Rejected):
            next(answer(turn, request, wanted))

    return answer_anew, need


def _who(session: Session, incoming: Incoming) -> Who:
    """Return the author of a change: with keys the key's name, and behind it what the client says of itself."""
    said = incoming.request.actor if isinstance(incoming.request, ChangeRequest) else ""
    name = incoming.caller.name
    if name and said:
        room = MAX_ACTOR_CHARS - len(f"{name} (said: )")
        name = f"{name} (said: {said if len(said) <= room else f'{said[: room - 1]}…'})"
    return Who(name or said or session.label, incoming.address)
