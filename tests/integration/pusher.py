"""Client that pushes without end while its daemon's store fails, and records what was acknowledged."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, get_args

from taskqueue import Client
from taskqueue.protocol.choices import TaskState

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, PeerFactory

ASK_AGAIN_MS: Final = 300
REST_MS: Final = 30
"""Pause after an unanswered push; without it, pushing took a whole core until the store recovered."""
TASKS: Final = 10


class Pusher:
    """Client that pushes and records acknowledgements.

    Attributes:
        acknowledged: taskids.
    """

    def __init__(self, it: Daemon, peer: PeerFactory) -> None:
        self.acknowledged: set[str] = set()
        self._it = it
        self._peer = peer(it)
        self._numbers = count()

    def push(self) -> dict[str, object] | None:
        """Push TASKS tasks once; return the reply, or None if none comes soon."""
        taskids = [f"task{next(self._numbers)}" for _ in range(TASKS)]
        n = self._peer.send(
            "new-task", project="news", tasks=[{"taskid": each, "url": "http://site/"} for each in taskids]
        )
        while self._peer.has_message(ASK_AGAIN_MS):
            reply = self._peer.receive()
            if reply.get("n") == n:
                if "outcomes" in reply:
                    self.acknowledged.update(taskids)
                else:
                    self._peer.has_message(REST_MS)
                return reply
        return None

    def push_until_answered(self) -> None:
        """Push until a push is acknowledged."""
        known = len(self.acknowledged)
        while len(self.acknowledged) == known:
            self.push()

    def push_until_failed(self) -> None:
        """Push until the store has failed once more; the daemon may recover before it can say so."""
        known = self._failures()
        while self._failures() == known:
            self.push()

    def _failures(self) -> int:
        return self._it.log().count("store-failed")

    def push_until_unavailable(self) -> str:
        """Push until the daemon answers ``unavailable``; return its reason."""
        while (reply := self.push()) is None or reply.get("code") != "unavailable":
            pass
        return str(reply["reason"])

    def lost(self) -> set[str]:
        """Return acknowledged taskids that the store does not have."""
        with Client(self._it.url) as client:
            return self.acknowledged - {
                row.taskid for state in get_args(TaskState) for row in client.tasks.iter("news", state)
            }
