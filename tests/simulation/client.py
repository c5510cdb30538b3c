"""Session of a client process, written again for the simulation: plain maps through the ``msgpack`` package.

It shares no code with ``taskqueue.client`` on purpose: it relies only on docs/reference/protocol.md. Requests are
numbered and repeated until they are answered, and at once when the daemon has loaded its store again; a ``hello`` is
not repeated, because the next one says more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgpack

from tests.simulation.world import World

Message = dict[str, Any]
"""Message as a plain map."""

Told = Callable[[str, Message, Message], None]
"""Function that gets (session, request, reply) when a client hears the first reply to a request."""

FIRST_REPEAT_SECONDS: Final = 3.0
LONGEST_REPEAT_SECONDS: Final = 20.0


class Client:
    """Session at an address of its own.

    Attributes:
        pending: requests without a reply, by number.
        silent: whether it neither sends nor receives, as if its process were suspended.
    """

    def __init__(self, world: World, session: str, told: Told) -> None:
        self.world = world
        self.session = session
        self.peer = session.encode()
        self.pending: dict[int, tuple[Message, Callable[[Message], None]]] = {}
        self.silent = False
        self.alive = True
        self.on_select: Callable[[Message], None] = lambda message: None
        self.on_welcome: Callable[[Message], None] = lambda message: None
        self.on_hello_wanted: Callable[[], None] = lambda: None
        self._told = told
        self._n = 0
        self._greeted = 0
        self._epoch = 0
        world.network.join(self.peer, self._hear)

    def ask(self, type_: str, then: Callable[[Message], None] = lambda reply: None, **fields: Any) -> None:
        """Send a request, again and again until it is answered."""
        n = self._number()
        message = {"type": type_, "v": 1, "session": self.session, "n": n, **fields}
        self.pending[n] = message, then
        self.world.trace.note(self.session, f"{type_} #{n} {_gist(message)}")
        self._repeat(n, FIRST_REPEAT_SECONDS)

    def state(self, **facts: Any) -> None:
        """Send a hello, once."""
        self._greeted = self._number()
        message = {"type": "hello", "v": 1, "session": self.session, "n": self._greeted, **facts}
        self._send(message)

    def die(self) -> None:
        """Forget everything, without a message."""
        self.alive = False
        self.pending.clear()
        self.world.network.leave(self.peer)

    def _number(self) -> int:
        self._n += 1
        return self._n

    def _repeat(self, n: int, seconds: float) -> None:
        if n not in self.pending or not self.alive:
            return
        self._send(self.pending[n][0])
        longer = min(2 * seconds, LONGEST_REPEAT_SECONDS)
        self.world.clock.after(seconds, lambda: self._repeat(n, longer))

    def _repeat_dropped(self, epoch: int) -> None:
        """Repeat unanswered requests if the daemon has begun another epoch, or if none is known yet."""
        if epoch != self._epoch:
            for message, _ in self.pending.values():
                self._send(message)
        self._epoch = epoch

    def _send(self, message: Message) -> None:
        if self.alive and not self.silent:
            self.world.network.ask(self.peer, msgpack.packb(message))

    def _hear(self, frame: bytes) -> None:
        if self.silent:
            return
        message = msgpack.unpackb(frame)
        if message["type"] == "select":
            self.on_select(message)
        elif message["type"] == "hello-wanted":
            self._repeat_dropped(message["epoch"])
            self.on_hello_wanted()
        elif message["type"] == "welcome" and message["n"] == self._greeted:
            self.on_welcome(message)
        elif message["n"] in self.pending:
            request, then = self.pending.pop(message["n"])
            self._told(self.session, request, message)
            then(message)


def _gist(message: Message) -> str:
    """Describe a request for the trace."""
    if message["type"] == "new-task":
        return " ".join(_new_gist(task) for task in message["tasks"])
    if message["type"] == "done":
        return " ".join(f"{task['taskid']}={_outcome(task)}" for task in message["tasks"])
    return " ".join(str(message[key]) for key in message if key not in ("type", "v", "session", "n"))


def _new_gist(task: Any) -> str:
    marks = {"force_update": "!", "cancel": "x", "delay": "~", "exetime": "~"}
    schedule = task.get("schedule", {})
    return str(task["taskid"]) + "".join(mark for key, mark in marks.items() if schedule.get(key))


def _outcome(task: Message) -> str:
    word = "part" if task.get("part") else "ok" if task.get("ok", True) else "failed"
    new = "".join(f"+{_new_gist(follow_up)}" for follow_up in task.get("new", []))
    return f"{word}:{task['token'] & 0xFFFF:x}{new}"
