"""All projects of a daemon as they are now, of which only those are asked for that have changed."""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue import AsyncClient
from taskqueue.protocol.insight import ProjectPulse, Watch, WatchReply
from taskqueue.web.metrics.activity import ProjectRow


class Projects:
    """Remembers them from one look to the next.

    Args:
        client: one of its own: of all who watch in one session only the last one is answered.

    Attributes:
        epoch: of the daemon at the last look; 0: there was none.
    """

    def __init__(self, client: AsyncClient) -> None:
        self.epoch = 0
        self._client = client
        self._rows: dict[str, ProjectRow] = {}
        self._since = ""

    async def look(self, patience: float) -> Sequence[ProjectRow]:
        """All of them, as they were a quarter of a second ago at most.

        Args:
            patience: seconds that each answer may take.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        more = True
        while more:
            request = Watch(session="", n=0, since=self._since, seconds=0.0)
            reply = await self._client.ask(request, WatchReply, patience)
            if reply.anew:
                self._rows.clear()
            for name in reply.gone:
                self._rows.pop(name, None)
            self._rows.update((each.name, _row(each)) for each in reply.projects)
            self.epoch, self._since, more = reply.epoch, reply.since, reply.more
        return list(self._rows.values())


def _row(pulse: ProjectPulse) -> ProjectRow:
    return ProjectRow(pulse.name, pulse.state, pulse.counts, pulse.totals, bool(pulse.reason))
