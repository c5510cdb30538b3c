"""Whether a client's daemon can be reached, as far as the client knows.

(unknown) ──hello answered──► answers ──connection lost──► lost ──hello answered──► answers
    └────────no connection────────────────────────────────►┘
"""

from __future__ import annotations

import asyncio
from asyncio import Event


class Reachability:
    """Told by the client's connection; waited for by whoever wants to know.

    Attributes:
        answers: set while there is a connection and the daemon has said hello on it.
        lost: set while it is known that there is no connection.
        version: of the daemon, as it said last; empty: it has not.
    """

    def __init__(self) -> None:
        self.answers = Event()
        self.lost = Event()
        self.version = ""

    def welcomed(self, version: str) -> None:
        """The daemon has answered a hello."""
        self.version = version
        self.answers.set()
        self.lost.clear()

    def disconnected(self) -> None:
        """There is no connection any more, or none can be made."""
        self.answers.clear()
        self.lost.set()

    async def known(self, seconds: float) -> None:
        """Wait until either is known, for so many seconds at most."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.answers, self.lost)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
